/*
 * test_device_alone.c - a runtime that has a device and no endpoint. Its copies end in each way in
 * which a program may learn of them, also where no thread of the program's drives: then the
 * library's own thread does (knob background). So do deadlines, and a device that has failed says
 * why, also when other pieces of the copy are on their way.
 */
#include "device_rig.h"

#include <poll.h>
#include <stdatomic.h>
#include <unistd.h>

#include <towline/queue.h>

#define PATIENCE_NS (20 * RIG_SECOND)

static struct {
	const char *spec;
	uint64_t bytes;
} const devices[] = {
	{ "fake", 1000 },
	{ "fake:latency=2ms,chunk=64KiB", 3000000 },
	{ "fake:bandwidth=1GB,chunk=16KiB", 500000 },
	{ "fake:any,latency=100us", 1000 },
};

enum way { BY_CALLBACK, BY_QUEUE_FD, BY_LOOKING, BY_INFO, BY_TOW_FD, BY_WAIT, WAYS };

static const char *const way_names[] = {
	[BY_CALLBACK] = "a callback alone",
	[BY_QUEUE_FD] = "the queue's descriptor",
	[BY_LOOKING] = "tow_op_result",
	[BY_INFO] = "a released operation",
	[BY_TOW_FD] = "tow_fd",
	[BY_WAIT] = "tow_op_wait",
};

struct ended {
	_Atomic int status;
};

static void ends(struct tow_op *op, const struct tow_result *result)
{
	struct ended *ended = result->user;

	(void)op;
	atomic_store(&ended->status, result->status);
}

static void is_patient(uint64_t since_ns, enum way way)
{
	if (twi_now_ns() - since_ns > PATIENCE_NS)
		fail_msg("a copy did not end by %s", way_names[way]);
}

static int by_callback(struct tow_op *op, struct ended *ended)
{
	uint64_t since_ns = twi_now_ns();

	while (atomic_load(&ended->status) == TOW_AGAIN) {
		is_patient(since_ns, BY_CALLBACK);
		usleep(100);
	}
	twt_rig_ok(tow_op_release(op));
	return atomic_load(&ended->status);
}

static int by_queue(struct tow_queue *queue)
{
	struct tow_result result = TOW_RESULT_INIT;
	struct pollfd fd = { .events = POLLIN };
	size_t count;

	twt_rig_ok(tow_queue_fd(queue, &fd.fd));
	if (poll(&fd, 1, (int)(PATIENCE_NS / 1000000)) != 1)
		fail_msg("a copy did not end by %s", way_names[BY_QUEUE_FD]);
	twt_rig_ok(tow_queue_take(queue, &result, 1, &count));
	assert_int_equal(count, 1);
	tow_op_release(result.op);
	return result.status;
}

static int by_looking(struct tow_op *op)
{
	struct tow_result result = TOW_RESULT_INIT;
	uint64_t since_ns = twi_now_ns();

	while (tow_op_result(op, &result) == TOW_AGAIN) {
		is_patient(since_ns, BY_LOOKING);
		usleep(100);
	}
	twt_rig_ok(tow_op_release(op));
	return result.status;
}

/* Nobody has the operation any more; the device says how many copies have ended. */
static int by_info(struct twt_rig *rig, struct tow_op *op, uint64_t before)
{
	struct tow_device_info info = TOW_DEVICE_INFO_INIT;
	uint64_t since_ns = twi_now_ns();

	twt_rig_ok(tow_op_release(op));
	do {
		is_patient(since_ns, BY_INFO);
		usleep(100);
		twt_rig_ok(tow_device_info(rig->device, &info));
	} while (info.copies == before);
	return TOW_OK;
}

static int by_tow_fd(struct twt_rig *rig, struct tow_op *op)
{
	uint64_t since_ns = twi_now_ns();
	struct pollfd fd = { .events = POLLIN };
	int status;

	twt_rig_ok(tow_fd(rig->runtime, &fd.fd));
	while ((status = tow_op_test(op)) == TOW_AGAIN) {
		is_patient(since_ns, BY_TOW_FD);
		poll(&fd, 1, (int)(PATIENCE_NS / 1000000));
		tow_progress(rig->runtime);
	}
	twt_rig_ok(tow_op_release(op));
	return status;
}

/* Starts one copy and learns of its end in one way. */
static int copy_by(struct twt_rig *rig, enum way way, enum tow_direction direction,
		   struct tow_device_memory *memory, void *host, uint64_t bytes)
{
	struct tow_op_options options = TOW_OP_OPTIONS_INIT;
	struct tow_device_info info = TOW_DEVICE_INFO_INIT;
	struct ended ended = { .status = TOW_AGAIN };
	struct tow_queue *queue = NULL;
	struct tow_op *op;
	int status;

