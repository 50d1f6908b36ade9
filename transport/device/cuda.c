/*
 * cuda.c - NVIDIA devices through the driver API alone, which dlopen loads (cuda_api.h).
 *
 * The primary context is retained, so that it is also the context of memory of the CUDA runtime (as
 * of PyTorch and XLA). It is current only during our calls. Our streams do not wait for the default
 * stream. Events end the chunks; they are queried (cuEventQuery) and never waited for. A host
 * function on the stream would report the end sooner, but is no longer called once the context has
 * failed. Hence a sleeping thread queries every POLL_NS while something is in flight.
 *
 * Graph capture forbids some calls (allocating, registering). They are made in relaxed mode, so a
 * user's capture in this thread goes on undisturbed.
 *
 * Spec: "cuda[:N][,lib=FILE]".
 */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "diag/base/error.h"
#include "transport/device/cuda_api.h"
#include "transport/device/device.h"
#include "transport/engine/engine.h"

#define POLL_NS     50000u
#define CHUNK_BYTES (4u << 20) /* 0.2 ms over PCIe 4; an abort waits for eight chunks */
#define CLOSE_NS    1000000000ull
#define FOREIGN_MAX 64

struct cuda {
	struct twi_device device;
	struct twi_device_facts facts;
	struct twi_cuda_api api;
	twi_cu_device ordinal;
	twi_cu_context context;
	bool retained;
	_Atomic bool dead; /* the context has failed: all later calls fail */
	pthread_mutex_t lock;
	void *foreign[FOREIGN_MAX]; /* registered by other code, which unregisters them */
	uint32_t foreign_count;
	twi_cu_stream stream[TWI_DEVICE_STREAMS];
	twi_cu_event event[TWI_DEVICE_STREAMS][TWI_DEVICE_CHUNKS];
};

static struct cuda *cuda_of(struct twi_device *device)
{
	return (struct cuda *)(void *)device;
}

static int cuda_failure(struct cuda *cuda, const char *call, twi_cu_result result)
{
	int status = TOW_EDEVICE;

	if (result == TWI_CU_OUT_OF_MEMORY)
		status = TOW_ENOMEM;
	else if (result == TWI_CU_NOT_PERMITTED || result == TWI_CU_OPERATING_SYSTEM)
		status = TOW_EPERM;
	else if (result == TWI_CU_NOT_SUPPORTED)
		status = TOW_ENOTSUP;
	return twi_error(status, "device %s: %s: %s (%d)", cuda->facts.name, call,
			 twi_cuda_name(&cuda->api, result), result);
}

/* Makes our context current, in relaxed capture mode. leave_context restores the previous state. */
static twi_cu_result enter_context(struct cuda *cuda, int *mode)
{
	twi_cu_result result = cuda->api.cuCtxPushCurrent(cuda->context);

	*mode = TWI_CU_CAPTURE_RELAXED;
	if (result == TWI_CU_OK && cuda->api.cuThreadExchangeStreamCaptureMode != NULL)
		cuda->api.cuThreadExchangeStreamCaptureMode(mode);
	return result;
}

static void leave_context(struct cuda *cuda, int *mode)
{
	twi_cu_context was;

	if (cuda->api.cuThreadExchangeStreamCaptureMode != NULL)
		cuda->api.cuThreadExchangeStreamCaptureMode(mode);
	cuda->api.cuCtxPopCurrent(&was);
}

struct spec {
	int ordinal;
	bool has_library;
	char library[512];
};

static int parse_spec(const char *text, struct spec *out)
{
	struct twi_spec_item item;
	uint64_t number;

	*out = (struct spec){ 0 };
	while (twi_spec_next(&text, &item)) {
		if (strcmp(item.name, "lib") == 0 && item.value[0] != '\0') {
			out->has_library = true;
			snprintf(out->library, sizeof(out->library), "%s", item.value);
			continue;
		}
		if (item.value[0] == '\0') /* "cuda:1" */
			snprintf(item.value, sizeof(item.value), "%s", item.name);
		else if (strcmp(item.name, "device") != 0)
			return twi_error(TOW_EINVAL, "device cuda has no option \"%s\"", item.name);
		if (twi_spec_bytes(&item, &number) < 0 || number > 1023)
			return twi_error(TOW_EINVAL, "device cuda: \"%.60s\" is no device number",
					 item.value);
		out->ordinal = (int)number;
	}
	return TOW_OK;
}

