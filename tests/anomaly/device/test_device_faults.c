/*
 * test_device_faults.c - devices that refuse, lie, break and die: each time the right status, the
 * reason where a user looks for it, and nothing left behind or hanging.
 */
#include "device_rig.h"
#include "fault.h"

#include <dlfcn.h>
#include <unistd.h>

#define MIB ((uint64_t)1 << 20)

static char fake_cuda[512], fake_pjrt[512];

/* A function of one of the fakes, loaded once more. */
static int ask(const char *library, const char *name)
{
	union {
		void *object;
		int (*call)(void);
	} found;
	void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
	int value;

	assert_non_null(handle);
	found.object = dlsym(handle, name);
	assert_non_null(found.object);
	value = found.call();
	dlclose(handle);
	return value;
}

static int refused(const char *spec, const char *text)
{
	struct tow_options options = twt_rig_options();
	struct tow_device *device = (void *)1;
	struct twt_rig rig;
	int status;

	twt_rig_runtime(&rig, &options, false);
	status = tow_device_open(rig.runtime, spec, &device);
	assert_null(device);
	if (strstr(tow_error_message(), text) == NULL)
		fail_msg("\"%s\" is not in \"%s\"", text, tow_error_message());
	twt_rig_close(&rig);
	return status;
}

/* Both ways through a device, from the pool and from elsewhere. */
static void use(struct twt_rig *rig, int pool_status, int heap_status)
{
	struct tow_device_memory *memory = twt_rig_memory(rig, 3 * MIB);
	uint8_t *pool = twt_rig_alloc(rig, 3 * MIB), *heap = malloc(3 * MIB);

	twt_rig_fill(pool, 3 * MIB, 1);
	assert_int_equal(twt_rig_copy(rig, TOW_TO_DEVICE, memory, 0, pool, 3 * MIB), pool_status);
	assert_int_equal(twt_rig_copy(rig, TOW_FROM_DEVICE, memory, 0, heap, 3 * MIB), heap_status);
	twt_rig_check(heap, 3 * MIB, 1);
	twt_rig_fill(heap, 3 * MIB, 2);
	assert_int_equal(twt_rig_copy(rig, TOW_TO_DEVICE, memory, 0, heap, 3 * MIB), heap_status);
	assert_int_equal(twt_rig_copy(rig, TOW_FROM_DEVICE, memory, 0, pool, 3 * MIB), pool_status);
	twt_rig_check(pool, 3 * MIB, 2);
	twt_rig_ok(tow_device_free(memory));
	twt_rig_ok(tow_free(rig->runtime, pool));
	free(heap);
}

static void expect(struct twt_rig *rig, const char *path, const char *text)
{
	char *document;

	twt_rig_ok(tow_stats_get(rig->runtime, path, &document));
	if (strstr(document, text) == NULL)
		fail_msg("\"%s\" is not in %s: %s", text, path, document);
	tow_stats_release(document);
}

/* The pool is refused; the staging part is not: it works, staged, and says why. */
static void a_refused_map_is_no_end(void **state)
{
	struct twt_rig rig;

	(void)state;
	twt_rig_open(&rig, "fake:fail_map=1", false);
	use(&rig, TOW_COPIED, TOW_COPIED);
	assert_int_equal(twt_rig_count(&rig, TWI_C_fallback_copy_bytes), 4 * 3 * MIB);
	assert_int_equal(twi_fake_seen(rig.device->backend)->refused_addresses, 0);
	expect(&rig, "/v1/pool", "map number 1 is refused");
	expect(&rig, "/v1/devices", "map number 1 is refused");
	twt_rig_close(&rig);
	twt_rig_open(&rig, "fake:maps=1MiB", false);
	use(&rig, TOW_COPIED, TOW_COPIED);
	twt_rig_close(&rig);
}

