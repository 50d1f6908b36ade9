/*
 * test_real_cuda.c - the cuda device beside a program that uses CUDA itself: its context stays what
 * it was, what it is recording goes on, memory that it has registered is taken, and a failure of
 * its own kernels ends our copies with a status.
 *
 * Needs NVIDIA's driver and a device; skipped without.
 */
#include "device_rig.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "transport/device/cuda_api.h"

#define BYTES   ((size_t)3 << 20)
#define CAPTURE 0 /* CU_STREAM_CAPTURE_MODE_GLOBAL: whatever any thread does may spoil it */

typedef struct CUgraph_st *graph;

/* What such a program calls beyond what the device itself does: X(name, symbol, parameters) */
#define OTHERS(X)                                                                                  \
	X(cuCtxGetCurrent, cuCtxGetCurrent, (twi_cu_context * out))                                \
	X(cuCtxSetCurrent, cuCtxSetCurrent, (twi_cu_context))                                      \
	X(cuCtxSynchronize, cuCtxSynchronize, (void))                                              \
	X(cuStreamBeginCapture, cuStreamBeginCapture_v2, (twi_cu_stream, int mode))                \
	X(cuStreamEndCapture, cuStreamEndCapture, (twi_cu_stream, graph * out))                    \
	X(cuGraphDestroy, cuGraphDestroy, (graph))                                                 \
	X(cuMemsetD8Async, cuMemsetD8Async, (twi_cu_ptr, unsigned char, size_t, twi_cu_stream))    \
	X(cuMemHostAlloc, cuMemHostAlloc, (void **out, size_t bytes, unsigned flags))              \
	X(cuMemFreeHost, cuMemFreeHost, (void *))                                                  \
	X(cuModuleLoadData, cuModuleLoadData, (void **out, const void *image))                     \
	X(cuModuleGetFunction, cuModuleGetFunction, (void **out, void *module, const char *name))  \
	X(cuLaunchKernel, cuLaunchKernel,                                                          \
	  (void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,        \
	   unsigned bz, unsigned shared, twi_cu_stream, void **parameters, void **extra))

static struct twi_cuda_api api;
static struct {
#define MEMBER(name, symbol, parameters) twi_cu_result(*name) parameters;
	OTHERS(MEMBER)
#undef MEMBER
} others;
static twi_cu_context context;

/* A kernel that ends in an error, for any GPU: the driver compiles it. */
static const char kernel[] = ".version 6.0\n"
			     ".target sm_50\n"
			     ".address_size 64\n"
			     ".visible .entry fails()\n"
			     "{\n"
			     "trap;\n"
			     "}\n";

