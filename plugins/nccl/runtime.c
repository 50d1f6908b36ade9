/*
 * runtime.c - the runtime of the process, which all communicators share with each other and with
 * other plugins.
 *
 * From 2.28 on, NCCL calls init and finalize for each communicator. Older versions call init once,
 * and never finalize. Each context, listen and comm is a user. The last user closes the runtime.
 */
#include "plugins/nccl/plugin.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define POOL_BYTES      (INT64_C(16) << 20)         /* NCCL takes no memory of it */
#define PEER_TIMEOUT_NS (INT64_C(120) * 1000000000) /* a stopped process may continue */
#define CONNECTIONS     4
#define JOIN_END_NS     (UINT64_C(10) * 1000000000) /* time for a canceled join to end */

struct twn_state twn = { .lock = PTHREAD_MUTEX_INITIALIZER };

uint64_t twn_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static bool is_unset(const char *variable)
{
	const char *value = getenv(variable);

	return value == NULL || *value == '\0';
}

/* Reads the TOW_NCCL_... variables. */
static enum nccl_result read_environment(void)
{
	const char *text = getenv("TOW_NCCL_CONNECTIONS");
	char *end = NULL;
	long count = CONNECTIONS;

	if (text != NULL && *text != '\0') {
		errno = 0;
		count = strtol(text, &end, 10);
		if (errno != 0 || *end != '\0' || count < 1 || count > TWN_CONNECTIONS_MAX) {
			twn_log(NCCL_LOG_WARN,
				"TOW_NCCL_CONNECTIONS is \"%.40s\"; it takes a number of 1 to %d",
				text, TWN_CONNECTIONS_MAX);
			return NCCL_INVALID_USAGE;
		}
	}
	twn.connections = (int)count;
	text = getenv("TOW_NCCL_LANE");
	twn.lane = text == NULL || *text == '\0' ? "auto" : text;
	return NCCL_SUCCESS;
}

/* If another user has opened the shared runtime with other options, its options hold. */
static enum nccl_result share_runtime(int rank)
{
	struct tow_options options = TOW_OPTIONS_INIT;
	const struct tow_options any = TOW_OPTIONS_INIT;
	int status;

	options.rank = rank;
	options.log_callback = twn_log_line;
	if (is_unset("TOW_PREMAP_MEMORY_BYTES"))
		options.premap_memory_bytes = POOL_BYTES;
	if (is_unset("TOW_PEER_TIMEOUT_NS"))
		options.peer_timeout_ns = PEER_TIMEOUT_NS;
	if (is_unset("TOW_JOB"))
		options.job = "nccl";
	status = tow_runtime_share(&options, &twn.runtime);
	if (status == TOW_EINVAL)
		status = tow_runtime_share(&any, &twn.runtime);
	return status < 0 ? twn_refuse(status, "no runtime") : NCCL_SUCCESS;
}

/*
 * rank: the rank in the first communicator, which has all ranks; -1: unknown. It becomes the rank
 * of the runtime if no launcher sets one, because verdicts tell ranks apart by it.
 */
static enum nccl_result open_runtime(int rank)
{
	struct tow_job_info info = TOW_JOB_INFO_INIT;
	enum nccl_result result = share_runtime(-1);

	if (result != NCCL_SUCCESS || rank <= 0 || tow_job_info(twn.runtime, &info) < 0 ||
	    strcmp(info.launcher, "single") != 0)
		return result;
	tow_runtime_close(twn.runtime);
	twn.runtime = NULL;
	return share_runtime(rank);
}

/* The join has ended: the group of the job exists, or it failed. */
static void on_joined(struct tow_op *op, const struct tow_result *result)
{
	(void)op;
	if (result->status == TOW_OK)
		twn_log(NCCL_LOG_INFO, "TOW_NCCL_JOIN: the ranks of the job are joined");
	else if (result->status != TOW_ECANCELED && result->status != TOW_ECLOSED)
		twn_log(NCCL_LOG_WARN, "TOW_NCCL_JOIN: %s: %s", tow_status_name(result->status),
			result->message != NULL ? result->message : "");
}

/*
 * Opens the job's group if asked for: ranks of all hosts meet in the launcher's store, not NCCL's.
 */
static void join_ranks(void)
{
	struct tow_op_options options = TOW_OP_OPTIONS_INIT;
	const char *text = getenv("TOW_NCCL_JOIN");
	int status;

	if (text == NULL || strcmp(text, "1") != 0)
		return;
	options.done = on_joined;
	status = tow_group_open_start(twn.runtime, NULL, &options, &twn.group, &twn.joining);
	if (status < 0)
		twn_refuse(status, "TOW_NCCL_JOIN");
}

static void leave_ranks(void)
{
	if (twn.joining != NULL) {
		tow_op_cancel(twn.joining);
		tow_op_wait(twn.joining, JOIN_END_NS);
		tow_op_release(twn.joining);
	}
	if (twn.group != NULL)
		tow_group_close(twn.group);
	twn.joining = NULL;
	twn.group = NULL;
}

enum nccl_result twn_runtime_use(nccl_logger logger, int rank)
{
	enum nccl_result result = NCCL_SUCCESS;

	if (logger != NULL)
		twn_log_to(logger);
	if (twn.users == 0) {
		result = open_runtime(rank);
		if (result == NCCL_SUCCESS)
			join_ranks();
	}
	if (result == NCCL_SUCCESS)
		twn.users++;
	return result;
}

/* Closes all that this plugin has of the runtime. */
static void close_runtime(void)
{
	twn_links_close();
	for (int i = 0; i < twn.device_count; i++)
		twn_device_close(&twn.devices[i]);
	twn_memory_forget();
	leave_ranks();
	tow_runtime_close(twn.runtime);
	twn.runtime = NULL;
	twn.net_read = false;
	twn_log_to(NULL);
}

void twn_release(void)
{
	if (--twn.users == 0)
		close_runtime();
}

/* Opens what the network needs beside the runtime, which a profiler may already have opened. */
static enum nccl_result open_net(void)
{
	enum nccl_result result = NCCL_SUCCESS;

	if (!twn.net_read)
		result = read_environment();
	if (result == NCCL_SUCCESS)
		result = twn_runtime_use(NULL, -1);
	if (result != NCCL_SUCCESS)
		return result;
	twn.net_read = true;
	if (twn.device_count == 0)
		result = twn_devices_find(twn.runtime);
	if (result != NCCL_SUCCESS)
		twn_release();
	return result;
}

enum nccl_result twn_init(struct twn_context **context_out, uint64_t comm_id, nccl_logger logger)
{
	struct twn_context *context = NULL;
	enum nccl_result result;

	if (context_out != NULL) {
		context = calloc(1, sizeof(*context));
		if (context == NULL)
			return NCCL_SYSTEM_ERROR;
		context->comm_id = comm_id;
	}
	pthread_mutex_lock(&twn.lock);
	if (logger != NULL)
		twn_log_to(logger);
	result = open_net();
	pthread_mutex_unlock(&twn.lock);
	if (result != NCCL_SUCCESS)
		free(context);
	else if (context_out != NULL)
		*context_out = context;
	return result;
}

enum nccl_result twn_finalize(struct twn_context *context)
{
	if (context == NULL)
		return NCCL_INVALID_ARGUMENT;
	pthread_mutex_lock(&twn.lock);
	twn_connect_end(context);
	twn_release();
	pthread_mutex_unlock(&twn.lock);
	free(context);
	return NCCL_SUCCESS;
}