static void refusing_everything_is_told(void **state)
{
	static const char *const specs[] = { "fake:fail_map=all", "fake:nomap" };

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		struct tow_device_memory *memory;
		struct twi_pool_stats stats;
		struct tow_op *op;
		struct twt_rig rig;
		void *host;

		twt_rig_open(&rig, specs[i], false);
		memory = twt_rig_memory(&rig, 64);
		host = twt_rig_alloc(&rig, 64);
		assert_int_equal(tow_device_copy_start(rig.device, TOW_TO_DEVICE, memory, 0, host,
						       64, NULL, &op),
				 TOW_ENOTSUP);
		assert_null(op);
		twi_pool_stats(rig.engine->pool, &stats);
		assert_int_equal(stats.leased, 0);
		twt_rig_ok(tow_device_free(memory));
		twt_rig_close(&rig);
	}
}

/* strict_premap: no runtime goes on with a device that does not know its pool. */
static void strict_refuses_the_device(void **state)
{
	struct tow_options options = twt_rig_options();
	struct tow_device *device;
	struct twt_rig rig;

	(void)state;
	options.strict_premap = 1;
	if (tow_runtime_open(&options, &rig.runtime) != TOW_OK) {
		printf("not run: this system pins no pool: %s\n", tow_error_message());
		return;
	}
	assert_int_equal(tow_device_open(rig.runtime, "fake:fail_map=1", &device), TOW_EPERM);
	assert_int_equal(tow_device_open(rig.runtime, "fake:nomap", &device), TOW_ENOTSUP);
	twt_rig_ok(tow_device_open(rig.runtime, "fake", &device));
	twt_rig_close(&rig);
}

/* Mapping and unmapping pair, whatever came between. */
static void maps_are_rolled_back(void **state)
{
	struct twi_region region = { .bytes = 4096, .generation = 1, .kind = TWI_REGION_USER };
	const struct twi_fake_seen *seen;
	struct twt_rig rig;

	(void)state;
	region.base = malloc(4096);
	twt_rig_open(&rig, "fake:fail_map=3", false);
	seen = twi_fake_seen(rig.device->backend);
	twt_rig_ok(rig.device->registrar.add(rig.device, &region));
	assert_true(twi_device_mapped(rig.device, region.base, 4096));
	assert_false(twi_device_mapped(rig.device, region.base, 4097));
	rig.device->registrar.remove(rig.device, &region);
	assert_false(twi_device_mapped(rig.device, region.base, 1));
	assert_int_equal(rig.device->registrar.add(rig.device, &region), TOW_EPERM);
	assert_false(twi_device_mapped(rig.device, region.base, 1));
	assert_int_equal(seen->maps, 2);
	assert_int_equal(seen->unmaps, 1);
	use(&rig, TOW_OK, TOW_COPIED);
	twt_rig_close(&rig);
	free(region.base);
}

static void one_bad_piece_ends_one_copy(void **state)
{
	static const char *const specs[] = { "fake:fail_copy=3,chunk=64KiB",
					     "fake:refuse_copy=3,chunk=64KiB" };

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		struct tow_device_memory *memory;
		struct tow_op *op[2];
		struct twt_rig rig;
		void *host;

		twt_rig_open(&rig, specs[i], false);
		memory = twt_rig_memory(&rig, MIB);
		host = twt_rig_alloc(&rig, MIB);
		op[0] = twt_rig_start(&rig, TOW_TO_DEVICE, memory, 0, host, MIB);
		op[1] = twt_rig_start(&rig, TOW_TO_DEVICE, memory, 0, host, MIB);
		assert_int_equal(twt_rig_end(op[0], NULL), TOW_EDEVICE);
		assert_int_equal(twt_rig_end(op[1], NULL), TOW_OK);
		assert_int_equal(twt_rig_count(&rig, TWI_C_ops_failed), 1);
		twt_rig_ok(tow_device_free(memory));
		twt_rig_close(&rig);
	}
}

