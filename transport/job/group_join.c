/*
 * group_join.c - how a rank meets the others: the blocking part of tow_group_open.
 *
 *	find this rank -> rank 0 serves the store -> all ranks join it -> endpoints -> all addresses
 *
 * It runs without the engine, in the caller's thread or one of the library.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "diag/base/error.h"
#include "diag/record/diag.h"
#include "transport/engine/engine.h"
#include "transport/engine/runtime.h"
#include "transport/job/bootstrap_exchange.h"
#include "transport/job/group.h"

/* How long rank 0 still serves after a failure, so that the other ranks learn the reason. */
#define LINGER_NS 3000000000ull
/* How long the caller's exchange may take to pass on a failure. */
#define TELL_NS 1000000000ull

/* Returns what the runtime found, or what these options say instead. */
static int find_bootstrap(struct tow_runtime *runtime, const struct tow_group_options *options,
			  struct twi_bootstrap *out)
{
	const struct twi_engine *engine = twi_runtime_engine(runtime);
	const struct twi_job *job = twi_runtime_job(runtime);
	const struct twi_exchange_caller caller = { options->put, options->get, options->user };
	struct tow_options given = TOW_OPTIONS_INIT;

	*out = job->bootstrap;
	if (options->rank >= 0 || options->world_size > 0 || options->store != NULL ||
	    caller.put != NULL) {
		given.rank = options->rank >= 0 ? options->rank : job->given_rank;
		given.world_size =
			options->world_size > 0 ? options->world_size : job->given_world_size;
		given.store = options->store != NULL ? options->store : engine->knobs.store;
		return twi_bootstrap_self(&given, job->given_job,
					  caller.put != NULL ? &caller : NULL, out);
	}
	return out->status < 0 ? twi_error(out->status, "%s", out->why) : TOW_OK;
}

static void init_slot(struct twi_slot *slot, uint32_t rank)
{
	slot->rank = rank;
	twi_list_init(&slot->waiting);
	twi_list_init(&slot->held);
}

struct twi_ranks *twi_ranks_make(struct tow_runtime *runtime, const struct twi_bootstrap *bootstrap)
{
	struct twi_ranks *ranks = calloc(1, sizeof(*ranks));

	if (ranks == NULL)
		return NULL;
	ranks->engine = twi_runtime_engine(runtime);
	ranks->users = 1;
	ranks->bootstrap = *bootstrap;
	ranks->rank = (uint32_t)bootstrap->rank;
	ranks->size = (uint32_t)bootstrap->world_size;
	if (bootstrap->world_size != 1)
		twi_log_rank(ranks->engine->diag, bootstrap->rank);
	twi_list_init(&ranks->handshakes);
	twi_list_init(&ranks->colls);
	twi_list_init(&ranks->early);
	twi_list_init(&ranks->shrinks);
	twi_list_init(&ranks->kept);
	twi_list_init(&ranks->messages);
	twi_list_init(&ranks->parted);
	pthread_mutex_init(&ranks->store_lock, NULL);
	ranks->slots = calloc(ranks->size, sizeof(ranks->slots[0]));
	ranks->addresses = calloc(ranks->size, sizeof(ranks->addresses[0]));
	if (ranks->slots == NULL || ranks->addresses == NULL) {
		twi_ranks_destroy(ranks);
		return NULL;
	}
	for (uint32_t i = 0; i < ranks->size; i++)
		init_slot(&ranks->slots[i], i);
	init_slot(&ranks->self.slot, ranks->rank);
	if (getrandom(&ranks->self.word, sizeof(ranks->self.word), 0) < 0)
		ranks->self.word = 0; /* then the rank's dials to itself fail */
	return ranks;
}

void twi_group_enter(struct twi_engine *engine)
{
	twi_engine_enter(engine);
	twi_engine_bind_ring(engine);
}

void twi_ranks_use(struct twi_ranks *ranks)
{
	twi_assert_held(ranks->engine);
	ranks->users++;
}

void twi_ranks_let_go(struct twi_ranks *ranks)
{
	struct twi_engine *engine = ranks->engine;

	twi_group_enter(engine);
	twi_ranks_drop(ranks);
	twi_engine_leave(engine); /* callbacks that are due may be the last users */
}

void twi_ranks_drop(struct twi_ranks *ranks)
{
	twi_assert_held(ranks->engine);
	twi_assert(ranks->users > 0);
	if (--ranks->users == 0)
		twi_ranks_destroy(ranks);
}

