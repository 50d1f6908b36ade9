/*
 * data.c - isend, irecv and test.
 *
 * A thread takes a request by an atomic exchange of its flag. Each operation of the request ends in
 * a callback that stores into its part. test reads the parts, and drives the runtime once when a
 * part is not done. A message is matched by the channel of its comm and by NCCL's tag. Of one tag,
 * the first message goes to the first receive, in groups too.
 *
 * A receive takes the bytes that fit and drops the rest (TOW_OP_TRUNCATE), as devices with global
 * registrations do (reg_is_global). The table of operations may be full in the middle of a group.
 * Then test starts the rest of the group, and the comm starts no other receive before that.
 */
#include "plugins/nccl/plugin.h"

#include <limits.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#define DRIVE_EVERY 64
#define IDLE_TESTS  64u /* in a row; each takes some 30 ns */

static struct twn_request *request_at(struct twn_comm *comm, uint32_t index)
{
	/* acquire: pairs with the store in chunk_add */
	char *chunk = atomic_load_explicit(&comm->chunks[index / TWN_CHUNK], memory_order_acquire);

	return (struct twn_request *)(void *)(chunk +
					      (size_t)(index % TWN_CHUNK) * comm->request_bytes);
}

/* False: the limit is reached, or there is no memory. */
static bool chunk_add(struct twn_comm *comm, uint32_t had)
{
	bool added = true;
	uint32_t count;
	char *chunk;

	pthread_mutex_lock(&comm->grow);
	count = atomic_load_explicit(&comm->chunk_count, memory_order_relaxed);
	if (count == had) {
		chunk = count < comm->chunks_max ? calloc(TWN_CHUNK, comm->request_bytes) : NULL;
		added = chunk != NULL;
		if (added) {
			atomic_store_explicit(&comm->chunks[count], chunk, memory_order_release);
			atomic_store_explicit(&comm->chunk_count, count + 1, memory_order_release);
		}
	}
	pthread_mutex_unlock(&comm->grow);
	return added;
}

/* NULL: all requests are in use. */
static struct twn_request *request_take(struct twn_comm *comm, uint32_t count)
{
	uint32_t chunks, room, from;

	do {
		chunks = atomic_load_explicit(&comm->chunk_count, memory_order_acquire);
		room = chunks * TWN_CHUNK;
		from = atomic_fetch_add_explicit(&comm->cursor, 1, memory_order_relaxed);
		for (uint32_t i = 0; i < room; i++) {
			struct twn_request *request = request_at(comm, (from + i) % room);

			if (atomic_load_explicit(&request->used, memory_order_relaxed) ||
			    atomic_exchange_explicit(&request->used, true, memory_order_acquire))
				continue;
			request->comm = comm;
			request->count = count;
			request->started = 0;
			return request;
		}
	} while (chunk_add(comm, chunks));
	tow_progress(comm->runtime); /* this caller may have no request to test */
	return NULL;
}

static void request_give(struct twn_request *request)
{
	/* release: pairs with the exchange in request_take */
	atomic_store_explicit(&request->used, false, memory_order_release);
}

static void finish_part(struct twn_part *part, const struct tow_result *result)
{
	struct twn_comm *comm = part->request->comm;

	part->status = result->status;
	if (result->status < 0)
		twn_comm_fail(comm, result->status, result->message);
	else if (result->dropped_bytes > 0 &&
		 !atomic_exchange_explicit(&comm->cut_logged, true, memory_order_relaxed))
		twn_log(NCCL_LOG_INFO,
			"a message of %llu bytes was cut to %llu, as its receive had "
			"no more room",
			(unsigned long long)(result->bytes + result->dropped_bytes),
			(unsigned long long)result->bytes);
	part->bytes = result->bytes;
	/* release: pairs with request_ended */
	atomic_store_explicit(&part->done, true, memory_order_release);
}

static void done_callback(struct tow_op *op, const struct tow_result *result)
{
	struct twn_part *part = result->user;
	struct twn_comm *comm = part->request->comm;

	(void)op;
	finish_part(part, result);
	/* release: pairs with the close, which then frees the comm */
	atomic_fetch_sub_explicit(&comm->in_flight, 1, memory_order_release);
}

