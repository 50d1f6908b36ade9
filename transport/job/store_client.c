/*
 * store_client.c - connects to the job's store, and sends it requests. See store_client.h.
 */
#include "transport/job/store_client.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <internal/base.h>

#include "diag/base/error.h"
#include "diag/base/words.h"
#include "diag/record/diag.h"
#include "transport/job/bootstrap.h"
#include "transport/job/store_wire.h"

#define FIRST_PAUSE_NS (10ull * 1000000)
#define LAST_PAUSE_NS  (500ull * 1000000)
/* A store that has served this client, or one before it, and is away for this long has gone. */
#define GONE_NS (3000ull * 1000000)
/* The store is to give up that long before the deadline: it can report the missing members. */
#define MARGIN_NS (500ull * 1000000)
/*
 * A slice of a long wait. It is longer for each member, so that a store gets at most 250 requests a
 * second, however many ranks wait.
 */
#define SLICE_MS  1000u
#define MEMBER_MS 4u
#define LAST_MS   1000u /* the last slice includes a rest of up to this */
#define WHOLE_MS  UINT32_MAX

struct twi_store_client {
	struct twi_store_join join;
	struct twi_job_key key;
	int fd;       /* -1: not connected */
	bool greeted; /* the store has accepted the greeting of this client, or of one before it */
	uint64_t session;
	uint64_t can; /* what the store can do */
	struct twi_wire wire;
	char last_error[192]; /* reason of the last failure to connect */
	char host[TOW_ADDRESS_MAX];
	char job[TWI_JOB_BYTES];
	char addresses[TWI_STORE_BYTES];
};

/* For all clients of the process, as several may be one member. */
static _Atomic uint32_t next_number = 1;

static void hang_up(struct twi_store_client *client)
{
	if (client->fd < 0)
		return;
	shutdown(client->fd, SHUT_RDWR); /* for copies of it, too */
	close(client->fd);
	client->fd = -1;
	twi_wire_fini(&client->wire);
}

/* The connection has broken, which does not fail the call yet. */
static int store_lost(const char *what)
{
	return twi_error(TOW_EREFUSED, "%s", what);
}

static int send_all(struct twi_store_client *client, const struct twi_until *until)
{
	const uint8_t *out;
	size_t count;

	while ((out = twi_wire_out(&client->wire, &count)) != NULL) {
		ssize_t sent = send(client->fd, out, count, MSG_NOSIGNAL | MSG_DONTWAIT);
		int status = TOW_OK;

		if (sent >= 0)
			twi_wire_sent(&client->wire, (size_t)sent);
		else if (errno == EAGAIN)
			status = twi_net_wait(client->fd, POLLOUT, until->deadline_ns, until);
		else if (errno != EINTR)
			return store_lost("the connection to the store broke");
		if (status != TOW_OK)
			return status == TOW_AGAIN ? TOW_EDEADLINE : status;
	}
	return TOW_OK;
}

/* Receives some bytes from the store. */
static int receive_some(struct twi_store_client *client, const struct twi_until *until)
{
	uint8_t bytes[16384];
	int status = twi_net_wait(client->fd, POLLIN, until->deadline_ns, until);
	ssize_t got;

	if (status != TOW_OK)
		return status == TOW_AGAIN ? TOW_EDEADLINE : status;
	got = recv(client->fd, bytes, sizeof(bytes), MSG_DONTWAIT);
	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		return TOW_OK;
	if (got <= 0)
		return store_lost(client->wire.ready ? "the store closed the connection"
						     : "the store closed the connection before the "
						       "greeting: it may have another job key");
	return twi_wire_feed(&client->wire, bytes, (size_t)got);
}

/* Sends a request over the present connection, and receives its reply. */
static int request_once(struct twi_store_client *client, const struct twi_store_frame *request,
			const struct twi_until *until, struct twi_store_frame *reply_out)
{
	int status = twi_wire_put(&client->wire, request);

	if (status == TOW_OK)
		status = send_all(client, until);
	while (status == TOW_OK) {
		status = twi_wire_next(&client->wire, reply_out);
		if (status == TOW_OK && reply_out->number == request->number &&
		    reply_out->kind == (request->kind | TWI_STORE_REPLY))
			return TOW_OK;
		if (status == TOW_OK)
			return twi_error(TOW_EPROTOCOL,
					 "the store answered a request that was not made");
		if (status == TOW_AGAIN)
			status = receive_some(client, until);
	}
	return status;
}

