/*
 * group.c - the public calls on groups: opening, closing, and small values in the store.
 */
#include "transport/job/group.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "diag/base/cancel.h"
#include "diag/base/error.h"
#include "diag/base/sized.h"
#include "diag/record/diag.h"
#include "transport/engine/engine.h"
#include "transport/engine/engine_drive.h"
#include "transport/engine/runtime.h"
#include "transport/job/bootstrap_exchange.h"
#include "transport/job/group_barrier.h"
#include "transport/job/group_message.h"
#include "transport/op/op_options.h"

/* How long the close of the last group waits, at rank 0, for the other ranks to close theirs. */
#define LINGER_NS 2000000000ull

#define COLL_END_NS 60000000000ull

void twi_job_init(struct twi_job *job, const struct tow_options *options, struct twi_knobs *knobs)
{
	struct tow_options given = TOW_OPTIONS_INIT;
	const char *env = getenv("TOW_JOB");
	bool job_is_set =
		(options != NULL && options->job != NULL) || (env != NULL && *env != '\0');

	if (options != NULL) {
		given.rank = options->rank;
		given.world_size = options->world_size;
	}
	/* The knob comes from the options or the environment. Either overrides the launcher. */
	given.store = knobs->store;
	job->given_rank = given.rank;
	job->given_world_size = given.world_size;
	pthread_mutex_init(&job->lock, NULL);
	twi_list_init(&job->groups);
	twi_list_init(&job->opens);
	job->given_job = knobs->job;
	if (twi_bootstrap_self(&given, knobs->job, NULL, &job->bootstrap) < 0)
		return;
	if (given.rank < 0)
		knobs->rank = job->bootstrap.rank;
	if (!job_is_set && twi_job_name(&job->bootstrap, job->name))
		knobs->job = job->name;
}

void twi_job_fini(struct twi_job *job)
{
	pthread_mutex_destroy(&job->lock);
}

int twi_group_check(const struct tow_group *group, const char *call)
{
	int status = twi_handle_check(group, TWI_HANDLE_GROUP, call);

	return status < 0 ? status : twi_runtime_check(group->runtime, call);
}

int twi_group_check_blocking(struct tow_runtime *runtime, const char *call)
{
	int status = twi_runtime_check(runtime, call);

	if (status < 0)
		return status;
	if (twi_engine_in_callback(twi_runtime_engine(runtime)))
		return twi_error(TOW_EINVAL, "%s in a completion callback", call);
	return TOW_OK;
}

struct twi_until twi_group_until(uint64_t timeout_ns)
{
	uint64_t now = twi_net_now();

	return (struct twi_until){
		.deadline_ns = timeout_ns < UINT64_MAX - now ? now + timeout_ns : UINT64_MAX,
		.cancel_fd = -1,
	};
}

struct tow_group *twi_group_make(struct tow_runtime *runtime, struct twi_ranks *ranks,
				 uint32_t size)
{
	struct tow_group *group = twi_handle_alloc(TWI_HANDLE_GROUP, sizeof(*group));
	struct twi_job *job = twi_runtime_job(runtime);

	if (group != NULL)
		group->members = calloc(size, sizeof(group->members[0]));
	if (group == NULL || group->members == NULL) {
		if (group != NULL)
			twi_handle_free(&group->handle, false);
		twi_error(TOW_ENOMEM, "no memory for a group of %u", size);
		return NULL;
	}
	group->runtime = runtime;
	group->ranks = ranks;
	group->size = size;
	group->abort_fd = -1;
	twi_group_enter(ranks->engine);
	twi_ranks_use(ranks);
	ranks->groups++;
	twi_engine_leave(ranks->engine);
	pthread_mutex_lock(&job->lock);
	twi_list_push_back(&job->groups, &group->link);
	pthread_mutex_unlock(&job->lock);
	return group;
}

void twi_group_begin(struct tow_group *group)
{
	/* A group that was closed may have had this number. */
	(void)twi_label_set(group->ranks->engine->diag, group->id, NULL);
	twi_group_enter(group->ranks->engine);
	/* Reports name also a rank that never makes a barrier, and words may be waiting for it. */
	(void)twi_barrier_log_of(group);
	group->ranks->engine->hooks.coll->group_begin(group);
	twi_group_messages_begin(group);
	twi_engine_leave(group->ranks->engine);
}

/*
 * Leaves the store and closes the connections, when the last group closes. The engine is not held.
 */
