/*
 * test_tcp_resumes.c - records that resume a connection: one that was said before a newer one is
 * read after it, as when both sides have dialed, and one attempt was given up. It must change
 * nothing, on either side and for each line. Both sides are driven by this thread alone.
 */
#include "lane_pair.h"
#include "tcp_stranger.h"

#include <sys/socket.h>
#include <unistd.h>

#include "transport/lanes/tcp/tcp.h"

#define MESSAGE  (3u << 20)
#define TAG      7
#define LINES    3
#define LARGEST  0xffffffu /* number of a record; 0 follows */
#define SHIFT    8
#define SIDE(of) ((of) == 0 ? 1u : 2u) /* the connector, and the acceptor, as they say it */

static struct twi_tcp_peer *peer_of(const struct twt_lane_pair *pair, int side)
{
	return (struct twi_tcp_peer *)(void *)pair->peer[side];
}

static void open_pair(struct twt_lane_pair *pair, const char *poller, bool without)
{
	twt_lane_init(pair, &twt_lane_rows[0]);
	assert_string_equal(twt_lane_rows[0].name, "tcp");
	for (int i = 0; i < 2; i++) {
		pair->options[i].background = 0;
		pair->options[i].bulk_streams = LINES - 1;
		pair->options[i].poller = poller;
	}
	assert_true(twt_lane_open(pair));
	if (without)
		twi_runtime_engine(pair->runtime[1])->features.offered &=
			~TWI_FEATURE_BIT(tcp_resumes);
	twt_lane_join(pair);
	assert_int_equal(peer_of(pair, 0)->line_count, LINES);
}

/* A small and a large message each way. */
static void exchange(struct twt_lane_pair *pair)
{
	static const size_t sizes[] = { 100, MESSAGE };
	uint8_t *out = malloc(MESSAGE), *in = malloc(MESSAGE);

	for (int i = 0; i < 4; i++) {
		int from = i & 1;
		size_t bytes = sizes[i / 2];
		struct tow_op *send, *recv;

		twt_fill(out, bytes, (uint64_t)i);
		TWT_OK(tow_recv_start(pair->peer[!from], in, bytes, TAG, NULL, &recv));
		TWT_OK(tow_send_start(pair->peer[from], out, bytes, TAG, NULL, &send));
		assert_int_equal(twt_lane_finish(pair, recv).bytes, bytes);
		assert_int_equal(twt_lane_finish(pair, send).status, TOW_OK);
		assert_int_equal(twt_check(in, bytes, (uint64_t)i), 0);
	}
	free(out);
	free(in);
}

static bool is_whole(const struct twi_tcp_peer *peer, unsigned line, uint64_t resumes)
{
	return peer->lines[line].stream != NULL && peer->lines[line].resumes >= resumes;
}

static void await_whole(struct twt_lane_pair *pair, unsigned line, uint64_t resumes)
{
	for (int i = 0; i < 5000 && !(is_whole(peer_of(pair, 0), line, resumes) &&
				      is_whole(peer_of(pair, 1), line, resumes));
	     i++)
		twt_lane_drive(pair, 1000000);
	assert_true(is_whole(peer_of(pair, 0), line, resumes));
	assert_true(is_whole(peer_of(pair, 1), line, resumes));
}

static void break_line(struct twt_lane_pair *pair, unsigned line)
{
	const struct twi_tcp_line *at = &peer_of(pair, 0)->lines[line];
	uint64_t resumes = at->resumes;

	assert_int_equal(shutdown(at->stream->fd, SHUT_RDWR), 0);
	await_whole(pair, line, resumes + 1);
}

/*
 * Another connection says to `side` what its peer could have said with that number: that nothing
 * is on its way to it. Returns that connection.
 */