static void a_dead_device_fails_all_and_hangs_nobody(void **state)
{
	static uint8_t unmapped[MIB];
	struct tow_device_memory *memory;
	struct tow_op *op[6];
	struct twt_rig rig;
	void *host;

	(void)state;
	twt_rig_open(&rig, "fake:die_copy=5,chunk=64KiB,latency=1ms", false);
	memory = twt_rig_memory(&rig, MIB);
	host = twt_rig_alloc(&rig, MIB);
	for (unsigned i = 0; i < 6; i++)
		op[i] = twt_rig_start(&rig, i % 2 ? TOW_FROM_DEVICE : TOW_TO_DEVICE, memory, 0,
				      i < 3 ? host : unmapped, MIB);
	for (unsigned i = 0; i < 6; i++)
		assert_int_equal(twt_rig_end(op[i], NULL), TOW_EDEVICE);
	assert_int_equal(rig.engine->staging.free_count, rig.engine->staging.chunks);
	twt_rig_ok(tow_device_free(memory));
	twt_rig_close(&rig);
}

static void no_driver_is_said(void **state)
{
	static const char *const needed[] = { "cuda:lib=/no/such/libcuda.so", "cuda" };
	char spec[600];

	(void)state;
	assert_int_equal(refused(needed[0], "no driver"), TOW_ENOTSUP);
	if (dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL) == NULL)
		assert_int_equal(refused(needed[1], "libcuda.so.1"), TOW_ENOTSUP);
	snprintf(spec, sizeof(spec), "cuda:lib=%s", fake_pjrt); /* a library, and no driver */
	assert_int_equal(refused(spec, "has no cuInit"), TOW_ENOTSUP);
}

static void garbage_is_no_plugin(void **state)
{
	char spec[600], path[] = "/tmp/towline-garbage-XXXXXX";
	int fd = mkstemp(path);

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(write(fd, "\177ELF and nothing more", 21), 21);
	close(fd);
	snprintf(spec, sizeof(spec), "pjrt:%s", path);
	assert_int_equal(refused(spec, "no plugin"), TOW_ENOTSUP);
	snprintf(spec, sizeof(spec), "cuda:lib=%s", path);
	assert_int_equal(refused(spec, "no driver"), TOW_ENOTSUP);
	unlink(path);
	assert_int_equal(refused("pjrt:/no/such/plugin.so", "no plugin"), TOW_ENOTSUP);
	snprintf(spec, sizeof(spec), "pjrt:%s", fake_cuda);
	assert_int_equal(refused(spec, "has no GetPjrtApi"), TOW_ENOTSUP);
}

static void plugins_that_lie_are_refused(void **state)
{
	static const struct {
		const char *mode, *text;
		int status;
	} lies[] = {
		{ "null", "returned NULL", TOW_ENOTSUP },
		{ "small", "says that it has 16 bytes", TOW_ENOTSUP },
		{ "version", "PJRT 1.115; only major version 0", TOW_ENOTSUP },
		{ "truncated", "has no function number 22", TOW_ENOTSUP },
		{ "holes", "has no function number 10", TOW_ENOTSUP },
		{ "init", "it does not start", TOW_EDEVICE },
		{ "create", "no hardware", TOW_EDEVICE },
		{ "nodevices", "no device 0; the plugin has 0", TOW_ENOTSUP },
	};
	char spec[600];

	(void)state;
	snprintf(spec, sizeof(spec), "pjrt:%s", fake_pjrt);
	for (unsigned i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
		setenv("FAKE_PJRT", lies[i].mode, 1);
		assert_int_equal(refused(spec, lies[i].text), lies[i].status);
		assert_int_equal(ask(fake_pjrt, "fake_pjrt_live"), 0);
	}
	unsetenv("FAKE_PJRT");
	snprintf(spec, sizeof(spec), "pjrt:%s,device=1", fake_pjrt);
	assert_int_equal(refused(spec, "no device 1"), TOW_ENOTSUP);
	assert_int_equal(ask(fake_pjrt, "fake_pjrt_live"), 0);
}

