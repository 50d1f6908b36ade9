/*
 * test_tcp_auth.c - who may come in over tcp: members with the key; not those with another, with
 * none, of an older protocol, garbage, silence, or hundreds of them at once. And encryption: what
 * is on the wire cannot be read, messages come whole, and what was changed ends the peer.
 */
#include "twt.h"

#include "duo.h"
#include "tcp_stranger.h"

#include <sys/resource.h>

#include "transport/engine/engine.h"
#include "transport/engine/runtime.h"
#include "transport/lanes/tcp/tcp.h"
#include "transport/security/auth.h"
#include "transport/wire/frame.h"

#define KEY       "a secret of this job: 8d2c9f"
#define OTHER_KEY "a secret of another job: 771"
#define TRAFFIC   (24ull << 20)

static uint64_t seed;

static int child_traffic(struct twt_duo *duo)
{
	return twt_duo_traffic(duo, TRAFFIC, NULL);
}

static uint64_t counter(struct tow_runtime *runtime, enum twi_counter id)
{
	return twi_counter_sum(twi_runtime_engine(runtime)->diag, id);
}

static void test_members(void **state)
{
	struct twt_duo duo;

	(void)state;
	twt_duo_init(&duo);
	duo.parent.job_key = duo.child.job_key = KEY;
	twt_duo_open(&duo, child_traffic);
	assert_null(((struct twi_tcp_peer *)(void *)duo.side.peer)->lines[0].stream->seal);
	assert_int_equal(twt_duo_traffic(&duo, TRAFFIC, NULL), 0);
	assert_int_equal(counter(duo.side.runtime, TWI_C_auth_refused), 0);
	assert_int_equal(twt_duo_end(&duo), 0);
}

/* One of the two wants it: both do it. */
static void test_encrypted(void **state)
{
	(void)state;
	for (int who = 0; who < 3; who++) {
		struct twi_tcp_peer *peer;
		struct twt_duo duo;

		twt_duo_init(&duo);
		duo.parent.job_key = duo.child.job_key = KEY;
		duo.parent.encrypt = who != 1;
		duo.child.encrypt = who != 0;
		duo.parent.bulk_streams = duo.child.bulk_streams = who + 1;
		duo.parent.zerocopy = "always";
		twt_duo_open(&duo, child_traffic);
		peer = (struct twi_tcp_peer *)(void *)duo.side.peer;
		for (unsigned i = 0; i < peer->line_count; i++)
			assert_non_null(peer->lines[i].stream->seal);
		assert_int_equal(twt_duo_traffic(&duo, TRAFFIC, NULL), 0);
		assert_int_equal(counter(duo.side.runtime, TWI_C_zerocopy_sends), 0);
		assert_true(counter(duo.side.runtime, TWI_C_necessary_copy_bytes) > TRAFFIC / 2);
		assert_int_equal(twt_duo_end(&duo), 0);
	}
}

/* Two runtimes of one process; the connect's status. */
static int connect_with(const char *their_key, const char *our_key, struct tow_runtime **theirs_out)
{
	struct tow_options options = twt_duo_options();
	struct tow_op_options limit = TOW_OP_OPTIONS_INIT;
	struct tow_runtime *theirs, *ours;
	struct tow_endpoint *there, *here;
	char where[TOW_ADDRESS_MAX];
	struct tow_op *op;
	int status;

	limit.timeout_ns = 10 * TWT_SECOND;
	options.job_key = their_key;
	TWT_OK(tow_runtime_open(&options, &theirs));
	options.job_key = our_key;
	TWT_OK(tow_runtime_open(&options, &ours));
	TWT_OK(tow_endpoint_open(theirs, "tcp://127.0.0.1:0", &there));
	TWT_OK(tow_endpoint_open(ours, "tcp://127.0.0.1:0", &here));
	TWT_OK(tow_endpoint_address(there, where, sizeof(where)));
	TWT_OK(tow_connect_start(here, where, &limit, &op));
	while ((status = tow_op_test(op)) == TOW_AGAIN) {
		tow_progress(theirs);
		tow_progress(ours);
	}
	TWT_OK(tow_op_release(op));
	for (int i = 0; i < 100; i++) {
		tow_progress(theirs);
		tow_progress(ours);
	}
	TWT_OK(tow_runtime_close(ours));
	for (int i = 0; i < 100; i++)
		tow_progress(theirs);
	*theirs_out = theirs;
	return status;
}

