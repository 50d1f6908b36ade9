/*
 * fake_cuda.c - a driver of CUDA as far as the cuda device uses one, built as a shared object of
 * its own. Copies lie in their stream until an event behind them has been asked for twice. Every
 * call that needs a current context fails without one, as the real ones do.
 *
 *	FAKE_CUDA=init nodevice noproc   it does not start, has no device, has no cuGetProcAddress
 *	limit already given              registering more than 2 MiB: 801; always: 712; always: 1
 *	oom event hang                   allocating, or a copy, fails; no copy ends
 *
 * fake_cuda_pageable counts copies from or to memory that is not registered.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "transport/device/cuda_api.h"

#define EXPORT   __attribute__((visibility("default")))
#define LIMIT    ((size_t)2 << 20)
#define JOBS     64
#define NO_CTX   201
#define NO_FIND  500
#define BAD_DATA 700

struct job {
	void *to;
	const void *from;
	size_t bytes;
};

struct twi_cu_stream_st {
	struct job job[JOBS];
	uint64_t put, done;
};

struct twi_cu_event_st {
	struct twi_cu_stream_st *stream;
	uint64_t number;
	int asked;
};

static struct {
	pthread_mutex_t lock;
	struct {
		char *base;
		size_t bytes;
	} reg[64];
	int regs;
	void *memory[256]; /* what a lost device never frees is to be found here by leak checks */
	int memories;
	_Atomic int pageable, live, wrong_version;
	bool failed;
} driver = { .lock = PTHREAD_MUTEX_INITIALIZER };

static __thread int depth;

static bool mode(const char *name)
{
	const char *value = getenv("FAKE_CUDA");

	return value != NULL && strcmp(value, name) == 0;
}

EXPORT int fake_cuda_pageable(void);
EXPORT int fake_cuda_live(void);
EXPORT int fake_cuda_registered(void);
EXPORT int fake_cuda_wrong_version(void);
EXPORT void fake_cuda_reset(void);

int fake_cuda_pageable(void)
{
	return driver.pageable;
}

int fake_cuda_live(void)
{
	return driver.live + depth;
}

int fake_cuda_registered(void)
{
	return driver.regs;
}

int fake_cuda_wrong_version(void)
{
	return driver.wrong_version;
}

void fake_cuda_reset(void)
{
	driver.pageable = 0;
	driver.live = 0;
	driver.failed = false;
	driver.regs = 0;
}

/* Declares what the next function is, as the loader expects it, and defines it. */
#define DRIVER(symbol, ...)                                                                        \
	EXPORT twi_cu_result symbol(__VA_ARGS__);                                                  \
	twi_cu_result symbol(__VA_ARGS__)

DRIVER(cuInit, unsigned flags)
{
	return mode("init") ? 3 : (int)flags;
}

DRIVER(cuDriverGetVersion, int *out)
{
	*out = 12040;
	return 0;
}

DRIVER(cuGetErrorName, twi_cu_result result, const char **out)
{
	*out = result == 0 ? "CUDA_SUCCESS" : "CUDA_ERROR_OF_THE_FAKE";
	return 0;
}

DRIVER(cuDeviceGetCount, int *out)
{
	*out = mode("nodevice") ? 0 : 1;
	return 0;
}

DRIVER(cuDeviceGet, twi_cu_device *out, int ordinal)
{
	*out = ordinal;
	return ordinal == 0 ? 0 : 101;
}

DRIVER(cuDeviceGetName, char *out, int room, twi_cu_device device)
{
	snprintf(out, (size_t)room, "Fake GPU %d", device);
	return 0;
}

DRIVER(cuDeviceTotalMem_v2, size_t *out, twi_cu_device device)
{
	*out = (size_t)1 << 30;
	return device;
}

DRIVER(cuDevicePrimaryCtxRetain, twi_cu_context *out, twi_cu_device device)
{
	*out = (twi_cu_context)&driver;
	driver.live++;
	return device;
}

DRIVER(cuDevicePrimaryCtxRelease_v2, twi_cu_device device)
{
	driver.live--;
	return device;
}

DRIVER(cuCtxPushCurrent_v2, twi_cu_context context)
{
	depth++;
	return context == NULL ? 1 : 0;
}

DRIVER(cuCtxPopCurrent_v2, twi_cu_context *out)
{
	*out = (twi_cu_context)&driver;
	return depth-- > 0 ? 0 : NO_CTX;
}

DRIVER(cuThreadExchangeStreamCaptureMode, int *mode_in_out)
{
	static __thread int now;
	int was = now;

	now = *mode_in_out;
	*mode_in_out = was;
	return 0;
}

DRIVER(cuStreamCreate, twi_cu_stream *out, unsigned flags)
{
	*out = calloc(1, sizeof(**out));
	driver.live++;
	return depth > 0 && flags == 1 ? 0 : NO_CTX;
}

DRIVER(cuStreamDestroy_v2, twi_cu_stream stream)
{
	free(stream);
	driver.live--;
	return 0;
}

static void run(struct twi_cu_stream_st *stream, uint64_t until)
{
	for (; stream->done < until; stream->done++) {
		struct job *job = &stream->job[stream->done % JOBS];

		memcpy(job->to, job->from, job->bytes);
	}
}