#define cu_ok(call)                                                                                \
	do {                                                                                       \
		twi_cu_result cu_result = (call);                                                  \
		if (cu_result != TWI_CU_OK)                                                        \
			fail_msg("%s: %s", #call, twi_cuda_name(&api, cu_result));                 \
	} while (0)

static bool find_driver(void)
{
	union {
		void *object;
		void (*function)(void);
	} found;
	twi_cu_device ordinal;
	void *library;
	int count = 0;

	if (twi_cuda_load(NULL, &api) < 0 || api.cuDeviceGetCount(&count) != TWI_CU_OK ||
	    count == 0)
		return false;
	library = dlopen("libcuda.so.1", RTLD_NOW);
#define FIND(name, symbol, parameters)                                                             \
	found.object = dlsym(library, #symbol);                                                    \
	memcpy(&others.name, &found.function, sizeof(found.function));                             \
	if (found.object == NULL)                                                                  \
		return false;
	OTHERS(FIND)
#undef FIND
	return api.cuDeviceGet(&ordinal, 0) == TWI_CU_OK &&
	       api.cuDevicePrimaryCtxRetain(&context, ordinal) == TWI_CU_OK;
}

/* Everything of a device, once; `late` is memory that nobody has registered yet. */
static void use_device(struct twt_rig *rig, uint8_t *late)
{
	struct tow_device_memory *memory = twt_rig_memory(rig, BYTES);
	uint8_t *pool = twt_rig_alloc(rig, BYTES);
	uint64_t handle;

	twt_rig_ok(tow_mem_register(rig->runtime, late, BYTES, &handle));
	twt_rig_fill(late, BYTES, 7);
	assert_int_equal(twt_rig_copy(rig, TOW_TO_DEVICE, memory, 0, late, BYTES), TOW_OK);
	assert_int_equal(twt_rig_copy(rig, TOW_FROM_DEVICE, memory, 0, pool, BYTES), TOW_OK);
	twt_rig_check(pool, BYTES, 7);
	twt_rig_ok(tow_mem_deregister(rig->runtime, handle));
	twt_rig_ok(tow_free(rig->runtime, pool));
	twt_rig_ok(tow_device_free(memory));
}

static uint8_t *map_memory(void)
{
	uint8_t *at = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(at, MAP_FAILED);
	return at;
}

static void the_current_context_stays(void **state)
{
	uint8_t *late = map_memory();
	twi_cu_context current;
	struct twt_rig rig;

	(void)state;
	for (int with = 0; with < 2; with++) {
		cu_ok(others.cuCtxSetCurrent(with ? context : NULL));
		twt_rig_open(&rig, "cuda:0", false);
		use_device(&rig, late);
		twt_rig_close(&rig);
		cu_ok(others.cuCtxGetCurrent(&current));
		assert_ptr_equal(current, with ? context : NULL);
	}
	munmap(late, BYTES);
}

struct user {
	struct twt_rig *rig;
	uint8_t *late;
};

static void *use_in_thread(void *argument)
{
	struct user *user = argument;

	for (int i = 0; i < 20; i++)
		use_device(user->rig, user->late);
	return NULL;
}

/* Graph capture forbids most calls, in every thread; a program that captures must see none. */
static void what_is_being_captured_goes_on(void **state)
{
	uint8_t *late = map_memory(), *late_too = map_memory();
	struct user user;
	struct twt_rig rig;
	twi_cu_stream stream;
	twi_cu_ptr at;
	pthread_t thread;
	graph made;

	(void)state;
	cu_ok(others.cuCtxSetCurrent(context));
	cu_ok(api.cuMemAlloc(&at, BYTES));
	cu_ok(api.cuStreamCreate(&stream, TWI_CU_STREAM_NON_BLOCKING));
	twt_rig_open(&rig, "cuda:0", false);
	user = (struct user){ &rig, late_too };
	cu_ok(others.cuStreamBeginCapture(stream, CAPTURE));
	cu_ok(others.cuMemsetD8Async(at, 1, BYTES, stream));
	assert_int_equal(pthread_create(&thread, NULL, use_in_thread, &user), 0);
	use_device(&rig, late);
	pthread_join(thread, NULL);
	cu_ok(others.cuMemsetD8Async(at, 2, BYTES, stream));
	cu_ok(others.cuStreamEndCapture(stream, &made));
	assert_non_null(made);
	cu_ok(others.cuGraphDestroy(made));
	twt_rig_close(&rig);
	cu_ok(api.cuStreamDestroy(stream));
	cu_ok(api.cuMemFree(at));
	munmap(late, BYTES);
	munmap(late_too, BYTES);
}

/* Memory that the program has registered, or had from the driver, goes straight and stays so. */
static void memory_of_the_driver_is_taken(void **state)
{
	uint8_t *own = map_memory();
	void *given;
	struct twt_rig rig;

	(void)state;
	cu_ok(others.cuCtxSetCurrent(context));
	cu_ok(api.cuMemHostRegister(own, BYTES, 0));
	cu_ok(others.cuMemHostAlloc(&given, BYTES, 0));
	twt_rig_open(&rig, "cuda:0", false);
	use_device(&rig, own);
	use_device(&rig, given);
	assert_int_equal(twt_rig_count(&rig, TWI_C_fallback_copies), 0);
	twt_rig_close(&rig);
	cu_ok(api.cuMemHostUnregister(own)); /* which fails if we have taken it away */
	cu_ok(others.cuMemFreeHost(given));
	munmap(own, BYTES);
}

/* In a process of its own, whose context is lost for good. */
static int lose_context(void)
{
	struct tow_device_memory *memory;
	struct twt_rig rig;
	void *module, *function;
	struct tow_op *op;
	uint8_t *pool;
	int status;

	if (!find_driver())
		return 2;
	cu_ok(others.cuCtxSetCurrent(context));
	twt_rig_open(&rig, "cuda:0", false);
	memory = twt_rig_memory(&rig, BYTES);
	pool = twt_rig_alloc(&rig, BYTES);
	cu_ok(others.cuModuleLoadData(&module, kernel));
	cu_ok(others.cuModuleGetFunction(&function, module, "fails"));
	cu_ok(others.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
	if (others.cuCtxSynchronize() == TWI_CU_OK)
		return 3;
	status =
		tow_device_copy_start(rig.device, TOW_TO_DEVICE, memory, 0, pool, BYTES, NULL, &op);
	status = status == TOW_OK ? twt_rig_end(op, NULL) : status;
	printf("a copy behind it: %s: %s\n", tow_status_name(status), tow_error_message());
	if (status != TOW_EDEVICE)
		return 4;
	twt_rig_close(&rig);
	return 0;
}

static void a_lost_context_is_a_status(void **state)
{
	pid_t child = fork();
	int status;

	(void)state;
	if (child == 0) {
		alarm(30);
		execl("/proc/self/exe", "test_real_cuda", "lose", (char *)NULL);
		_exit(127);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_current_context_stays),
		cmocka_unit_test(what_is_being_captured_goes_on),
		cmocka_unit_test(memory_of_the_driver_is_taken),
		cmocka_unit_test(a_lost_context_is_a_status),
	};

#ifdef TWT_TSAN
	printf("skipped: the driver's threads are not instrumented\n");
	return 77;
#endif
	if (argc > 1 && strcmp(argv[1], "lose") == 0)
		return lose_context();
	if (!find_driver()) {
		printf("skipped: no NVIDIA driver, or no device of its\n");
		return 77;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
