/*
 * shm_greet.c - the packets on the socket, some with descriptors.
 *
 *	both sides      proof of the job's key (auth.h), after a check of the kernel's credentials
 *	                HELLO     [segment]     shape of the segment, extents to come, the probe
 *	                EXTENT    [extent]      one each, in order; later ones as the pool grows
 *	                READY                   all is mapped; whether process_vm_readv is allowed
 *	                FULL                    of the acceptor instead: it takes no more peers
 *	                one byte                wake up: there is something in the rings
 *
 * The acceptor's READY answers the connector's READY. The acceptor is connected when it sends
 * READY, the connector when this READY has come.
 *
 * The socket keeps packets apart, so a packet comes whole or not at all, with its descriptors. A
 * bad packet ends the connection. Both sides are on one machine, so numbers have its byte order.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "diag/base/cancel.h"
#include "diag/base/error.h"
#include "diag/base/fd.h"
#include "diag/record/counter.h"
#include "diag/record/diag.h"
#include "transport/lanes/shm/shm.h"

#define MAGIC         0x314d48535f574f54ull /* "TOW_" "SHM1" */
#define VERSION_MAJOR 4u
#define VERSION_MINOR 0u
#define VERSION       (VERSION_MINOR << 16 | VERSION_MAJOR)
#define FDS_MAX       8

enum packet_type { PACKET_HELLO = 1, PACKET_EXTENT, PACKET_READY, PACKET_FULL };

struct packet {
	uint64_t magic;
	uint32_t version, type; /* version: major in the low half, minor in the high one */
	uint32_t slots, area_bytes;
	uint64_t eager_max;
	uint64_t probe_at, probe;
	uint32_t extents;      /* HELLO: how many extents follow */
	uint32_t index;        /* EXTENT: its number */
	uint64_t bytes;        /* EXTENT: its length; HELLO: the segment's */
	uint32_t can_read;     /* READY: whether process_vm_readv is allowed */
	uint32_t reserved;     /* 0 */
	uint64_t features;     /* HELLO: a word of feature.h */
	uint64_t credit_bytes; /* HELLO: the credit that this side grants */
	char address[TOW_ADDRESS_MAX];
};

/* The result of one recvmsg. A newer minor may send a longer packet; its rest is ignored. */
struct arrival {
	union {
		struct packet packet;
		uint8_t bytes[1024];
	};
	size_t size;
	int fds[FDS_MAX];
	unsigned fd_count;
};

static int send_packet(struct twi_shm_peer *peer, const void *data, size_t bytes, const int *fds,
		       unsigned fd_count)
{
	TWI_UNCANCELED;
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(2 * sizeof(int))];
	} control = { .room = { 0 } };
	struct iovec part = { (void *)(uintptr_t)data, bytes };
	struct msghdr msg = { .msg_iov = &part, .msg_iovlen = 1 };

	if (fd_count > 0) {
		struct cmsghdr *head;

		msg.msg_control = control.room;
		msg.msg_controllen = CMSG_SPACE(fd_count * sizeof(int));
		head = CMSG_FIRSTHDR(&msg);
		head->cmsg_level = SOL_SOCKET;
		head->cmsg_type = SCM_RIGHTS;
		head->cmsg_len = CMSG_LEN(fd_count * sizeof(int));
		for (unsigned i = 0; i < fd_count; i++)
			((int *)(void *)CMSG_DATA(head))[i] = fds[i];
	}
	/* A few packets always fit. A socket that takes none has a peer that does not read. */
	if (sendmsg(peer->socket.fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL) != (ssize_t)bytes)
		return twi_error_errno(TOW_EPEER, errno, "handshake with %s", peer->base.address);
	return TOW_OK;
}

static void drop_fds(struct arrival *in)
{
	for (unsigned i = 0; i < in->fd_count; i++) {
		if (in->fds[i] >= 0)
			close(in->fds[i]);
	}
	in->fd_count = 0;
}

static void collect_fds(struct msghdr *msg, struct arrival *in)
{
	for (struct cmsghdr *head = CMSG_FIRSTHDR(msg); head != NULL;
	     head = CMSG_NXTHDR(msg, head)) {
		unsigned count = (unsigned)((head->cmsg_len - CMSG_LEN(0)) / sizeof(int));

		if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS)
			continue;
		for (unsigned i = 0; i < count; i++) {
			int fd = twi_fd_high(((int *)(void *)CMSG_DATA(head))[i]);

			if (in->fd_count < FDS_MAX)
				in->fds[in->fd_count++] = fd;
			else
				close(fd);
		}
	}
}