/* Makes the store's failure the thread's error. */
static int refused_status(const struct twi_store_frame *reply)
{
	/* The wire may carry any number; only the status of a failure is passed on. */
	int status = reply->status < 0 && reply->status > -1000 ? reply->status : TOW_EPROTOCOL;

	return twi_error(status, "%.*s", (int)twi_min(reply->value_bytes, 480u),
			 (const char *)reply->value);
}

static int greet_store(struct twi_store_client *client, const struct twi_until *until)
{
	const struct twi_store_join *join = &client->join;
	uint8_t hello[TWI_STORE_HELLO];
	struct twi_store_frame reply, request = {
		.kind = TWI_STORE_KIND_HELLO,
		.number = atomic_fetch_add_explicit(&next_number, 1, memory_order_relaxed),
		.a = twi_store_pair(join->rank, join->world_size),
		.b = join->instance,
		.key = client->job,
		.key_bytes = (uint32_t)strlen(client->job),
		.value = hello,
		.value_bytes = sizeof(hello),
	};
	int status;

	twi_store_hello_put(hello, TWI_STORE_VERSION, join->restarts);
	status = request_once(client, &request, until, &reply);
	if (status < 0)
		return status;
	if (reply.status < 0)
		return refused_status(&reply);
	/* Another session at the same address: rank 0 was started anew, with an empty store. */
	if (client->greeted && client->session != reply.a)
		return twi_error(TOW_EPEER, "rank 0 is another process than before");
	client->session = reply.a;
	client->can = reply.b;
	client->greeted = true;
	return TOW_OK;
}

/*
 * Closes the connection. Sends a store that failed to prove itself the reason, if its socket has
 * room.
 */