static int say_record(struct twt_lane_pair *pair, int side, unsigned line, uint32_t number)
{
	const struct twi_tcp_peer *peer = peer_of(pair, side);
	struct twi_session *theirs = &peer_of(pair, !side)->session;
	const struct twi_frame frame = { .type = TWI_FRAME_HELLO,
					 .payload_bytes = TWI_HELLO_BYTES };
	const struct twi_hello hello = { .kind = line > 0 ? TWI_STREAM_BULK : TWI_STREAM_CONTROL,
					 .flags = TWI_HELLO_RESUME,
					 .channel = (uint8_t)(line > 0 ? line - 1 : 0),
					 .bulk_count = line > 0 ? 0 : LINES - 1,
					 .eager_max_bytes = line > 0 ? 0 : 16384,
					 .credit_bytes = line > 0 ? 0 : 1 << 20,
					 .session = peer->session_id,
					 .token = peer->token };
	uint8_t words[TWI_HELLO_FRAME + 8 + TWI_RESUME_MAX], *tail = words + TWI_HELLO_FRAME;
	char where[TOW_ADDRESS_MAX];
	size_t bytes;
	int fd;

	twi_frame_put(words, &frame);
	twi_hello_put(words + TWI_FRAME_BYTES, &hello);
	bytes = line > 0 ? twi_session_bulk_resume_put(theirs, line - 1, tail + 8)
			 : twi_session_control_resume_put(theirs, tail + 8);
	twi_put_le32(tail, (uint32_t)bytes + 4);
	twi_put_le32(tail + 4, SIDE(!side) | number << SHIFT);
	TWT_OK(tow_endpoint_address(pair->endpoint[side], where, sizeof(where)));
	fd = twt_stranger_connect(where);
	twt_stranger_prove(fd, pair->runtime[side]);
	twt_stranger_say(fd, words, TWI_HELLO_FRAME + 8 + bytes);
	return fd;
}

static bool is_refused(struct twt_lane_pair *pair, int side, unsigned line, uint32_t number)
{
	int fd = say_record(pair, side, line, number);
	bool ended = twt_stranger_ended(fd, pair->runtime[side]);

	close(fd);
	return ended;
}

static void play_line(struct twt_lane_pair *pair, int side, unsigned line)
{
	struct twi_tcp_line *at = &peer_of(pair, side)->lines[line];
	uint64_t resumes;

	break_line(pair, line);
	break_line(pair, line);
	resumes = at->resumes;
	assert_true(at->heard > 1);
	for (uint32_t back = 0; back < 2; back++) {
		assert_true(is_refused(pair, side, line, at->heard - back));
		assert_non_null(at->stream);
		assert_int_equal(at->resumes, resumes);
	}
	exchange(pair);
	/* Numbers go round. */
	at->heard = peer_of(pair, !side)->lines[line].said = LARGEST;
	assert_true(is_refused(pair, side, line, LARGEST));
	assert_true(is_refused(pair, side, line, LARGEST - 1000));
	assert_int_equal(at->resumes, resumes);
	break_line(pair, line);
	assert_int_equal(at->heard, 0);
	assert_true(is_refused(pair, side, line, LARGEST));
	exchange(pair);
}

static void test_late_records(void **state)
{
	static const char *const pollers[] = { "io_uring", "epoll" };
	struct twt_lane_pair pair;

	(void)state;
	for (int i = 0; i < 4; i++) {
		open_pair(&pair, pollers[i & 1], false);
		for (unsigned line = 0; line < LINES; line++)
			play_line(&pair, i / 2, line);
		assert_int_equal(twi_counter_sum(twi_runtime_engine(pair.runtime[i / 2])->diag,
						 TWI_C_protocol_errors),
				 0);
		twt_lane_close(&pair);
	}
}

/* A newer one is taken, since the other side has seen a break that this side has not. */
static void test_newer_record(void **state)
{
	struct twt_lane_pair pair;
	struct twi_tcp_line *at;
	uint64_t resumes;
	int fd;

	(void)state;
	for (int side = 0; side < 2; side++) {
		open_pair(&pair, "epoll", false);
		at = &peer_of(&pair, side)->lines[1];
		break_line(&pair, 1);
		resumes = at->resumes;
		peer_of(&pair, !side)->lines[1].said += 5;
		fd = say_record(&pair, side, 1, at->heard + 1);
		for (int i = 0; i < 5000 && at->resumes == resumes; i++)
			twt_lane_drive(&pair, 1000000);
		assert_true(at->resumes > resumes);
		close(fd);
		await_whole(&pair, 1, resumes + 1);
		exchange(&pair);
		twt_lane_close(&pair);
	}
}

/* With a side that has no numbers, records are as they were, and lines are resumed. */
static void test_without_the_feature(void **state)
{
	struct twt_lane_pair pair;

	(void)state;
	open_pair(&pair, "epoll", true);
	for (unsigned line = 0; line < LINES; line++) {
		break_line(&pair, line);
		assert_int_equal(peer_of(&pair, 0)->lines[line].heard, 0);
		assert_int_equal(peer_of(&pair, 1)->lines[line].said, 0);
		exchange(&pair);
	}
	twt_lane_close(&pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_late_records),
		cmocka_unit_test(test_newer_record),
		cmocka_unit_test(test_without_the_feature),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
