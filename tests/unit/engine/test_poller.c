/*
 * test_poller.c - the promises of poller.h, asked of each poller: one completion for a
 * poll, pieces for a receive, sends in their order, nothing of a descriptor that was closed, sleeps
 * that end by what comes and by nothing else; and the notices of zero-copy sends by epoll.
 */
#include "twt.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "diag/base/error.h"
#include "diag/record/counter.h"
#include "diag/record/diag.h"
#include "transport/engine/engine.h"
#include "transport/engine/epoll/epoll_notice.h"
#include "transport/engine/poller.h"

#include "poller_rig.h"

#define PIECE 16384

/* Interposed: the kernel has room for no watch more, where a test says so. */
static int refusal;

int epoll_ctl(int set, int operation, int fd, struct epoll_event *event)
{
	if (refusal != 0 && operation == EPOLL_CTL_ADD) {
		errno = refusal;
		return -1;
	}
	return (int)syscall(SYS_epoll_ctl, set, operation, fd, event);
}

static void polls(const struct twi_poller *poller)
{
	char in[8];
	int pair[2];

	open_ring(poller);
	make_pair(pair);
	assert_true(poller->poll(ring, pair[0], POLLIN, tag(1)));
	look_in_vain(0);
	put(pair[1], "a");
	look_for(1);
	assert_int_equal(done[0].rest, 1);
	assert_int_equal(done[0].flags & TWI_DONE_MORE, 0);
	/* One completion, though the byte is still there; and nobody is kept from sleep by it. */
	look_in_vain(1);
	assert_false(sleep_is_cut_short());
	assert_true(poller->poll(ring, pair[0], POLLIN, tag(2)));
	look_for(2);
	assert_int_equal(done[1].rest, 2);
	assert_int_equal(recv(pair[0], in, sizeof(in), 0), 1);
	/* Both ways at once, each by itself. */
	assert_true(poller->poll(ring, pair[0], POLLIN, tag(3)));
	assert_true(poller->poll(ring, pair[0], POLLOUT, tag(4)));
	look_for(3);
	assert_int_equal(done[2].rest, 4);
	look_in_vain(3);
	put(pair[1], "b");
	look_for(4);
	assert_int_equal(done[3].rest, 3);
	/* The end is told, too, and once. */
	assert_int_equal(recv(pair[0], in, sizeof(in), 0), 1);
	assert_true(poller->poll(ring, pair[0], POLLIN, tag(5)));
	close_fd(pair[1]);
	look_for(5);
	look_in_vain(5);
	assert_false(sleep_is_cut_short());
	close_fd(pair[0]);
	close_ring();
}

static void receives(const struct twi_poller *poller)
{
	int pair[2];

	open_ring(poller);
	make_pair(pair);
	assert_true(poller->receive(ring, pair[0], tag(7)));
	for (unsigned i = 0; i < 5; i++) {
		const char text[2] = { (char)('a' + i), '\0' };

		put(pair[1], text);
		look_for(i + 1);
		assert_int_equal(done[i].rest, 7);
		assert_int_equal(done[i].res, 1);
		assert_int_equal(done[i].first, 'a' + i);
		assert_true((done[i].flags & TWI_DONE_MORE) != 0);
	}
	assert_false(sleep_is_cut_short());
	/* Canceled it ends, and what comes behind that stays in the socket. */
	assert_true(poller->cancel(ring, pair[0], tag(7)));
	look_for(6);
	assert_int_equal(done[5].rest, 7);
	assert_int_equal(done[5].res, -ECANCELED);
	assert_int_equal(done[5].flags & TWI_DONE_MORE, 0);
	put(pair[1], "x");
	look_in_vain(6);
	assert_false(sleep_is_cut_short());
	/* Armed anew it brings that, and then the end. */
	assert_true(poller->receive(ring, pair[0], tag(8)));
	look_for(7);
	assert_int_equal(done[6].first, 'x');
	close_fd(pair[1]);
	look_for(8);
	assert_int_equal(done[7].res, 0);
	assert_int_equal(done[7].flags & TWI_DONE_MORE, 0);
	look_in_vain(8);
	close_fd(pair[0]);
	close_ring();
}