DRIVER(cuStreamSynchronize, twi_cu_stream stream)
{
	run(stream, stream->put);
	return 0;
}

DRIVER(cuStreamQuery, twi_cu_stream stream)
{
	if (driver.failed)
		return BAD_DATA;
	if (mode("hang"))
		return stream->done < stream->put ? 600 : 0;
	run(stream, stream->put);
	return 0;
}

DRIVER(cuEventCreate, twi_cu_event *out, unsigned flags)
{
	*out = calloc(1, sizeof(**out));
	driver.live++;
	return depth > 0 && flags == 2 ? 0 : NO_CTX;
}

DRIVER(cuEventDestroy_v2, twi_cu_event event)
{
	free(event);
	driver.live--;
	return 0;
}

DRIVER(cuEventRecord, twi_cu_event event, twi_cu_stream stream)
{
	*event = (struct twi_cu_event_st){ stream, stream->put, 0 };
	return depth > 0 ? 0 : NO_CTX;
}

DRIVER(cuEventQuery, twi_cu_event event)
{
	if (depth == 0)
		return NO_CTX;
	if (mode("event"))
		driver.failed = true;
	if (driver.failed)
		return BAD_DATA;
	if (mode("hang") || ++event->asked < 3)
		return 600;
	run(event->stream, event->number);
	return 0;
}

DRIVER(cuMemAlloc_v2, twi_cu_ptr *out, size_t bytes)
{
	if (depth == 0)
		return NO_CTX;
	if (mode("oom"))
		return 2;
	pthread_mutex_lock(&driver.lock);
	driver.memory[driver.memories % 256] = malloc(bytes);
	*out = (uintptr_t)driver.memory[driver.memories++ % 256];
	pthread_mutex_unlock(&driver.lock);
	driver.live++;
	return 0;
}

DRIVER(cuMemFree_v2, twi_cu_ptr at)
{
	free((void *)(uintptr_t)at);
	driver.live--;
	return depth > 0 ? 0 : NO_CTX;
}

/* The driver knows all memory already: somebody has registered it, or had it from the driver. */
static bool are_foreign(void)
{
	return mode("already") || mode("given");
}

DRIVER(cuMemHostRegister_v2, void *p, size_t bytes, unsigned flags)
{
	if (depth == 0 || flags != 1)
		return NO_CTX;
	if (mode("limit") && bytes > LIMIT)
		return 801;
	if (mode("already"))
		return 712;
	if (mode("given"))
		return 1;
	pthread_mutex_lock(&driver.lock);
	driver.reg[driver.regs].base = p;
	driver.reg[driver.regs++].bytes = bytes;
	pthread_mutex_unlock(&driver.lock);
	return 0;
}

DRIVER(cuMemHostUnregister, void *p)
{
	twi_cu_result result = 713;

	pthread_mutex_lock(&driver.lock);
	for (int i = 0; i < driver.regs && result != 0; i++) {
		if (driver.reg[i].base != p)
			continue;
		driver.reg[i] = driver.reg[--driver.regs];
		result = 0;
	}
	pthread_mutex_unlock(&driver.lock);
	return result;
}

DRIVER(cuMemHostGetFlags, unsigned *out, void *p)
{
	*out = 1;
	return are_foreign() && p != NULL ? 0 : 1;
}

static void put(struct twi_cu_stream_st *stream, void *to, const void *from, size_t bytes,
		const void *host)
{
	bool found = are_foreign();

	pthread_mutex_lock(&driver.lock);
	for (int i = 0; i < driver.regs && !found; i++)
		found = (const char *)host >= driver.reg[i].base &&
			(const char *)host + bytes <= driver.reg[i].base + driver.reg[i].bytes;
	pthread_mutex_unlock(&driver.lock);
	driver.pageable += !found;
	stream->job[stream->put++ % JOBS] = (struct job){ to, from, bytes };
}

DRIVER(cuMemcpyHtoDAsync_v2, twi_cu_ptr to, const void *from, size_t bytes, twi_cu_stream stream)
{
	put(stream, (void *)(uintptr_t)to, from, bytes, from);
	return depth > 0 ? 0 : NO_CTX;
}

DRIVER(cuMemcpyDtoHAsync_v2, void *to, twi_cu_ptr from, size_t bytes, twi_cu_stream stream)
{
	put(stream, to, (const void *)(uintptr_t)from, bytes, to);
	return depth > 0 ? 0 : NO_CTX;
}

DRIVER(cuGetProcAddress_v2, const char *name, void **out, int version, unsigned long long flags,
       int *status_out)
{
	static const struct {
		const char *name;
		int since;
		void (*function)(void);
	} known[] = {
#define ROW(name, since, symbol, parameters) { #name, since, (void (*)(void))symbol },
		TWI_CUDA_MAP(ROW)
#undef ROW
	};

	*status_out = 0;
	*out = NULL;
	for (unsigned i = 0; i < sizeof(known) / sizeof(known[0]) && !mode("noproc"); i++) {
		if (strcmp(known[i].name, name) != 0)
			continue;
		driver.wrong_version += version < known[i].since || flags != 0;
		*(void (**)(void))(void *)out = known[i].function;
		return 0;
	}
	return NO_FIND;
}