	if (way == BY_CALLBACK) {
		options.done = ends;
		options.user = &ended;
	} else if (way == BY_QUEUE_FD) {
		twt_rig_ok(tow_queue_open(rig->runtime, 4, &queue));
		options.queue = queue;
	}
	twt_rig_ok(tow_device_info(rig->device, &info));
	twt_rig_ok(tow_device_copy_start(rig->device, direction, memory, 0, host, bytes, &options,
					 &op));
	switch (way) {
	case BY_CALLBACK:
		return by_callback(op, &ended);
	case BY_LOOKING:
		return by_looking(op);
	case BY_INFO:
		return by_info(rig, op, info.copies);
	case BY_TOW_FD:
		return by_tow_fd(rig, op);
	case BY_WAIT:
		return twt_rig_end(op, NULL);
	default:
		break;
	}
	status = by_queue(queue);
	twt_rig_ok(tow_queue_close(queue));
	return status;
}

static void both_ways(struct twt_rig *rig, unsigned d, enum way way, bool in_pool)
{
	uint64_t bytes = devices[d].bytes;
	struct tow_device_memory *memory = twt_rig_memory(rig, bytes);
	uint8_t *to = in_pool ? twt_rig_alloc(rig, bytes) : malloc(bytes);
	uint8_t *from = in_pool ? twt_rig_alloc(rig, bytes) : malloc(bytes);
	int most = in_pool ? TOW_OK : TOW_COPIED; /* memory of others may be staged */

	twt_rig_fill(to, bytes, d * 10 + way);
	assert_in_range(copy_by(rig, way, TOW_TO_DEVICE, memory, to, bytes), TOW_OK, most);
	assert_in_range(copy_by(rig, way, TOW_FROM_DEVICE, memory, from, bytes), TOW_OK, most);
	twt_rig_check(from, bytes, d * 10 + way);
	twt_rig_ok(tow_device_free(memory));
	if (in_pool) {
		twt_rig_ok(tow_free(rig->runtime, to));
		twt_rig_ok(tow_free(rig->runtime, from));
	} else {
		free(to);
		free(from);
	}
}

static void copies_end_without_an_endpoint(void **state)
{
	(void)state;
	for (unsigned d = 0; d < sizeof(devices) / sizeof(devices[0]); d++) {
		struct twt_rig rig;

		twt_rig_open(&rig, devices[d].spec, false);
		for (int way = 0; way < WAYS; way++) {
			both_ways(&rig, d, way, true);
			both_ways(&rig, d, way, false);
		}
		twt_rig_close(&rig);
	}
}

/* Without the library's own thread the program drives. */
static void who_has_no_thread_drives_himself(void **state)
{
	(void)state;
	for (unsigned d = 0; d < sizeof(devices) / sizeof(devices[0]); d++) {
		struct tow_options options = twt_rig_options();
		struct twt_rig rig;

		options.background = 0;
		twt_rig_runtime(&rig, &options, false);
		twt_rig_ok(tow_device_open(rig.runtime, devices[d].spec, &rig.device));
		for (int in_pool = 0; in_pool < 2; in_pool++) {
			both_ways(&rig, d, BY_TOW_FD, in_pool);
			both_ways(&rig, d, BY_WAIT, in_pool);
		}
		twt_rig_close(&rig);
	}
}

/* The device hangs. What is staged ends at its deadline; what is in place, when it is lost. */
static void deadlines_hold_without_an_endpoint(void **state)
{
	(void)state;
	for (int in_pool = 0; in_pool < 2; in_pool++) {
		struct tow_op_options options = TOW_OP_OPTIONS_INIT;
		struct ended ended = { .status = TOW_AGAIN };
		struct tow_device_memory *memory;
		uint8_t heap[1000];
		struct tow_op *op;
		struct twt_rig rig;

		twt_rig_open(&rig, "fake:hang_copy=1", false);
		memory = twt_rig_memory(&rig, sizeof(heap));
		options.timeout_ns = RIG_SECOND / 100;
		options.done = ends;
		options.user = &ended;
		twt_rig_ok(tow_device_copy_start(rig.device, TOW_FROM_DEVICE, memory, 0,
						 in_pool ? twt_rig_alloc(&rig, sizeof(heap)) : heap,
						 sizeof(heap), &options, &op));
		assert_int_equal(by_callback(op, &ended), TOW_EDEADLINE);
		twt_rig_close(&rig);
	}
}

/* The first of several pieces fails while the others are on their way. */
static void the_devices_own_words_are_kept(void **state)
{
	struct tow_result result = TOW_RESULT_INIT;
	struct tow_device_memory *memory;
	struct tow_op *op;
	struct twt_rig rig;

	(void)state;
	twt_rig_open(&rig, "fake:fail_copy=1,bandwidth=100MB,chunk=64KiB", false);
	memory = twt_rig_memory(&rig, 1 << 20);
	op = twt_rig_start(&rig, TOW_TO_DEVICE, memory, 0, twt_rig_alloc(&rig, 1 << 20), 1 << 20);
	assert_int_equal(tow_op_wait(op, PATIENCE_NS), TOW_EDEVICE);
	twt_rig_ok(tow_op_result(op, &result));
	assert_string_equal(result.message,
			    "device fake: a copy of 65536 bytes has failed, by its spec");
	assert_string_equal(tow_error_message(), result.message);
	twt_rig_ok(tow_op_release(op));
	twt_rig_close(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(copies_end_without_an_endpoint),
		cmocka_unit_test(who_has_no_thread_drives_himself),
		cmocka_unit_test(deadlines_hold_without_an_endpoint),
		cmocka_unit_test(the_devices_own_words_are_kept),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
