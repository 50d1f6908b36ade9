/*
 * message.c - point to point: messages of the communicator's group.
 *
 * The low bits of a message's tag are MPI's tag. The bits above hold the number of a synchronous
 * send, or 0. The receiver answers such a send with an acknowledgement, whose tag is from another
 * range.
 */
#include "plugins/mpi/twmpi.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define TAG_BITS 31u
#define TAG_MASK ((UINT64_C(1) << TAG_BITS) - 1)
#define TAG_ACK  (UINT64_C(1) << 63)

#define LOOKS   1000 /* of a probe before it sleeps */
#define PATIENT 64   /* sleeps until it sleeps twice as long; 16 ms are the most */

static _Atomic uint32_t synchronous_sends;

/* Held as a receive starts, so that twmpi_view_try gets the message that it has found. */
static pthread_mutex_t receive_lock = PTHREAD_MUTEX_INITIALIZER;

static uint64_t ack_tag(uint64_t tag)
{
	return TAG_ACK | (tag & ~TAG_MASK);
}

/* A receive has ended. Sends the acknowledgement that a synchronous send waits for. */
static void acknowledge_message(struct tow_op *op, const struct tow_result *result)
{
	struct tow_group *group = result->user;

	(void)op;
	if (result->status >= 0 && (result->tag & ~TAG_MASK) != 0)
		tow_group_send_start(group, tow_group_peer_rank(group, result->peer), NULL, 0,
				     ack_tag(result->tag), NULL, NULL);
}

static void set_match(struct tow_group_match *match, int rank, int tag)
{
	*match = (struct tow_group_match)TOW_GROUP_MATCH_INIT;
	match->rank = rank == MPI_ANY_SOURCE ? TOW_RANK_ANY : (uint64_t)rank;
	match->tag = tag == MPI_ANY_TAG ? 0 : (uint64_t)tag;
	match->tag_mask = tag == MPI_ANY_TAG ? TAG_ACK : TAG_ACK | TAG_MASK;
}

static int start_receive(struct twmpi_request *request)
{
	const struct twmpi_message *message = &request->message;
	struct tow_part part = { message->data, message->bytes };
	struct tow_op_options options = TOW_OP_OPTIONS_INIT;
	struct tow_group_match match;
	int status;

	/*
	 * A message that is too long fails here alone (MPI_ERR_TRUNCATE): its sender did no wrong.
	 */
	options.flags = TOW_OP_TRUNCATE;
	options.done = acknowledge_message;
	options.user = request->comm->group;
	set_match(&match, message->rank, message->tag);
	pthread_mutex_lock(&receive_lock);
	status = tow_group_recv_match_start(request->comm->group, &match, &part, 1, &options,
					    &request->op);
	pthread_mutex_unlock(&receive_lock);
	return status < 0 ? twmpi_failed(status) : MPI_SUCCESS;
}

static int start_synchronous(struct twmpi_request *request)
{
	const struct twmpi_message *message = &request->message;
	uint64_t number = (atomic_fetch_add(&synchronous_sends, 1) & 0x7fffffff) + 1;
	uint64_t tag = (uint64_t)message->tag | number << TAG_BITS;
	int status = tow_group_recv_start(request->comm->group, (uint32_t)message->rank, NULL, 0,
					  ack_tag(tag), NULL, &request->then);

	if (status >= 0)
		status = tow_group_send_start(request->comm->group, (uint32_t)message->rank,
					      message->data, message->bytes, tag, NULL,
					      &request->op);
	if (status >= 0)
		return MPI_SUCCESS;
	if (request->then != NULL)
		tow_op_cancel(request->then);
	return twmpi_failed(status);
}

/* A small message is sent at once, and there is no operation. */
static int start_send(struct twmpi_request *request)
{
	const struct twmpi_message *message = &request->message;
	struct tow_op_options options = TOW_OP_OPTIONS_INIT;
	int status;

	options.flags = TOW_OP_AT_ONCE;
	status = tow_group_send_start(request->comm->group, (uint32_t)message->rank, message->data,
				      message->bytes, (uint64_t)message->tag, &options,
				      &request->op);
	return status < 0 ? twmpi_failed(status) : MPI_SUCCESS;
}

