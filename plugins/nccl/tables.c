/*
 * tables.c - the tables of versions 8 to 12, which call the core.
 *
 * Versions 8 to 10 have no context and no finalize: the first init lasts as long as the process.
 * get_device_mr, irecv_consumed, make_virtual and set_attributes are NULL, which the tables allow.
 * All devices are the host's. NCCL uses interfaces one by one, and spreads its channels over them.
 */
#include "plugins/nccl/plugin.h"

#include <string.h>

#define PUBLIC __attribute__((visibility("default")))
#define NAME   "Towline"

#define MAX_COMMS 65536
#define MAX_P2P   (UINT64_C(1) << 30) /* test returns sizes as int */
#define MAX_COLL  (UINT64_C(1) << 29)

static int init_v8(nccl_logger logger)
{
	return (int)twn_init(NULL, 0, logger);
}

static int init_v10(nccl_logger logger, nccl_profile profile)
{
	(void)profile;
	return init_v8(logger);
}

static int init_v11(void **context, uint64_t comm_id, struct nccl_net_config *config,
		    nccl_logger logger, nccl_profile profile)
{
	struct twn_context *made = NULL;
	enum nccl_result result;

	(void)profile;
	if (context == NULL)
		return NCCL_INVALID_ARGUMENT;
	result = twn_init(&made, comm_id, logger);
	*context = made;
	if (result == NCCL_SUCCESS && config != NULL && config->traffic_class >= 0)
		twn_log(NCCL_LOG_INFO, "traffic class %d has no meaning here",
			config->traffic_class);
	return (int)result;
}

static int count_devices(int *count)
{
	if (count == NULL)
		return NCCL_INVALID_ARGUMENT;
	*count = twn.device_count;
	return NCCL_SUCCESS;
}

/* Fills the properties that all versions have. */
#define FILL_PROPERTIES(out, index)                                                                \
	do {                                                                                       \
		(out)->name = twn.devices[index].name;                                             \
		(out)->pci_path =                                                                  \
			*twn.devices[index].pci_path != '\0' ? twn.devices[index].pci_path : NULL; \
		(out)->guid = (uint64_t)(index);                                                   \
		(out)->ptr_support = NCCL_POINTER_HOST;                                            \
		(out)->reg_is_global = 1;                                                          \
		(out)->speed = twn.devices[index].speed_mbits;                                     \
		(out)->max_comms = MAX_COMMS;                                                      \
		(out)->max_recvs = TWN_GROUP;                                                      \
	} while (0)

#define FILL_MORE(out, index)                                                                      \
	do {                                                                                       \
		(out)->members.count = 1;                                                          \
		(out)->members.devices[0] = (index);                                               \
		(out)->max_p2p_bytes = MAX_P2P;                                                    \
		(out)->max_coll_bytes = MAX_COLL;                                                  \
	} while (0)

static bool is_device(int device, const void *out)
{
	return out != NULL && device >= 0 && device < twn.device_count;
}

static int properties_v8(int device, struct nccl_net_properties_v8 *out)
{
	if (!is_device(device, out))
		return NCCL_INVALID_ARGUMENT;
	memset(out, 0, sizeof(*out));
	FILL_PROPERTIES(out, device);
	return NCCL_SUCCESS;
}

static int properties_v9(int device, struct nccl_net_properties_v9 *out)
{
	if (!is_device(device, out))
		return NCCL_INVALID_ARGUMENT;
	memset(out, 0, sizeof(*out));
	FILL_PROPERTIES(out, device);
	FILL_MORE(out, device);
	return NCCL_SUCCESS;
}

static int properties_v11(int device, struct nccl_net_properties_v11 *out)
{
	if (!is_device(device, out))
		return NCCL_INVALID_ARGUMENT;
	memset(out, 0, sizeof(*out));
	FILL_PROPERTIES(out, device);
	FILL_MORE(out, device);
	out->max_multi_request = 1;
	return NCCL_SUCCESS;
}

static int properties_v12(int device, struct nccl_net_properties_v12 *out)
{
	if (!is_device(device, out))
		return NCCL_INVALID_ARGUMENT;
	memset(out, 0, sizeof(*out));
	FILL_PROPERTIES(out, device);
	FILL_MORE(out, device);
	out->max_multi_request = 1;
	out->rail_id = -1;
	out->plane_id = -1;
	return NCCL_SUCCESS;
}

static int listen_v8(int device, void *handle, void **listening)
{
	return (int)twn_listen(0, device, handle, listening);
}

static int listen_v11(void *context, int device, void *handle, void **listening)
{
	const struct twn_context *of = context;

	return (int)twn_listen(of != NULL ? of->comm_id : 0, device, handle, listening);
}

static int connect_v8(int device, void *handle, void **sending, void **offload)
{
	(void)offload; /* stays unchanged: nothing is offloaded */
	return (int)twn_connect(NULL, device, handle, sending);
}

static int connect_v10(int device, struct nccl_net_config *config, void *handle, void **sending,
		       void **offload)
{
	(void)config;
	return connect_v8(device, handle, sending, offload);
}

static int connect_v11(void *context, int device, void *handle, void **sending, void **offload)
{
	(void)offload;
	return (int)twn_connect(context, device, handle, sending);
}