void twi_ranks_destroy(struct twi_ranks *ranks)
{
	for (unsigned i = 0; i < TWI_RANK_HOOKS; i++)
		ranks->engine->hooks.ranks[i]->end(ranks);
	pthread_mutex_destroy(&ranks->store_lock);
	twi_job_key_wipe(&ranks->key);
	free(ranks->slots);
	if (!ranks->addresses_shared)
		free(ranks->addresses);
	free(ranks);
}

/*
 * Sets a key that came by the exchange. From now on the runtime connects only to processes that
 * have it.
 */
static void use_key(struct twi_ranks *ranks, const struct twi_job_key *key)
{
	twi_group_enter(ranks->engine);
	ranks->key = ranks->engine->job_key = *key;
	ranks->key_exchanged = true;
	twi_engine_leave(ranks->engine);
}

void twi_ranks_drop_key(struct twi_ranks *ranks)
{
	twi_assert_held(ranks->engine);
	if (ranks->key_exchanged)
		twi_job_key_wipe(&ranks->engine->job_key);
	ranks->key_exchanged = false;
}

/* Gives a job without a key one before its store is served. */
static int make_key(struct twi_ranks *ranks)
{
	struct twi_job_key key = { .set = true };

	if (ranks->bootstrap.exchange != TWI_EXCHANGE_CALLER || ranks->key.set)
		return TOW_OK;
	if (getrandom(key.bytes, sizeof(key.bytes), 0) != sizeof(key.bytes))
		return twi_error_errno(TOW_ESYSTEM, errno, "getrandom");
	use_key(ranks, &key);
	twi_job_key_wipe(&key);
	return TOW_OK;
}

static int put_address(struct twi_ranks *ranks, const char *mine, const struct twi_until *until)
{
	struct twi_bootstrap *bootstrap = &ranks->bootstrap;
	struct twi_exchange_note note = { .restarts = bootstrap->restarts };
	int status;

	snprintf(note.job, sizeof(note.job), "%s", bootstrap->job);
	snprintf(note.store, sizeof(note.store), "%s", mine);
	snprintf(bootstrap->store, sizeof(bootstrap->store), "%s", mine);
	if (ranks->key_exchanged)
		note.key = ranks->key;
	status = twi_exchange_put(&bootstrap->caller, &note, until);
	ranks->told = true;
	twi_job_key_wipe(&note.key);
	return status;
}

/*
 * Rank 0 has failed: tells the other ranks, by its store if they know the store, else by the
 * exchange.
 */
static void tell_failure(struct twi_ranks *ranks, const struct twi_exchange_caller *caller,
			 int status)
{
	struct twi_until until = { twi_net_now() + TELL_NS, -1, NULL };
	struct twi_exchange_note note = { .failed = status };

	/* Cancel and close concern this rank's call alone; for the others rank 0 has gone. */
	if (status == TOW_ECANCELED || status == TOW_ECLOSED)
		note.failed = TOW_EPEER;
	snprintf(note.why, sizeof(note.why), "rank 0 has failed: %.*s", (int)sizeof(note.why) - 32,
		 tow_error_message());
	if (ranks != NULL && ranks->server != NULL)
		twi_store_server_fail(ranks->server, note.failed, note.why);
	if (caller->put != NULL && (ranks == NULL || !ranks->told))
		twi_exchange_put(caller, &note, &until);
}

/* Gets the address of rank 0's store and its key. */
static int get_address(struct twi_ranks *ranks, const struct twi_until *until)
{
	struct twi_bootstrap *bootstrap = &ranks->bootstrap;
	struct twi_exchange_note note = { .restarts = bootstrap->restarts };
	int status;

	snprintf(note.job, sizeof(note.job), "%s", bootstrap->job);
	status = twi_exchange_get(&bootstrap->caller, &note, until);
	if (status == TOW_OK && note.key.set == ranks->key.set)
		status = twi_error(TOW_EAUTH,
				   "rank 0 has %s job key of its own, and rank %u has %s: all "
				   "ranks need one, or none",
				   note.key.set ? "no" : "a", ranks->rank,
				   note.key.set ? "one" : "none");
	if (status == TOW_OK && note.key.set)
		use_key(ranks, &note.key);
	if (status == TOW_OK)
		snprintf(bootstrap->store, sizeof(bootstrap->store), "%s", note.store);
	twi_job_key_wipe(&note.key);
	return status;
}

