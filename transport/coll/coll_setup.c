/*
 * coll_setup.c - finds out which ranks share memory, once, with the group's first collective.
 *
 *	connect to those whose address says this host -> tell each where the own region is
 *	-> receive the locations of their regions, and map them -> all-gather {first rank of my
 *	host, may I share} of all ranks -> READY
 *
 * The all-gather is a collective of its own, of seq 0, with a plan of messages alone. After it all
 * ranks have the same picture of the hosts. Ranks of one host share memory if each of them can see
 * every other one. If not, each of them counts as a host of its own.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>

#include "diag/base/error.h"
#include "diag/record/diag.h"
#include "transport/coll/coll_kept.h"
#include "transport/coll/coll_line.h"
#include "transport/coll/coll_local.h"
#include "transport/coll/coll_room.h"
#include "transport/engine/engine.h"
#include "transport/job/group.h"
#include "transport/lanes/auto/auto_address.h"
#include "transport/op/endpoint.h"
#include "transport/op/own_memory.h"

#define NO_REGION    UINT32_MAX
#define MAY_SHARE    1u
#define MAY_WRITE    2u
#define MAY_PIPE     4u
#define MAY_PIPE_ALL 8u

enum setup_state { SETUP_CONNECTING, SETUP_HEARING, SETUP_GATHERING };

struct twi_coll_setup {
	enum setup_state state;
	uint32_t *near; /* ranks that may be on this host, this one included, ascending */
	uint32_t near_n;
	bool share; /* this rank can see all of them */
	bool writable;
	uint64_t *records; /* of each rank: first rank of its host << 32 | flags */
};

/* What the address of a rank tells about its host. */
struct whereabouts {
	const struct twi_lane_ops *lane; /* a lane that does not leave the host; may be NULL */
	uint64_t host;                   /* from a tow:// address; 0: not known */
};

/* Whether the address begins with the lane's scheme. */
static bool is_of_lane(const char *address, const struct twi_lane_ops *lane)
{
	size_t bytes = strlen(lane->scheme);

	return strncmp(address, lane->scheme, bytes) == 0 &&
	       strncmp(address + bytes, "://", 3) == 0;
}

/* Looks only at lanes whose peers share memory. */
static struct whereabouts where_is(const struct twi_engine *engine, const char *address)
{
	struct whereabouts out = { 0 };
	struct twi_auto_address parts;
	bool tow = strncmp(address, "tow://", 6) == 0 &&
		   twi_auto_address_get(address + 6, &parts) == TOW_OK;

	for (unsigned i = 0; i < TWI_LANE_COUNT; i++) {
		const struct twi_lane *lane = engine->lanes[i];

		if (lane == NULL || lane->ops->windows == NULL)
			continue;
		if (is_of_lane(address, lane->ops))
			out.lane = lane->ops;
		else if (tow && twi_auto_address_has(&parts, lane->ops->id))
			out.host = parts.host;
	}
	return out;
}

static int find_near(struct twi_coll_group *coll, struct twi_coll_setup *setup)
{
	char(*addresses)[TOW_ADDRESS_MAX] = coll->ranks->addresses;
	struct whereabouts own = { 0 }, other;

	setup->near = calloc(coll->size, sizeof(setup->near[0]));
	setup->records = calloc(coll->size, sizeof(setup->records[0]));
	if (setup->near == NULL || setup->records == NULL)
		return twi_error(TOW_ENOMEM, "no memory to set up a group of %u", coll->size);
	if (addresses != NULL)
		own = where_is(coll->engine, addresses[coll->ranks->rank]);
	for (uint32_t i = 0; i < coll->size; i++) {
		bool near = i == coll->rank;

		if (!near && (own.lane != NULL || own.host != 0)) {
			other = where_is(coll->engine, addresses[coll->members[i]]);
			near = own.lane != NULL ? other.lane == own.lane : other.host == own.host;
		}
		if (near)
			setup->near[setup->near_n++] = i;
	}
	return TOW_OK;
}