int twmpi_partner_check(const struct twmpi_comm *comm, int rank, int tag, bool receives)
{
	if (rank != MPI_PROC_NULL && !(receives && rank == MPI_ANY_SOURCE) &&
	    (rank < 0 || (uint32_t)rank >= comm->size))
		return twmpi_fail(MPI_ERR_RANK, "%d is not a rank of %u", rank, comm->size);
	if (tag < 0 && !(receives && tag == MPI_ANY_TAG))
		return twmpi_fail(MPI_ERR_TAG, "the tag is %d", tag);
	return MPI_SUCCESS;
}

int twmpi_message_start(struct twmpi_request *request)
{
	const struct twmpi_message *message = &request->message;

	request->code = MPI_SUCCESS;
	request->status = (MPIABI_Status){ .MPI_SOURCE = MPI_ANY_SOURCE, .MPI_TAG = MPI_ANY_TAG };
	if (message->rank == MPI_PROC_NULL) {
		request->status.MPI_SOURCE = MPI_PROC_NULL;
		return MPI_SUCCESS;
	}
	if (message->receives)
		return start_receive(request);
	if (message->mode == TWMPI_SYNCHRONOUS)
		return start_synchronous(request);
	return message->mode == TWMPI_BUFFERED ? twmpi_buffer_send(request->comm, message)
					       : start_send(request);
}

void twmpi_status_set(const struct twmpi_comm *comm, const struct tow_result *result,
		      MPIABI_Status *status)
{
	status->MPI_SOURCE = (int)tow_group_peer_rank(comm->group, result->peer);
	status->MPI_TAG = (int)(result->tag & TAG_MASK);
	status->bytes = result->bytes;
}

static int start_view(struct twmpi_comm *comm, const struct tow_group_match *match,
		      struct tow_op **op_out)
{
	struct tow_op_options options = TOW_OP_OPTIONS_INIT;

	options.done = acknowledge_message;
	options.user = comm->group;
	return tow_group_recv_match_start(comm->group, match, NULL, 0, &options, op_out);
}

int twmpi_view_start(struct twmpi_comm *comm, int rank, int tag, struct tow_op **op_out)
{
	struct tow_group_match match;
	int status;

	set_match(&match, rank, tag);
	pthread_mutex_lock(&receive_lock);
	status = start_view(comm, &match, op_out);
	pthread_mutex_unlock(&receive_lock);
	return status < 0 ? twmpi_failed(status) : MPI_SUCCESS;
}

int twmpi_view_try(struct twmpi_comm *comm, int rank, int tag, struct tow_op **op_out)
{
	struct tow_result result = TOW_RESULT_INIT;
	struct tow_group_match match;
	int status;

	*op_out = NULL;
	set_match(&match, rank, tag);
	pthread_mutex_lock(&receive_lock);
	status = tow_group_probe(comm->group, &match, &result);
	if (status == TOW_OK) /* no other receive can get it before this one */
		status = start_view(comm, &match, op_out);
	pthread_mutex_unlock(&receive_lock);
	return status < 0 ? twmpi_failed(status) : MPI_SUCCESS;
}

int twmpi_message_received(struct twmpi_request *request, int status)
{
	struct tow_result result = TOW_RESULT_INIT;
	bool canceled = request->status.canceled;

	request->status.canceled = false;
	if (status == TOW_ECANCELED && canceled) {
		request->status.canceled = true;
		return MPI_SUCCESS;
	}
	if (status < 0)
		return twmpi_failed(status);
	tow_op_result(request->op, &result);
	twmpi_status_set(request->comm, &result, &request->status);
	if (result.dropped_bytes == 0)
		return MPI_SUCCESS;
	return twmpi_fail(MPI_ERR_TRUNCATE,
			  "the message of rank %d with tag %d has %llu bytes, the buffer %llu",
			  request->status.MPI_SOURCE, request->status.MPI_TAG,
			  (unsigned long long)(result.bytes + result.dropped_bytes),
			  (unsigned long long)request->message.bytes);
}

int twmpi_message_set(struct twmpi_request *call, const void *data, int count,
		      MPIABI_Datatype datatype, int rank, int tag)
{
	struct twmpi_message *message = &call->message;
	int code = twmpi_span(count, datatype, &message->bytes);

	call->is_message = true;
	message->data = (void *)(uintptr_t)data;
	message->rank = rank;
	message->tag = tag;
	if (code == MPI_SUCCESS)
		code = twmpi_partner_check(call->comm, rank, tag, message->receives);
	if (code == MPI_SUCCESS && data == NULL && message->bytes > 0 && rank != MPI_PROC_NULL)
		code = twmpi_fail(MPI_ERR_BUFFER, "a buffer of %llu bytes is NULL",
				  (unsigned long long)message->bytes);
	return code;
}