/* Rank 0 passes on the address where it listens, if the other ranks cannot know it. */
static int tell_address(struct twi_ranks *ranks, const struct twi_until *until)
{
	struct twi_bootstrap *bootstrap = &ranks->bootstrap;
	uint16_t port = twi_store_server_port(ranks->server);
	const char *interfaces = ranks->engine->knobs.interfaces;
	char mine[TWI_STORE_BYTES];

	if (bootstrap->exchange == TWI_EXCHANGE_ADDRESS)
		return TOW_OK;
	if (bootstrap->local_size == bootstrap->world_size)
		twi_net_own(port, mine, sizeof(mine));
	else if (!twi_net_addresses(interfaces, port, mine, sizeof(mine)))
		return twi_error(TOW_EINVAL,
				 "interfaces = '%.64s': none of them is up with an address",
				 interfaces);
	if (bootstrap->exchange == TWI_EXCHANGE_CALLER)
		return put_address(ranks, mine, until);
	return twi_exchange(bootstrap, mine, until);
}

static int serve_store(struct twi_ranks *ranks, const struct twi_until *until)
{
	struct twi_bootstrap *bootstrap = &ranks->bootstrap;
	struct twi_store_serve serve = { .address = "",
					 .world_size = ranks->size,
					 .restarts = bootstrap->restarts,
					 .job = bootstrap->job,
					 .key = &ranks->key,
					 .diag = ranks->engine->diag,
					 .late_ns = ranks->engine->knobs.log_wait_ns };
	int status;

	if (bootstrap->exchange == TWI_EXCHANGE_ADDRESS)
		serve.address = bootstrap->store;
	else if (bootstrap->local_size == bootstrap->world_size)
		serve.address = TWI_NET_LOOPBACK; /* no other host needs to reach it */
	status = twi_store_server_start(&serve, until, &ranks->server);
	return status < 0 ? status : tell_address(ranks, until);
}

static void note_unreached(void *arg, const char *why)
{
	struct twi_ranks *ranks = arg;

	twi_forming_unreached(&ranks->forming, ranks->bootstrap.store, why);
}

static int join_store(struct twi_ranks *ranks, const struct twi_until *until)
{
	struct twi_store_join *join = &ranks->join;
	struct twi_bootstrap *bootstrap = &ranks->bootstrap;
	int status;

	if (getrandom(&join->instance, sizeof(join->instance), 0) != sizeof(join->instance))
		return twi_error_errno(TOW_ESYSTEM, errno, "getrandom");
	join->instance |= 1; /* not 0 */
	join->job = bootstrap->job;
	join->rank = ranks->rank;
	join->world_size = ranks->size;
	join->restarts = bootstrap->restarts;
	join->key = &ranks->key;
	join->diag = ranks->engine->diag;
	join->late_ns = ranks->engine->knobs.log_wait_ns;
	if (ranks->server != NULL && twi_store_server_any(ranks->server))
		twi_net_own(twi_store_server_port(ranks->server), bootstrap->store,
			    sizeof(bootstrap->store));
	join->addresses = bootstrap->store;
	join->unreached = note_unreached;
	join->arg = ranks;
	status = twi_store_client_open(join, until, &ranks->client);
	join->unreached = NULL; /* only for this client */
	if (status == TOW_OK) {
		ranks->session = twi_store_client_session(ranks->client);
		join->session = ranks->session;
		twi_forming_reached(&ranks->forming, bootstrap->store);
	}
	return status;
}

/*
 * Returns the host of the endpoint. The interface that leads to the store leads to the other ranks.
 */
static int choose_host(const struct twi_ranks *ranks, char host[TOW_ADDRESS_MAX])
{
	const char *interfaces = ranks->engine->knobs.interfaces;
	char several[TWI_STORE_BYTES];
	uint16_t port;

	if (!twi_store_client_host(ranks->client, host))
		return twi_error(TOW_ESYSTEM, "the system does not give the address of this "
					      "side");
	/* Rank 0 has reached its store by an address that is of no use to other hosts. */
	if (ranks->server == NULL || !twi_store_server_any(ranks->server) ||
	    ranks->bootstrap.local_size == (int64_t)ranks->size ||
	    !twi_net_addresses(interfaces, 1, several, sizeof(several)))
		return TOW_OK;
	several[strcspn(several, ",")] = '\0';
	if (!twi_host_port(several, 1, host, TOW_ADDRESS_MAX, &port))
		return twi_error(TOW_ESYSTEM, "this host has no address '%.64s'", several);
	return TOW_OK;
}

