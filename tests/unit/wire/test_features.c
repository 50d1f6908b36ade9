/*
 * test_features.c - what two sides agree on before the first message: the rule by itself, and on
 * every lane, between sides that offer and require what the other has not, or has never heard of.
 */
#include "lane_pair.h"

#include <jansson.h>

#include "transport/op/endpoint.h"
#include "transport/wire/feature.h"
#include "twt.h"

/* Numbers that no version has given a meaning. */
#define NEW_A (1u << 30)
#define NEW_B (1u << 31)

static uint64_t word(uint32_t offered, uint32_t required)
{
	return (uint64_t)required << 32 | offered;
}

static int agree(uint64_t ours, uint64_t theirs, uint32_t *agreed_out)
{
	const struct twi_feature_side a = { ours, 2, 1 }, b = { theirs, 2, 7 };

	return twi_features_agree("tcp://there:1", &a, &b, agreed_out);
}

static void the_rule(void **state)
{
	uint32_t agreed = 42;

	(void)state;
	assert_int_equal(agree(word(0, 0), word(0, 0), &agreed), TOW_OK);
	assert_int_equal(agreed, 0);
	assert_int_equal(agree(word(3, 0), word(6, 0), &agreed), TOW_OK);
	assert_int_equal(agreed, 2);
	/* What only one has ever heard of means nothing, as long as nobody requires it. */
	assert_int_equal(agree(word(3, 0), word(3 | NEW_A | NEW_B, 0), &agreed), TOW_OK);
	assert_int_equal(agreed, 3);
	assert_int_equal(agree(word(3, 2), word(2, 2), &agreed), TOW_OK);
	assert_int_equal(agreed, 2);
	agreed = 42;
	assert_int_equal(agree(word(3, 0), word(NEW_A | 1, NEW_A), &agreed), TOW_EPROTOCOL);
	assert_non_null(strstr(tow_error_message(), "tcp://there:1"));
	assert_non_null(strstr(tow_error_message(), "requires feature 30 (unknown)"));
	assert_non_null(strstr(tow_error_message(), "2.7"));
	assert_non_null(strstr(tow_error_message(), "2.1"));
	assert_int_equal(agree(word(3, 1), word(2, 0), &agreed), TOW_EPROTOCOL);
	assert_non_null(strstr(tow_error_message(), "this side, which speaks version 2.1"));
	assert_non_null(strstr(tow_error_message(), "requires feature 0 (channels)"));
	assert_int_equal(agreed, 42);
	assert_true(twi_features_valid(word(7, 5)));
	assert_false(twi_features_valid(word(6, 1)));
}

static void the_list(void **state)
{
	const struct twi_features mine = { .offered = UINT32_MAX, .required = NEW_A };

	(void)state;
	assert_string_equal(twi_feature_name(TWI_FEATURE_channels), "channels");
	assert_string_equal(twi_feature_name(31), "unknown");
	assert_string_equal(twi_feature_name(32), "unknown");
	/* What is only decided is not offered, and nothing is required. */
	assert_int_equal(twi_features_built().offered &
				 (TWI_FEATURE_BIT(channels) | TWI_FEATURE_BIT(remote_memory)),
			 TWI_FEATURE_BIT(channels));
	assert_int_equal(twi_features_built().required, 0);
	/* A lane says nothing of what other lanes have; what is in no list it passes on. */
	assert_true(twi_features_word(mine, TWI_LANE_SHM, 0) & TWI_FEATURE_BIT(shm_barriers));
	assert_false(twi_features_word(mine, TWI_LANE_TCP, 0) & TWI_FEATURE_BIT(shm_barriers));
	assert_false(twi_features_word(mine, TWI_LANE_SHM, TWI_FEATURE_BIT(shm_barriers)) &
		     TWI_FEATURE_BIT(shm_barriers));
	assert_true(twi_features_word(mine, TWI_LANE_TCP, 0) ==
		    (twi_features_word(mine, TWI_LANE_TCP, 0) | NEW_A | (uint64_t)NEW_A << 32));
}

/* An "unknown" in the page would be a name of nothing: what is agreed on is known. */
static void names_in_the_page(struct twt_lane_pair *pair, int side)
{
	char *text;
	json_t *page, *peer, *names;

	TWT_OK(tow_stats_get(pair->runtime[side], "/v1/peers", &text));
	page = json_loads(text, 0, NULL);
	assert_non_null(page);
	peer = json_array_get(json_object_get(page, "peers"), 0);
	names = json_object_get(peer, "features");
	assert_true(json_is_array(names));
	assert_int_equal(json_array_size(names),
			 (size_t)__builtin_popcount(pair->peer[side]->features));
	json_decref(page);
	tow_stats_release(text);
}

/* Two sides of different ages: what both have is in use, what one has is not, and they talk. */
static void ages_agree(void **state)
{
	(void)state;
	for (size_t i = 0; i < TWT_LANE_ROWS; i++) {
		struct twt_lane_pair pair;

		twt_lane_init(&pair, &twt_lane_rows[i]);
		if (!twt_lane_open(&pair))
			continue;
		if (!pair.lane->one_runtime) {
			twi_runtime_engine(pair.runtime[0])->features.offered |= NEW_A | NEW_B;
			twi_runtime_engine(pair.runtime[1])->features.offered |= NEW_B;
		}
		twt_lane_join(&pair);
		assert_int_equal(pair.peer[0]->features, pair.peer[1]->features);
		if (!pair.lane->one_runtime)
			assert_int_equal(pair.peer[0]->features & (NEW_A | NEW_B), NEW_B);
		names_in_the_page(&pair, 0);
		names_in_the_page(&pair, 1);
		twt_lane_close(&pair);
	}
}

/* One side requires what the other does not offer: both say so, and nobody is connected. */
static void refused(const struct twt_lane_row *lane, int asking)
{
	char address[TOW_ADDRESS_MAX], refusal[64];
	struct tow_op *connect, *accept;
	struct twt_lane_pair pair;
	struct tow_result result;
	struct twi_engine *engine;

	twt_lane_init(&pair, lane);
	if (!twt_lane_open(&pair))
		return;
	engine = twi_runtime_engine(pair.runtime[asking]);
	engine->features.offered |= NEW_A;
	engine->features.required |= NEW_A;
	TWT_OK(tow_endpoint_address(pair.endpoint[1], address, sizeof(address)));
	TWT_OK(tow_accept_start(pair.endpoint[1], NULL, &accept));
	TWT_OK(tow_connect_start(pair.endpoint[0], address, NULL, &connect));
	result = twt_lane_wait(&pair, connect);
	assert_int_equal(result.status, TOW_EPROTOCOL);
	snprintf(refusal, sizeof(refusal), "requires feature 30 (unknown)");
	(void)tow_op_test(connect);
	if (strstr(tow_error_message(), refusal) == NULL)
		fail_msg("%s: the connect says: %s", lane->name, tow_error_message());
	TWT_OK(tow_op_release(connect));
	assert_int_equal(tow_op_test(accept), TOW_AGAIN);
	twt_lane_close(&pair);
}

static void required_is_refused(void **state)
{
	(void)state;
	for (size_t i = 0; i < TWT_LANE_ROWS; i++) {
		/* One that is of one runtime offers what it requires; tow:// tries other lanes. */
		if (twt_lane_rows[i].one_runtime || strcmp(twt_lane_rows[i].name, "tow") == 0)
			continue;
		refused(&twt_lane_rows[i], 0);
		refused(&twt_lane_rows[i], 1);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_rule),
		cmocka_unit_test(the_list),
		cmocka_unit_test(ages_agree),
		cmocka_unit_test(required_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