static void test_wrong_keys(void **state)
{
	static const char *const keys[][2] = { { KEY, OTHER_KEY }, { KEY, "" }, { "", KEY } };
	struct tow_runtime *theirs;

	(void)state;
	for (size_t i = 0; i < 3; i++) {
		int status = connect_with(keys[i][0], keys[i][1], &theirs);

		if (status != TOW_EAUTH && status != TOW_EREFUSED)
			fail_msg("keys %zu: %s", i, tow_status_name(status));
		assert_true(counter(theirs, TWI_C_auth_refused) > 0);
		assert_int_equal(counter(theirs, TWI_C_peers_connected), 0);
		TWT_OK(tow_runtime_close(theirs));
	}
	assert_int_equal(connect_with(KEY, KEY, &theirs), TOW_OK);
	TWT_OK(tow_runtime_close(theirs));
}

/* Says `bytes` and drives until the other side ends it. */
static bool refused(struct tow_runtime *runtime, const char *where, const void *data, size_t bytes)
{
	int fd = twt_stranger_connect(where);
	bool ended;

	if (bytes > 0)
		twt_stranger_say(fd, data, bytes);
	ended = twt_stranger_ended(fd, runtime);
	close(fd);
	return ended;
}

/* What peers of version 1 began with: a HELLO frame, at once. */
static void old_hello(uint8_t out[TWI_HELLO_FRAME])
{
	struct twi_frame frame = { .type = TWI_FRAME_HELLO, .payload_bytes = TWI_HELLO_BYTES };
	struct twi_hello hello = { .session = 7, .eager_max_bytes = 100, .credit_bytes = 1000 };

	twi_frame_put(out, &frame);
	twi_hello_put(out + TWI_FRAME_BYTES, &hello);
	twi_put_le16(out + TWI_FRAME_BYTES + 8, 1); /* major */
}

static void test_garbage(void **state)
{
	struct tow_options options = twt_duo_options();
	uint64_t random = seed, before;
	struct tow_endpoint *endpoint;
	struct tow_runtime *runtime;
	char where[TOW_ADDRESS_MAX];
	uint8_t noise[4096];

	(void)state;
	for (int keyed = 0; keyed < 2; keyed++) {
		options.job_key = keyed != 0 ? KEY : "";
		TWT_OK(tow_runtime_open(&options, &runtime));
		TWT_OK(tow_endpoint_open(runtime, "tcp://127.0.0.1:0", &endpoint));
		TWT_OK(tow_endpoint_address(endpoint, where, sizeof(where)));
		old_hello(noise);
		assert_true(refused(runtime, where, noise, TWI_HELLO_FRAME));
		before = counter(runtime, TWI_C_handshakes_refused);
		assert_true(before > 0);
		for (int i = 0; i < 200; i++) {
			size_t bytes = 96 + twt_random_below(&random, sizeof(noise) - 96);

			for (size_t k = 0; k < bytes; k++)
				noise[k] = (uint8_t)twt_random(&random);
			assert_true(refused(runtime, where, noise, bytes));
		}
		assert_int_equal(counter(runtime, TWI_C_handshakes_refused), before + 200);
		TWT_OK(tow_runtime_close(runtime));
	}
}

/* An open exchange by hand, then words that are not what they may be. */
static void say_after_proof(struct tow_runtime *runtime, const char *where, const uint8_t *words,
			    size_t bytes)
{
	int fd = twt_stranger_connect(where);

	twt_stranger_prove(fd, runtime);
	twt_stranger_say(fd, words, bytes);
	assert_true(twt_stranger_ended(fd, runtime));
	close(fd);
}