/* Labels the thread's copies, spans and registrations with the communicator's name. */
static void label_thread(const struct twn_comm *comm)
{
	static __thread uint64_t labelled; /* number of the comm of the last call */

	if (labelled == comm->number)
		return;
	labelled = comm->number;
	tow_tag_set(comm->name[0] != '\0' ? comm->name : NULL);
}

/* TOW_EBUSY: nothing was started, and nothing has failed. */
static int part_start(struct twn_comm *comm, struct twn_part *part)
{
	struct tow_op_options options = TOW_OP_OPTIONS_INIT;
	struct tow_result result = TOW_RESULT_INIT;
	struct tow_op *op = NULL;
	int status;

	label_thread(comm);
	options.done = done_callback;
	options.user = part;
	options.channel = comm->channel;
	options.result = &result;
	options.flags = TOW_OP_AT_ONCE | (comm->sends ? 0 : TOW_OP_TRUNCATE);
	atomic_store_explicit(&part->done, false, memory_order_relaxed);
	atomic_fetch_add_explicit(&comm->in_flight, 1, memory_order_relaxed);
	if (comm->sends)
		status = tow_send_start(comm->peer, part->data, part->bytes, part->tag, &options,
					&op);
	else
		status = tow_recv_start(comm->peer, part->data, part->bytes, part->tag, &options,
					&op);
	if (status >= 0 && op != NULL) {
		tow_op_release(op); /* the operation continues, and its callback reports the end */
		return TOW_OK;
	}
	if (status >= 0)
		finish_part(part, &result);
	else if (status != TOW_EBUSY)
		twn_comm_fail(comm, status, tow_error_message());
	atomic_fetch_sub_explicit(&comm->in_flight, 1, memory_order_release);
	return status < 0 ? status : TOW_OK;
}

/* Starts the parts that have not started. TOW_EBUSY: some still have not. */
static int request_start(struct twn_comm *comm, struct twn_request *request)
{
	int status = TOW_OK;

	while (status == TOW_OK && request->started < request->count) {
		status = part_start(comm, &request->parts[request->started]);
		if (status == TOW_OK)
			request->started++;
	}
	return status;
}

static enum nccl_result report_failure(struct twn_comm *comm)
{
	int status = atomic_load_explicit(&comm->failed, memory_order_acquire);

	if (status == 0)
		status = TOW_EPEER; /* another thread is storing the status now */
	else if (!atomic_exchange_explicit(&comm->failure_logged, true, memory_order_relaxed))
		twn_log(NCCL_LOG_WARN, "%s%s%s failed: %s: %s",
			comm->sends ? "a send" : "a receive",
			comm->name[0] != '\0' ? " of communicator " : "", comm->name,
			tow_status_name(status), comm->why);
	return twn_result(status);
}

static void part_set(struct twn_request *request, uint32_t index, void *data, size_t bytes, int tag)
{
	struct twn_part *part = &request->parts[index];

	part->request = request;
	part->data = data;
	part->bytes = bytes;
	part->tag = (uint32_t)tag;
	part->status = TOW_OK;
	atomic_store_explicit(&part->done, false, memory_order_relaxed);
}

enum nccl_result twn_send(struct twn_comm *comm, void *data, size_t bytes, int tag, void **out)
{
	struct twn_request *request;
	int status;

	*out = NULL;
	if (comm == NULL || !comm->sends)
		return NCCL_INVALID_ARGUMENT;
	if (atomic_load_explicit(&comm->failed, memory_order_relaxed) < 0)
		return report_failure(comm);
	request = request_take(comm, 1);
	if (request == NULL)
		return NCCL_SUCCESS;
	part_set(request, 0, data, bytes, tag);
	status = request_start(comm, request);
	if (status == TOW_OK) {
		*out = request;
		return NCCL_SUCCESS;
	}
	request_give(request);
	return status == TOW_EBUSY ? NCCL_SUCCESS : report_failure(comm);
}

