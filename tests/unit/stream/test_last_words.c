/*
 * A peer breaks a rule of the protocol: whoever finds it out says which in the message of its
 * operations, and tells the peer, whose operations end with a message that names it, too. One
 * runtime, connected to itself over tcp (plain and encrypted) and over loop; shm and ofi have
 * theirs in test_shm_liars.c and test_ofi_ends.c.
 */
#include "twt.h"

#include <string.h>
#include <unistd.h>

#include <towline/towline.h>

#include "pair.h"

#include "diag/record/counter.h"
#include "diag/record/diag.h"
#include "transport/engine/engine.h"
#include "transport/engine/runtime.h"
#include "transport/op/endpoint.h"
#include "transport/stream/session_parts.h"
#include "transport/wire/rule.h"

#define SECOND 1000000000ull

static const struct way {
	const char *address;
	bool encrypted;
} ways[] = {
	{ "tcp://127.0.0.1:0", false },
	{ "tcp://127.0.0.1:0", true },
	{ "loop://words", false },
};

static struct tow_runtime *runtime;
static struct twi_engine *engine;
static struct tow_peer *liar, *judge; /* the two ends of one connection */

static void open_way(const struct way *way)
{
	struct tow_options options = TOW_OPTIONS_INIT;
	struct tow_endpoint *here, *there;
	struct tow_op *connect, *accept;
	char address[TOW_ADDRESS_MAX], second[TOW_ADDRESS_MAX];

	options.premap_memory_bytes = 4 << 20;
	options.stats = 0;
	options.max_ops = 256;
	options.background = 0;
	if (way->encrypted) {
		options.job_key = "the words of a test";
		options.encrypt = 1;
	}
	assert_int_equal(tow_runtime_open(&options, &runtime), TOW_OK);
	engine = twi_runtime_engine(runtime);
	snprintf(second, sizeof(second), "%s%s", way->address,
		 strncmp(way->address, "loop", 4) == 0 ? "2" : "");
	assert_int_equal(tow_endpoint_open(runtime, way->address, &here), TOW_OK);
	assert_int_equal(tow_endpoint_open(runtime, second, &there), TOW_OK);
	assert_int_equal(tow_endpoint_address(there, address, sizeof(address)), TOW_OK);
	assert_int_equal(tow_accept_start(there, NULL, &accept), TOW_OK);
	assert_int_equal(tow_connect_start(here, address, NULL, &connect), TOW_OK);
	liar = twt_finish_peer(connect);
	judge = twt_finish_peer(accept);
}

static void close_way(void)
{
	struct twi_pool_stats stats;

	twi_pool_stats(engine->pool, &stats);
	assert_int_equal(stats.leased, 0);
	assert_int_equal(tow_runtime_close(runtime), TOW_OK);
}

/* The liar's session says what no session says. */
static void say(const struct twi_frame *frame)
{
	twi_engine_enter(engine);
	twi_engine_bind_ring(engine);
	assert_true(twi_session_put(twi_session_of(liar), frame));
	twi_session_of(liar)->urgent = true;
	twi_engine_leave(engine);
	assert_int_equal(tow_flush(runtime), TOW_OK);
}

static uint64_t counted(enum twi_counter id)
{
	return twi_counter_sum(engine->diag, id);
}

static const struct {
	struct twi_frame frame;
	unsigned rule;
} lies[] = {
	{ { .type = TWI_FRAME_DONE, .seq = 9999 }, TWI_RULE_NO_SUCH_MESSAGE },
	{ { .type = TWI_FRAME_CTS, .seq = 9999, .value = 1 }, TWI_RULE_NO_SUCH_MESSAGE },
	{ { .type = TWI_FRAME_RTS, .seq = 9999, .value = 1 << 20 }, TWI_RULE_MESSAGE_ORDER },
	{ { .type = TWI_FRAME_ACK, .seq = 9999 }, TWI_RULE_ACK },
	{ { .type = TWI_FRAME_RECEIVED, .value = 1 << 30 }, TWI_RULE_RECEIVED },
	{ { .type = TWI_FRAME_DATA, .seq = 1, .flags = TWI_FRAME_ABORT }, TWI_FAULT_STREAM },
	{ { .type = TWI_FRAME_HELLO, .payload_bytes = TWI_HELLO_BYTES }, TWI_FAULT_ORDER },
	{ { .type = 99 }, TWI_FAULT_TYPE },
	{ { .type = TWI_FRAME_PING, .flags = 8 }, TWI_FAULT_FLAGS },
	{ { .type = TWI_FRAME_DONE, .seq = 1, .tag = 5 }, TWI_FAULT_TAG },
	{ { .type = TWI_FRAME_EAGER, .channel = 7, .seq = 1 }, TWI_RULE_CHANNEL },
	{ { .type = TWI_FRAME_BYE, .channel = 7 }, TWI_FAULT_RESERVED },
	{ { .type = TWI_FRAME_PING, .channel = 1 }, TWI_FAULT_RESERVED },
	{ { .type = TWI_FRAME_READ, .payload_bytes = TWI_REMOTE_BYTES, .seq = 1, .value = 8 },
	  TWI_RULE_FEATURE },
	{ { .type = TWI_FRAME_WRITE, .payload_bytes = TWI_REMOTE_BYTES, .seq = 1, .value = 8 },
	  TWI_RULE_FEATURE },
};

