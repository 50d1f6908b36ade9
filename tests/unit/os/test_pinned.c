/* test_pinned.c - what is pinned, and whose it is: parser, rule, and real rings. */
#include "twt.h"

#include <jansson.h>
#include <liburing.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "diag/base/clock.h"
#include "diag/base/emit.h"
#include "diag/base/error.h"
#include "diag/record/diag.h"
#include "diag/serve/render.h"
#include "memreg/os/pinned.h"
#include "memreg/pool/pool.h"

#define MIB (1ull << 20)

struct seen {
	int count;
	uint64_t address, bytes; /* of the last */
};

static void see(void *arg, uint64_t address, uint64_t bytes)
{
	struct seen *seen = arg;

	seen->count++;
	seen->address = address;
	seen->bytes = bytes;
}

/* Linux 6.18. */
static const char fdinfo[] = "pos:\t0\nflags:\t02000002\nSqMask:\t0x7\nSqThread:\t-1\n"
			     "UserFiles:\t1\n    0: /tmp/UserBufs:\\0409\nUserBufs:\t3\n"
			     "    0: 0x7f0790caa000/1048576\n    1: <none>\n"
			     "    2: 0x7f0790eaa064/5000\nPollList:\nCqOverflowList:\n";

static void fdinfo_sample(void **state)
{
	struct twi_pinned_ring ring = { 0 };
	struct seen seen = { 0 };

	(void)state;
	assert_true(twi_pinned_parse(fdinfo, &ring, see, &seen));
	assert_true(ring.listed);
	assert_int_equal(ring.slots, 3);
	assert_int_equal(ring.buffers, 2);
	assert_int_equal(seen.count, 2);
	assert_int_equal(seen.address, 0x7f0790eaa064);
	assert_int_equal(seen.bytes, 5000);
	assert_true(twi_pinned_parse("UserBufs:\t0\n", &ring, see, &seen));
	assert_int_equal(ring.slots, 0);
}

static void hostile_fdinfo(void **state)
{
	/* No list, or one that ends early: the ring was in use, or the kernel lists nothing. */
	static const char *const unlisted[] = {
		"",
		"UserBufs",
		"UserBufs:",
		"UserBufs:\tmany\n",
		"XUserBufs:\t1\n    0: 0x1000/1\n",
		"UserBufs:\t1\n",
		"UserBufs:\t2\n    0: 0x1000/1\nPollList:\n",
		"UserBufs:\t18446744073709551615\n    0: 0x1000/1\n",
		"UserBufs:\t99999999999999999999\n",
		"UserBufs:\t1\n    x: 0x1000/1\n",
		"UserBufs:\t1\n    0 0x1000/1\n",
	};
	static const char *const bad_rows[] = {
		"UserBufs:\t1\n    0: 0x\n",      "UserBufs:\t1\n    0: 0x1000\n",
		"UserBufs:\t1\n    0: 0x1000/\n", "UserBufs:\t1\n    0: 0x1000/x\n",
		"UserBufs:\t1\n    0: ",          "UserBufs:\t1\n    0: 0xfffffffffffffffff/1\n",
	};
	struct twi_pinned_ring ring = { 0 };
	struct seen seen = { 0 };

	(void)state;
	for (size_t i = 0; i < sizeof(unlisted) / sizeof(unlisted[0]); i++) {
		assert_false(twi_pinned_parse(unlisted[i], &ring, see, &seen));
		assert_false(ring.listed);
	}
	seen.count = 0;
	for (size_t i = 0; i < sizeof(bad_rows) / sizeof(bad_rows[0]); i++) {
		assert_true(twi_pinned_parse(bad_rows[i], &ring, see, &seen));
		assert_int_equal(ring.buffers, 0);
	}
	assert_int_equal(seen.count, 0);
}

static void any_bytes(void **state)
{
	uint64_t seed = twt_seed();
	char text[sizeof(fdinfo)];

	(void)state;
	for (int round = 0; round < 20000; round++) {
		struct twi_pinned_ring ring = { 0 };
		struct seen seen = { 0 };

		memcpy(text, fdinfo, sizeof(text));
		for (uint64_t i = twt_random_below(&seed, 8); i > 0; i--)
			text[twt_random_below(&seed, sizeof(text) - 1)] =
				(char)twt_random_below(&seed, 128);
		twi_pinned_parse(text, &ring, see, &seen);
		assert_int_equal(ring.buffers, seen.count);
		assert_true(ring.buffers <= ring.slots);
	}
}