/* Keeps the first reason, for /v1/coll. */
static void say_why(char *why, size_t bytes, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

static void say_why(char *why, size_t bytes, const char *fmt, ...)
{
	va_list args;

	if (why[0] != '\0')
		return;
	va_start(args, fmt);
	vsnprintf(why, bytes, fmt, args);
	va_end(args);
}

#define NOT_SHARED(coll, ...)  say_why((coll)->share_why, sizeof((coll)->share_why), __VA_ARGS__)
#define NOT_WRITTEN(coll, ...) say_why((coll)->write_why, sizeof((coll)->write_why), __VA_ARGS__)

static struct tow_peer *peer_of(const struct twi_coll_group *coll, uint32_t rank)
{
	return coll->ranks->slots[coll->members[rank]].peer;
}

static void fail_setup(struct twi_coll_group *coll, int status)
{
	twi_coll_break(coll, 0, status, true);
}

/* --- connecting --- */

static void on_connected(struct tow_op *op, const struct tow_result *result)
{
	struct twi_coll_group *coll = result->user;
	int status = result->status;

	if (status < 0 && coll->setup != NULL)
		status = twi_coll_unreached(coll, op);
	tow_op_release(op);
	coll->connects--;
	if (coll->setup != NULL && status < 0)
		fail_setup(coll, status);
}

static int connect_near(struct twi_coll_group *coll, const struct twi_coll_setup *setup)
{
	const struct tow_op_options options = { .size = sizeof(options),
						.timeout_ns = TOW_FOREVER,
						.done = on_connected,
						.user = coll };

	for (uint32_t i = 0; i < setup->near_n; i++) {
		struct tow_op *op;
		int status;

		if (setup->near[i] == coll->rank)
			continue;
		status = twi_ranks_connect(coll->ranks, coll->members[setup->near[i]],
					   TWI_SPACE_LINK, &options, &op);
		if (status < 0)
			return status;
		coll->connects++;
	}
	return TOW_OK;
}

int twi_coll_setup_start(struct twi_coll_group *coll)
{
	struct twi_coll_setup *setup = calloc(1, sizeof(*setup));
	int status = TOW_ENOMEM;

	twi_assert_held(coll->engine);
	coll->setup = setup;
	coll->state = TWI_COLL_SETTING_UP;
	if (setup != NULL)
		status = find_near(coll, setup);
	else
		twi_error(status, "no memory to set up a group");
	if (status == TOW_OK && coll->told == NULL)
		coll->told = calloc(coll->size, sizeof(coll->told[0]));
	if (status == TOW_OK && coll->told == NULL)
		status = twi_error(TOW_ENOMEM, "no memory to set up a group");
	if (status == TOW_OK)
		status = connect_near(coll, setup);
	if (status < 0) {
		twi_coll_break(coll, 0, status, true);
		return status;
	}
	twi_coll_activate(coll);
	return TOW_OK;
}

/* --- regions --- */

static int make_region(struct twi_coll_group *coll, const struct twi_coll_setup *setup)
{
	struct twi_engine *engine = coll->engine;
	void *memory;
	int status = twi_own_share(engine, sizeof(struct twi_coll_region) + TWI_COLL_RESERVE,
				   _Alignof(struct twi_coll_region), TWI_SITE_NONE, &memory);

	if (status < 0)
		return status;
	if (!twi_coll_kept_make(coll, setup->near, setup->near_n)) {
		twi_own_give(engine, memory);
		return twi_error(TOW_ENOMEM, "no memory to share a group's region");
	}
	memset(memory, 0, sizeof(struct twi_coll_region));
	coll->region = memory;
	return TOW_OK;
}

/* Finds out whether memory can be shared with all of them, and written. */
static void look_at_near(struct twi_coll_group *coll, struct twi_coll_setup *setup)
{
	setup->share = setup->near_n > 1;
	setup->writable = true;
	if (!setup->share)
		NOT_SHARED(coll, "no other rank of the group has an address of this host");
	for (uint32_t i = 0; i < setup->near_n; i++) {
		struct tow_peer *peer = peer_of(coll, setup->near[i]);
		const struct twi_window_ops *windows = twi_peer_windows(peer);
		bool writable;

		if (setup->near[i] == coll->rank)
			continue;
		if (windows == NULL || !windows->up(peer)) {
			NOT_SHARED(coll, "rank %u of this host is connected by another lane%s%.80s",
				   setup->near[i], peer != NULL && peer->why[0] != '\0' ? ": " : "",
				   peer != NULL ? peer->why : "");
			setup->share = false;
		}
		writable = setup->share && windows->writable(peer);
		if (!writable)
			NOT_WRITTEN(coll,
				    "the knob shm_peer_writes is 0 at this rank or at "
				    "rank %u",
				    setup->near[i]);
		setup->writable &= writable;
	}
}

/* Tells every rank that may be on this host where the region is, or that there is none. */
static void tell_near(struct twi_coll_group *coll, struct twi_coll_setup *setup)
{
	look_at_near(coll, setup);
	if (setup->share && make_region(coll, setup) < 0) {
		NOT_SHARED(coll, "%s", tow_error_message());
		twi_log(coll->engine->diag, 2, "collectives go by messages: %s",
			tow_error_message());
		setup->share = false;
	}
	for (uint32_t i = 0; i < setup->near_n; i++) {
		struct twi_coll_word word = { .type = TWI_COLL_REGION, .other = NO_REGION };
		struct tow_peer *peer = peer_of(coll, setup->near[i]);
		uint32_t extent;

		if (setup->near[i] == coll->rank)
			continue;
		if (setup->share &&
		    twi_peer_windows(peer)->expose(peer, coll->region, sizeof(*coll->region),
						   &extent, &word.value))
			word.other = extent;
		word.status = setup->writable;
		twi_coll_say(coll, setup->near[i], &word);
	}
}

void twi_coll_setup_heard(struct twi_coll_group *coll, uint32_t from, uint32_t extent,
			  uint64_t offset, bool writable)
{
	twi_assert_held(coll->engine);
	if (coll->told == NULL)
		coll->told = calloc(coll->size, sizeof(coll->told[0]));
	if (coll->told == NULL || coll->told[from].told)
		return;
	coll->told[from] = (struct twi_coll_told){
		.told = true, .writable = writable, .extent = extent, .offset = offset
	};
}

/* TOW_OK: the regions of this host are mapped, or will not be. Else TOW_AGAIN. */
static int map_regions(struct twi_coll_group *coll, struct twi_coll_setup *setup)
{
	int status = TOW_OK;

	for (uint32_t i = 0; i < setup->near_n; i++) {
		const struct twi_coll_told *told = &coll->told[setup->near[i]];

		if (setup->near[i] == coll->rank)
			continue;
		if (!told->told)
			return TOW_AGAIN;
		if (told->extent == NO_REGION) {
			NOT_SHARED(coll, "rank %u of this host shares none", setup->near[i]);
			setup->share = false;
		}
		if (!told->writable)
			NOT_WRITTEN(coll, "rank %u cannot write to all others", setup->near[i]);
		setup->writable &= told->writable;
	}
	for (uint32_t i = 0; setup->share && i < setup->near_n; i++) {
		struct twi_coll_told *told = &coll->told[setup->near[i]];
		struct tow_peer *peer = peer_of(coll, setup->near[i]);

		if (setup->near[i] == coll->rank || told->region != NULL)
			continue;
		told->windows = twi_peer_windows(peer);
		told->region = told->windows->at(peer, told->extent, told->offset,
						 sizeof(struct twi_coll_region), false, &status);
		if (told->region != NULL) {
			/* Held from now on: the rank may do its part and go before this one. */
			told->hold = told->windows->hold(peer);
			continue;
		}
		if (status == TOW_AGAIN)
			return TOW_AGAIN;
		NOT_SHARED(coll, "%s", tow_error_message());
		twi_log(coll->engine->diag, 2, "collectives go by messages: %s",
			tow_error_message());
		setup->share = false;
	}
	return TOW_OK;
}

bool twi_coll_setup_needs(const struct twi_coll_group *coll, uint32_t rank)
{
	const struct twi_coll_setup *setup = coll->setup;

	twi_assert_held(coll->engine);
	for (uint32_t i = 0; i < setup->near_n; i++) {
		if (setup->near[i] == rank)
			return setup->state != SETUP_GATHERING;
	}
	return false;
}

/* --- the all-gather --- */

static int gather_ranks(struct twi_coll_group *coll, struct twi_coll_setup *setup)
{
	struct twi_coll_call call = { .kind = TWI_COLL_ALL_GATHER,
				      .type = TOW_U64,
				      .count = 1,
				      .in = &setup->records[coll->rank],
				      .out = setup->records,
				      .in_place = true,
				      .set_up = true,
				      .site = TWI_SITE_NONE,
				      .name = "set-up" };

	setup->records[coll->rank] = (uint64_t)setup->near[0] << 32 |
				     (setup->share ? MAY_SHARE : 0) |
				     (setup->writable ? MAY_WRITE : 0) | MAY_PIPE | MAY_PIPE_ALL;
	return twi_coll_start_own(coll, &call);
}

/* The loss of a rank before the group began is not reported again. */
static int find_lost(const struct twi_coll_group *coll, const struct twi_coll_setup *setup)
{
	for (uint32_t i = 0; i < setup->near_n; i++) {
		if (coll->ranks->slots[coll->members[setup->near[i]]].lost)
			return twi_error(TOW_EPEER, "rank %u has gone", setup->near[i]);
	}
	return TOW_OK;
}

void twi_coll_setup_turn(struct twi_coll_group *coll)
{
	struct twi_coll_setup *setup = coll->setup;
	int status;

	twi_assert_held(coll->engine);
	if (setup->state == SETUP_CONNECTING && coll->connects == 0) {
		status = find_lost(coll, setup);
		if (status < 0) {
			fail_setup(coll, status);
			return;
		}
		tell_near(coll, setup);
		setup->state = SETUP_HEARING;
	}
	if (setup->state == SETUP_HEARING && map_regions(coll, setup) == TOW_OK) {
		setup->state = SETUP_GATHERING;
		status = gather_ranks(coll, setup);
		if (status < 0)
			fail_setup(coll, status);
	}
}

static uint32_t first_of(const struct twi_coll_setup *setup, uint32_t rank)
{
	return (uint32_t)(setup->records[rank] >> 32);
}

/* Whether all ranks of a host may share. */
static bool host_shares(const struct twi_coll_group *coll, const struct twi_coll_setup *setup,
			uint32_t first)
{
	for (uint32_t i = 0; i < coll->size; i++) {
		if (first_of(setup, i) == first && (setup->records[i] & MAY_SHARE) == 0)
			return false;
	}
	return true;
}

/* Fills in hosts[], numbered in the order of their first ranks. TOW_EPROTOCOL: wrong records. */
static int number_hosts(struct twi_coll_group *coll, const struct twi_coll_setup *setup)
{
	coll->peers_write = coll->pipelines = coll->pipelines_all = true;
	for (uint32_t i = 0; i < coll->size; i++) {
		uint32_t first = first_of(setup, i);

		coll->pipelines &= (setup->records[i] & MAY_PIPE) != 0;
		coll->pipelines_all &= (setup->records[i] & MAY_PIPE_ALL) != 0;
		if ((setup->records[i] & MAY_SHARE) == 0 && first == first_of(setup, coll->rank))
			NOT_SHARED(coll, "rank %u of this host cannot see all others", i);
		if ((setup->records[i] & MAY_WRITE) == 0)
			NOT_WRITTEN(coll, "rank %u cannot write to all others", i);

		if (first > i || first_of(setup, first) != first)
			return twi_error(TOW_EPROTOCOL,
					 "rank %u says that rank %u is the first of its host", i,
					 first);
		if (first != i && host_shares(coll, setup, first)) {
			coll->hosts[i] = coll->hosts[first];
			coll->peers_write &= (setup->records[i] & MAY_WRITE) != 0;
		} else {
			coll->hosts[i] = coll->hosts_n++;
		}
	}
	return TOW_OK;
}

static void set_local(struct twi_coll_group *coll, struct twi_coll_local *local, uint32_t rank)
{
	struct twi_coll_told *told = &coll->told[rank];

	local->rank = rank;
	local->self = rank == coll->rank;
	if (local->self) {
		local->region = coll->region;
		return;
	}
	local->peer = peer_of(coll, rank);
	local->gone = told->gone;
	local->region = told->region;
	local->windows = told->windows;
	local->hold = told->hold;
	told->hold = NULL;
}

/* Ranks that listen at this rank's address, ignoring the port: they share this host. */
static uint32_t of_this_address(const struct twi_coll_group *coll)
{
	char(*addresses)[TOW_ADDRESS_MAX] = coll->ranks->addresses;
	const char *own, *end;
	uint32_t count = 0;

	if (addresses == NULL)
		return 1;
	own = addresses[coll->ranks->rank];
	end = strrchr(own, ':');
	for (uint32_t i = 0; i < coll->size; i++)
		count += end != NULL &&
			 strncmp(own, addresses[coll->members[i]], (size_t)(end - own) + 1) == 0;
	return count;
}

static int keep_topology(struct twi_coll_group *coll, const struct twi_coll_setup *setup)
{
	uint32_t own, count = 0;
	int status;

	coll->hosts = calloc(coll->size, sizeof(coll->hosts[0]));
	coll->local_ranks = calloc(coll->size, sizeof(coll->local_ranks[0]));
	coll->locals = calloc(coll->size, sizeof(coll->locals[0]));
	if (coll->hosts == NULL || coll->local_ranks == NULL || coll->locals == NULL)
		return twi_error(TOW_ENOMEM, "no memory to set up a group of %u", coll->size);
	status = number_hosts(coll, setup);
	if (status < 0)
		return status;
	own = coll->hosts[coll->rank];
	for (uint32_t i = 0; i < coll->size; i++) {
		if (coll->hosts[i] == own)
			coll->local_ranks[count++] = i;
	}
	coll->local_ranks_n = count;
	coll->all_local = coll->hosts_n == 1 && coll->size > 1;
	coll->crowd = twi_max(count, of_this_address(coll)) > (uint32_t)get_nprocs();
	if (count < 2)
		return TOW_OK;
	for (uint32_t i = 0; i < count; i++) {
		set_local(coll, &coll->locals[i], coll->local_ranks[i]);
		if (coll->locals[i].region == NULL) /* it was mapped, and is lost since */
			return twi_error(TOW_EPEER, "rank %u has gone", coll->local_ranks[i]);
	}
	coll->locals_n = count;
	for (uint32_t i = 0; i < setup->near_n; i++) {
		if (coll->hosts[setup->near[i]] != own) /* it has not mapped what it was shown */
			twi_coll_kept_over(coll, setup->near[i]);
	}
	return TOW_OK;
}

void twi_coll_setup_gathered(struct twi_coll_group *coll, int status)
{
	struct twi_coll_setup *setup = coll->setup;

	twi_assert_held(coll->engine);
	if (setup == NULL)
		return;
	if (status < 0 || coll->state == TWI_COLL_BROKEN) { /* the group is broken already */
		twi_coll_setup_end(coll);
		return;
	}
	status = keep_topology(coll, setup);
	if (status < 0) {
		fail_setup(coll, status);
		return;
	}
	if (coll->locals_n == 0) {
		twi_own_give(coll->engine, coll->region);
		coll->region = NULL;
	}
	twi_coll_setup_end(coll);
	coll->last = NULL;
	coll->state = TWI_COLL_READY;
	twi_coll_ready(coll);
}

void twi_coll_setup_end(struct twi_coll_group *coll)
{
	struct twi_coll_setup *setup = coll->setup;

	twi_assert_held(coll->engine);
	if (setup == NULL)
		return;
	/* The all-gather of a broken group may write into `records` until it has ended. */
	if (setup->state == SETUP_GATHERING && twi_coll_run_of(coll, 0) != NULL)
		return;
	coll->setup = NULL;
	if (twi_list_empty(&coll->polled))
		twi_list_remove(&coll->active);
	free(setup->near);
	free(setup->records);
	free(setup);
}