/* Its message names the rule, and what breaking it is; `told`: the other side has said so. */
static void expect_words(struct tow_op *op, int status, unsigned rule, bool told)
{
	const char *words;
	char number[64];

	assert_int_equal(twt_finish(op, NULL), status);
	words = tow_error_message();
	snprintf(number, sizeof(number), "broke rule %u of the protocol: ", rule);
	if (strstr(words, number) == NULL || strstr(words, twi_rule_text(rule)) == NULL ||
	    (strstr(words, "it says that this side") != NULL) != told)
		fail_msg("rule %u: \"%s\"", rule, words);
}

static void test_both_ends_say_the_rule(void **state)
{
	static uint64_t word[2];

	(void)state;
	for (size_t w = 0; w < twi_array_count(ways); w++) {
		for (size_t i = 0; i < twi_array_count(lies); i++) {
			struct tow_op *here, *there;

			open_way(&ways[w]);
			assert_int_equal(tow_recv_start(liar, &word[0], 8, 1, NULL, &here), TOW_OK);
			assert_int_equal(tow_recv_start(judge, &word[1], 8, 1, NULL, &there),
					 TOW_OK);
			say(&lies[i].frame);
			expect_words(there, TOW_EPROTOCOL, lies[i].rule, false);
			expect_words(here, TOW_EPEER, lies[i].rule, true);
			assert_int_equal(counted(TWI_C_protocol_errors), 1);
			assert_int_equal(counted(TWI_C_peers_lost), 2);
			close_way();
		}
	}
}

/* After its operations have ended the peer is at once given back: the words still go. */
static void test_words_outlive_the_peer(void **state)
{
	static uint64_t word[3];

	(void)state;
	for (size_t w = 0; w < twi_array_count(ways); w++) {
		struct tow_op *here, *there, *later;

		open_way(&ways[w]);
		assert_int_equal(tow_recv_start(liar, &word[0], 8, 1, NULL, &here), TOW_OK);
		assert_int_equal(tow_recv_start(judge, &word[1], 8, 1, NULL, &there), TOW_OK);
		say(&lies[0].frame);
		expect_words(there, TOW_EPROTOCOL, lies[0].rule, false);
		assert_int_equal(tow_send_start(judge, &word[2], 8, 1, NULL, &later), TOW_OK);
		assert_int_equal(twt_finish(later, NULL), TOW_EPROTOCOL);
		assert_int_equal(tow_peer_close(judge), TOW_OK);
		expect_words(here, TOW_EPEER, lies[0].rule, true);
		assert_int_equal(tow_peer_close(liar), TOW_OK);
		for (int i = 0; i < 2000 && !twi_list_empty(&engine->peers); i++) {
			tow_progress(runtime);
			usleep(1000);
		}
		assert_true(twi_list_empty(&engine->peers));
		close_way();
	}
}

/* Whatever number a peer says: one bounded line of our own text. */
static void test_any_number(void **state)
{
	(void)state;
	for (int value = -1; value <= 255; value++) {
		const char *words = tow_error_message();

		assert_int_equal(twi_rule_bye_error("loop://them", "", value), TOW_EPEER);
		assert_true(strlen(words) < 400);
		for (const char *at = words; *at != 0; at++)
			assert_true(*at >= ' ' && *at <= '~');
		assert_true((strstr(words, "rule") != NULL) == (value > (int)TWI_BYE_RULE));
	}
	/* Whose rank is known is told by it: an address alone says little of who has left. */
	twi_rule_bye_error("tcp://10.0.0.7:5", " (rank 7)", 0);
	assert_non_null(strstr(tow_error_message(), "5 (rank 7) closed the connection"));
	assert_true(twi_rule_is_goodbye(tow_error_message()));
	assert_int_equal(twi_rule_of_bye(twi_rule_bye(TWI_RULE_DONE_EARLY)), TWI_RULE_DONE_EARLY);
	assert_int_equal(twi_rule_of_bye(twi_rule_bye(0)), 0);
	assert_int_equal(twi_rule_of_bye((uint64_t)-TOW_EPROTOCOL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_both_ends_say_the_rule),
		cmocka_unit_test(test_words_outlive_the_peer),
		cmocka_unit_test(test_any_number),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