static void sends(const struct twi_poller *poller)
{
	static uint8_t out[PIECE], in[PIECE];
	static char bc[] = "bc", def[] = "def";
	struct iovec parts[2] = { { bc, 2 }, { def, 3 } };
	struct msghdr to = { .msg_iov = parts, .msg_iovlen = 2 };
	struct iovec place = { in, sizeof(in) };
	struct msghdr at = { .msg_iov = &place, .msg_iovlen = 1 };
	const int flags = MSG_DONTWAIT | MSG_NOSIGNAL;
	unsigned full = 0;
	int pair[2];

	open_ring(poller);
	make_pair(pair);
	assert_true(poller->recvmsg(ring, pair[1], &at, MSG_DONTWAIT, tag(1)));
	assert_true(poller->send(ring, pair[0], "a", 1, flags, tag(2)));
	assert_true(poller->sendmsg(ring, pair[0], &to, flags, tag(3)));
	assert_int_equal(ring->unsubmitted, 3);
	twi_ring_submit(ring);
	assert_int_equal(ring->unsubmitted, 0);
	look_for(3);
	assert_int_equal(done[0].res, -EAGAIN);
	assert_int_equal(done[1].res, 1);
	assert_int_equal(done[2].res, 5);
	assert_true(poller->recvmsg(ring, pair[1], &at, MSG_DONTWAIT, tag(4)));
	look_for(4);
	assert_int_equal(done[3].res, 6);
	assert_memory_equal(in, "abcdef", 6);
	/* A full socket takes part of it or nothing; a peer that is gone is an error, no signal. */
	for (count = 0; full == 0 && count < DONE_MAX - 2;) {
		assert_true(poller->send(ring, pair[0], out, sizeof(out), flags, tag(5)));
		look_for(count + 1);
		full = done[count - 1].res == -EAGAIN;
	}
	assert_int_equal(full, 1);
	close_fd(pair[1]);
	count = 0;
	assert_true(poller->send(ring, pair[0], out, 1, flags, tag(6)));
	look_for(1);
	assert_int_equal(done[0].res, -EPIPE);
	close_fd(pair[0]);
	close_ring();
}

/* What was armed for a descriptor is not told of the next file that has its number. */
static void forgets(const struct twi_poller *poller)
{
	int pair[2], next[2];

	open_ring(poller);
	for (unsigned i = 0; i < 20; i++) {
		make_pair(pair);
		assert_true(poller->poll(ring, pair[0], POLLIN, tag(1)));
		assert_true(poller->receive(ring, pair[1], tag(2)));
		twi_ring_submit(ring);
		close_fd(pair[0]);
		close_fd(pair[1]);
		make_pair(next);
		put(next[0], "n");
		put(next[1], "n");
		for (int looks = 0; looks < 5; looks++)
			twi_ring_poll(ring);
		/* io_uring ends what was asked of the old file; nothing is read of the new one. */
		for (unsigned k = 0; k < count; k++)
			assert_int_not_equal(done[k].first, 'n');
		count = 0;
		assert_true(poller->receive(ring, next[0], tag(3)));
		look_for(1);
		assert_int_equal(done[0].rest, 3);
		assert_int_equal(done[0].first, 'n');
		close_fd(next[0]);
		close_fd(next[1]);
		for (int looks = 0; looks < 5; looks++)
			twi_ring_poll(ring);
		count = 0;
	}
	close_ring();
}

static void sleeps(const struct twi_poller *poller)
{
	int pair[2];

	open_ring(poller);
	make_pair(pair);
	assert_false(sleep_is_cut_short());
	twi_ring_wake(ring);
	assert_true(sleep_is_cut_short());
	assert_false(sleep_is_cut_short());
	assert_true(poller->poll(ring, pair[0], POLLIN, tag(1)));
	twi_ring_submit(ring);
	twi_ring_poll(ring);
	assert_false(twi_ring_has_work(ring));
	put(pair[1], "a");
	assert_true(sleep_is_cut_short());
	assert_true(twi_ring_has_work(ring));
	look_for(1);
	look_in_vain(1);
	assert_false(twi_ring_has_work(ring));
	assert_false(sleep_is_cut_short());
	/* A completion that nobody has reaped. */
	assert_true(poller->send(ring, pair[0], "b", 1, MSG_DONTWAIT | MSG_NOSIGNAL, tag(2)));
	twi_ring_submit(ring);
	assert_int_equal(twi_ring_ready(ring), 1);
	assert_true(sleep_is_cut_short());
	look_for(2);
	close_fd(pair[0]);
	close_fd(pair[1]);
	close_ring();
}

/* Another drives: bytes, then a wake. */
static void *hush_and_wake(void *arg)
{
	usleep(100 * 1000);
	twi_ring_hush(ring);
	put(*(int *)arg, "a");
	usleep(300 * 1000);
	twi_ring_wake(ring);
	return NULL;
}