static enum nccl_result recv_group(struct twn_comm *comm, struct twn_request *request, void **out)
{
	int status = request_start(comm, request);

	if (status == TOW_EBUSY && request->started > 0)
		atomic_store_explicit(&comm->stalled, request, memory_order_release);
	if (status == TOW_OK || request->started > 0) {
		*out = request; /* test reports a failure, after the started parts have ended */
		return NCCL_SUCCESS;
	}
	request_give(request);
	return status == TOW_EBUSY ? NCCL_SUCCESS : report_failure(comm);
}

enum nccl_result twn_recv(struct twn_comm *comm, int count, void **data, const size_t *bytes,
			  const int *tags, void **out)
{
	struct twn_request *request;

	*out = NULL;
	if (comm == NULL || comm->sends || count < 1 || count > TWN_GROUP)
		return NCCL_INVALID_ARGUMENT;
	if (atomic_load_explicit(&comm->failed, memory_order_relaxed) < 0)
		return report_failure(comm);
	if (atomic_load_explicit(&comm->stalled, memory_order_acquire) != NULL)
		return NCCL_SUCCESS;
	request = request_take(comm, (uint32_t)count);
	if (request == NULL)
		return NCCL_SUCCESS;
	for (int i = 0; i < count; i++)
		part_set(request, (uint32_t)i, data[i], bytes[i], tags[i]);
	return recv_group(comm, request, out);
}

/* True: all started parts have ended. *status_out: that of a failed part, or TOW_OK. */
static bool request_ended(struct twn_request *request, int *status_out)
{
	*status_out = TOW_OK;
	for (uint32_t i = 0; i < request->started; i++) {
		/* acquire: pairs with finish_part */
		if (!atomic_load_explicit(&request->parts[i].done, memory_order_acquire))
			return false;
		if (request->parts[i].status < 0)
			*status_out = request->parts[i].status;
	}
	return true;
}

/* Starts the rest of a group that found the table of operations full. */
static int start_rest(struct twn_comm *comm, struct twn_request *request)
{
	int status = request_start(comm, request);

	if (status != TOW_EBUSY)
		atomic_store_explicit(&comm->stalled, NULL, memory_order_release);
	return status;
}

/*
 * A sender of small messages finds each of them done at once. Without a regular turn it would never
 * drive the runtime, and never learn that the other side has closed.
 */
static bool is_turn_to_drive(struct twn_comm *comm)
{
	return atomic_load_explicit(&comm->cursor, memory_order_relaxed) % DRIVE_EVERY == 0;
}

/*
 * Many threads may test at once on few cores, and one of them drives the runtime for all. A thread
 * that has found no work for a while yields its core, as NCCL's own idle thread does.
 */
static void drive_for(struct twn_comm *comm)
{
	unsigned idle = 0;

	if (tow_progress(comm->runtime) != TOW_OK) /* TOW_AGAIN, too */
		idle = atomic_load_explicit(&comm->idle, memory_order_relaxed) + 1;
	if (idle > IDLE_TESTS)
		sched_yield();
	else
		atomic_store_explicit(&comm->idle, idle, memory_order_relaxed);
}

enum nccl_result twn_test(struct twn_request *request, int *done, int *bytes)
{
	struct twn_comm *comm = request->comm;
	int status = TOW_OK, failed;

	*done = 0;
	if (request->started < request->count)
		status = start_rest(comm, request);
	if (!request_ended(request, &failed)) {
		drive_for(comm);
		if (!request_ended(request, &failed))
			return NCCL_SUCCESS;
	} else if (is_turn_to_drive(comm)) {
		tow_progress(comm->runtime);
	}
	if (failed < 0 || (status < 0 && status != TOW_EBUSY))
		return report_failure(comm);
	if (request->started < request->count)
		return NCCL_SUCCESS;
	for (uint32_t i = 0; bytes != NULL && i < request->count; i++)
		bytes[i] =
			request->parts[i].bytes > INT_MAX ? INT_MAX : (int)request->parts[i].bytes;
	request_give(request);
	*done = 1;
	return NCCL_SUCCESS;
}
