/*
 * auto.h - the endpoint that has all lanes, tow://. It opens one on every lane that is there. A
 * connect takes the best lane that both sides have and that works.
 *
 *	tow_endpoint_open("tow://")          tow_connect_start(address of the other)
 *	   |                                    |
 *	   +-- shm://NAME                       +-> shm, when it is the same kernel
 *	   +-- ofi://...                        +-> ofi, when both have it
 *	   +-- tcp://0.0.0.0:P, tcp://[::]:P    +-> tcp, at each of its addresses in turn
 *	   +-- loop://NAME (simulated only)     each refused: its reason is kept, the next is tried
 *
 * lane.def says which lanes there are, what their addresses look like and in which order they are
 * tried. The picture shows its rows.
 *
 * It moves no byte itself. A sub-endpoint's ready peers go to this one (tow_endpoint.parent). A
 * connect is a row of inner connects, each with a share of the time that is left. The peer in the
 * result is the inner lane's own, and tow_peer.why tells how it was chosen.
 */
#ifndef TWI_AUTO_H
#define TWI_AUTO_H

#include "transport/lanes/auto/auto_address.h"
#include "transport/op/lane_host.h"

#define TWI_AUTO_SUBS_MAX (2 * TWI_LANE_COUNT) /* a lane of the form INET has two */
#define TWI_AUTO_WAYS_MAX (TWI_LANE_COUNT + TWI_AUTO_IN4_MAX + TWI_AUTO_IN6_MAX)

struct twi_auto_endpoint {
	struct tow_endpoint base;
	uint64_t host;
	struct tow_endpoint *subs[TWI_AUTO_SUBS_MAX];
	unsigned sub_count;
	bool scarce; /* a lane is there, but had no descriptor or the like (TOW_EBUSY) */
	struct twi_list dials;
};

/* One route to try. */
struct twi_auto_way {
	enum twi_lane_id lane;
	char address[TOW_ADDRESS_MAX]; /* without its scheme */
};

/* A connect under way. */
struct twi_auto_dial {
	struct twi_list link; /* on the endpoint's dials */
	struct twi_engine *engine;
	struct twi_auto_endpoint *endpoint; /* NULL: it was closed meanwhile */
	struct tow_op *op; /* NULL: it has ended early; only the inner one is left */
	struct tow_op *inner;
	uint64_t until_ns;
	bool same_host;
	int status;     /* of the route tried last */
	uint64_t error; /* its errno */
	unsigned count, next;
	struct twi_auto_way ways[TWI_AUTO_WAYS_MAX];
	char refused[400];                /* lanes that were not taken, each with its reason */
	enum twi_lane_id last_lane;       /* of the route that was tried last and has failed */
	char last_message[200];           /* by it; "": there is none */
	char last_brief[TWI_REQUIRE_WHY]; /* the same in a few words, for `refused` */
};

/* auto_dial.c */
int twi_auto_connect(struct tow_endpoint *endpoint, const char *address, struct tow_op *op);
void twi_auto_connect_abort(struct tow_op *op, int status);
void twi_auto_connect_measure(const struct tow_op *op, struct twi_state_dial *out);

/* The sub-endpoint on a lane, or NULL. */
struct tow_endpoint *twi_auto_sub(const struct twi_auto_endpoint *endpoint, enum twi_lane_id lane);

#endif