static void plugins_with_less_are_used(void **state)
{
	static const struct {
		const char *mode;
		int pool, heap;
	} kinds[] = {
		{ "all", TOW_OK, TOW_COPIED },       /* mapped, and staged by us */
		{ "nodma", TOW_OK, TOW_OK },         /* takes any memory by itself */
		{ "unimplemented", TOW_OK, TOW_OK }, /* likewise */
		{ "limit", TOW_COPIED, TOW_COPIED }, /* only the staging part is mapped */
	};
	char spec[600];
	struct twt_rig rig;

	(void)state;
	snprintf(spec, sizeof(spec), "pjrt:%s", fake_pjrt);
	for (unsigned i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		setenv("FAKE_PJRT", kinds[i].mode, 1);
		twt_rig_open(&rig, spec, false);
		assert_string_equal(rig.device->facts.name, "fake:0");
		use(&rig, kinds[i].pool, kinds[i].heap);
		if (strcmp(kinds[i].mode, "unimplemented") == 0)
			expect(&rig, "/v1/pool", "DmaMap is not there");
		twt_rig_close(&rig);
		assert_int_equal(ask(fake_pjrt, "fake_pjrt_live"), 0);
		assert_int_equal(ask(fake_pjrt, "fake_pjrt_mapped"), 0);
	}
	unsetenv("FAKE_PJRT");
}

static void plugins_that_fail_end_the_copy(void **state)
{
	static const char *const modes[] = { "h2d", "event", "noraw" };
	struct tow_device_memory *memory;
	uint8_t host[64] = { 0 };
	struct twt_rig rig;
	char spec[600];

	(void)state;
	snprintf(spec, sizeof(spec), "pjrt:%s", fake_pjrt);
	for (unsigned i = 0; i < 3; i++) {
		setenv("FAKE_PJRT", modes[i], 1);
		twt_rig_open(&rig, spec, false);
		memory = twt_rig_memory(&rig, 64);
		if (i < 2) {
			assert_int_equal(twt_rig_copy(&rig, TOW_TO_DEVICE, memory, 0, host, 64),
					 TOW_EDEVICE);
		} else { /* a whole buffer can be had without raw copies, a part cannot */
			assert_int_equal(twt_rig_copy(&rig, TOW_TO_DEVICE, memory, 0, host, 64),
					 TOW_COPIED);
			assert_int_equal(twt_rig_copy(&rig, TOW_FROM_DEVICE, memory, 0, host, 64),
					 TOW_COPIED);
			assert_int_equal(twt_rig_copy(&rig, TOW_FROM_DEVICE, memory, 0, host, 63),
					 TOW_ENOTSUP);
		}
		twt_rig_close(&rig);
		assert_int_equal(ask(fake_pjrt, "fake_pjrt_live"), 0);
	}
	unsetenv("FAKE_PJRT");
}

/* There and back by a thread that sleeps; how often the device was asked for an end meanwhile. */
static int asked_meanwhile(const char *mode, const char *gives_word)
{
	struct tow_options options = twt_rig_options();
	int asked = ask(fake_pjrt, "fake_pjrt_asked");
	struct tow_device_memory *memory;
	struct tow_op *op;
	struct twt_rig rig;
	char spec[600];
	void *host;

	options.spin_ns = 0;
	snprintf(spec, sizeof(spec), "pjrt:%s", fake_pjrt);
	setenv("FAKE_PJRT", mode, 1);
	twt_rig_runtime(&rig, &options, false);
	twt_rig_ok(tow_device_open(rig.runtime, spec, &rig.device));
	memory = twt_rig_memory(&rig, 4096);
	host = twt_rig_alloc(&rig, 4096);
	memset(host, 1, 4096);
	assert_int_equal(twt_rig_copy(&rig, TOW_TO_DEVICE, memory, 0, host, 4096), TOW_OK);
	assert_int_equal(twt_rig_copy(&rig, TOW_FROM_DEVICE, memory, 0, host, 4096), TOW_OK);
	asked = ask(fake_pjrt, "fake_pjrt_asked") - asked;
	expect(&rig, "/v1/devices", gives_word);
	op = twt_rig_start(&rig, TOW_TO_DEVICE, memory, 0, host, 4096);
	twt_rig_ok(tow_op_cancel(op));
	twt_rig_end(op, NULL);
	twt_rig_close(&rig); /* a last word may come after it */
	assert_int_equal(ask(fake_pjrt, "fake_pjrt_live"), 0);
	unsetenv("FAKE_PJRT");
	return asked;
}

