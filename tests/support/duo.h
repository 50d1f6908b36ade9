/*
 * duo.h - two processes with a runtime each, with options of their own, connected over tcp,
 * directly or through a proxy (proxy.h) that can break the connections. The parent accepts, the
 * child connects. Every wait is bounded.
 */
#ifndef TWT_DUO_H
#define TWT_DUO_H

#include "pair.h"
#include "proxy.h"

struct twt_duo {
	struct twt_side side;
	struct tow_options parent, child;
	const char *address; /* of both endpoints */
	const char *dialed;  /* host that the child dials; NULL: where the parent listens */
	void (*prepare)(struct twt_duo *duo); /* in the child, before it opens anything */
	int (*run)(struct twt_duo *duo);      /* the child's part */
	bool proxied;
	void (*proxy_tap)(uint8_t *at, size_t bytes);
	struct twt_proxy proxy;
};

struct tow_options twt_duo_options(void);

void twt_duo_init(struct twt_duo *duo);

/* Runs `child` in its own process; the parent goes on with its peer, `child`'s is there, too. */
void twt_duo_open(struct twt_duo *duo, int (*child)(struct twt_duo *duo));

/* How the child ended, as waitpid says. */
int twt_duo_end(struct twt_duo *duo);

#define TWT_DUO_TURN    16
#define TWT_DUO_LARGEST (4u << 20)

/*
 * Both sides: sends and receives messages of all sizes, TWT_DUO_TURN on their way in each
 * direction, until as many bytes have come. 0: each was whole, in order and once. `tick` is called
 * now and then.
 */
int twt_duo_traffic(struct twt_duo *duo, uint64_t total, void (*tick)(struct twt_duo *));

#endif