static int accept_any(void *listening, void **receiving, void **offload)
{
	(void)offload;
	return (int)twn_accept(listening, receiving);
}

static int register_any(void *comm, void *data, size_t bytes, int type, void **region)
{
	(void)comm;
	return (int)twn_memory_register(data, bytes, type, region);
}

static int register_dmabuf(void *comm, void *data, size_t bytes, int type, uint64_t offset, int fd,
			   void **region)
{
	(void)comm;
	(void)data;
	(void)bytes;
	(void)type;
	(void)offset;
	(void)region;
	twn_log(NCCL_LOG_WARN, "a dma-buf (descriptor %d) is not the host's memory", fd);
	return NCCL_INVALID_USAGE;
}

static int deregister_any(void *comm, void *region)
{
	(void)comm;
	return (int)twn_memory_deregister(region);
}

static int send_v8(void *comm, void *data, int bytes, int tag, void *region, void **request)
{
	(void)region;
	if (bytes < 0)
		return NCCL_INVALID_ARGUMENT;
	return (int)twn_send(comm, data, (size_t)bytes, tag, request);
}

static int send_v9(void *comm, void *data, size_t bytes, int tag, void *region, void **request)
{
	(void)region;
	return (int)twn_send(comm, data, bytes, tag, request);
}

static int send_v10(void *comm, void *data, size_t bytes, int tag, void *region, void *profile,
		    void **request)
{
	(void)region;
	(void)profile;
	return (int)twn_send(comm, data, bytes, tag, request);
}

static int recv_v8(void *comm, int count, void **data, int *bytes, int *tags, void **regions,
		   void **request)
{
	size_t sizes[TWN_GROUP];

	(void)regions;
	*request = NULL;
	if (count < 1 || count > TWN_GROUP)
		return NCCL_INVALID_ARGUMENT;
	for (int i = 0; i < count; i++) {
		if (bytes[i] < 0)
			return NCCL_INVALID_ARGUMENT;
		sizes[i] = (size_t)bytes[i];
	}
	return (int)twn_recv(comm, count, data, sizes, tags, request);
}

static int recv_v9(void *comm, int count, void **data, size_t *bytes, int *tags, void **regions,
		   void **request)
{
	(void)regions;
	return (int)twn_recv(comm, count, data, bytes, tags, request);
}

static int recv_v10(void *comm, int count, void **data, size_t *bytes, int *tags, void **regions,
		    void **profiles, void **request)
{
	(void)profiles;
	return recv_v9(comm, count, data, bytes, tags, regions, request);
}

/* Data that has arrived in host memory is visible, so a flush has no work and no request. */
static int flush_any(void *comm, int count, void **data, int *bytes, void **regions, void **request)
{
	(void)comm;
	(void)count;
	(void)data;
	(void)bytes;
	(void)regions;
	*request = NULL;
	return NCCL_SUCCESS;
}

static int test_any(void *request, int *done, int *bytes)
{
	if (request == NULL || done == NULL)
		return NCCL_INVALID_ARGUMENT;
	return (int)twn_test(request, done, bytes);
}

static int close_comm(void *comm)
{
	return (int)twn_comm_close(comm);
}

static int close_listen(void *listening)
{
	return (int)twn_listen_close(listening);
}

static int finalize_context(void *context)
{
	return (int)twn_finalize(context);
}

#define COMMON                                                                                     \
	.name = NAME, .devices = count_devices, .accept = accept_any, .reg_mr = register_any,      \
	.reg_mr_dmabuf = register_dmabuf, .dereg_mr = deregister_any, .iflush = flush_any,         \
	.test = test_any, .close_send = close_comm, .close_recv = close_comm,                      \
	.close_listen = close_listen

#define TABLE(version)                                                                             \
	extern const struct nccl_net_v##version ncclNetPlugin_v##version PUBLIC;                   \
	const struct nccl_net_v##version ncclNetPlugin_v##version

TABLE(8) = { COMMON,
	     .init = init_v8,
	     .get_properties = properties_v8,
	     .listen = listen_v8,
	     .connect = connect_v8,
	     .isend = send_v8,
	     .irecv = recv_v8 };

TABLE(9) = { COMMON,
	     .init = init_v8,
	     .get_properties = properties_v9,
	     .listen = listen_v8,
	     .connect = connect_v8,
	     .isend = send_v9,
	     .irecv = recv_v9 };

TABLE(10) = { COMMON,
	      .init = init_v10,
	      .get_properties = properties_v9,
	      .listen = listen_v8,
	      .connect = connect_v10,
	      .isend = send_v10,
	      .irecv = recv_v10 };

TABLE(11) = { COMMON,
	      .init = init_v11,
	      .get_properties = properties_v11,
	      .listen = listen_v11,
	      .connect = connect_v11,
	      .isend = send_v10,
	      .irecv = recv_v10,
	      .finalize = finalize_context };

TABLE(12) = { COMMON,
	      .init = init_v11,
	      .get_properties = properties_v12,
	      .listen = listen_v11,
	      .connect = connect_v11,
	      .isend = send_v10,
	      .irecv = recv_v10,
	      .finalize = finalize_context };