static int load_driver(const char *text, struct spec *spec, struct twi_cuda_api *api)
{
	int status = parse_spec(text, spec), count = 0;
	twi_cu_result result;

	if (status == TOW_OK)
		status = twi_cuda_load(spec->has_library ? spec->library : NULL, api);
	if (status < 0)
		return status;
	result = api->cuDeviceGetCount(&count);
	if (result != TWI_CU_OK || count <= spec->ordinal)
		return twi_error(TOW_ENOTSUP,
				 "device cuda:%d: the driver has %d devices (%s); is "
				 "CUDA_VISIBLE_DEVICES set?",
				 spec->ordinal, count, twi_cuda_name(api, result));
	return TOW_OK;
}

static int cuda_probe(const char *text)
{
	struct twi_cuda_api api;
	struct spec spec;

	return load_driver(text, &spec, &api);
}

static void destroy_streams(struct cuda *cuda)
{
	for (unsigned i = 0; i < TWI_DEVICE_STREAMS; i++) {
		for (unsigned k = 0; k < TWI_DEVICE_CHUNKS; k++) {
			if (cuda->event[i][k] != NULL)
				cuda->api.cuEventDestroy(cuda->event[i][k]);
		}
		if (cuda->stream[i] != NULL)
			cuda->api.cuStreamDestroy(cuda->stream[i]);
	}
}

static twi_cu_result create_streams(struct cuda *cuda)
{
	twi_cu_result result = TWI_CU_OK;

	for (unsigned i = 0; i < TWI_DEVICE_STREAMS; i++) {
		if (result == TWI_CU_OK)
			result = cuda->api.cuStreamCreate(&cuda->stream[i],
							  TWI_CU_STREAM_NON_BLOCKING);
		for (unsigned k = 0; k < TWI_DEVICE_CHUNKS && result == TWI_CU_OK; k++)
			result = cuda->api.cuEventCreate(&cuda->event[i][k],
							 TWI_CU_EVENT_DISABLE_TIMING);
	}
	return result;
}

/*
 * Waits until copies in flight have ended, before their memory goes. A copy that takes more than a
 * second counts as hung. The driver keeps memory pinned that is still registered then, so a late
 * write hits no page of other data.
 */
static void settle_copies(struct cuda *cuda)
{
	const struct timespec nap = { .tv_nsec = POLL_NS };
	uint64_t until = twi_now_ns() + CLOSE_NS;

	for (unsigned i = 0; i < TWI_DEVICE_STREAMS; i++) {
		while (cuda->stream[i] != NULL && twi_now_ns() < until &&
		       cuda->api.cuStreamQuery(cuda->stream[i]) == TWI_CU_NOT_READY)
			nanosleep(&nap, NULL);
	}
}

static void cuda_close(struct twi_device *device)
{
	struct cuda *cuda = cuda_of(device);
	int mode;

	if (cuda->retained && enter_context(cuda, &mode) == TWI_CU_OK) {
		settle_copies(cuda);
		destroy_streams(cuda);
		leave_context(cuda, &mode);
	}
	if (cuda->retained)
		cuda->api.cuDevicePrimaryCtxRelease(cuda->ordinal);
	pthread_mutex_destroy(&cuda->lock);
	free(cuda);
}

static twi_cu_result set_up(struct cuda *cuda, int number)
{
	struct twi_cuda_api *api = &cuda->api;
	size_t bytes = 0;
	twi_cu_result result = api->cuDeviceGet(&cuda->ordinal, number);
	int mode;

	if (result == TWI_CU_OK)
		result = api->cuDeviceGetName(cuda->facts.name, sizeof(cuda->facts.name) - 1,
					      cuda->ordinal);
	if (result == TWI_CU_OK)
		result = api->cuDeviceTotalMem(&bytes, cuda->ordinal);
	cuda->facts.memory_bytes = bytes;
	if (result == TWI_CU_OK)
		result = api->cuDevicePrimaryCtxRetain(&cuda->context, cuda->ordinal);
	cuda->retained = result == TWI_CU_OK;
	if (result == TWI_CU_OK)
		result = enter_context(cuda, &mode);
	if (result != TWI_CU_OK)
		return result;
	result = create_streams(cuda);
	leave_context(cuda, &mode);
	return result;
}