static void test_bad_words(void **state)
{
	struct tow_options options = twt_duo_options();
	uint8_t words[TWI_HELLO_FRAME + 4 + 2000] = { 0 };
	uint64_t random = seed;
	struct tow_endpoint *endpoint;
	struct tow_runtime *runtime;
	char where[TOW_ADDRESS_MAX];
	struct twi_frame frame = { .type = TWI_FRAME_HELLO, .payload_bytes = TWI_HELLO_BYTES };
	struct twi_hello hello = {
		.session = 7, .bulk_count = 1, .eager_max_bytes = 100, .credit_bytes = 1000
	};

	(void)state;
	TWT_OK(tow_runtime_open(&options, &runtime));
	TWT_OK(tow_endpoint_open(runtime, "tcp://127.0.0.1:0", &endpoint));
	TWT_OK(tow_endpoint_address(endpoint, where, sizeof(where)));
	twi_frame_put(words, &frame);
	/* another major version */
	twi_hello_put(words + TWI_FRAME_BYTES, &hello);
	twi_put_le16(words + TWI_FRAME_BYTES + 8, 99);
	say_after_proof(runtime, where, words, TWI_HELLO_FRAME);
	/* a tail that is too long, one that is none, one that is malformed */
	twi_hello_put(words + TWI_FRAME_BYTES, &hello);
	twi_put_le32(words + TWI_HELLO_FRAME, 1u << 30);
	say_after_proof(runtime, where, words, TWI_HELLO_FRAME + 4);
	twi_put_le32(words + TWI_HELLO_FRAME, 0);
	say_after_proof(runtime, where, words, TWI_HELLO_FRAME + 4);
	twi_put_le32(words + TWI_HELLO_FRAME, TWI_TCP_ADVERTISED_BYTES);
	words[TWI_HELLO_FRAME + 4] = 77;
	say_after_proof(runtime, where, words, TWI_HELLO_FRAME + 4 + TWI_TCP_ADVERTISED_BYTES);
	/* a bulk stream and a resume of a session that nobody has, with any record */
	hello = (struct twi_hello){ .kind = TWI_STREAM_BULK, .session = 7, .token = 8 };
	twi_hello_put(words + TWI_FRAME_BYTES, &hello);
	twi_put_le32(words + TWI_HELLO_FRAME, 0);
	say_after_proof(runtime, where, words, TWI_HELLO_FRAME + 4);
	for (int i = 0; i < 20; i++) {
		uint32_t bytes = (uint32_t)twt_random_below(&random, TWI_TAIL_MAX);

		hello.flags = TWI_HELLO_RESUME;
		twi_hello_put(words + TWI_FRAME_BYTES, &hello);
		twi_put_le32(words + TWI_HELLO_FRAME, bytes);
		for (size_t k = 0; k < bytes; k++)
			words[TWI_HELLO_FRAME + 4 + k] = (uint8_t)twt_random(&random);
		say_after_proof(runtime, where, words, TWI_HELLO_FRAME + 4 + bytes);
	}
	assert_int_equal(counter(runtime, TWI_C_resume_failed), 20);
	assert_int_equal(counter(runtime, TWI_C_peers_connected), 0);
	TWT_OK(tow_runtime_close(runtime));
}

#define STRANGERS 600

/* Silent and half-spoken connections by the hundred; members go on, and new members come in. */
static void crowd(const char *key)
{
	struct tow_options options = twt_duo_options();
	struct tow_op_options limit = TOW_OP_OPTIONS_INIT;
	struct tow_endpoint *here;
	struct tow_runtime *other;
	uint8_t noise[40] = "TOWAUTH";
	char where[TOW_ADDRESS_MAX];
	int fds[STRANGERS];
	struct twt_duo duo;
	struct tow_op *accept, *connect;

	twt_duo_init(&duo);
	duo.parent.job_key = duo.child.job_key = options.job_key = key;
	twt_duo_open(&duo, child_traffic);
	TWT_OK(tow_endpoint_address(duo.side.endpoint, where, sizeof(where)));
	for (int i = 0; i < STRANGERS; i++) {
		fds[i] = twt_stranger_connect(where);
		if (i % 2 == 0)
			send(fds[i], noise, sizeof(noise), MSG_NOSIGNAL);
		tow_progress(duo.side.runtime);
	}
	assert_int_equal(twt_duo_traffic(&duo, TRAFFIC, NULL), 0);
	/* One more member, behind all of them. */
	limit.timeout_ns = 20 * TWT_SECOND;
	TWT_OK(tow_runtime_open(&options, &other));
	TWT_OK(tow_endpoint_open(other, "tcp://127.0.0.1:0", &here));
	TWT_OK(tow_accept_start(duo.side.endpoint, &limit, &accept));
	TWT_OK(tow_connect_start(here, where, &limit, &connect));
	while (tow_op_test(accept) == TOW_AGAIN || tow_op_test(connect) == TOW_AGAIN) {
		tow_progress(duo.side.runtime);
		tow_progress(other);
	}
	assert_int_equal(tow_op_test(accept), TOW_OK);
	assert_int_equal(tow_op_test(connect), TOW_OK);
	TWT_OK(tow_op_release(accept));
	TWT_OK(tow_op_release(connect));
	TWT_OK(tow_runtime_close(other));
	assert_true(counter(duo.side.runtime, TWI_C_handshakes_evicted) > 0);
	for (int i = 0; i < STRANGERS; i++)
		close(fds[i]);
	assert_int_equal(twt_duo_end(&duo), 0);
}