static int open_endpoint(struct twi_ranks *ranks, struct tow_runtime *runtime, const char *address)
{
	const char *interfaces = ranks->engine->knobs.interfaces;
	char host[TOW_ADDRESS_MAX], text[TOW_ADDRESS_MAX + 16];
	int status;

	if (address != NULL)
		return tow_endpoint_open(runtime, address, &ranks->endpoint);
	status = choose_host(ranks, host);
	if (status < 0)
		return status;
	/* All interfaces that the user has named are to be used. A job on one host needs none. */
	snprintf(text, sizeof(text), "tow://%s",
		 *interfaces == '\0' || twi_net_is_loopback(host) ? host : "");
	return tow_endpoint_open(runtime, text, &ranks->endpoint);
}

/* Keeps the address of another rank. It is checked, as the library passes it to a connect later. */
static int keep_address(void *arg, uint32_t index, const uint8_t *value, uint32_t bytes)
{
	struct twi_ranks *ranks = arg;

	if (bytes == 0 || bytes >= TOW_ADDRESS_MAX)
		return twi_error(TOW_EPROTOCOL, "rank %u sent an address of %u bytes", index,
				 bytes);
	for (uint32_t i = 0; i < bytes; i++) {
		if (value[i] <= ' ' || value[i] >= 0x7f)
			return twi_error(TOW_EPROTOCOL, "rank %u sent an address with byte %u",
					 index, value[i]);
		ranks->addresses[index][i] = (char)value[i];
	}
	return TOW_OK;
}

/*
 * Refuses an address that stands for all addresses of this host. For other ranks it would mean
 * their own host.
 */
static int check_address(const char *address)
{
	const char *host = strstr(address, "://");

	if (host == NULL ||
	    (strncmp(host, "://0.0.0.0", 10) != 0 && strncmp(host, "://[::]", 7) != 0))
		return TOW_OK;
	return twi_error(TOW_EINVAL,
			 "address %s: other ranks cannot connect to that; name an address of this "
			 "host, or tow:// for all of them",
			 address);
}

static void note_absent(void *arg, const struct twi_absent *absent)
{
	struct twi_ranks *ranks = arg;

	twi_forming_absent(&ranks->forming, absent);
}

static int gather_addresses(struct twi_ranks *ranks, const struct twi_until *until)
{
	char address[TOW_ADDRESS_MAX];
	struct twi_gather gather = { .key = "open",
				     .index = ranks->rank,
				     .members = ranks->size,
				     .value = address,
				     .each = keep_address,
				     .absent = note_absent,
				     .arg = ranks };
	int status = tow_endpoint_address(ranks->endpoint, address, sizeof(address));

	if (status == TOW_OK)
		status = check_address(address);
	gather.bytes = (uint32_t)strlen(address);
	return status < 0 ? status : twi_store_gather(ranks->client, &gather, until);
}

static int meet_ranks(struct twi_ranks *ranks, struct tow_runtime *runtime, const char *address,
		      const struct twi_until *until)
{
	struct twi_bootstrap *bootstrap = &ranks->bootstrap;
	int status = TOW_OK;

	ranks->key = ranks->engine->job_key;
	if (ranks->rank == 0) {
		status = make_key(ranks);
		if (status == TOW_OK)
			status = serve_store(ranks, until);
	} else if (bootstrap->exchange == TWI_EXCHANGE_CALLER) {
		twi_forming_unreached(&ranks->forming, "",
				      "the caller's exchange does not have the address yet");
		status = get_address(ranks, until);
	} else if (bootstrap->exchange != TWI_EXCHANGE_ADDRESS) {
		status = twi_exchange(bootstrap, NULL, until);
	}
	if (status == TOW_OK)
		status = join_store(ranks, until);
	if (status == TOW_OK)
		status = open_endpoint(ranks, runtime, address);
	if (status == TOW_OK)
		status = gather_addresses(ranks, until);
	if (status == TOW_OK) {
		twi_group_enter(ranks->engine);
		status = twi_ranks_listen(ranks);
		twi_engine_leave(ranks->engine);
	}
	return status;
}

/*
 * The only rank of a job needs an endpoint just for messages to itself. Without one these are
 * refused.
 */