static void hushes(const struct twi_poller *poller)
{
	pthread_t other;
	uint64_t before;
	int pair[2];

	open_ring(poller);
	make_pair(pair);
	assert_true(poller->poll(ring, pair[0], POLLIN, tag(1)));
	twi_ring_submit(ring);
	twi_ring_poll(ring);
	before = twi_now_ns();
	assert_int_equal(pthread_create(&other, NULL, hush_and_wake, &pair[1]), 0);
	twi_ring_sleep(ring, 5000 * MS);
	/* Not by the bytes, but by the wake. */
	assert_in_range(twi_now_ns() - before, 350 * MS, 4000 * MS);
	assert_int_equal(pthread_join(other, NULL), 0);
	look_for(1);
	/* Once only: its next sleep ends by what comes. */
	assert_true(poller->poll(ring, pair[0], POLLIN, tag(2)));
	twi_ring_submit(ring);
	assert_true(sleep_is_cut_short());
	look_for(2);
	close_fd(pair[0]);
	close_fd(pair[1]);
	close_ring();
}

/* Far more than any queue holds, from turn to turn: all of it is done, each once, in its order. */
static void many(const struct twi_poller *poller)
{
	uint64_t taken = 0;
	uint8_t byte = 0;
	int pair[2];

	open_ring(poller);
	make_pair(pair);
	for (unsigned round = 0; round < 100; round++) {
		for (count = 0; count < DONE_MAX - 1;) {
			struct iovec place = { &byte, 1 };
			struct msghdr at = { .msg_iov = &place, .msg_iovlen = 1 };
			uint8_t next = (uint8_t)taken;

			if (!poller->send(ring, pair[0], &next, 1, MSG_DONTWAIT | MSG_NOSIGNAL,
					  tag(1)))
				break;
			assert_true(poller->recvmsg(ring, pair[1], &at, MSG_DONTWAIT, tag(2)));
			twi_ring_submit(ring);
			twi_ring_reap(ring);
			assert_int_equal(byte, (uint8_t)taken++);
		}
	}
	assert_true(taken >= 100 * (DONE_MAX / 2));
	close_fd(pair[0]);
	close_fd(pair[1]);
	close_ring();
}

/* A poll that cannot be armed is told to look by itself; a receive ends with the cause. */
static void test_epoll_refuses(void **state)
{
	int pair[2];

	(void)state;
	open_ring(&twi_poller_epoll);
	make_pair(pair);
	refusal = ENOSPC;
	assert_true(twi_poller_epoll.poll(ring, pair[0], POLLIN, tag(1)));
	assert_true(twi_poller_epoll.receive(ring, pair[1], tag(2)));
	refusal = 0;
	look_for(2);
	assert_int_equal(done[0].rest, 1);
	assert_int_equal(done[0].res, -EAGAIN);
	assert_int_equal(done[1].rest, 2);
	assert_int_equal(done[1].res, -ENOSPC);
	assert_int_equal(done[1].flags, 0);
	/* Nothing is left of them, and the next one works. */
	put(pair[1], "a");
	look_in_vain(2);
	assert_true(twi_poller_epoll.poll(ring, pair[0], POLLIN, tag(3)));
	look_for(3);
	close_fd(pair[0]);
	close_fd(pair[1]);
	close_ring();
}

/* ---- zero-copy sends by epoll ---- */

static void tcp_pair(int pair[2])
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t bytes = sizeof(at);
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(bind(listener, (struct sockaddr *)&at, bytes), 0);
	assert_int_equal(listen(listener, 1), 0);
	assert_int_equal(getsockname(listener, (struct sockaddr *)&at, &bytes), 0);
	pair[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(connect(pair[0], (struct sockaddr *)&at, bytes), 0);
	pair[1] = accept(listener, NULL, NULL);
	assert_true(pair[1] >= 0);
	close(listener);
}

static void take(int fd, size_t bytes)
{
	static uint8_t in[1 << 16];

	while (bytes > 0) {
		ssize_t n = recv(fd, in, sizeof(in), 0);

		assert_true(n > 0);
		bytes -= (size_t)n;
	}
}

static void test_zerocopy(void **state)
{
	static uint8_t out[1 << 16];
	int pair[2];

	(void)state;
	open_ring(&twi_poller_epoll);
	if (!ring->zerocopy) {
		close_ring();
		skip();
	}
	assert_true(ring->any_memory);
	tcp_pair(pair);
	for (unsigned i = 0; i < 8; i++) {
		assert_true(
			twi_poller_epoll.send_zerocopy(ring, pair[0], out, sizeof(out), 0, tag(i)));
		twi_ring_submit(ring);
		take(pair[1], sizeof(out));
	}
	/* Of each first what was sent, then that the kernel has let go; on loopback it copies. */
	look_for(16);
	for (unsigned i = 0, sent = 0, told = 0; i < 16; i++) {
		if ((done[i].flags & TWI_DONE_NOTICE) == 0) {
			assert_int_equal(done[i].rest, sent++);
			assert_int_equal(done[i].res, sizeof(out));
			assert_int_equal(done[i].flags, TWI_DONE_MORE);
		} else {
			assert_int_equal(done[i].rest, told++);
			assert_true(told <= sent);
			assert_int_equal((uint32_t)done[i].res, TWI_DONE_KERNEL_COPY);
			assert_int_equal(done[i].flags, TWI_DONE_NOTICE);
		}
	}
	look_in_vain(16);
	assert_false(sleep_is_cut_short());
	close_fd(pair[0]);
	close_fd(pair[1]);
	close_ring();
}

