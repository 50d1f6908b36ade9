/* test_delivery.c - which message was on its way for how long, as either side of it tells. */
#include "twt.h"

#include <towline/status.h>

#include "diag/record/lane_id.h"
#include "diag/trace/delivery.h"
#include "traces.h"

/* Of 100 bytes, with peer 1. */
static struct twi_span span_of(enum twi_span_kind kind, uint64_t id, uint64_t start_ns,
			       uint64_t end_ns)
{
	return (struct twi_span){ .kind = (uint8_t)kind,
				  .id = id,
				  .bytes = 100,
				  .start_ns = start_ns,
				  .end_ns = end_ns,
				  .peer = 1,
				  .lane = TWI_LANE_TCP };
}

static struct twi_span *add(struct twi_trace_rank *rank, uint64_t id, uint64_t start_ns,
			    uint64_t end_ns)
{
	struct twi_span *span = twt_trace_add_span(&rank->threads[0], TWI_SPAN_DELIVERY, 0, 0);

	*span = span_of(TWI_SPAN_DELIVERY, id, start_ns, end_ns);
	return span;
}

/* Two ranks of one thread, each with the other as its peer 1, and as peer 2 one nobody knows. */
static void make(struct twi_trace *out)
{
	*out = (struct twi_trace){ 0 };
	for (int64_t r = 0; r < 2; r++) {
		struct twi_trace_rank *rank = twt_trace_add_rank(out, "host", r);

		twt_trace_add_thread(rank, "main", 100 + r);
		twt_trace_add_peer(rank, "other", 1 - r);
		twt_trace_add_peer(rank, "stranger", -1);
	}
}

static uint64_t took(const struct twi_deliveries *all, const struct twi_trace_rank *rank,
		     const struct twi_span *message)
{
	const struct twi_span *delivery = twi_delivery_of(all, rank, message);

	return delivery != NULL ? delivery->end_ns - delivery->start_ns : 0;
}

static void both_sides_find_it(void **state)
{
	struct twi_deliveries all;
	struct twi_trace trace;
	struct twi_trace_rank *ranks;
	struct twi_span send, recv;

	(void)state;
	make(&trace);
	ranks = trace.ranks;
	/* From 0 to 1: timed by its sender. The other way, of the same number: by its receiver. */
	add(&ranks[0], 7, 50, 150);
	add(&ranks[0], 7, 60, 260)->detail = 1;
	assert_int_equal(twi_deliveries_make(&trace, &all), TOW_OK);
	send = span_of(TWI_SPAN_SEND, 7, 50, 55);
	recv = span_of(TWI_SPAN_RECV, 7, 10, 145);
	assert_int_equal(took(&all, &ranks[0], &send), 100);
	assert_int_equal(took(&all, &ranks[1], &recv), 100);
	send = span_of(TWI_SPAN_SEND, 7, 60, 65);
	recv = span_of(TWI_SPAN_RECV, 7, 20, 260);
	assert_int_equal(took(&all, &ranks[1], &send), 200);
	assert_int_equal(took(&all, &ranks[0], &recv), 200);
	twi_deliveries_fini(&all);
	twi_trace_fini(&trace);
}

static void no_other_message_is_taken_for_it(void **state)
{
	struct twi_deliveries all;
	struct twi_trace trace;
	struct twi_span recv, other;

	(void)state;
	make(&trace);
	add(&trace.ranks[0], 7, 50, 150);
	add(&trace.ranks[0], 9, 50, 150)->peer = 2;
	assert_int_equal(twi_deliveries_make(&trace, &all), TOW_OK);
	recv = span_of(TWI_SPAN_RECV, 7, 10, 145);
	assert_int_equal(took(&all, &trace.ranks[1], &recv), 100);
	assert_int_equal(took(&all, &trace.ranks[0], &recv), 0); /* the other way */
	other = recv;
	other.id = 8;
	assert_int_equal(took(&all, &trace.ranks[1], &other), 0);
	other = recv;
	other.lane = TWI_LANE_SHM;
	assert_int_equal(took(&all, &trace.ranks[1], &other), 0);
	other = recv;
	other.bytes = 99;
	assert_int_equal(took(&all, &trace.ranks[1], &other), 0);
	other = recv;
	other.id = 9;
	other.peer = 2; /* two strangers need not be one */
	assert_int_equal(took(&all, &trace.ranks[1], &other), 0);
	other.peer = 0;
	assert_int_equal(took(&all, &trace.ranks[1], &other), 0);
	twi_deliveries_fini(&all);
	twi_trace_fini(&trace);
}

static void an_empty_trace_has_none(void **state)
{
	struct twi_trace trace = { 0 };
	struct twi_deliveries all;

	(void)state;
	assert_int_equal(twi_deliveries_make(&trace, &all), TOW_OK);
	assert_int_equal(all.count, 0);
	twi_deliveries_fini(&all);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(both_sides_find_it),
		cmocka_unit_test(no_other_message_is_taken_for_it),
		cmocka_unit_test(an_empty_trace_has_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