/* A device's word wakes who sleeps for it, so that it need not be asked again and again. */
static void plugins_give_word(void **state)
{
	int word = asked_meanwhile("word", "\"pjrt_gives_word\":true");
	int mute = asked_meanwhile("mute", "\"pjrt_gives_word\":false");

	(void)state;
	printf("asked %d times, and %d where no word is given\n", word, mute);
	assert_in_range(word, 3, mute / 2);
	assert_in_range(asked_meanwhile("at_once", "\"pjrt_words\":3"), 3, 30);
	usleep(100000);
}

/* The cuda device from end to end, on a driver that is none. */
static void cuda_runs_on_a_fake_driver(void **state)
{
	static const struct {
		const char *mode;
		int pool, heap;
	} kinds[] = {
		{ "all", TOW_OK, TOW_COPIED },
		{ "noproc", TOW_OK, TOW_COPIED },    /* found by dlsym */
		{ "already", TOW_OK, TOW_COPIED },   /* 712: the pool is registered by another */
		{ "given", TOW_OK, TOW_COPIED },     /* 1: it is the driver's own memory */
		{ "limit", TOW_COPIED, TOW_COPIED }, /* 801: only the staging part */
	};
	struct tow_device_info info = { .size = sizeof(info) };
	char spec[600];
	struct twt_rig rig;

	(void)state;
	snprintf(spec, sizeof(spec), "cuda:0,lib=%s", fake_cuda);
	for (unsigned i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		setenv("FAKE_CUDA", kinds[i].mode, 1);
		twt_rig_open(&rig, spec, false);
		twt_rig_ok(tow_device_info(rig.device, &info));
		assert_string_equal(info.name, "Fake GPU 0");
		assert_int_equal(info.memory_bytes, 1 << 30);
		use(&rig, kinds[i].pool, kinds[i].heap);
		expect(&rig, "/v1/devices", "\"cuda_driver_version\":12040");
		twt_rig_close(&rig);
		assert_int_equal(ask(fake_cuda, "fake_cuda_live"), 0);
		assert_int_equal(ask(fake_cuda, "fake_cuda_registered"), 0);
		assert_int_equal(ask(fake_cuda, "fake_cuda_pageable"), 0);
		assert_int_equal(ask(fake_cuda, "fake_cuda_wrong_version"), 0);
	}
	unsetenv("FAKE_CUDA");
}

static void cuda_drivers_that_fail(void **state)
{
	struct tow_op_options options = TOW_OP_OPTIONS_INIT;
	struct tow_device_memory *memory, *more;
	struct tow_op *op;
	char spec[600];
	struct twt_rig rig;
	void *host;

	(void)state;
	snprintf(spec, sizeof(spec), "cuda:lib=%s", fake_cuda);
	setenv("FAKE_CUDA", "init", 1);
	assert_int_equal(refused(spec, "does not start"), TOW_ENOTSUP);
	setenv("FAKE_CUDA", "nodevice", 1);
	assert_int_equal(refused(spec, "has 0 devices"), TOW_ENOTSUP);
	unsetenv("FAKE_CUDA");
	twt_rig_open(&rig, spec, false);
	memory = twt_rig_memory(&rig, 8 * MIB);
	host = twt_rig_alloc(&rig, 8 * MIB);
	setenv("FAKE_CUDA", "oom", 1);
	assert_int_equal(tow_device_alloc(rig.device, 64, &more), TOW_ENOMEM);
	setenv("FAKE_CUDA", "hang", 1);
	options.timeout_ns = 1000000;
	twt_rig_ok(tow_device_copy_start(rig.device, TOW_TO_DEVICE, memory, 0, host, 8 * MIB,
					 &options, &op));
	assert_int_equal(twt_rig_end(op, NULL), TOW_EDEADLINE); /* the device is lost by then */
	unsetenv("FAKE_CUDA");
	assert_int_equal(tow_device_alloc(rig.device, 64, &more), TOW_EDEVICE);
	twt_rig_close(&rig);
	ask(fake_cuda, "fake_cuda_live");
	twt_rig_open(&rig, spec, false);
	memory = twt_rig_memory(&rig, MIB);
	host = twt_rig_alloc(&rig, MIB);
	setenv("FAKE_CUDA", "event", 1);
	assert_int_equal(twt_rig_copy(&rig, TOW_TO_DEVICE, memory, 0, host, MIB), TOW_EDEVICE);
	unsetenv("FAKE_CUDA");
	expect(&rig, "/v1/devices", "\"failed_context\":true");
	twt_rig_close(&rig);
}