static void whose_it_is(void **state)
{
	(void)state;
	/* One ring with the pool (10), nothing else. */
	assert_int_equal(twi_pinned_ours(10, 10, 10, 0), 10);
	/* Another ring holds 3 elsewhere. */
	assert_int_equal(twi_pinned_ours(13, 10, 10, 3), 10);
	/* A second ring of ours has cloned it: pinned once, listed twice; or pinned it again. */
	assert_int_equal(twi_pinned_ours(13, 10, 20, 3), 10);
	assert_int_equal(twi_pinned_ours(23, 10, 20, 3), 20);
	/* 5 by something that is no ring. */
	assert_int_equal(twi_pinned_ours(15, 10, 10, 0), 10);
	/* The others' clones make "elsewhere" too large: ours is there at least once. */
	assert_int_equal(twi_pinned_ours(13, 10, 10, 9), 10);
	/* Never more than there is, and never below zero. */
	assert_int_equal(twi_pinned_ours(4, 10, 10, 0), 4);
	assert_int_equal(twi_pinned_ours(0, 0, 0, 9), 0);
	assert_int_equal(twi_pinned_ours(7, 0, 0, 0), 0);
}

/* A ring of somebody's; false where io_uring is not to be had. */
static bool ring_open(struct io_uring *ring)
{
	return io_uring_queue_init(8, ring, 0) == 0;
}

static int ring_add(void *ctx, const struct twi_region *region)
{
	struct iovec iov = { region->base, region->bytes };
	int err = io_uring_register_buffers(ctx, &iov, 1);

	return err < 0 ? twi_error_errno(TOW_ENOMEM, -err, "io_uring_register_buffers") : TOW_OK;
}

static void ring_remove(void *ctx, const struct twi_region *region)
{
	(void)region;
	io_uring_unregister_buffers(ctx);
}

static const struct twi_registrar ring_registrar = { "io_uring", ring_add, ring_remove };

static uint64_t at(json_t *object, const char *key)
{
	assert_true(json_is_integer(json_object_get(object, key)));
	return (uint64_t)json_integer_value(json_object_get(object, key));
}

/* A look that was dear is kept for a while: waits for a new one. */
static json_t *report(struct twi_diag *diag)
{
	uint64_t start = twi_now_ns();

	for (;;) {
		struct twi_emit e = { 0 };
		json_t *root;

		assert_int_equal(twi_registry_render(diag, "/v1/pool", &e), TOW_OK);
		root = json_loadb(e.text, e.bytes, 0, NULL);
		assert_non_null(root);
		free(e.text);
		if (at(root, "view_age_ns") <= twi_now_ns() - start)
			return root;
		json_decref(root);
		usleep(1000);
	}
}

static uint64_t of_process(struct twi_diag *diag, const char *key)
{
	json_t *root = report(diag);
	uint64_t value = at(json_object_get(root, "process"), key);

	json_decref(root);
	return value;
}

/* What the kernel says now of the whole process. */
static uint64_t vm_pin(void)
{
	char status[8192];
	uint64_t kib;

	twi_proc_read("/proc/self/status", status, sizeof(status));
	return twi_proc_number(status, "VmPin", &kib) ? kib * 1024 : 0;
}

static void *foreign_memory(size_t bytes)
{
	void *memory =
		mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(memory, MAP_FAILED);
	madvise(memory, bytes, MADV_NOHUGEPAGE); /* a huge page would be pinned as a whole */
	memset(memory, 1, bytes);
	return memory;
}