static int send_message(struct twmpi_request *call, enum twmpi_mode mode, const void *data,
			int count, MPIABI_Datatype datatype, int rank, int tag)
{
	int code = twmpi_message_set(call, data, count, datatype, rank, tag);

	call->message.mode = mode;
	return code == MPI_SUCCESS ? twmpi_message_start(call) : code;
}

static int receive_message(struct twmpi_request *call, void *data, int count,
			   MPIABI_Datatype datatype, int rank, int tag)
{
	int code;

	call->message.receives = true;
	code = twmpi_message_set(call, data, count, datatype, rank, tag);
	return code == MPI_SUCCESS ? twmpi_message_start(call) : code;
}

#define SEND(name, iname, mode)                                                                    \
	TWMPI_BOTH(name, iname,                                                                    \
		   (const void *buf, int count, MPIABI_Datatype datatype, int dest, int tag,       \
		    MPIABI_Comm comm),                                                             \
		   send_message(call, mode, buf, count, datatype, dest, tag))

SEND(Send, Isend, TWMPI_STANDARD)
SEND(Rsend, Irsend, TWMPI_STANDARD)
SEND(Ssend, Issend, TWMPI_SYNCHRONOUS)
SEND(Bsend, Ibsend, TWMPI_BUFFERED)

/* Ends a blocking receive, and fills the caller's status. */
static int end_receive(struct twmpi_request *call, int code, MPIABI_Status *status)
{
	if (code == MPI_SUCCESS)
		code = twmpi_request_wait(call);
	if (status != MPI_STATUS_IGNORE) {
		*status = call->status;
		status->MPI_ERROR = code;
	}
	return twmpi_call_end(call, code);
}

TWMPI_PUBLIC int MPIABI_Recv(void *buf, int count, MPIABI_Datatype datatype, int source, int tag,
			     MPIABI_Comm comm, MPIABI_Status *status)
{
	struct twmpi_request call;
	int code = twmpi_call_begin(&call, "MPI_Recv", comm);

	if (code == MPI_SUCCESS)
		code = receive_message(&call, buf, count, datatype, source, tag);
	return end_receive(&call, code, status);
}

TWMPI_PUBLIC int MPIABI_Irecv(void *buf, int count, MPIABI_Datatype datatype, int source, int tag,
			      MPIABI_Comm comm, MPIABI_Request *request)
{
	struct twmpi_request *call;
	int code = twmpi_call_new(&call, "MPI_Irecv", comm);

	if (code == MPI_SUCCESS)
		code = receive_message(call, buf, count, datatype, source, tag);
	return twmpi_call_started(call, code, request);
}

/* Starts both, the receive first. Both have ended at the return, even after a failure. */
static int exchange_messages(struct twmpi_request *in, struct twmpi_request *out)
{
	int code = twmpi_message_start(in), sent;
	char *text;

	if (code != MPI_SUCCESS)
		return code;
	sent = twmpi_message_start(out);
	if (sent == MPI_SUCCESS)
		sent = twmpi_request_wait(out);
	if (sent == MPI_SUCCESS)
		return twmpi_request_wait(in);
	text = twmpi_text_copy();
	if (in->op != NULL) { /* the buffer is not written to after its end */
		in->status.canceled = true;
		tow_op_cancel(in->op);
		twmpi_request_wait(in);
	}
	twmpi_fail_again(sent, text); /* the receive may have failed, too */
	free(text);
	return sent;
}

TWMPI_PUBLIC int MPIABI_Sendrecv(const void *sendbuf, int sendcount, MPIABI_Datatype sendtype,
				 int dest, int sendtag, void *recvbuf, int recvcount,
				 MPIABI_Datatype recvtype, int source, int recvtag,
				 MPIABI_Comm comm, MPIABI_Status *status)
{
	struct twmpi_request in, out;
	int code = twmpi_call_begin(&in, "MPI_Sendrecv", comm);

	out = in;
	in.message.receives = true;
	if (code == MPI_SUCCESS)
		code = twmpi_message_set(&out, sendbuf, sendcount, sendtype, dest, sendtag);
	if (code == MPI_SUCCESS)
		code = twmpi_message_set(&in, recvbuf, recvcount, recvtype, source, recvtag);
	if (code == MPI_SUCCESS)
		code = exchange_messages(&in, &out);
	return end_receive(&in, code, status);
}