static int cuda_open(struct twi_engine *engine, const char *text, struct twi_device **out)
{
	struct cuda *cuda = calloc(1, sizeof(*cuda));
	struct spec spec;
	twi_cu_result result;
	int status;

	*out = NULL;
	if (cuda == NULL)
		return twi_error(TOW_ENOMEM, "device cuda: no memory for it");
	status = load_driver(text, &spec, &cuda->api);
	if (status < 0) {
		free(cuda);
		return status;
	}
	cuda->device = (struct twi_device){ &twi_device_cuda, engine };
	cuda->facts.chunk_bytes = CHUNK_BYTES;
	pthread_mutex_init(&cuda->lock, NULL);
	result = set_up(cuda, spec.ordinal);
	if (result != TWI_CU_OK) {
		status = twi_error(result == TWI_CU_OUT_OF_MEMORY ? TOW_ENOMEM : TOW_EDEVICE,
				   "device cuda:%d does not open: %s (%d)", spec.ordinal,
				   twi_cuda_name(&cuda->api, result), result);
		cuda_close(&cuda->device);
		return status;
	}
	*out = &cuda->device;
	return TOW_OK;
}

static const struct twi_device_facts *cuda_facts(const struct twi_device *device)
{
	return &((const struct cuda *)(const void *)device)->facts;
}

/*
 * Handles a refused registration. Other code may already have registered the memory (error 712). Or
 * the driver has allocated it (error 1, which any memory gets that cannot be registered).
 * cuMemHostGetFlags tells these apart. If the driver knows both ends of the memory, it counts as
 * mapped and is not ours to unregister. A gap between the ends would cost speed and a failed copy,
 * never content.
 */
static twi_cu_result accept_foreign(struct cuda *cuda, void *base, uint64_t bytes,
				    twi_cu_result refusal)
{
	unsigned flags;

	if (cuda->api.cuMemHostGetFlags(&flags, base) != TWI_CU_OK ||
	    cuda->api.cuMemHostGetFlags(&flags, (uint8_t *)base + bytes - 1) != TWI_CU_OK)
		return refusal;
	pthread_mutex_lock(&cuda->lock);
	if (cuda->foreign_count == FOREIGN_MAX) {
		pthread_mutex_unlock(&cuda->lock);
		return refusal;
	}
	cuda->foreign[cuda->foreign_count++] = base;
	pthread_mutex_unlock(&cuda->lock);
	return TWI_CU_OK;
}

static int cuda_map(struct twi_device *device, void *base, uint64_t bytes)
{
	struct cuda *cuda = cuda_of(device);
	int mode;
	twi_cu_result result = enter_context(cuda, &mode);

	if (result == TWI_CU_OK) {
		result = cuda->api.cuMemHostRegister(base, bytes, TWI_CU_HOSTREGISTER_PORTABLE);
		if (result == TWI_CU_ALREADY_REGISTERED || result == TWI_CU_INVALID_VALUE)
			result = accept_foreign(cuda, base, bytes, result);
		leave_context(cuda, &mode);
	}
	return result == TWI_CU_OK ? TOW_OK : cuda_failure(cuda, "cuMemHostRegister", result);
}

static bool forget_foreign(struct cuda *cuda, const void *base)
{
	bool found = false;

	pthread_mutex_lock(&cuda->lock);
	for (uint32_t i = 0; i < cuda->foreign_count && !found; i++) {
		found = cuda->foreign[i] == base;
		if (found)
			cuda->foreign[i] = cuda->foreign[--cuda->foreign_count];
	}
	pthread_mutex_unlock(&cuda->lock);
	return found;
}

static void cuda_unmap(struct twi_device *device, void *base, uint64_t bytes)
{
	struct cuda *cuda = cuda_of(device);
	int mode;

	(void)bytes;
	if (forget_foreign(cuda, base) || enter_context(cuda, &mode) != TWI_CU_OK)
		return;
	cuda->api.cuMemHostUnregister(base);
	leave_context(cuda, &mode);
}

static int cuda_alloc(struct twi_device *device, uint64_t bytes, void **memory_out)
{
	struct cuda *cuda = cuda_of(device);
	twi_cu_ptr at = 0;
	int mode;
	twi_cu_result result = enter_context(cuda, &mode);

	*memory_out = NULL;
	if (result == TWI_CU_OK) {
		result = cuda->api.cuMemAlloc(&at, bytes);
		leave_context(cuda, &mode);
	}
	if (result != TWI_CU_OK)
		return cuda_failure(cuda, "cuMemAlloc", result);
	*memory_out = (void *)(uintptr_t)at;
	return TOW_OK;
}

