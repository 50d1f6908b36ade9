/*
 * test_perfetto.c - what Perfetto is given, read again by protobuf-c: tracks before their events,
 * slices that nest, flows from a send to where its receive ends; and its bytes, which Perfetto's
 * own schema gave. In a build without protobuf-c: that it says so.
 */
#include "twt.h"

#include <string.h>

#include <towline/status.h>

#include "diag/trace/export/export.h"
#include "tools/trace/formats.h"
#include "traces.h"

#ifdef TWI_XSPACE_OFF

static void it_says_why_there_is_none(void **state)
{
	struct twi_trace pair;
	char *bytes;
	size_t count;

	(void)state;
	twt_trace_pair(&pair);
	assert_int_equal(twi_export_perfetto(&pair, &bytes, &count), TOW_ENOTSUP);
	assert_non_null(strstr(tow_error_message(), TWI_XSPACE_OFF));
	assert_null(bytes);
	assert_int_equal(count, 0);
	/* What needs no protobuf-c is written all the same. */
	assert_int_equal(twi_export_chrome(&pair, &bytes, &count), TOW_OK);
	assert_true(count > 1000);
	free(bytes);
	twi_trace_fini(&pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(it_says_why_there_is_none) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

#include "diag/trace/export/packed.h"
#include <tools/trace/perfetto.pb-c.h>

#define BEGIN   TWI__TRACK_EVENT__TYPE__TYPE_SLICE_BEGIN
#define END     TWI__TRACK_EVENT__TYPE__TYPE_SLICE_END
#define INSTANT TWI__TRACK_EVENT__TYPE__TYPE_INSTANT

static Twi__Trace *read_export(const struct twi_trace *trace)
{
	Twi__Trace *out;
	char *bytes;
	size_t count;

	assert_int_equal(twi_export_perfetto(trace, &bytes, &count), TOW_OK);
	assert_int_equal(bytes[count], 0);
	out = twi__trace__unpack(NULL, count, (uint8_t *)bytes);
	assert_non_null(out);
	free(bytes);
	return out;
}

static const Twi__DebugAnnotation *find_note(const Twi__TrackEvent *event, const char *name)
{
	for (size_t i = 0; i < event->n_debug_annotations; i++)
		if (strcmp(event->debug_annotations[i]->name, name) == 0)
			return event->debug_annotations[i];
	return NULL;
}

/* The slice or point of a track that a packet begins; NULL when it does not. */
static const Twi__TrackEvent *event_of(const Twi__TracePacket *packet, const char *category)
{
	const Twi__TrackEvent *event = packet->track_event;

	if (event == NULL || event->n_categories != 1)
		return NULL;
	return strcmp(event->categories[0], category) == 0 ? event : NULL;
}

static const Twi__TrackEvent *find_event(const Twi__Trace *trace, const char *category)
{
	for (size_t i = 0; i < trace->n_packet; i++)
		if (event_of(trace->packet[i], category) != NULL)
			return trace->packet[i]->track_event;
	fail_msg("there is no %s", category);
	return NULL;
}

/* Slices that are open on a track: its events stand in the order in which they are laid. */
struct track {
	uint64_t uuid;
	size_t depth;
	uint64_t begins[64];
};

struct tracks {
	struct track rows[64];
	size_t count;
	size_t slices;
};

static struct track *find_track(struct tracks *tracks, uint64_t uuid)
{
	for (size_t i = 0; i < tracks->count; i++)
		if (tracks->rows[i].uuid == uuid)
			return &tracks->rows[i];
	return NULL;
}

static void add_track(struct tracks *tracks, const Twi__TrackDescriptor *descriptor)
{
	assert_true(tracks->count < twi_array_count(tracks->rows));
	assert_true(descriptor->has_uuid);
	assert_null(find_track(tracks, descriptor->uuid));
	if (descriptor->has_parent_uuid)
		assert_non_null(find_track(tracks, descriptor->parent_uuid));
	assert_int_equal((descriptor->name != NULL) + (descriptor->process != NULL) +
				 (descriptor->thread != NULL),
			 1);
	tracks->rows[tracks->count++] = (struct track){ .uuid = descriptor->uuid };
}

static int by_time(const void *a, const void *b)
{
	const Twi__TracePacket *x = *(Twi__TracePacket *const *)a;
	const Twi__TracePacket *y = *(Twi__TracePacket *const *)b;
	bool x_ends = x->track_event->type == END, y_ends = y->track_event->type == END;

	if (x->timestamp != y->timestamp)
		return x->timestamp < y->timestamp ? -1 : 1;
	return (int)y_ends - (int)x_ends; /* what ends makes room for what begins then */
}

static void add_event(struct tracks *tracks, const Twi__TracePacket *packet)
{
	struct track *track = find_track(tracks, packet->track_event->track_uuid);

	assert_non_null(track);
	if (packet->track_event->type == BEGIN) {
		assert_true(track->depth < twi_array_count(track->begins));
		track->begins[track->depth++] = packet->timestamp;
		tracks->slices++;
	} else if (packet->track_event->type == END) {
		assert_true(track->depth > 0);
		assert_true(track->begins[--track->depth] <= packet->timestamp);
	}
}

static size_t spans_of(const struct twi_trace *trace)
{
	size_t count = 0;

	for (size_t r = 0; r < trace->rank_count; r++)
		for (size_t t = 0; t < trace->ranks[r].thread_count; t++)
			count += trace->ranks[r].threads[t].span_count;
	return count;
}

static void slices_nest_on_tracks_that_are_told(void **state)
{
	static struct tracks tracks;
	Twi__TracePacket **events;
	struct twi_trace pair;
	Twi__Trace *trace;
	size_t count = 0;

	(void)state;
	twt_trace_pair(&pair);
	trace = read_export(&pair);
	events = calloc(trace->n_packet, sizeof(Twi__TracePacket *));
	assert_non_null(events);
	for (size_t i = 0; i < trace->n_packet; i++) {
		Twi__TracePacket *packet = trace->packet[i];

		if (packet->track_descriptor != NULL)
			add_track(&tracks, packet->track_descriptor);
		if (packet->track_event == NULL)
			continue;
		assert_non_null(find_track(&tracks, packet->track_event->track_uuid));
		assert_true(packet->has_timestamp);
		events[count++] = packet;
	}
	qsort(events, count, sizeof(Twi__TracePacket *), by_time);
	for (size_t i = 0; i < count; i++)
		add_event(&tracks, events[i]);
	for (size_t i = 0; i < tracks.count; i++)
		assert_int_equal(tracks.rows[i].depth, 0);
	assert_int_equal(tracks.slices, spans_of(&pair));
	free(events);
	twi__trace__free_unpacked(trace, NULL);
	twi_trace_fini(&pair);
}

/* A thread's packets are a sequence, whose first says that nothing is known from before. */
static void sequences_begin_once(void **state)
{
	uint32_t begun = 0;
	struct twi_trace pair;
	Twi__Trace *trace;

	(void)state;
	twt_trace_pair(&pair);
	trace = read_export(&pair);
	for (size_t i = 0; i < trace->n_packet; i++) {
		const Twi__TracePacket *packet = trace->packet[i];

		assert_true(packet->has_trusted_packet_sequence_id);
		if (packet->has_sequence_flags) {
			assert_int_equal(packet->sequence_flags, 1);
			assert_int_equal(packet->trusted_packet_sequence_id, ++begun);
		}
		assert_int_equal(packet->trusted_packet_sequence_id, begun);
	}
	assert_int_equal(begun, 1 + 4); /* the head, two threads of two ranks */
	twi__trace__free_unpacked(trace, NULL);
	twi_trace_fini(&pair);
}

/* How many receives end the flow of a send: those of the pair that have an id in common. */
static void flows_lead_to_where_a_receive_ends(void **state)
{
	size_t sends = 0, both = 0;
	struct twi_trace pair;
	Twi__Trace *trace;

	(void)state;
	twt_trace_pair(&pair);
	trace = read_export(&pair);
	for (size_t i = 0; i < trace->n_packet; i++) {
		const Twi__TrackEvent *send = event_of(trace->packet[i], "send");

		if (send == NULL)
			continue;
		assert_int_equal(send->type, BEGIN);
		assert_int_equal(send->n_flow_ids, 1);
		sends++;
		for (size_t j = 0; j < trace->n_packet; j++) {
			const Twi__TrackEvent *end = event_of(trace->packet[j], "arrival");

			if (end == NULL || end->terminating_flow_ids[0] != send->flow_ids[0])
				continue;
			assert_int_equal(end->type, INSTANT);
			assert_string_equal(end->name, "received");
			assert_true(trace->packet[j]->timestamp > trace->packet[i]->timestamp);
			both++;
		}
	}
	/* A step: each rank's part of the collective, and a message of rank 0. */
	assert_int_equal(sends, TWT_PAIR_STEPS * 3);
	assert_int_equal(both, sends);
	twi__trace__free_unpacked(trace, NULL);
	twi_trace_fini(&pair);
}

static void notes_tell_what_a_span_knows(void **state)
{
	const Twi__TrackEvent *about, *coll, *step;
	struct twi_trace pair;
	Twi__Trace *trace;

	(void)state;
	twt_trace_pair(&pair);
	trace = read_export(&pair);
	about = find_event(trace, "about");
	coll = find_event(trace, "collective");
	step = find_event(trace, "step");
	assert_string_equal(find_note(about, "host")->string_value, "host-a");
	assert_int_equal(find_note(about, "rank")->int_value, 0);
	assert_int_equal(find_note(about, "sampled_out")->uint_value, 12);
	assert_int_equal(find_note(coll, "bytes")->uint_value, 8u << 20);
	assert_int_equal(find_note(coll, "ranks")->uint_value, 2);
	assert_string_equal(find_note(coll, "name")->string_value, "grads");
	assert_null(find_note(coll, "wire_ns"));
	assert_null(find_note(coll, "peer"));
	/* Step 0 has its number, though what is 0 is left out elsewhere. */
	assert_true(find_note(step, "id")->has_uint_value);
	assert_int_equal(find_note(step, "id")->uint_value, 0);
	assert_null(find_note(step, "bytes"));
	twi__trace__free_unpacked(trace, NULL);
	twi_trace_fini(&pair);
}

/* What Perfetto's own schema (of its Python package) writes of it; a line begins at each packet. */
static const char wanted_bytes[] =
	"\012\0242\016\012\005\010\001\020\314\010\012\005\010\006\020\314\010P\001h"
	"\001"
	"\012\036P\001\342\003\031\010\001\032\025\010\0012\021rank 2 (h, pid 7)"
	"\012r@\314\010P\001Zk\"\0122\003jobR\003job\"\0112\001hR\004host\"\010 \002R"
	"\004rank\"\007\030\007R\003pid\"\016\030\240\006R\011window_ns\"\010\030\000R"
	"\004lost\"\017\030\000R\013sampled_outH\003X\001\262\001\005about\272\001\007c"
	"apture"
	"\012\026P\002h\001\342\003\017\010\002\"\011\010\001\020\001*\003t/7(\001"
	"\012\024P\002\342\003\017\010\003\022\011t/7 async(\001"
	"\012i@\260\011P\002Zb\"\007\030\254\002R\002id\"\0112\001pR\004peer\"\015 \001"
	"R\011peer_rankH\001X\003\262\001\004send\272\001'MegaScale: Communication Tran"
	"sport Send\371\002\305\025\375\344\227\370\336\366"
	"\012\013@\334\013P\002Z\004H\002X\003";

/* Of one rank that has sent one message: the numbers and types of fields are Perfetto's. */
static void bytes_are_those_of_perfettos_schema(void **state)
{
	struct twi_trace trace = { 0 };
	struct twi_trace_rank *rank = twt_trace_add_rank(&trace, "h", 2);
	struct twi_trace_thread *thread;
	struct twi_span *span;
	char *bytes;
	size_t count;

	(void)state;
	rank->pid = 7;
	rank->unix_ns = 1000;
	rank->begin_ns = 100;
	rank->end_ns = 900;
	rank->clock_error_ns = UINT64_MAX;
	twt_trace_add_peer(rank, "p", 1);
	thread = twt_trace_add_thread(rank, "t", 7);
	span = twt_trace_add_span(thread, TWI_SPAN_SEND, 200, 500);
	span->id = 300;
	span->peer = 1;
	assert_int_equal(twi_export_perfetto(&trace, &bytes, &count), TOW_OK);
	assert_int_equal(count, sizeof(wanted_bytes) - 1);
	assert_memory_equal(bytes, wanted_bytes, count);
	free(bytes);
	twi_trace_fini(&trace);
}

static void nothing_is_an_empty_trace(void **state)
{
	struct twi_trace trace = { 0 };
	char *bytes;
	size_t count;

	(void)state;
	assert_int_equal(twi_export_perfetto(&trace, &bytes, &count), TOW_OK);
	assert_int_equal(count, 0);
	assert_int_equal(bytes[0], 0);
	free(bytes);
}

/* Parts of a message, and a message within it that was packed before: it is all one message. */
static void parts_are_one_message(void **state)
{
	Twi__DebugAnnotation note = TWI__DEBUG_ANNOTATION__INIT, *whole;
	struct twi_packed packed = { 0 }, inner = { 0 };
	char name[] = "name", value[] = "value", *bytes;
	ProtobufCBinaryData field;
	size_t count;

	(void)state;
	note.name = name;
	twi_packed_add(&packed, &note.base);
	note.name = NULL;
	note.string_value = value;
	twi_packed_add(&packed, &note.base);
	assert_int_equal(twi_packed_take(&packed, &bytes, &count), TOW_OK);
	assert_int_equal(bytes[count], 0);
	whole = twi__debug_annotation__unpack(NULL, count, (uint8_t *)bytes);
	assert_non_null(whole);
	assert_string_equal(whole->name, "name");
	assert_string_equal(whole->string_value, "value");
	twi__debug_annotation__free_unpacked(whole, NULL);
	free(bytes);
	inner.failed = true; /* sticks, and is handed on */
	field = twi_packed_field(&packed, &inner);
	assert_int_equal(field.len, 0);
	twi_packed_add(&packed, &note.base);
	assert_int_equal(twi_packed_take(&packed, &bytes, &count), TOW_ENOMEM);
	assert_null(bytes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(slices_nest_on_tracks_that_are_told),
		cmocka_unit_test(sequences_begin_once),
		cmocka_unit_test(flows_lead_to_where_a_receive_ends),
		cmocka_unit_test(notes_tell_what_a_span_knows),
		cmocka_unit_test(bytes_are_those_of_perfettos_schema),
		cmocka_unit_test(nothing_is_an_empty_trace),
		cmocka_unit_test(parts_are_one_message),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

#endif