TWMPI_PUBLIC int MPIABI_Sendrecv_replace(void *buf, int count, MPIABI_Datatype datatype, int dest,
					 int sendtag, int source, int recvtag, MPIABI_Comm comm,
					 MPIABI_Status *status)
{
	struct twmpi_request in, out;
	int code = twmpi_call_begin(&in, "MPI_Sendrecv_replace", comm);

	out = in;
	in.message.receives = true;
	if (code == MPI_SUCCESS)
		code = twmpi_message_set(&out, buf, count, datatype, dest, sendtag);
	if (code == MPI_SUCCESS)
		code = twmpi_message_set(&in, buf, count, datatype, source, recvtag);
	if (code == MPI_SUCCESS)
		code = twmpi_scratch(&in, out.message.bytes);
	if (code == MPI_SUCCESS) {
		if (out.message.bytes > 0)
			memcpy(in.scratch, buf, out.message.bytes);
		out.message.data = in.scratch;
		code = exchange_messages(&in, &out);
	}
	return end_receive(&in, code, status);
}

/* *flag: a message waits that a matching receive would get now. */
static int probe_once(struct twmpi_comm *comm, int source, int tag, int *flag,
		      MPIABI_Status *status)
{
	struct tow_result result = TOW_RESULT_INIT;
	struct tow_group_match match;
	int found;

	*flag = source == MPI_PROC_NULL;
	if (*flag) {
		if (status != MPI_STATUS_IGNORE)
			*status = (MPIABI_Status){ .MPI_SOURCE = MPI_PROC_NULL,
						   .MPI_TAG = MPI_ANY_TAG };
		return MPI_SUCCESS;
	}
	set_match(&match, source, tag);
	found = tow_group_probe(comm->group, &match, &result);
	if (found < 0)
		return twmpi_failed(found);
	*flag = found == TOW_OK;
	if (*flag && status != MPI_STATUS_IGNORE)
		*status = (MPIABI_Status){ .bytes = result.bytes,
					   .MPI_SOURCE = (int)tow_group_peer_rank(comm->group,
										  result.peer),
					   .MPI_TAG = (int)(result.tag & TAG_MASK) };
	return MPI_SUCCESS;
}

TWMPI_PUBLIC int MPIABI_Iprobe(int source, int tag, MPIABI_Comm comm, int *flag,
			       MPIABI_Status *status)
{
	struct twmpi_comm *c;
	int code = twmpi_comm_find(comm, &c);

	if (code == MPI_SUCCESS)
		code = twmpi_partner_check(c, source, tag, true);
	if (code == MPI_SUCCESS)
		code = probe_once(c, source, tag, flag, status);
	return twmpi_end(c, "MPI_Iprobe", code);
}

/*
 * Sleeps until something has come. Another thread may move what comes, so this sleeps a few
 * milliseconds at most. *fd: -1: opens it, after which the caller looks once more.
 */
static void await_news(unsigned sleeps, int *fd)
{
	const struct timespec pause = { .tv_nsec = 100000 };
	struct pollfd news = { .events = POLLIN };

	if (*fd < 0) {
		if (tow_fd(twmpi_job()->runtime, fd) < 0)
			nanosleep(&pause, NULL); /* too many threads have one */
		return;
	}
	news.fd = *fd;
	if (tow_progress(twmpi_job()->runtime) == TOW_AGAIN)
		poll(&news, 1, 1 << (sleeps < 4 * PATIENT ? sleeps / PATIENT : 4));
}

/* Looks often at first. Then it sleeps until something comes to this thread, and looks again. */
TWMPI_PUBLIC int MPIABI_Probe(int source, int tag, MPIABI_Comm comm, MPIABI_Status *status)
{
	struct twmpi_comm *c;
	int code = twmpi_comm_find(comm, &c), flag = 0, fd = -1;

	if (code == MPI_SUCCESS)
		code = twmpi_partner_check(c, source, tag, true);
	for (unsigned looks = 0; code == MPI_SUCCESS && flag == 0; looks++) {
		code = probe_once(c, source, tag, &flag, status);
		if (code == MPI_SUCCESS && flag == 0 && looks >= LOOKS)
			await_news(looks - LOOKS, &fd);
	}
	return twmpi_end(c, "MPI_Probe", code);
}