static void cuda_free(struct twi_device *device, void *memory)
{
	struct cuda *cuda = cuda_of(device);
	int mode;

	if (enter_context(cuda, &mode) != TWI_CU_OK)
		return;
	cuda->api.cuMemFree((uintptr_t)memory);
	leave_context(cuda, &mode);
}

static twi_cu_result start_copy(struct cuda *cuda, const struct twi_device_copy *copy,
				const char **call_out)
{
	const struct twi_cuda_api *api = &cuda->api;
	twi_cu_stream stream = cuda->stream[copy->direction];
	twi_cu_ptr at = (uintptr_t)copy->memory + copy->offset;
	twi_cu_result result;

	if (copy->direction == TOW_TO_DEVICE) {
		*call_out = "cuMemcpyHtoDAsync";
		result = api->cuMemcpyHtoDAsync(at, copy->host, copy->bytes, stream);
	} else {
		*call_out = "cuMemcpyDtoHAsync";
		result = api->cuMemcpyDtoHAsync(copy->host, at, copy->bytes, stream);
	}
	if (result != TWI_CU_OK)
		return result;
	result = api->cuEventRecord(cuda->event[copy->direction][copy->slot], stream);
	if (result != TWI_CU_OK) {
		*call_out = "cuEventRecord";
		/*
		 * The copy is in flight and no event will tell its end. A failure must have taken
		 * nothing, so this waits.
		 */
		api->cuStreamSynchronize(stream);
	}
	return result;
}

static int cuda_copy(struct twi_device *device, const struct twi_device_copy *copy,
		     uint64_t *taken_out)
{
	struct cuda *cuda = cuda_of(device);
	const char *call = "cuCtxPushCurrent";
	int mode;
	twi_cu_result result = enter_context(cuda, &mode);

	*taken_out = 0;
	if (result == TWI_CU_OK) {
		result = start_copy(cuda, copy, &call);
		leave_context(cuda, &mode);
	}
	if (result != TWI_CU_OK) {
		cuda_failure(cuda, call, result);
		return TOW_EDEVICE;
	}
	*taken_out = copy->bytes;
	return TOW_OK;
}

static int cuda_query(struct twi_device *device, enum tow_direction direction, unsigned slot)
{
	struct cuda *cuda = cuda_of(device);
	int mode;
	twi_cu_result result = enter_context(cuda, &mode);

	if (result == TWI_CU_OK) {
		result = cuda->api.cuEventQuery(cuda->event[direction][slot]);
		leave_context(cuda, &mode);
	}
	if (result == TWI_CU_NOT_READY)
		return TOW_AGAIN;
	if (result == TWI_CU_OK)
		return TOW_OK;
	/* An error of a context is permanent: every later call returns the same error. */
	atomic_store_explicit(&cuda->dead, true, memory_order_relaxed);
	cuda_failure(cuda, "cuEventQuery", result);
	return TOW_EDEVICE;
}

static uint64_t cuda_deadline_ns(struct twi_device *device)
{
	return twi_engine_now(device->engine) + POLL_NS;
}

static void cuda_describe(struct twi_device *device, struct twi_emit *emit)
{
	struct cuda *cuda = cuda_of(device);

	twi_emit_i64(emit, "cuda_driver_version", cuda->api.version);
	twi_emit_bool(emit, "failed_context",
		      atomic_load_explicit(&cuda->dead, memory_order_relaxed));
	pthread_mutex_lock(&cuda->lock);
	twi_emit_u64(emit, "registered_by_others", cuda->foreign_count);
	pthread_mutex_unlock(&cuda->lock);
}

const struct twi_device_ops twi_device_cuda = {
	.kind = "cuda",
	.help = "cuda[:N][,lib=FILE]",
	.probe = cuda_probe,
	.open = cuda_open,
	.close = cuda_close,
	.facts = cuda_facts,
	.map = cuda_map,
	.unmap = cuda_unmap,
	.alloc = cuda_alloc,
	.free = cuda_free,
	.copy = cuda_copy,
	.query = cuda_query,
	.deadline_ns = cuda_deadline_ns,
	.describe = cuda_describe,
};