static void leave_job(struct twi_ranks *ranks)
{
	const struct twi_until until = { twi_net_now() + LINGER_NS, -1, NULL };

	twi_group_enter(ranks->engine);
	twi_ranks_hang_up(ranks);
	twi_ranks_drop_key(ranks);
	twi_engine_leave(ranks->engine);
	twi_store_keep_stop(&ranks->keep);
	twi_store_client_close(ranks->client, LINGER_NS / 4);
	twi_store_server_stop(ranks->server, LINGER_NS);
	twi_exchange_done(&ranks->bootstrap, &until);
	ranks->client = NULL;
	ranks->server = NULL;
}

/*
 * Ends the group's collectives. Those under way end within moments. Other ranks may still work on
 * this rank's memory, and the call waits for them (coll_local.c). The bound finds faults of the
 * library.
 */
static void end_collectives(struct tow_group *group)
{
	struct twi_engine *engine = group->ranks->engine;
	uint64_t until = twi_net_now() + COLL_END_NS;
	bool ended = group->coll == NULL;

	while (!ended) {
		twi_group_enter(engine);
		ended = engine->hooks.coll->group_end(group);
		if (!ended)
			twi_engine_poll(engine);
		twi_engine_leave(engine);
		twi_assert(ended || twi_net_now() < until);
		if (!ended)
			sched_yield(); /* the awaited rank may share this core */
	}
}

static void close_group(struct tow_group *group)
{
	struct twi_ranks *ranks = group->ranks;
	struct twi_error_kept kept;
	bool last;

	twi_error_keep(&kept); /* connects that end here are no failure of the close */
	twi_handle_close(&group->handle);
	twi_label_close(ranks->engine->diag, group->id);
	twi_group_enter(ranks->engine);
	twi_group_messages_close(group);
	twi_engine_leave(ranks->engine);
	end_collectives(group);

	/* The group stays a user until the store is closed, for which the engine is not held. */
	twi_group_enter(ranks->engine);
	last = --ranks->groups == 0;
	twi_barrier_log_drop(group->barriers);
	twi_engine_leave(ranks->engine);
	if (last)
		leave_job(ranks);
	else
		twi_group_forget_splits(group);
	twi_ranks_let_go(ranks);
	free(group->part_offsets[0]);
	free(group->part_offsets[1]);
	free(group->members);
	twi_group_abort_free(group);
	twi_handle_free(&group->handle, true);
	(void)twi_error_settle(&kept, TOW_OK);
}

int twi_group_open(struct tow_runtime *runtime, const struct tow_group_options *options,
		   const struct twi_until *until, struct tow_group **group_out)
{
	struct twi_ranks *ranks;
	struct tow_group *group;
	int status = twi_ranks_join(runtime, options, until, &ranks);

	if (status < 0)
		return status;
	group = twi_group_make(runtime, ranks, ranks->size);
	if (group == NULL)
		leave_job(ranks);
	if (group != NULL) {
		for (uint32_t i = 0; i < group->size; i++)
			group->members[i] = i;
		group->rank = ranks->rank;
		twi_group_begin(group);
		*group_out = group;
	}
	twi_ranks_let_go(ranks); /* the user that the join has made */
	return group == NULL ? TOW_ENOMEM : TOW_OK;
}

int twi_group_options(const struct tow_group_options *in, struct tow_group_options *out)
{
	static const struct tow_group_options defaults = TOW_GROUP_OPTIONS_INIT;
	struct tow_group_options known;
	int status = TWI_SIZED_IN(tow_group_options, "tow_group_open", in, &known);

	*out = status < 0 || in == NULL ? defaults : *in;
	if (status == TOW_OK && (out->put == NULL) != (out->get == NULL))
		status = twi_error(TOW_EINVAL,
				   "tow_group_open: put and get go together; %s is "
				   "NULL",
				   out->put == NULL ? "put" : "get");
	if (status == TOW_OK && out->put != NULL && out->store != NULL)
		status = twi_error(TOW_EINVAL,
				   "tow_group_open: store is '%.64s' and put is set; ranks find "
				   "each other by one of them",
				   out->store);
	return status;
}

TOW_PUBLIC int tow_group_open(struct tow_runtime *runtime, const struct tow_group_options *options,
			      struct tow_group **group_out)
{
	TWI_UNCANCELED;
	struct tow_group_options given;
	struct twi_error_kept kept;
	struct twi_until until;
	int status;

	if (group_out == NULL)
		return twi_error(TOW_EINVAL, "tow_group_open: group_out is NULL");
	twi_error_keep(&kept);
	*group_out = NULL;
	status = twi_group_check_blocking(runtime, "tow_group_open");
	if (status == TOW_OK)
		status = twi_group_options(options, &given);
	if (status < 0)
		return status;
	until = twi_group_until(given.timeout_ns);
	until.engine = twi_runtime_engine(runtime);
	return twi_error_settle(&kept, twi_group_open(runtime, &given, &until, group_out));
}