static void test_crowd(void **state)
{
	struct rlimit files;

	(void)state;
	getrlimit(RLIMIT_NOFILE, &files);
	files.rlim_cur = files.rlim_max < 4096 ? files.rlim_max : 4096;
	setrlimit(RLIMIT_NOFILE, &files);
	crowd(KEY);
	crowd("");
}

/* Payload of an encrypted connection does not stand on the wire; a changed byte ends the peer. */
static int child_secret(struct twt_duo *duo)
{
	static uint8_t secret[300000];
	struct tow_op *op;
	int status;

	memset(secret, 'S', sizeof(secret));
	TWT_OK(tow_send_start(duo->side.peer, secret, sizeof(secret), 1, NULL, &op));
	status = twt_finish(op, NULL);
	TWT_OK(tow_recv_start(duo->side.peer, secret, sizeof(secret), 2, NULL, &op));
	return status == TOW_OK && twt_finish(op, NULL) == TOW_OK ? 0 : 1;
}

static bool holds_secret(const uint8_t *at, size_t bytes)
{
	size_t row = 0;

	for (size_t i = 0; i < bytes; i++) {
		row = at[i] == 'S' ? row + 1 : 0;
		if (row == 16)
			return true;
	}
	return false;
}

static _Atomic bool seen;

static void look(uint8_t *at, size_t bytes)
{
	if (holds_secret(at, bytes))
		atomic_store(&seen, true);
}

static void test_on_the_wire(void **state)
{
	static uint8_t room[300000];

	(void)state;
	for (int encrypt = 0; encrypt < 2; encrypt++) {
		struct twt_duo duo;
		struct tow_op *op;

		atomic_store(&seen, false);
		twt_duo_init(&duo);
		duo.proxied = true;
		duo.parent.job_key = duo.child.job_key = KEY;
		duo.parent.encrypt = encrypt;
		duo.proxy_tap = look;
		twt_duo_open(&duo, child_secret);
		TWT_OK(tow_recv_start(duo.side.peer, room, sizeof(room), 1, NULL, &op));
		assert_int_equal(twt_finish(op, NULL), TOW_OK);
		assert_true(holds_secret(room, sizeof(room)));
		TWT_OK(tow_send_start(duo.side.peer, room, sizeof(room), 2, NULL, &op));
		assert_int_equal(twt_finish(op, NULL), TOW_OK);
		assert_int_equal(atomic_load(&seen), encrypt == 0);
		assert_int_equal(twt_duo_end(&duo), 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_members),     cmocka_unit_test(test_encrypted),
		cmocka_unit_test(test_wrong_keys),  cmocka_unit_test(test_garbage),
		cmocka_unit_test(test_bad_words),   cmocka_unit_test(test_crowd),
		cmocka_unit_test(test_on_the_wire),
	};

	seed = twt_seed();
	if (getenv("TWT_ONLY") != NULL)
		cmocka_set_test_filter(getenv("TWT_ONLY"));
	return cmocka_run_group_tests(tests, NULL, NULL);
}