/* A send to a closed connection has no notice; what was sent before has one, after the close. */
static void test_zerocopy_of_the_closed(void **state)
{
	static uint8_t out[1 << 16];
	const struct sockaddr none = { .sa_family = AF_UNSPEC };
	int pair[2];

	(void)state;
	open_ring(&twi_poller_epoll);
	if (!ring->zerocopy) {
		close_ring();
		skip();
	}
	tcp_pair(pair);
	assert_true(twi_poller_epoll.send_zerocopy(ring, pair[0], out, sizeof(out), 0, tag(1)));
	twi_ring_submit(ring);
	twi_ring_reap(ring);
	assert_int_equal(count, 1);
	assert_true(twi_epoll_notices_due(engine.epoll_notices, pair[0]));
	assert_int_equal(connect(pair[0], &none, sizeof(none)), 0);
	close_fd(pair[0]);
	assert_false(twi_epoll_notices_due(engine.epoll_notices, pair[0]));
	look_for(2);
	assert_int_equal(done[1].rest, 1);
	assert_int_equal(done[1].flags, TWI_DONE_NOTICE);
	close_fd(pair[1]);
	tcp_pair(pair);
	close(pair[1]);
	count = 0;
	for (unsigned i = 0; i < 50 && (count == 0 || done[count - 1].res > 0); i++) {
		count = 0;
		assert_true(twi_poller_epoll.send_zerocopy(ring, pair[0], out, 1, 0, tag(2)));
		twi_ring_poll(ring);
		usleep(1000);
	}
	assert_true(count > 0 && done[count - 1].res < 0);
	assert_int_equal(done[count - 1].flags, 0);
	close_fd(pair[0]);
	close_ring();
	assert_null(engine.epoll_notices);
}

/*
 * A ring that goes takes its sends along: their user data may soon mean something else. One that
 * could not be made takes nobody's.
 */
static void test_zerocopy_of_a_ring_that_goes(void **state)
{
	static uint8_t out[1 << 16];
	struct twi_ring *other, *third = NULL;
	int pair[2];

	(void)state;
	open_ring(&twi_poller_epoll);
	if (!ring->zerocopy) {
		close_ring();
		skip();
	}
	assert_int_equal(twi_poller_epoll.create(&engine, &other), TOW_OK);
	other->index = 1;
	engine.rings[1] = other;
	tcp_pair(pair);
	assert_true(twi_poller_epoll.send_zerocopy(ring, pair[0], out, sizeof(out), 0, tag(1)));
	twi_ring_submit(ring);
	assert_true(twi_poller_epoll.send_zerocopy(other, pair[0], out, sizeof(out), 0, tag(2)));
	twi_ring_submit(other);
	twi_ring_reap(other);
	twi_ring_reap(ring);
	assert_int_equal(count, 2);
	refusal = ENOSPC;
	assert_int_equal(twi_poller_epoll.create(&engine, &third), TOW_ESYSTEM);
	refusal = 0;
	engine.rings[1] = NULL;
	twi_ring_destroy(other);
	take(pair[1], 2 * sizeof(out));
	look_for(3);
	assert_int_equal(done[2].rest, 1);
	look_in_vain(3);
	close_fd(pair[0]);
	close_fd(pair[1]);
	close_ring();
}

#define BOTH(name)                                                                                 \
	static void test_uring_##name(void **state)                                                \
	{                                                                                          \
		(void)state;                                                                       \
		name(&twi_poller_uring);                                                           \
	}                                                                                          \
	static void test_epoll_##name(void **state)                                                \
	{                                                                                          \
		(void)state;                                                                       \
		name(&twi_poller_epoll);                                                           \
	}
BOTH(polls)
BOTH(receives)
BOTH(sends)
BOTH(forgets)
BOTH(sleeps)
BOTH(hushes)
BOTH(many)

int main(void)
{
#define CASES(name) cmocka_unit_test(test_uring_##name), cmocka_unit_test(test_epoll_##name)
	const struct CMUnitTest tests[] = {
		CASES(polls),
		CASES(receives),
		CASES(sends),
		CASES(forgets),
		CASES(sleeps),
		CASES(hushes),
		CASES(many),
		cmocka_unit_test(test_epoll_refuses),
		cmocka_unit_test(test_zerocopy),
		cmocka_unit_test(test_zerocopy_of_the_closed),
		cmocka_unit_test(test_zerocopy_of_a_ring_that_goes),
	};

	alarm(120);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