static int meet_oneself(struct twi_ranks *ranks, struct tow_runtime *runtime)
{
	char name[TOW_ADDRESS_MAX];
	struct twi_error_kept kept;
	int status;

	twi_error_keep(&kept);
	snprintf(name, sizeof(name), "loop://alone-%d-%p", (int)getpid(), (void *)ranks);
	status = tow_endpoint_open(runtime, name, &ranks->endpoint);
	if (status == TOW_EINVAL) /* the knob `lanes` leaves loop out */
		status = tow_endpoint_open(runtime, "tow://", &ranks->endpoint);
	twi_error_settle(&kept, TOW_OK);
	if (status < 0)
		return status == TOW_ENOMEM ? status : TOW_OK;
	status = tow_endpoint_address(ranks->endpoint, ranks->addresses[0], TOW_ADDRESS_MAX);
	if (status == TOW_OK) {
		twi_group_enter(ranks->engine);
		status = twi_ranks_listen(ranks);
		twi_engine_leave(ranks->engine);
	}
	return status;
}

/* Ends a join that has failed. The thread's message stays. */
static void abandon_join(struct twi_ranks *ranks, int status, const struct twi_until *until)
{
	uint64_t now = twi_net_now(), linger = 0;
	char why[TWI_BOOTSTRAP_ERROR];

	snprintf(why, sizeof(why), "%s", tow_error_message());
	if (ranks->rank == 0 && ranks->size > 1)
		tell_failure(ranks, &ranks->bootstrap.caller, status);
	if (status != TOW_ECANCELED || ranks->told)
		linger = twi_min(LINGER_NS,
				 (until->deadline_ns > now ? until->deadline_ns - now : 0) +
					 LINGER_NS / 6);
	twi_store_client_close(ranks->client, twi_min(linger, LINGER_NS / 6));
	twi_store_server_stop(ranks->server, linger);
	twi_exchange_done(&ranks->bootstrap, until);
	twi_group_enter(ranks->engine);
	twi_ranks_hang_up(ranks);
	twi_ranks_drop_key(ranks);
	twi_engine_leave(ranks->engine);
	twi_ranks_let_go(ranks);
	twi_error(status, "%s", why);
}

/* Reports a failure before rank 0 could serve anything, if this is rank 0. */
static void fail_early(struct tow_runtime *runtime, const struct tow_group_options *options,
		       const struct twi_bootstrap *bootstrap, int status)
{
	const struct twi_exchange_caller caller = { options->put, options->get, options->user };
	int64_t given = options->rank >= 0 ? options->rank : twi_runtime_job(runtime)->given_rank;
	char why[TWI_BOOTSTRAP_ERROR];

	if ((bootstrap->status == TOW_OK ? bootstrap->rank : given) != 0)
		return;
	snprintf(why, sizeof(why), "%s", tow_error_message());
	tell_failure(NULL, &caller, status);
	twi_error(status, "%s", why);
}

int twi_ranks_join(struct tow_runtime *runtime, const struct tow_group_options *options,
		   const struct twi_until *until, struct twi_ranks **out)
{
	struct twi_bootstrap bootstrap;
	struct twi_ranks *ranks;
	int status = find_bootstrap(runtime, options, &bootstrap);

	if (status == TOW_OK)
		status = twi_exchange_size(&bootstrap, until);
	ranks = status == TOW_OK ? twi_ranks_make(runtime, &bootstrap) : NULL;
	if (ranks == NULL) {
		if (status == TOW_OK)
			status = twi_error(TOW_ENOMEM, "no memory for %lld ranks",
					   (long long)bootstrap.world_size);
		fail_early(runtime, options, &bootstrap, status);
		return status;
	}
	twi_forming_begin(&ranks->forming, ranks->engine, ranks->rank, ranks->size);
	status = ranks->size > 1 ? meet_ranks(ranks, runtime, options->address, until)
				 : meet_oneself(ranks, runtime);
	twi_forming_end(&ranks->forming);
	if (status == TOW_OK)
		status = ranks->engine->hooks.trace->rank(ranks->engine, ranks->rank, ranks->size);
	if (status < 0) {
		abandon_join(ranks, status, until);
		return status;
	}
	if (ranks->client != NULL)
		twi_store_keep_start(&ranks->keep, ranks->client, &ranks->store_lock,
				     ranks->engine->diag);
	*out = ranks;
	return TOW_OK;
}
