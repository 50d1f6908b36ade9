/*
 * test_tcp_slices.c - two bulk connections to one peer, of which one is held down to a rate: where
 * both sides give slices to the one that is free, most of a large message goes there; where one
 * side does not know of that, each carries a half. Both sides are driven by this thread alone.
 */
#include "lane_pair.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "transport/lanes/tcp/tcp.h"

#define MESSAGE  (24ull << 20)
#define MESSAGES 1
#define SLOW     (4u << 20)  /* bytes a second: far below what loopback has on a busy machine */
#define BUFFER   (256 << 10) /* what the kernel takes ahead of that */
#define TAG      7

/* Which connection is slow, and by which poller; without: side 1 does not offer it. */
struct way {
	unsigned slow;
	const char *poller;
	bool encrypted, without;
};

static uint64_t acked_bytes(const struct twi_tcp_peer *peer, unsigned line)
{
	struct tcp_info info = { 0 };
	socklen_t size = sizeof(info);

	assert_int_equal(
		getsockopt(peer->lines[line].stream->fd, IPPROTO_TCP, TCP_INFO, &info, &size), 0);
	return info.tcpi_bytes_acked;
}

static void open_pair(struct twt_lane_pair *pair, const struct way *way)
{
	const struct twi_tcp_peer *peer;
	const unsigned rate = way->without ? 16 * SLOW : SLOW;
	const int buffer = BUFFER;
	int fd;

	twt_lane_init(pair, &twt_lane_rows[0]);
	assert_string_equal(twt_lane_rows[0].name, "tcp");
	for (int i = 0; i < 2; i++) {
		pair->options[i].background = 0;
		pair->options[i].bulk_streams = 2;
		pair->options[i].premap_memory_bytes = MESSAGE + (8 << 20);
		pair->options[i].poller = way->poller;
		if (way->encrypted) {
			pair->options[i].job_key = "a secret of this job: 8d2c9f";
			pair->options[i].encrypt = 1;
		}
	}
	assert_true(twt_lane_open(pair));
	if (way->without)
		twi_runtime_engine(pair->runtime[1])->features.offered &=
			~TWI_FEATURE_BIT(tcp_slices);
	twt_lane_join(pair);
	peer = (const void *)pair->peer[0];
	assert_int_equal(peer->line_count, 3);
	assert_int_equal(peer->session.config.slices, !way->without);
	fd = peer->lines[1 + way->slow].stream->fd;
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_MAX_PACING_RATE, &rate, sizeof(rate)), 0);
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &buffer, sizeof(buffer)), 0);
}

static void exchange(struct twt_lane_pair *pair)
{
	struct tow_op *send, *recv;
	void *out, *in;

	TWT_OK(tow_alloc(pair->runtime[0], MESSAGE, 0, &out));
	TWT_OK(tow_alloc(pair->runtime[1], MESSAGE, 0, &in));
	for (unsigned i = 0; i < MESSAGES; i++) {
		uint64_t bytes = MESSAGE - i * 4097;

		twt_fill(out, bytes, i);
		TWT_OK(tow_recv_start(pair->peer[1], in, MESSAGE, TAG, NULL, &recv));
		TWT_OK(tow_send_start(pair->peer[0], out, bytes, TAG, NULL, &send));
		assert_int_equal(twt_lane_finish(pair, recv).bytes, bytes);
		assert_int_equal(twt_lane_finish(pair, send).status, TOW_OK);
		assert_int_equal(twt_check(in, bytes, i), 0);
	}
	tow_free(pair->runtime[0], out);
	tow_free(pair->runtime[1], in);
}

static void play_way(const struct way *way)
{
	static struct twt_lane_pair pair;
	uint64_t slow, quick;

	open_pair(&pair, way);
	exchange(&pair);
	slow = acked_bytes((const void *)pair.peer[0], 1 + way->slow);
	quick = acked_bytes((const void *)pair.peer[0], 2 - way->slow);
	printf("%llu KiB by the slow connection, %llu by the other\n",
	       (unsigned long long)slow >> 10, (unsigned long long)quick >> 10);
	if (way->without)
		assert_true(slow > quick - quick / 8);
	else
		assert_true(slow > 0 && slow < quick / 2);
	twt_lane_close(&pair);
}

static void test_slow_connection(void **state)
{
	(void)state;
	play_way(&(struct way){ .slow = 0, .poller = "io_uring" });
	play_way(&(struct way){ .slow = 1, .poller = "epoll" });
	play_way(&(struct way){ .slow = 1, .encrypted = true });
}

static void test_without_the_feature(void **state)
{
	(void)state;
	play_way(&(struct way){ .without = true });
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_slow_connection),
		cmocka_unit_test(test_without_the_feature),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
