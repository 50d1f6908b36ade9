/*
 * inquiry_news.c - captures a trace when a look has a new finding.
 *
 * This rank captures, and so do other ranks, if their knob trace_on_verdict says so.
 *
 *	the rank that looks       capture  --- file in verdict_TIME
 *	     |  NEWS
 *	     v
 *	every rank with a         capture  --- file in verdict_TIME, the same, as NEWS has the time
 *	connection to it
 *
 *	offset  0        8       12     16     20
 *	        | unix_s | cause | rank | peer | reserved |     behind the head of inquiry.h
 *
 * A rank that gets NEWS decides by its own knob and its own bounds (trace_writer.h). So repeated
 * NEWS make it capture once a minute at most. They cannot name a file: the folder's name is made of
 * the time, which must be near the receiver's own.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <internal/base.h>

#include "diag/judge/verdict_history.h"
#include "diag/record/span.h"
#include "transport/engine/engine.h"
#include "transport/inquiry/inquiry.h"
#include "transport/job/group.h"

#define NOBODY   UINT32_MAX
#define APART_S  86400u /* how far the clocks of a job's hosts may differ */
#define TEXT_MAX 96u

void twi_inquiry_news_write(const struct twi_inquiry_news *news, uint8_t out[TWI_INQUIRY_NEWS])
{
	memset(out, 0, TWI_INQUIRY_NEWS);
	twi_put_le(out, news->unix_s, 8);
	twi_put_le(out + 8, (uint64_t)news->cause, 4);
	twi_put_le(out + 12, news->rank, 4);
	twi_put_le(out + 16, news->peer, 4);
}

bool twi_inquiry_news_read(const uint8_t *in, size_t bytes, uint64_t now_unix_s,
			   struct twi_inquiry_news *out)
{
	uint64_t cause;

	if (bytes < TWI_INQUIRY_NEWS)
		return false;
	cause = twi_get_le(in + 8, 4);
	*out = (struct twi_inquiry_news){ .unix_s = twi_get_le(in, 8),
					  .rank = (uint32_t)twi_get_le(in + 12, 4),
					  .peer = (uint32_t)twi_get_le(in + 16, 4) };
	if (out->unix_s - (now_unix_s - APART_S) > 2 * APART_S || cause >= TWI_CAUSES)
		return false;
	out->cause = (enum twi_cause)cause;
	return true;
}

/* Begins a capture; may be called in any thread. */
static void begin_capture(struct twi_engine *engine, uint32_t from,
			  const struct twi_inquiry_news *news)
{
	const char *cause = twi_cause_name(news->cause);
	char text[TEXT_MAX];

	if (news->peer != NOBODY)
		snprintf(text, sizeof(text), "rank %" PRIu32 " gives: %s, %" PRIu32 " -> %" PRIu32,
			 from, cause, news->rank, news->peer);
	else
		snprintf(text, sizeof(text), "rank %" PRIu32 " gives: %s, rank %" PRIu32, from,
			 cause, news->rank);
	engine->hooks.trace->found(engine, news->unix_s, text);
}

static void on_news_op_done(struct tow_op *op, const struct tow_result *result)
{
	(void)result;
	twi_container_of(op, struct twi_inquiry, news_op)->news_op_used = false;
}

/* The operation expires at once, and sends the news; or the engine closes. */
static void on_news_op(struct tow_op *op, int status)
{
	struct twi_inquiry *inquiry = twi_container_of(op, struct twi_inquiry, news_op);
	struct twi_list *pos, *next;

	if (status == TOW_EDEADLINE) {
		twi_list_for_each_safe (pos, next, &inquiry->lines)
			twi_inquiry_tell(twi_container_of(pos, struct twi_inquiry_line, link),
					 &inquiry->news);
	}
	twi_op_complete(op, TOW_OK, 0);
}

static const struct twi_op_ops news_op_ops = {
	.kind = TWI_OP_CALL, .noun = "timer", .span = TWI_SPAN_CALL, .abort = on_news_op
};

/* Lets the driver send, as for the timer of rounds: it has a ring, and this thread has none. */
static void start_news_op(struct twi_inquiry *inquiry)
{
	const struct tow_op_options options = {
		.size = sizeof(options), .timeout_ns = 0, .done = on_news_op_done, .user = NULL
	};

	twi_assert_held(inquiry->engine);
	if (inquiry->news_op_used)
		return; /* it sends the newest news */
	twi_op_embed(&inquiry->news_op, inquiry->engine, &news_op_ops, &options);
	inquiry->news_op.deadline_ns = twi_engine_clock(inquiry->engine);
	inquiry->news_op_used = true;
	twi_op_watch(&inquiry->news_op);
	inquiry->engine->armed_since_enter = true; /* wake a sleeping thread to drive */
}

void twi_inquiry_news_tell(struct twi_inquiry *inquiry, const struct twi_history_finding *found)
{
	struct twi_engine *engine = inquiry->engine;
	struct twi_inquiry_news news = { .unix_s = (uint64_t)time(NULL),
					 .cause = found->cause,
					 .rank = found->ranks[0],
					 .peer = NOBODY };
	const struct twi_ranks *ranks = NULL;
	uint32_t self = engine->knobs.rank;

	if (found->rank_count == 0 && found->link_count > 0) {
		news.rank = found->links[0].from;
		news.peer = found->links[0].to;
	}
	twi_engine_enter(engine);
	inquiry->news = news;
	if (!twi_list_empty(&inquiry->lines))
		ranks = twi_container_of(twi_list_first(&inquiry->lines), struct twi_inquiry_line,
					 link)
				->ear.ranks;
	if (ranks != NULL) {
		self = ranks->rank;
		start_news_op(inquiry);
	}
	twi_engine_leave(engine);
	begin_capture(engine, self, &news);
}

void twi_inquiry_news_heard(struct twi_inquiry *inquiry, uint32_t from, const uint8_t *in,
			    size_t bytes)
{
	struct twi_inquiry_news news;

	twi_assert_held(inquiry->engine);
	if (twi_inquiry_news_read(in, bytes, (uint64_t)time(NULL), &news))
		begin_capture(inquiry->engine, from, &news);
}

void twi_inquiry_news_close(struct twi_inquiry *inquiry)
{
	twi_engine_enter(inquiry->engine);
	if (inquiry->news_op_used && twi_heap_has(&inquiry->news_op.timed))
		twi_op_unwatch(&inquiry->news_op);
	inquiry->news_op_used = false;
	twi_engine_leave(inquiry->engine);
}