TOW_PUBLIC int tow_job_info(struct tow_runtime *runtime, struct tow_job_info *info_out)
{
	int status = twi_runtime_check(runtime, "tow_job_info");
	const struct twi_bootstrap *bootstrap;
	struct tow_job_info info;

	if (status < 0)
		return status;
	status = twi_sized_check_out(TWI_SIZED_tow_job_info, "tow_job_info", info_out);
	if (status < 0)
		return status;
	bootstrap = &twi_runtime_job(runtime)->bootstrap;
	if (bootstrap->status < 0)
		return twi_error(bootstrap->status, "%s", bootstrap->why);
	info = (struct tow_job_info){
		.size = sizeof(info),
		.launcher = twi_launcher_name(bootstrap->launcher),
		.job = bootstrap->job,
		.rank = bootstrap->rank,
		.world_size = bootstrap->world_size > 0 ? bootstrap->world_size : -1,
		.local_rank = bootstrap->local_rank,
		.local_size = bootstrap->local_size,
		.restarts = bootstrap->restarts,
	};
	return TWI_SIZED_OUT(tow_job_info, "tow_job_info", &info, info_out);
}

TOW_PUBLIC uint32_t tow_group_rank(const struct tow_group *group)
{
	return twi_handle_check(group, TWI_HANDLE_GROUP, "tow_group_rank") < 0 ? UINT32_MAX
									       : group->rank;
}

TOW_PUBLIC uint32_t tow_group_size(const struct tow_group *group)
{
	return twi_handle_check(group, TWI_HANDLE_GROUP, "tow_group_size") < 0 ? 0 : group->size;
}

static int check_rank(const struct tow_group *group, uint32_t rank, const char *call)
{
	if (rank < group->size)
		return TOW_OK;
	return twi_error(TOW_EINVAL, "%s: rank is %u, the group has %u", call, rank, group->size);
}

TOW_PUBLIC int tow_group_address(const struct tow_group *group, uint32_t rank, char *address_out,
				 size_t address_size)
{
	TWI_UNCANCELED;
	const char *address;
	int status = twi_handle_check(group, TWI_HANDLE_GROUP, "tow_group_address");

	if (status < 0)
		return status;
	if (address_out == NULL)
		return twi_error(TOW_EINVAL, "tow_group_address: address_out is NULL");
	status = check_rank(group, rank, "tow_group_address");
	if (status < 0)
		return status;
	address = group->ranks->addresses[group->members[rank]];
	if (strlen(address) >= address_size)
		return twi_error(TOW_EINVAL,
				 "tow_group_address: %zu bytes are too few; TOW_ADDRESS_MAX is %d",
				 address_size, TOW_ADDRESS_MAX);
	snprintf(address_out, address_size, "%s", address);
	return TOW_OK;
}

TOW_PUBLIC int tow_group_connect_start(struct tow_group *group, uint32_t rank,
				       const struct tow_op_options *options, struct tow_op **op_out)
{
	TWI_UNCANCELED;
	int status = twi_group_check(group, "tow_group_connect_start");
	struct tow_op_options known;
	struct twi_ranks *ranks;
	struct tow_op *unused;

	if (op_out != NULL)
		*op_out = NULL;
	if (status < 0)
		return status;
	status = twi_op_options_in(group->ranks->engine, "tow_group_connect_start", &options,
				   &known);
	op_out = twi_op_place(op_out, &unused, options);
	if (status == TOW_OK && op_out == NULL)
		status = twi_error(TOW_EINVAL, "tow_group_connect_start: op_out is NULL");
	if (status == TOW_OK)
		status = check_rank(group, rank, "tow_group_connect_start");
	if (status == TOW_OK && rank == group->rank)
		status = twi_error(TOW_EINVAL, "tow_group_connect_start: rank %u is this process",
				   rank);
	if (status < 0)
		return status;
	ranks = group->ranks;
	twi_group_enter(ranks->engine);
	if (ranks->engine->failing || ranks->closing)
		status = twi_error(TOW_ECLOSED, "tow_group_connect_start: the group is being "
						"closed");
	else if (group->aborted)
		status = twi_error(TOW_EABORTED, "%s", group->abort_why);
	else
		status = twi_ranks_connect(ranks, group->members[rank], TWI_SPACE_USER, options,
					   op_out);
	twi_engine_leave(ranks->engine);
	return status;
}

