/*
 * cuda_api.h - our own declaration of the part of the CUDA driver API that is used here. The build
 * needs no CUDA, and a run needs only the driver's library.
 *
 * The driver keeps several versions of a function under one name. cuGetProcAddress returns the
 * version that existed in a given CUDA version. A driver without cuGetProcAddress (before 11.3) has
 * the versions under suffixed symbols.
 */
#ifndef TWI_CUDA_API_H
#define TWI_CUDA_API_H

#include <stddef.h>
#include <stdint.h>

typedef int twi_cu_result;
typedef int twi_cu_device;
typedef uint64_t twi_cu_ptr;
typedef struct twi_cu_context_st *twi_cu_context;
typedef struct twi_cu_stream_st *twi_cu_stream;
typedef struct twi_cu_event_st *twi_cu_event;

enum {
	TWI_CU_OK = 0,
	TWI_CU_INVALID_VALUE = 1,
	TWI_CU_OUT_OF_MEMORY = 2,
	TWI_CU_NO_DEVICE = 100,
	TWI_CU_OPERATING_SYSTEM = 304,
	TWI_CU_NOT_READY = 600,
	TWI_CU_ALREADY_REGISTERED = 712,
	TWI_CU_NOT_PERMITTED = 800,
	TWI_CU_NOT_SUPPORTED = 801,

	TWI_CU_HOSTREGISTER_PORTABLE = 1,
	TWI_CU_STREAM_NON_BLOCKING = 1,
	TWI_CU_EVENT_DISABLE_TIMING = 2,
	TWI_CU_CAPTURE_RELAXED = 2,
};

/* X(name, version for cuGetProcAddress, symbol for dlsym, parameters) */
#define TWI_CUDA_MAP(X)                                                                            \
	X(cuInit, 2000, cuInit, (unsigned flags))                                                  \
	X(cuDriverGetVersion, 2020, cuDriverGetVersion, (int *out))                                \
	X(cuGetErrorName, 6000, cuGetErrorName, (twi_cu_result, const char **out))                 \
	X(cuDeviceGetCount, 2000, cuDeviceGetCount, (int *out))                                    \
	X(cuDeviceGet, 2000, cuDeviceGet, (twi_cu_device * out, int ordinal))                      \
	X(cuDeviceGetName, 2000, cuDeviceGetName, (char *out, int room, twi_cu_device))            \
	X(cuDeviceTotalMem, 3020, cuDeviceTotalMem_v2, (size_t * out, twi_cu_device))              \
	X(cuDevicePrimaryCtxRetain, 7000, cuDevicePrimaryCtxRetain,                                \
	  (twi_cu_context * out, twi_cu_device))                                                   \
	X(cuDevicePrimaryCtxRelease, 11000, cuDevicePrimaryCtxRelease_v2, (twi_cu_device))         \
	X(cuCtxPushCurrent, 4000, cuCtxPushCurrent_v2, (twi_cu_context))                           \
	X(cuCtxPopCurrent, 4000, cuCtxPopCurrent_v2, (twi_cu_context * out))                       \
	X(cuStreamCreate, 2000, cuStreamCreate, (twi_cu_stream * out, unsigned flags))             \
	X(cuStreamDestroy, 4000, cuStreamDestroy_v2, (twi_cu_stream))                              \
	X(cuStreamQuery, 2000, cuStreamQuery, (twi_cu_stream))                                     \
	X(cuStreamSynchronize, 2000, cuStreamSynchronize, (twi_cu_stream))                         \
	X(cuEventCreate, 2000, cuEventCreate, (twi_cu_event * out, unsigned flags))                \
	X(cuEventDestroy, 4000, cuEventDestroy_v2, (twi_cu_event))                                 \
	X(cuEventRecord, 2000, cuEventRecord, (twi_cu_event, twi_cu_stream))                       \
	X(cuEventQuery, 2000, cuEventQuery, (twi_cu_event))                                        \
	X(cuMemAlloc, 3020, cuMemAlloc_v2, (twi_cu_ptr * out, size_t bytes))                       \
	X(cuMemFree, 3020, cuMemFree_v2, (twi_cu_ptr))                                             \
	X(cuMemHostRegister, 6050, cuMemHostRegister_v2, (void *p, size_t bytes, unsigned flags))  \
	X(cuMemHostUnregister, 4000, cuMemHostUnregister, (void *p))                               \
	X(cuMemHostGetFlags, 2030, cuMemHostGetFlags, (unsigned *out, void *p))                    \
	X(cuMemcpyHtoDAsync, 3020, cuMemcpyHtoDAsync_v2,                                           \
	  (twi_cu_ptr to, const void *from, size_t bytes, twi_cu_stream))                          \
	X(cuMemcpyDtoHAsync, 3020, cuMemcpyDtoHAsync_v2,                                           \
	  (void *to, twi_cu_ptr from, size_t bytes, twi_cu_stream))

/* The same for functions that a driver may lack; their pointers are NULL then. */
#define TWI_CUDA_OPTIONAL_MAP(X)                                                                   \
	X(cuThreadExchangeStreamCaptureMode, 10010, cuThreadExchangeStreamCaptureMode, (int *mode))

struct twi_cuda_api {
	int version; /* of the driver: 12040 is 12.4 */
#define TWI_CUDA_MEMBER(name, since, symbol, parameters) twi_cu_result(*name) parameters;
	TWI_CUDA_MAP(TWI_CUDA_MEMBER)
	TWI_CUDA_OPTIONAL_MAP(TWI_CUDA_MEMBER)
#undef TWI_CUDA_MEMBER
};

/*
 * Loads the driver's library (NULL: "libcuda.so.1"), finds its functions and calls cuInit. The
 * library stays loaded forever, as drivers must. TOW_OK; TOW_ENOTSUP with what is missing;
 * TOW_EDEVICE.
 */
int twi_cuda_load(const char *library, struct twi_cuda_api *out);

/* The driver's name of a result, such as "CUDA_ERROR_OUT_OF_MEMORY". */
const char *twi_cuda_name(const struct twi_cuda_api *api, twi_cu_result result);

#endif