static int no_descriptor(const struct twi_shm_peer *peer)
{
	char what[TOW_ADDRESS_MAX + 32];

	snprintf(what, sizeof(what), "the memory of peer %s", peer->base.address);
	return twi_fd_error(EMFILE, what);
}

/*
 * Returns TOW_OK; TOW_AGAIN: no packet is there; TOW_EPEER: the socket has ended; TOW_EBUSY: this
 * process may open no more descriptors; TOW_EPROTOCOL.
 */
static int receive_packet(struct twi_shm_peer *peer, struct arrival *in)
{
	TWI_UNCANCELED;
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(FDS_MAX * sizeof(int))];
	} control;
	struct iovec part = { in->bytes, sizeof(in->bytes) };
	struct msghdr msg = { .msg_iov = &part,
			      .msg_iovlen = 1,
			      .msg_control = control.room,
			      .msg_controllen = sizeof(control.room) };
	ssize_t n;

	in->fd_count = 0;
	n = recvmsg(peer->socket.fd, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	if (n < 0)
		return errno == EAGAIN || errno == EINTR
			       ? TOW_AGAIN
			       : twi_error_errno(TOW_EPEER, errno, "peer %s", peer->base.address);
	collect_fds(&msg, in);
	in->size = (size_t)n;
	if (n == 0 && in->fd_count == 0)
		return twi_error(TOW_EPEER, "peer %s ended the connection", peer->base.address);
	if ((msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) == MSG_CTRUNC && in->fd_count < FDS_MAX) {
		/* The message had room for more: the kernel could not open one here. */
		drop_fds(in);
		return no_descriptor(peer);
	}
	if ((msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0) {
		drop_fds(in);
		return twi_error(TOW_EPROTOCOL, "peer %s sent a packet that is too long",
				 peer->base.address);
	}
	return TOW_OK;
}

/* The feature word of this side. */
static uint64_t features_of(const struct twi_shm_peer *peer)
{
	const struct twi_engine *engine = peer->base.engine;
	uint32_t lacks = 0;

	if (!twi_shm_lane_of(engine)->barriers)
		lacks |= TWI_FEATURE_BIT(shm_barriers);
	if (!engine->knobs.shm_peer_writes)
		lacks |= TWI_FEATURE_BIT(shm_peer_writes);
	return twi_features_word(engine->features, TWI_LANE_SHM, lacks);
}

static int send_hello(struct twi_shm_peer *peer)
{
	struct twi_engine *engine = peer->base.engine;
	struct twi_shm_lane *lane = twi_shm_lane_of(engine);
	struct twi_shm_shape shape = twi_shm_shape_for(engine->knobs.eager_max_bytes);
	struct packet hello = { .magic = MAGIC, .version = VERSION, .type = PACKET_HELLO };
	const struct twi_extent_table *table = (const void *)engine->pool;
	struct twi_shm_box box;
	int fd, status;

	status = twi_shm_link_create(lane, &shape, &peer->shared, &fd);
	if (status < 0)
		return status;
	peer->shared->peer = peer;
	twi_shm_box_init(&box, peer->shared->mine, &shape);
	if (getrandom(&hello.probe, sizeof(hello.probe), GRND_NONBLOCK) !=
	    (ssize_t)sizeof(hello.probe))
		hello.probe = twi_now_ns() ^ peer->base.id << 48;
	atomic_store_explicit(&box.head->probe, hello.probe, memory_order_relaxed);
	hello.probe_at = (uint64_t)(uintptr_t)&box.head->probe;
	hello.slots = shape.slots;
	hello.area_bytes = shape.area_bytes;
	hello.eager_max = engine->knobs.eager_max_bytes;
	hello.extents = atomic_load_explicit(&table->count, memory_order_acquire);
	hello.bytes = peer->shared->mine_bytes;
	hello.features = features_of(peer);
	hello.credit_bytes = engine->knobs.credit_bytes;
	peer->out.box = box;
	if (peer->endpoint != NULL)
		snprintf(hello.address, sizeof(hello.address), "%s", peer->endpoint->base.address);
	status = send_packet(peer, &hello, sizeof(hello), &fd, 1);
	close(fd);
	if (status == TOW_OK && hello.extents > 0 && !twi_shm_announce(peer, hello.extents - 1))
		status = TOW_EPEER;
	return status;
}

bool twi_shm_announce(struct twi_shm_peer *peer, uint32_t extent)
{
	const struct twi_extent_table *table = (const void *)peer->base.engine->pool;
	bool writable = peer->base.engine->knobs.shm_peer_writes;

	while (peer->announced <= extent) {
		const struct twi_extent *next = table->extent[peer->announced];
		struct packet packet = { .magic = MAGIC,
					 .version = VERSION,
					 .type = PACKET_EXTENT,
					 .index = peer->announced,
					 .bytes = next->bytes };
		int fd = twi_shm_extent_fd(next, writable), status;

		if (fd < 0) {
			twi_error_errno(TOW_ESYSTEM, errno, "a descriptor of the pool");
			return false;
		}
		status = send_packet(peer, &packet, sizeof(packet), &fd, 1);
		close(fd);
		if (status < 0)
			return false;
		peer->announced++;
	}
	return true;
}

/* Sends the messages of the proof; once it is done, sends HELLO. */
static int prove_peer(struct twi_shm_peer *peer)
{
	uint8_t out[TWI_AUTH_OUT_MAX];
	size_t n;

	while ((n = twi_auth_out(&peer->auth, out)) > 0) {
		int status = send_packet(peer, out, n, NULL, 0);

		if (status < 0)
			return status;
	}
	if (!twi_auth_done(&peer->auth) || peer->stage != TWI_SHM_PROVING)
		return TOW_OK;
	peer->stage = TWI_SHM_GREETING;
	twi_auth_wipe(&peer->auth);
	return send_hello(peer);
}

/* Checks the kernel's credentials of the peer: it must be of the same user, or root. */
static int check_user(struct twi_shm_peer *peer)
{
	struct ucred who;
	socklen_t bytes = sizeof(who);

	if (getsockopt(peer->socket.fd, SOL_SOCKET, SO_PEERCRED, &who, &bytes) != 0)
		return twi_error_errno(TOW_EPEER, errno, "SO_PEERCRED of %s", peer->base.address);
	if (who.uid != geteuid() && who.uid != 0)
		return twi_error(TOW_EAUTH, "peer %s runs as user %u, this process as %u",
				 peer->base.address, (unsigned)who.uid, (unsigned)geteuid());
	peer->pid = who.pid;
	peer->other_clock = who.pid > 0 &&
			    twi_identity_time_differs(&peer->base.engine->self, (uint64_t)who.pid);
	return TOW_OK;
}

int twi_shm_greet_begin(struct twi_shm_peer *peer)
{
	int status = check_user(peer);

	if (status < 0)
		return status;
	peer->stage = TWI_SHM_PROVING;
	twi_auth_start(&peer->auth, &peer->base.engine->job_key, peer->base.connector, "shm");
	return prove_peer(peer);
}

/* Tries whether this side may read the other's memory, because many things can forbid it. */
static bool can_read(const struct twi_shm_peer *peer, uint64_t at, uint64_t probe)
{
	uint64_t found = 0;
	struct iovec local = { &found, sizeof(found) };
	struct iovec remote = { (void *)(uintptr_t)at, sizeof(found) };

	return peer->pid > 0 &&
	       process_vm_readv(peer->pid, &local, 1, &remote, 1, 0) == (ssize_t)sizeof(found) &&
	       found == probe;
}

/* The peer's address is for people, so only printable characters are kept. */
static void take_address(struct twi_shm_peer *peer, const char *address)
{
	size_t n = 0;

	if (peer->base.connector || address[0] == '\0')
		return;
	while (n < TOW_ADDRESS_MAX - 1 && address[n] > ' ' && address[n] <= '~')
		n++;
	snprintf(peer->base.address, sizeof(peer->base.address), "%.*s", (int)n, address);
}

static void configure_sends(struct twi_shm_peer *peer, uint64_t credit_bytes, uint64_t eager_max)
{
	const struct twi_engine *engine = peer->base.engine;
	const struct twi_outbox_config config = {
		.credit_bytes = credit_bytes,
		.eager_bytes = twi_min(engine->knobs.eager_max_bytes, eager_max),
		.timed_every_ns = TWI_SHM_TIMED_NS,
		.checksum_all = engine->knobs.checksum_all,
	};

	twi_outbox_configure(&peer->outbox, &config);
}

static int take_hello(struct twi_shm_peer *peer, struct arrival *in)
{
	const struct packet *hello = &in->packet;
	const struct twi_shm_shape shape = { hello->slots, hello->area_bytes };
	struct twi_shm_link *shared = peer->shared;
	struct twi_shm_box theirs, mine = peer->out.box;
	uint32_t both;
	int status;

	if (shared->theirs != NULL || in->fd_count != 1 || !twi_shm_shape_valid(&shape) ||
	    hello->bytes != twi_shm_box_bytes(&shape) || hello->extents > TWI_EXTENTS_MAX ||
	    hello->credit_bytes < twi_frame_cost(0) || hello->credit_bytes > TWI_WIRE_CREDIT_MAX ||
	    !twi_features_valid(hello->features))
		return twi_error(TOW_EPROTOCOL, "peer %s: bad HELLO", peer->base.address);
	status = twi_shm_map(in->fds[0], hello->bytes, true, &shared->theirs);
	if (status < 0)
		return status;
	shared->theirs_bytes = hello->bytes;
	twi_shm_box_init(&theirs, shared->theirs, &shape);
	status = twi_shm_out_init(&peer->out, &mine, &theirs);
	if (status < 0)
		return status;
	twi_shm_in_init(&peer->in, &mine, &theirs);
	peer->notes_out =
		(struct twi_shm_notes){ .notes = mine.notes, .taken = &theirs.head->notes_taken };
	peer->notes_in =
		(struct twi_shm_notes){ .notes = theirs.notes, .taken = &mine.head->notes_taken };
	configure_sends(peer, hello->credit_bytes,
			twi_min(hello->eager_max, (uint64_t)mine.shape.area_bytes / 8));
	/* The bound for messages of the other side does not depend on the credit it granted. */
	peer->limits.eager_max =
		twi_min(peer->base.engine->knobs.eager_max_bytes, hello->eager_max);
	peer->limits.extent_bytes = shared->extent_bytes;
	peer->extents_expected = hello->extents;
	peer->base.theirs = (struct twi_feature_side){ hello->features, (uint16_t)hello->version,
						       (uint16_t)(hello->version >> 16) };
	both = (uint32_t)(features_of(peer) & hello->features);
	peer->fenced = (both & TWI_FEATURE_BIT(shm_barriers)) == 0;
	peer->helps = (both & TWI_FEATURE_BIT(shm_help)) != 0;
	peer->writable = (both & TWI_FEATURE_BIT(shm_peer_writes)) != 0;
	peer->remote_theirs = can_read(peer, hello->probe_at, hello->probe);
	peer->writes = (hello->features & TWI_FEATURE_BIT(shm_peer_writes)) != 0;
	take_address(peer, hello->address);
	return TOW_OK;
}

static int take_extent(struct twi_shm_peer *peer, struct arrival *in)
{
	const struct packet *packet = &in->packet;
	int status;

	if (in->fd_count != 1 || packet->index != peer->shared->extent_count ||
	    peer->shared->theirs == NULL)
		return twi_error(TOW_EPROTOCOL, "peer %s: bad EXTENT", peer->base.address);
	status = twi_shm_link_extent(peer->shared, &twi_shm_lane_of(peer->base.engine)->extents,
				     in->fds[0], packet->bytes);
	peer->limits.extent_count = peer->shared->extent_count;
	if (status == TOW_OK && peer->writes)
		status = twi_shm_window_take(peer, &in->fds[0]);
	return status;
}

/* All of the other side's memory is mapped: the other side may begin. */
static int send_ready(struct twi_shm_peer *peer)
{
	struct packet ready = { .magic = MAGIC,
				.version = VERSION,
				.type = PACKET_READY,
				.can_read = peer->remote_theirs };

	return send_packet(peer, &ready, sizeof(ready), NULL, 0);
}

/*
 * Called when all of the other side's packets have been read. A side that refuses then closes a
 * socket with nothing unread. So its own HELLO still reaches the other side, which finds the same
 * fault.
 */
static int agree_peer(struct twi_shm_peer *peer)
{
	const struct twi_feature_side ours = { features_of(peer), VERSION_MAJOR, VERSION_MINOR };

	return twi_features_agree(peer->base.address, &ours, &peer->base.theirs,
				  &peer->base.features);
}

/* Messages cross no network, and the receiver reads them in the sender's memory. */
static int meet_peer(struct twi_shm_peer *peer)
{
	const struct twi_way way = {
		.lane = TWI_LANE_SHM,
		.copied =
			peer->shared->extent_count > 0 ? NULL : "the other side has shared no pool",
	};

	return twi_peer_meet(&peer->base, &way);
}

static int all_mapped(struct twi_shm_peer *peer)
{
	int status = agree_peer(peer);

	if (status == TOW_OK)
		status = meet_peer(peer);
	if (status < 0)
		return status;
	peer->stage = TWI_SHM_READYING;
	return peer->base.connector ? send_ready(peer) : TOW_OK;
}

/* Refuses a peer because the accept queue is full, and sends the connector the reason. */
static int send_full(struct twi_shm_peer *peer)
{
	const struct packet full = { .magic = MAGIC, .version = VERSION, .type = PACKET_FULL };

	(void)send_packet(peer, &full, sizeof(full), NULL, 0); /* if it fails, no reason goes out */
	return twi_endpoint_refused(peer->endpoint->base.address);
}

static int take_ready(struct twi_shm_peer *peer, const struct arrival *in)
{
	if (peer->stage != TWI_SHM_READYING || in->fd_count != 0)
		return twi_error(TOW_EPROTOCOL, "peer %s: READY out of place", peer->base.address);
	peer->remote_mine = in->packet.can_read == 1;
	if (!peer->base.connector) {
		int status = twi_endpoint_full(&peer->endpoint->base) ? send_full(peer)
								      : send_ready(peer);

		if (status < 0)
			return status;
	}
	twi_shm_peer_up(peer);
	return TOW_OK;
}

static int take_packet(struct twi_shm_peer *peer, struct arrival *in)
{
	const struct packet *packet = &in->packet;
	int status;

	if (in->size == 1 && in->fd_count == 0 && peer->stage == TWI_SHM_UP) {
		twi_shm_wake(peer); /* whoever reads the byte: the other side sends no second one */
		return TOW_OK;
	}
	if (in->size < offsetof(struct packet, slots) || packet->magic != MAGIC)
		return twi_error(TOW_EPROTOCOL,
				 "peer %s: a packet of %zu bytes, which is not a "
				 "packet of the shm lane",
				 peer->base.address, in->size);
	if ((uint16_t)packet->version != VERSION_MAJOR)
		return twi_error(TOW_EPROTOCOL,
				 "peer %s speaks version %u.%u of shm, this side %u.%u",
				 peer->base.address, (uint16_t)packet->version,
				 packet->version >> 16, VERSION_MAJOR, VERSION_MINOR);
	if (in->size < sizeof(*packet) ||
	    (in->size > sizeof(*packet) && packet->version >> 16 <= VERSION_MINOR))
		return twi_error(TOW_EPROTOCOL, "peer %s: a packet of type %u with %zu bytes",
				 peer->base.address, packet->type, in->size);
	if (packet->type == PACKET_EXTENT) {
		status = take_extent(peer, in);
	} else if (packet->type == PACKET_READY) {
		return take_ready(peer, in);
	} else if (packet->type == PACKET_FULL && peer->stage == TWI_SHM_READYING &&
		   peer->base.connector) {
		return twi_endpoint_refused(peer->base.address);
	} else if (packet->type == PACKET_HELLO && peer->stage == TWI_SHM_GREETING) {
		status = take_hello(peer, in);
	} else {
		return twi_error(TOW_EPROTOCOL, "peer %s: a packet of type %u out of place",
				 peer->base.address, packet->type);
	}
	if (status == TOW_OK && peer->stage == TWI_SHM_GREETING &&
	    peer->shared->extent_count == peer->extents_expected)
		status = all_mapped(peer);
	return status;
}

static int take_proof(struct twi_shm_peer *peer, const struct arrival *in)
{
	size_t used = 0;
	int status = twi_auth_in(&peer->auth, in->bytes, in->size, &used), sent;

	sent = prove_peer(peer); /* also after a refusal, to send the reason */
	if (status == TOW_AGAIN)
		status = TOW_OK;
	if (status == TOW_OK && (used != in->size || in->fd_count != 0))
		return twi_error(TOW_EPROTOCOL, "peer %s: bytes after the proof",
				 peer->base.address);
	return status < 0 ? status : sent;
}

int twi_shm_socket_read(struct twi_shm_peer *peer)
{
	struct arrival in;
	int status;

	for (unsigned i = 0; i < TWI_SHM_PACKETS; i++) {
		status = receive_packet(peer, &in);
		if (status == TOW_AGAIN)
			return TOW_OK;
		if (status < 0)
			return status;
		status = peer->stage == TWI_SHM_PROVING ? take_proof(peer, &in)
							: take_packet(peer, &in);
		drop_fds(&in);
		if (status < 0)
			return status;
	}
	return TOW_OK; /* the poll reports the rest */
}
