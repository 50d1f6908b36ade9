/*
 * net_table.c - calls a plugin's table of any version through one signature.
 */
#include "bench/nccl/net_table.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>

/* A member of the table, in the table's version. */
#define FIELD(net, member)                                                                         \
	((net)->version == 8    ? ((const struct nccl_net_v8 *)(net)->table)->member               \
	 : (net)->version == 9  ? ((const struct nccl_net_v9 *)(net)->table)->member               \
	 : (net)->version == 10 ? ((const struct nccl_net_v10 *)(net)->table)->member              \
	 : (net)->version == 11 ? ((const struct nccl_net_v11 *)(net)->table)->member              \
				: ((const struct nccl_net_v12 *)(net)->table)->member)
#define AS(net, n) ((const struct nccl_net_v##n *)(net)->table)

int net_load(struct net_table *net, const char *path, int version)
{
	int first = version == 0 ? NET_VERSION_LAST : version;
	char symbol[32];

	net->table = NULL;
	net->module = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (net->module == NULL) {
		fprintf(stderr, "%s\n", dlerror());
		return -1;
	}
	for (int n = first; n >= NET_VERSION_FIRST && net->table == NULL; n--) {
		if (version != 0 && n != version)
			break;
		snprintf(symbol, sizeof(symbol), "ncclNetPlugin_v%d", n);
		net->table = dlsym(net->module, symbol);
		net->version = n;
	}
	if (net->table == NULL) {
		fprintf(stderr, "%s has no table of version %d\n", path, first);
		return -1;
	}
	return 0;
}

const char *net_name(const struct net_table *net)
{
	return *(const char *const *)net->table;
}

int net_init(const struct net_table *net, void **context, uint64_t comm_id, nccl_logger logger)
{
	struct nccl_net_config config = { .traffic_class = -1 };

	*context = NULL;
	if (net->version <= 9)
		return AS(net, 9)->init(logger);
	if (net->version == 10)
		return AS(net, 10)->init(logger, NULL);
	return AS(net, 12)->init(context, comm_id, &config, logger, NULL);
}

int net_finalize(const struct net_table *net, void *context)
{
	return net->version < 11 ? NCCL_SUCCESS : AS(net, 12)->finalize(context);
}

int net_devices(const struct net_table *net, int *count)
{
	return FIELD(net, devices)(count);
}

#define TAKE(from)                                                                                 \
	do {                                                                                       \
		out->name = (from).name;                                                           \
		out->pci_path = (from).pci_path;                                                   \
		out->guid = (from).guid;                                                           \
		out->ptr_support = (from).ptr_support;                                             \
		out->reg_is_global = (from).reg_is_global;                                         \
		out->speed = (from).speed;                                                         \
		out->max_comms = (from).max_comms;                                                 \
		out->max_recvs = (from).max_recvs;                                                 \
		out->device_type = (from).device_type;                                             \
	} while (0)

#define TAKE_MORE(from)                                                                            \
	do {                                                                                       \
		TAKE(from);                                                                        \
		out->members = (from).members.count;                                               \
		out->max_p2p_bytes = (int64_t)(from).max_p2p_bytes;                                \
		out->max_coll_bytes = (int64_t)(from).max_coll_bytes;                              \
	} while (0)

int net_get_properties(const struct net_table *net, int device, struct net_properties *out)
{
	union {
		struct nccl_net_properties_v8 v8;
		struct nccl_net_properties_v9 v9;
		struct nccl_net_properties_v11 v11;
		struct nccl_net_properties_v12 v12;
	} all = { 0 };
	int result;

	out->members = out->max_p2p_bytes = out->max_coll_bytes = -1;
	out->max_multi_request = out->rail_id = -1;
	if (net->version == 8) {
		result = AS(net, 8)->get_properties(device, &all.v8);
		TAKE(all.v8);
	} else if (net->version <= 10) {
		result = AS(net, 9)->get_properties(device, &all.v9);
		TAKE_MORE(all.v9);
	} else if (net->version == 11) {
		result = AS(net, 11)->get_properties(device, &all.v11);
		TAKE_MORE(all.v11);
		out->max_multi_request = all.v11.max_multi_request;
	} else {
		result = AS(net, 12)->get_properties(device, &all.v12);
		TAKE_MORE(all.v12);
		out->max_multi_request = all.v12.max_multi_request;
		out->rail_id = all.v12.rail_id;
	}
	return result;
}

int net_listen(const struct net_table *net, void *context, int device, void *handle,
	       void **listening)
{
	if (net->version < 11)
		return AS(net, 8)->listen(device, handle, listening);
	return AS(net, 12)->listen(context, device, handle, listening);
}

int net_connect(const struct net_table *net, void *context, int device, void *handle,
		void **sending)
{
	struct nccl_net_config config = { .traffic_class = -1 };
	void *offload = NULL;

	if (net->version < 10)
		return AS(net, 8)->connect(device, handle, sending, &offload);
	if (net->version == 10)
		return AS(net, 10)->connect(device, &config, handle, sending, &offload);
	return AS(net, 12)->connect(context, device, handle, sending, &offload);
}

int net_accept(const struct net_table *net, void *listening, void **receiving)
{
	void *offload = NULL;

	return FIELD(net, accept)(listening, receiving, &offload);
}

int net_register(const struct net_table *net, void *comm, void *data, size_t bytes, int type,
		 void **region)
{
	return FIELD(net, reg_mr)(comm, data, bytes, type, region);
}

int net_register_dmabuf(const struct net_table *net, void *comm, int fd, void **region)
{
	return FIELD(net, reg_mr_dmabuf)(comm, NULL, 4096, NCCL_POINTER_CUDA, 0, fd, region);
}

int net_deregister(const struct net_table *net, void *comm, void *region)
{
	return FIELD(net, dereg_mr)(comm, region);
}

int net_send(const struct net_table *net, void *comm, void *data, size_t bytes, int tag,
	     void *region, void **request)
{
	if (net->version == 8)
		return AS(net, 8)->isend(comm, data, (int)bytes, tag, region, request);
	if (net->version == 9)
		return AS(net, 9)->isend(comm, data, bytes, tag, region, request);
	return AS(net, 12)->isend(comm, data, bytes, tag, region, NULL, request);
}

int net_recv(const struct net_table *net, void *comm, int count, void **data, size_t *bytes,
	     int *tags, void **regions, void **request)
{
	void *profiles[8] = { NULL };
	int sizes[8];

	if (net->version >= 10)
		return AS(net, 12)->irecv(comm, count, data, bytes, tags, regions, profiles,
					  request);
	if (net->version == 9)
		return AS(net, 9)->irecv(comm, count, data, bytes, tags, regions, request);
	for (int i = 0; i < count && i < 8; i++)
		sizes[i] = bytes[i] > INT_MAX ? INT_MAX : (int)bytes[i];
	return AS(net, 8)->irecv(comm, count, data, sizes, tags, regions, request);
}

int net_flush(const struct net_table *net, void *comm, void *data, int bytes, void *region,
	      void **request)
{
	return FIELD(net, iflush)(comm, 1, &data, &bytes, &region, request);
}

int net_test(const struct net_table *net, void *request, int *done, int *bytes)
{
	return FIELD(net, test)(request, done, bytes);
}

int net_close_send(const struct net_table *net, void *comm)
{
	return FIELD(net, close_send)(comm);
}

int net_close_recv(const struct net_table *net, void *comm)
{
	return FIELD(net, close_recv)(comm);
}

int net_close_listen(const struct net_table *net, void *listening)
{
	return FIELD(net, close_listen)(listening);
}