/* Before, with our ring, with a foreign one too, with a second one that knows the pool as well. */
static void sums_agree_with_the_kernel(void **state)
{
	struct twi_pool_options options = { .bytes = 8 * MIB, .huge_pages = false };
	struct io_uring ours, foreign;
	uint64_t before = vm_pin();
	void *memory = foreign_memory(MIB);
	struct iovec iov = { memory, MIB };
	struct twi_pool *pool;
	json_t *root, *process, *node;

	(void)state;
	if (!ring_open(&ours))
		skip();
	assert_true(ring_open(&foreign));
	assert_int_equal(twi_diag_create(&options.diag), TOW_OK);
	assert_int_equal(twi_pool_create(&options, &pool), TOW_OK);
	assert_int_equal(of_process(options.diag, "pinned_total_bytes"), before);
	assert_int_equal(of_process(options.diag, "pinned_by_towline_bytes"), 0);
	assert_int_equal(twi_pool_registrar_add(pool, &ring_registrar, &ours), TOW_OK);
	if (!twi_pool_registered(pool, &ring_registrar, &ours))
		skip(); /* no right to pin */
	assert_int_equal(vm_pin(), before + 8 * MIB);
	assert_int_equal(of_process(options.diag, "pinned_by_towline_bytes"), 8 * MIB);
	assert_int_equal(of_process(options.diag, "pinned_by_others_bytes"), before);
	assert_int_equal(io_uring_register_buffers(&foreign, &iov, 1), 0);
	root = report(options.diag);
	process = json_object_get(root, "process");
	assert_true(json_is_true(json_object_get(process, "pinned_exact")));
	assert_int_equal(at(process, "pinned_total_bytes"), before + 9 * MIB);
	assert_int_equal(at(process, "pinned_by_towline_bytes"), 8 * MIB);
	assert_int_equal(at(process, "pinned_by_others_bytes"), before + MIB);
	assert_int_equal(json_array_size(json_object_get(process, "rings")), 2);
	assert_int_equal(at(root, "pinned_bytes"), 8 * MIB);
	assert_int_equal(at(root, "resident_bytes"), 8 * MIB);
	node = json_array_get(json_object_get(json_object_get(root, "numa"), "nodes"), 0);
	if (node != NULL &&
	    json_array_size(json_object_get(json_object_get(root, "numa"), "nodes")) == 1) {
		assert_int_equal(at(node, "resident_bytes"), 8 * MIB);
		assert_int_equal(at(node, "pinned_bytes"), 8 * MIB);
		assert_int_equal(at(node, "asked_bytes"), 8 * MIB);
	}
	json_decref(root);
	/* The kernel ends a ring in its own time; what it unregisters is unpinned at once. */
	io_uring_unregister_buffers(&foreign);
	io_uring_queue_exit(&foreign);
	twi_pool_registrar_remove(pool, &ring_registrar, &ours);
	io_uring_queue_exit(&ours);
	twi_pool_destroy(pool);
	twi_diag_destroy(options.diag);
	munmap(memory, MIB);
}

/* Two rings that pin the pool each: the kernel counts it twice, and both are ours. */
static void a_pool_pinned_twice(void **state)
{
	struct twi_pool_options options = { .bytes = 2 * MIB };
	uint64_t before = vm_pin();
	struct io_uring one, two;
	struct twi_pool *pool;

	(void)state;
	if (!ring_open(&one))
		skip();
	assert_true(ring_open(&two));
	assert_int_equal(twi_diag_create(&options.diag), TOW_OK);
	assert_int_equal(twi_pool_create(&options, &pool), TOW_OK);
	assert_int_equal(twi_pool_registrar_add(pool, &ring_registrar, &one), TOW_OK);
	assert_int_equal(twi_pool_registrar_add(pool, &ring_registrar, &two), TOW_OK);
	if (!twi_pool_registered(pool, &ring_registrar, &two))
		skip();
	assert_int_equal(vm_pin(), before + 4 * MIB);
	assert_int_equal(of_process(options.diag, "pinned_by_towline_bytes"), 4 * MIB);
	assert_int_equal(of_process(options.diag, "pinned_by_others_bytes"), before);
	twi_pool_registrar_remove(pool, &ring_registrar, &two);
	twi_pool_registrar_remove(pool, &ring_registrar, &one);
	io_uring_queue_exit(&one);
	io_uring_queue_exit(&two);
	twi_pool_destroy(pool);
	twi_diag_destroy(options.diag);
}

/* More rings than are told of each by itself still count. */
static void many_rings(void **state)
{
	static struct io_uring ring[TWI_PINNED_RINGS + 3];
	struct twi_pinned pinned;
	void *memory = foreign_memory(MIB);
	struct iovec iov = { memory, MIB };
	uint64_t before = vm_pin(), part = 0;
	struct twi_address_range span = { (uintptr_t)memory, (uintptr_t)memory + MIB / 2 };
	int count = 0;

	(void)state;
	while (count < TWI_PINNED_RINGS + 3 && ring_open(&ring[count]))
		count++;
	if (count < TWI_PINNED_RINGS + 3)
		skip();
	assert_int_equal(io_uring_register_buffers(&ring[count - 1], &iov, 1), 0);
	twi_pinned_read(&span, 1, 0, &pinned, &part);
	assert_true(pinned.known && pinned.exact);
	assert_int_equal(pinned.rings, TWI_PINNED_RINGS);
	assert_int_equal(pinned.rings_left_out, 3);
	assert_int_equal(pinned.total, before + MIB);
	assert_int_equal(pinned.by_towline, MIB / 2);
	assert_int_equal(part, MIB / 2);
	io_uring_unregister_buffers(&ring[count - 1]);
	while (count > 0)
		io_uring_queue_exit(&ring[--count]);
	munmap(memory, MIB);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fdinfo_sample),
		cmocka_unit_test(hostile_fdinfo),
		cmocka_unit_test(any_bytes),
		cmocka_unit_test(whose_it_is),
		cmocka_unit_test(sums_agree_with_the_kernel),
		cmocka_unit_test(a_pool_pinned_twice),
		cmocka_unit_test(many_rings),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