#ifndef TWT_SANITIZED
/* Opening, allocating and copying while the Nth allocation fails: a status, and no object left. */
static void every_allocation_may_fail(void **state)
{
	char specs[3][600] = { "fake" };
	struct twt_rig rig;

	(void)state;
	snprintf(specs[1], sizeof(specs[1]), "cuda:lib=%s", fake_cuda);
	snprintf(specs[2], sizeof(specs[2]), "pjrt:%s", fake_pjrt);
	for (unsigned i = 0; i < 3; i++) {
		bool hit = true;

		for (int n = 1; hit; n++) {
			struct tow_options options = twt_rig_options();
			struct tow_device_memory *memory = NULL;
			uint8_t host[64] = { 0 };
			struct tow_op *op = NULL;
			int status;

			assert_true(n < 100);
			twt_rig_runtime(&rig, &options, false);
			twt_fault_arm(TWT_CALLOC, n);
			status = tow_device_open(rig.runtime, specs[i], &rig.device);
			if (status == TOW_OK)
				status = tow_device_alloc(rig.device, 64, &memory);
			if (status == TOW_OK)
				status = tow_device_copy_start(rig.device, TOW_TO_DEVICE, memory, 0,
							       host, 64, NULL, &op);
			if (status == TOW_OK)
				status = tow_op_wait(op, 10 * RIG_SECOND);
			hit = twt_fault_off();
			if (!hit)
				assert_int_equal(status, TOW_COPIED);
			assert_true(status == TOW_COPIED || status == TOW_ENOMEM);
			twt_rig_close(&rig);
			assert_int_equal(ask(fake_pjrt, "fake_pjrt_live"), 0);
		}
	}
}

static void no_thread_is_no_fake(void **state)
{
	struct tow_options options = twt_rig_options();
	struct twt_rig rig;

	(void)state;
	twt_rig_runtime(&rig, &options, false);
	twt_fault_arm(TWT_PTHREAD_CREATE, 1);
	assert_int_equal(tow_device_open(rig.runtime, "fake", &rig.device), TOW_ESYSTEM);
	assert_true(twt_fault_off());
	twt_rig_close(&rig);
}
#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
#ifndef TWT_SANITIZED
		cmocka_unit_test(every_allocation_may_fail),
		cmocka_unit_test(no_thread_is_no_fake),
#endif
		cmocka_unit_test(a_refused_map_is_no_end),
		cmocka_unit_test(refusing_everything_is_told),
		cmocka_unit_test(strict_refuses_the_device),
		cmocka_unit_test(maps_are_rolled_back),
		cmocka_unit_test(one_bad_piece_ends_one_copy),
		cmocka_unit_test(a_dead_device_fails_all_and_hangs_nobody),
		cmocka_unit_test(no_driver_is_said),
		cmocka_unit_test(garbage_is_no_plugin),
		cmocka_unit_test(plugins_that_lie_are_refused),
		cmocka_unit_test(plugins_with_less_are_used),
		cmocka_unit_test(plugins_that_fail_end_the_copy),
		cmocka_unit_test(plugins_give_word),
		cmocka_unit_test(cuda_runs_on_a_fake_driver),
		cmocka_unit_test(cuda_drivers_that_fail),
	};
	const char *build = getenv("TOW_TEST_BUILD");

	if (build == NULL) {
		printf("skipped: TOW_TEST_BUILD does not name the build folder\n");
		return 77;
	}
	snprintf(fake_cuda, sizeof(fake_cuda), "%s/tests/libfake_cuda.so", build);
	snprintf(fake_pjrt, sizeof(fake_pjrt), "%s/tests/libfake_pjrt.so", build);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