static void close_connection(struct twi_store_client *client, int status)
{
	const uint8_t *out;
	size_t count;

	if (status == TOW_EAUTH && (out = twi_wire_out(&client->wire, &count)) != NULL &&
	    send(client->fd, out, count, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
		errno = 0;
	hang_up(client);
}

/* Connects once. TOW_EREFUSED: try again. */
static int connect_once(struct twi_store_client *client, const struct twi_until *until)
{
	uint16_t port;
	int status = twi_net_dial(client->addresses, until, &client->fd);

	if (status < 0)
		return status;
	twi_net_local(client->fd, client->host, &port);
	twi_wire_init(&client->wire, &client->key, true);
	status = twi_wire_begin(&client->wire);
	while (status == TOW_OK && !client->wire.ready) {
		status = send_all(client, until);
		if (status == TOW_OK)
			status = receive_some(client, until);
	}
	if (status == TOW_OK)
		status = greet_store(client, until);
	if (status < 0)
		close_connection(client, status);
	return status;
}

/* `key`: that of the request; NULL: there was no request yet. */
static int deadline_expired(const struct twi_store_client *client, const char *key)
{
	return twi_error(TOW_EDEADLINE,
			 "rank 0's store at %.128s did not answer in time%s%.96s%s: %s",
			 client->addresses, key != NULL ? " when asked about '" : "",
			 key != NULL ? key : "", key != NULL ? "'" : "",
			 client->last_error[0] != '\0' ? client->last_error : "nothing came");
}

/*
 * Logs that rank 0 cannot be reached since `since_ns`, when that is due. It is due again when the
 * wait is three times as long.
 */
static void tell_late(const struct twi_store_client *client, uint64_t since_ns, uint64_t *tell_ns)
{
	uint64_t waited_ns = twi_net_now() - since_ns;
	char waited[TWI_WORDS_BYTES];

	if (client->join.diag == NULL || waited_ns < *tell_ns)
		return;
	*tell_ns = 3 * waited_ns;
	twi_words_ns(waited_ns, waited);
	twi_log(client->join.diag, 2,
		"waiting for rank 0 for %s: its store at %.64s cannot be reached: %s", waited,
		client->addresses, client->last_error);
}

/* Retries until the client is connected and has greeted. */
static int connect_retrying(struct twi_store_client *client, const struct twi_until *until)
{
	uint64_t since_ns = twi_net_now(), tell_ns = client->join.late_ns;
	uint64_t pause_ns = FIRST_PAUSE_NS, gone_ns = since_ns + GONE_NS;
	int status;

	while ((status = connect_once(client, until)) == TOW_EREFUSED) {
		int paused;

		snprintf(client->last_error, sizeof(client->last_error), "%.191s",
			 tow_error_message());
		if (client->join.unreached != NULL)
			client->join.unreached(client->join.arg, client->last_error);
		if (client->greeted && twi_net_now() >= gone_ns)
			return twi_error(TOW_EPEER, "rank 0's store at %.128s has gone: %s",
					 client->addresses, client->last_error);
		tell_late(client, since_ns, &tell_ns);
		paused = twi_net_pause(until, pause_ns);
		if (paused < 0)
			return paused == TOW_EDEADLINE ? deadline_expired(client, NULL) : paused;
		pause_ns = twi_min(pause_ns * 2, LAST_PAUSE_NS);
	}
	return status == TOW_EDEADLINE ? deadline_expired(client, NULL) : status;
}

int twi_store_client_open(const struct twi_store_join *join, const struct twi_until *until,
			  struct twi_store_client **out)
{
	struct twi_store_client *client = calloc(1, sizeof(*client));
	int status;

	*out = NULL;
	if (client == NULL)
		return twi_error(TOW_ENOMEM, "no memory for a client of the job's store");
	client->join = *join;
	client->key = *join->key;
	client->fd = -1;
	client->session = join->session;
	client->greeted = join->session != 0;
	snprintf(client->job, sizeof(client->job), "%s", join->job);
	snprintf(client->addresses, sizeof(client->addresses), "%s", join->addresses);
	status = connect_retrying(client, until);
	if (status < 0) {
		twi_store_client_close(client, 0);
		return status;
	}
	*out = client;
	return TOW_OK;
}

int twi_store_client_copy(const struct twi_store_client *client)
{
	return client->fd < 0 ? -1 : fcntl(client->fd, F_DUPFD_CLOEXEC, 3);
}

/* Has the other side ended the connection, or has the network broken it? */
static bool has_ended(const struct twi_store_client *client)
{
	uint8_t byte;
	ssize_t n = client->fd < 0 ? 0 : recv(client->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);

	return n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
}

void twi_store_client_close(struct twi_store_client *client, uint64_t linger_ns)
{
	struct twi_store_frame reply, bye = {
		.kind = TWI_STORE_KIND_BYE,
		.number = atomic_fetch_add_explicit(&next_number, 1, memory_order_relaxed),
	};

	if (client == NULL)
		return;
	if (client->fd >= 0 && linger_ns > 0) {
		const struct twi_until until = { twi_net_now() + linger_ns, -1, NULL };

		request_once(client, &bye, &until, &reply);
	}
	hang_up(client);
	twi_job_key_wipe(&client->key);
	free(client);
}

uint64_t twi_store_client_session(const struct twi_store_client *client)
{
	return client->session;
}

bool twi_store_client_host(const struct twi_store_client *client, char out[TOW_ADDRESS_MAX])
{
	snprintf(out, TOW_ADDRESS_MAX, "%s", client->host);
	return client->host[0] != '\0';
}

/* Returns how long the store may let a request wait, so that it answers before the deadline. */
static uint32_t wait_ms(const struct twi_until *until)
{
	uint64_t now = twi_net_now();
	uint64_t left = until->deadline_ns <= now ? 0 : until->deadline_ns - now;

	left -= twi_min(left / 8, MARGIN_NS);
	return (uint32_t)twi_min(left / 1000000u, (uint64_t)UINT32_MAX / 2);
}

/* Returns the time of the whole wait, or of one slice of it. */
static uint32_t slice_of(uint32_t whole_ms, uint32_t slice_ms)
{
	return whole_ms > LAST_MS && slice_ms < whole_ms - LAST_MS ? slice_ms : whole_ms;
}

/*
 * Sends a request and receives its reply, whatever that is, over as many connections as it takes.
 * The reply is valid until the next request. The store lets the request wait for slice_ms. The
 * client waits for the answer until its own deadline, as the store may be slow.
 */
static int request_any_reply(struct twi_store_client *client, struct twi_store_frame *request,
			     uint32_t slice_ms, const struct twi_until *until,
			     struct twi_store_frame *reply_out)
{
	size_t key_bytes = request->key == NULL ? 0 : strlen(request->key);
	int status;

	if (key_bytes > TWI_STORE_KEY_MAX || request->value_bytes > TWI_STORE_VALUE_MAX)
		return twi_error(TOW_EINVAL,
				 "store: a key of %zu bytes and a value of %u; at most %u and %u",
				 key_bytes, request->value_bytes, TWI_STORE_KEY_MAX,
				 TWI_STORE_VALUE_MAX);
	request->key_bytes = (uint32_t)key_bytes;
	request->number = atomic_fetch_add_explicit(&next_number, 1, memory_order_relaxed);
	do {
		status = client->fd < 0 ? connect_retrying(client, until) : TOW_OK;
		if (status < 0)
			return status;
		request->wait_ms = slice_of(wait_ms(until), slice_ms);
		status = request_once(client, request, until, reply_out);
		if (status < 0)
			hang_up(client);
	} while (status == TOW_EREFUSED);
	return status == TOW_EDEADLINE ? deadline_expired(client, request->key) : status;
}

/* Does the same, and makes a refusal of the store the status of the call. */
static int request_ok(struct twi_store_client *client, struct twi_store_frame *request,
		      const struct twi_until *until, struct twi_store_frame *reply_out)
{
	int status = request_any_reply(client, request, WHOLE_MS, until, reply_out);

	return status == TOW_OK && reply_out->status < 0 ? refused_status(reply_out) : status;
}

int twi_store_set(struct twi_store_client *client, const char *key, const void *value,
		  uint32_t bytes, const struct twi_until *until)
{
	struct twi_store_frame reply, request = {
		.kind = TWI_STORE_KIND_SET, .key = key, .value = value, .value_bytes = bytes
	};

	return request_ok(client, &request, until, &reply);
}

int twi_store_get(struct twi_store_client *client, const char *key, void *value_out, uint32_t room,
		  uint32_t *bytes_out, const struct twi_until *until)
{
	struct twi_store_frame reply, request = { .kind = TWI_STORE_KIND_GET, .key = key };
	int status = request_ok(client, &request, until, &reply);

	if (status < 0)
		return status;
	*bytes_out = reply.value_bytes;
	twi_store_copy(value_out, reply.value, twi_min(room, reply.value_bytes));
	return TOW_OK;
}

int twi_store_add(struct twi_store_client *client, const char *key, uint64_t add, uint64_t *sum_out,
		  const struct twi_until *until)
{
	struct twi_store_frame reply,
		request = { .kind = TWI_STORE_KIND_ADD, .key = key, .a = add };
	int status = request_ok(client, &request, until, &reply);

	if (status == TOW_OK)
		*sum_out = reply.a;
	return status;
}

int twi_store_client_mend(struct twi_store_client *client, const struct twi_until *until)
{
	bool was;
	int status;

	if (!has_ended(client))
		return TOW_OK;
	hang_up(client);
	client->join.unreached = NULL; /* that was for the first connection */
	status = connect_retrying(client, until);
	/* A greeting alone makes no member: any request does. */
	return status < 0 ? status : twi_store_delete(client, "kept", &was, until);
}

int twi_store_delete(struct twi_store_client *client, const char *key, bool *was_out,
		     const struct twi_until *until)
{
	struct twi_store_frame reply, request = { .kind = TWI_STORE_KIND_DELETE, .key = key };
	int status = request_ok(client, &request, until, &reply);

	if (status == TOW_OK)
		*was_out = reply.a != 0;
	return status;
}

/* Takes the values of one reply, from member *at on. */
static int take_values(const struct twi_gather *gather, const struct twi_store_frame *reply,
		       uint32_t *at)
{
	uint32_t end = reply->a == 0 ? gather->members : (uint32_t)reply->a;
	size_t used = 0;

	if (reply->a > gather->members || end <= *at)
		return twi_error(TOW_EPROTOCOL, "the store gathered %llu of %u values",
				 (unsigned long long)reply->a, gather->members);
	for (; *at < end; ++*at) {
		const uint8_t *value;
		uint32_t bytes;
		int status = twi_store_gathered_take(reply, &used, &value, &bytes);

		if (status == TOW_OK && gather->each != NULL)
			status = gather->each(gather->arg, *at, value, bytes);
		if (status < 0)
			return status;
	}
	return TOW_OK;
}

/* Passes on the store's report of missing members, after checks, as it comes over the wire. */
static void tell_absent(const struct twi_gather *gather, const struct twi_store_frame *reply)
{
	struct twi_absent absent = { .refused = reply->b };

	if (reply->a == 0 || reply->a >= gather->members)
		return; /* an older store reports none; this member itself has come */
	absent.missing = (uint32_t)reply->a;
	absent.count = twi_store_absent_take(reply, gather->members, absent.members);
	if (absent.count > absent.missing)
		return;
	snprintf(absent.text, sizeof(absent.text), "%.*s",
		 (int)twi_min(reply->value_bytes, sizeof(absent.text) - 1),
		 (const char *)reply->value);
	gather->absent(gather->arg, &absent);
}

/* Waits in slices, if the caller wants reports of missing members and the store can do it. */
static int call_gather(struct twi_store_client *client, const struct twi_gather *gather,
		       struct twi_store_frame *request, const struct twi_until *until,
		       struct twi_store_frame *reply_out)
{
	bool sliced = gather->absent != NULL && (client->can & TWI_STORE_CAN_SLICE) != 0;
	uint32_t slice_ms = sliced ? SLICE_MS + MEMBER_MS * gather->members : WHOLE_MS;

	for (;;) {
		uint64_t asked_ns = twi_net_now();
		int status = request_any_reply(client, request, slice_ms, until, reply_out);

		if (status < 0 || reply_out->status == TOW_OK)
			return status;
		/* A store that gives up too early would get requests without a pause. */
		if (reply_out->status != TOW_EDEADLINE || request->wait_ms != slice_ms ||
		    twi_net_now() - asked_ns < slice_ms * 500000ull)
			return refused_status(reply_out);
		tell_absent(gather, reply_out);
	}
}

int twi_store_gather(struct twi_store_client *client, const struct twi_gather *gather,
		     const struct twi_until *until)
{
	uint32_t at = 0;

	while (at < gather->members) {
		struct twi_store_frame reply, request = {
			.kind = TWI_STORE_KIND_GATHER,
			.key = gather->key,
			.value = gather->value,
			.value_bytes = gather->bytes,
			.a = twi_store_pair(gather->index, gather->members),
			.b = twi_store_pair(gather->generation, at),
		};
		int status = call_gather(client, gather, &request, until, &reply);

		if (status == TOW_OK)
			status = take_values(gather, &reply, &at);
		if (status < 0)
			return status;
	}
	return TOW_OK;
}

int twi_store_meet(struct twi_store_client *client, const struct twi_meeting *meeting,
		   const struct twi_until *until, uint64_t *group_out)
{
	struct twi_store_frame reply,
		request = { .kind = TWI_STORE_KIND_MEET,
			    .key = meeting->key,
			    .a = twi_store_pair(meeting->index, meeting->count) };
	uint8_t *list;
	int status;

	if ((client->can & TWI_STORE_CAN_MEET) == 0)
		return twi_error(TOW_ENOTSUP, "rank 0 has an older library, in whose store members "
					      "cannot meet by themselves");
	list = malloc(TWI_STORE_VALUE_MAX);
	if (list == NULL)
		return twi_error(TOW_ENOMEM, "no memory for a list of %u ranks", meeting->count);
	request.value = list;
	request.value_bytes = (uint32_t)twi_store_list_put(list, TWI_STORE_VALUE_MAX,
							   meeting->ranks, meeting->count);
	status = request.value_bytes > 0
			 ? request_ok(client, &request, until, &reply)
			 : twi_error(TOW_EINVAL,
				     "the list of %u ranks has more than %u runs of ranks that "
				     "follow each other",
				     meeting->count, TWI_STORE_VALUE_MAX / 4);
	free(list);
	if (status == TOW_OK)
		*group_out = reply.a;
	return status;
}