TOW_PUBLIC int tow_group_peer(struct tow_group *group, uint32_t rank, struct tow_peer **peer_out)
{
	int status = twi_group_check(group, "tow_group_peer");

	if (status < 0)
		return status;
	if (peer_out == NULL)
		return twi_error(TOW_EINVAL, "tow_group_peer: peer_out is NULL");
	*peer_out = NULL;
	status = check_rank(group, rank, "tow_group_peer");
	if (status < 0)
		return status;
	twi_group_enter(group->ranks->engine);
	*peer_out = group->ranks->slots[group->members[rank]].peer;
	twi_engine_leave(group->ranks->engine);
	return *peer_out == NULL ? TOW_AGAIN : TOW_OK;
}

/* Makes the key of a user's value, which is never a key of the library's own. */
static int user_key(const struct tow_group *group, const char *key, char *out, size_t bytes)
{
	if (group->ranks->client == NULL)
		return twi_error(TOW_ENOTSUP, "a job of one rank has no store");
	if (key == NULL || *key == '\0' || strlen(key) > 250)
		return twi_error(TOW_EINVAL, "the key must have 1 to 250 bytes");
	snprintf(out, bytes, "user:%s", key);
	return TOW_OK;
}

TOW_PUBLIC int tow_group_set(struct tow_group *group, const char *key, const void *value,
			     size_t bytes, uint64_t timeout_ns)
{
	TWI_UNCANCELED;
	const struct twi_until until = twi_group_until(timeout_ns);
	char name[TWI_STORE_KEY_MAX + 1];
	int status = twi_group_check(group, "tow_group_set");

	if (status == TOW_OK)
		status = twi_group_check_blocking(group->runtime, "tow_group_set");
	if (status == TOW_OK)
		status = user_key(group, key, name, sizeof(name));
	if (status == TOW_OK && (bytes > TWI_STORE_VALUE_MAX || (value == NULL && bytes > 0)))
		status = twi_error(TOW_EINVAL,
				   "tow_group_set: the value is NULL, or its %zu bytes are more "
				   "than %u",
				   bytes, TWI_STORE_VALUE_MAX);
	if (status == TOW_OK)
		status = twi_group_check_aborted(group);
	if (status < 0)
		return status;
	pthread_mutex_lock(&group->ranks->store_lock);
	status = twi_store_set(group->ranks->client, name, value, (uint32_t)bytes, &until);
	pthread_mutex_unlock(&group->ranks->store_lock);
	return status;
}

int twi_group_open_client(struct twi_ranks *ranks, const struct twi_until *until,
			  struct twi_store_client **out)
{
	return twi_store_client_open(&ranks->join, until, out);
}

TOW_PUBLIC int tow_group_get(struct tow_group *group, const char *key, void *value_out, size_t room,
			     size_t *bytes_out, uint64_t timeout_ns)
{
	TWI_UNCANCELED;
	struct twi_until until = twi_group_until(timeout_ns);
	struct twi_store_client *client = NULL;
	char name[TWI_STORE_KEY_MAX + 1];
	int status = twi_group_check(group, "tow_group_get");
	uint32_t bytes = 0;

	if (status == TOW_OK)
		status = twi_group_check_blocking(group->runtime, "tow_group_get");
	if (status == TOW_OK)
		status = user_key(group, key, name, sizeof(name));
	if (status == TOW_OK && (bytes_out == NULL || (value_out == NULL && room > 0)))
		status = twi_error(TOW_EINVAL, "tow_group_get: an argument is NULL");
	if (status == TOW_OK)
		status = twi_group_wait_begin(group, &until);
	if (status < 0)
		return status;
	status = twi_group_open_client(group->ranks, &until, &client);
	if (status == TOW_OK)
		status = twi_store_get(client, name, value_out,
				       (uint32_t)twi_min(room, (size_t)UINT32_MAX), &bytes, &until);
	twi_store_client_close(client, 0);
	status = twi_group_wait_end(group, status);
	if (status == TOW_OK)
		*bytes_out = bytes;
	return status;
}

TOW_PUBLIC int tow_group_close(struct tow_group *group)
{
	TWI_UNCANCELED;
	struct twi_job *job;
	int status;

	if (group == NULL)
		return TOW_OK;
	status = twi_handle_check(group, TWI_HANDLE_GROUP, "tow_group_close");
	if (status == TOW_OK)
		status = twi_group_check_blocking(group->runtime, "tow_group_close");
	if (status < 0)
		return status;
	job = twi_runtime_job(group->runtime);
	pthread_mutex_lock(&job->lock);
	twi_list_remove(&group->link);
	pthread_mutex_unlock(&job->lock);
	close_group(group);
	return TOW_OK;
}

void twi_job_close(struct twi_job *job)
{
	struct twi_list *entry;

	twi_job_end_opens(job);
	/* No other thread is inside a call on this runtime any more. */
	while ((entry = twi_list_first(&job->groups)) != NULL) {
		twi_list_remove(entry);
		close_group(twi_container_of(entry, struct tow_group, link));
	}
}
