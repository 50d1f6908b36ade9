/*
 * nccl_net_abi.h - the interface between NCCL and a network plugin: the tables of functions,
 * versions 8 to 12, and the types of their arguments.
 *
 * A plugin exports one constant table for each version, ncclNetPlugin_v8 to ncclNetPlugin_v12. NCCL
 * takes the newest one that it knows. 2.20 to 2.23 know version 8, 2.24 and 2.25 version 9. 2.26
 * and 2.27 know version 10, 2.28 and 2.29 version 11, 2.30 version 12. Signatures, numbers and
 * layouts are facts of NCCL 2.30.7 (github.com/NVIDIA/nccl, src/include/plugin/net), written here
 * in our own words. The assertions below check the layout for 64-bit machines.
 *
 * A communicator in these tables is one connection in one direction: it sends, or it receives.
 */
#ifndef NCCL_NET_ABI_H
#define NCCL_NET_ABI_H

#include <stddef.h>
#include <stdint.h>

/* The result of each function. */
enum nccl_result {
	NCCL_SUCCESS = 0,
	NCCL_CUDA_ERROR = 1,
	NCCL_SYSTEM_ERROR = 2,
	NCCL_INTERNAL_ERROR = 3,
	NCCL_INVALID_ARGUMENT = 4,
	NCCL_INVALID_USAGE = 5,
	NCCL_REMOTE_ERROR = 6
};

/* Levels and subsystems of NCCL's log. */
enum nccl_log_level { NCCL_LOG_WARN = 2, NCCL_LOG_INFO = 3 };
#define NCCL_LOG_INIT 1ul
#define NCCL_LOG_NET  16ul

/* Kinds of memory, as bits of ptr_support and as the type of a registration. */
enum nccl_pointer { NCCL_POINTER_HOST = 1, NCCL_POINTER_CUDA = 2, NCCL_POINTER_DMABUF = 4 };

#define NCCL_HANDLE_BYTES 128 /* length of the handle that listen returns and connect gets */
#define NCCL_MAX_REQUESTS 32  /* requests in flight of one communicator, grouped or not */
#define NCCL_SIZE_LIMIT   (INT64_C(1) << 40) /* largest max_p2p_bytes and max_coll_bytes */
/* Value of *request before irecv, if the receive may complete early (from version 9). */
#define NCCL_OPTIONAL_COMPLETION ((void *)(uintptr_t)1)

typedef void (*nccl_logger)(int level, unsigned long flags, const char *file, int line,
			    const char *format, ...);
typedef int (*nccl_profile)(void **event, int type, void *parent, int64_t plugin, void *data);

/* Settings of a communicator; -1: not set. In version 10 connect gets them, later init. */
struct nccl_net_config {
	int traffic_class;
};

/* The physical devices of a device. */
struct nccl_net_members_v9 {
	int count;
	int devices[4];
};

struct nccl_net_members_v12 {
	int count;
	int devices[8];
};

/* Properties of a device; texts stay valid. speed is in Mbit/s, latency in us; id -1: unknown. */
#define NCCL_NET_PROPERTIES_HEAD                                                                   \
	char *name;                                                                                \
	char *pci_path;                                                                            \
	uint64_t guid;                                                                             \
	int ptr_support;                                                                           \
	int reg_is_global

#define NCCL_NET_PROPERTIES_BODY                                                                   \
	int speed;                                                                                 \
	int port;                                                                                  \
	float latency;                                                                             \
	int max_comms;                                                                             \
	int max_recvs;                                                                             \
	int device_type; /* 0: the host */                                                         \
	int device_version

struct nccl_net_properties_v8 {
	NCCL_NET_PROPERTIES_HEAD;
	NCCL_NET_PROPERTIES_BODY;
};

/* Version 10 uses it, too. */
struct nccl_net_properties_v9 {
	NCCL_NET_PROPERTIES_HEAD;
	int force_flush;
	NCCL_NET_PROPERTIES_BODY;
	struct nccl_net_members_v9 members;
	size_t max_p2p_bytes;
	size_t max_coll_bytes;
};

struct nccl_net_properties_v11 {
	NCCL_NET_PROPERTIES_HEAD;
	int force_flush;
	NCCL_NET_PROPERTIES_BODY;
	struct nccl_net_members_v9 members;
	size_t max_p2p_bytes;
	size_t max_coll_bytes;
	int max_multi_request;
};

struct nccl_net_properties_v12 {
	NCCL_NET_PROPERTIES_HEAD;
	int force_flush;
	NCCL_NET_PROPERTIES_BODY;
	struct nccl_net_members_v12 members;
	size_t max_p2p_bytes;
	size_t max_coll_bytes;
	int max_multi_request;
	int16_t rail_id;
	int16_t plane_id;
};

/* Functions whose signature several versions share. */
typedef int (*nccl_devices)(int *count);
typedef int (*nccl_listen_v8)(int device, void *handle, void **listening);
typedef int (*nccl_listen_v11)(void *context, int device, void *handle, void **listening);
typedef int (*nccl_connect_v8)(int device, void *handle, void **sending, void **offload);
typedef int (*nccl_connect_v10)(int device, struct nccl_net_config *config, void *handle,
				void **sending, void **offload);
typedef int (*nccl_connect_v11)(void *context, int device, void *handle, void **sending,
				void **offload);
typedef int (*nccl_accept)(void *listening, void **receiving, void **offload);
typedef int (*nccl_register)(void *comm, void *data, size_t bytes, int type, void **region);
typedef int (*nccl_register_dmabuf)(void *comm, void *data, size_t bytes, int type, uint64_t offset,
				    int fd, void **region);
typedef int (*nccl_deregister)(void *comm, void *region);
typedef int (*nccl_send_v8)(void *comm, void *data, int bytes, int tag, void *region,
			    void **request);
typedef int (*nccl_send_v9)(void *comm, void *data, size_t bytes, int tag, void *region,
			    void **request);
typedef int (*nccl_send_v10)(void *comm, void *data, size_t bytes, int tag, void *region,
			     void *profile, void **request);
typedef int (*nccl_recv_v8)(void *comm, int count, void **data, int *bytes, int *tags,
			    void **regions, void **request);
typedef int (*nccl_recv_v9)(void *comm, int count, void **data, size_t *bytes, int *tags,
			    void **regions, void **request);
typedef int (*nccl_recv_v10)(void *comm, int count, void **data, size_t *bytes, int *tags,
			     void **regions, void **profiles, void **request);
typedef int (*nccl_flush)(void *comm, int count, void **data, int *bytes, void **regions,
			  void **request);
typedef int (*nccl_test)(void *request, int *done, int *bytes);
typedef int (*nccl_close)(void *comm);
typedef int (*nccl_device_region)(void *comm, void *region, void **device_region);
typedef int (*nccl_consumed)(void *comm, int count, void *request);
typedef int (*nccl_init_v11)(void **context, uint64_t comm_id, struct nccl_net_config *config,
			     nccl_logger logger, nccl_profile profile);

/* Members that all tables have, in this order. */
#define NCCL_NET_MEMORY                                                                            \
	nccl_register reg_mr;                                                                      \
	nccl_register_dmabuf reg_mr_dmabuf;                                                        \
	nccl_deregister dereg_mr

#define NCCL_NET_ENDS                                                                              \
	nccl_flush iflush;                                                                         \
	nccl_test test;                                                                            \
	nccl_close close_send;                                                                     \
	nccl_close close_recv;                                                                     \
	nccl_close close_listen;                                                                   \
	nccl_device_region get_device_mr; /* may be NULL, as all below */                          \
	nccl_consumed irecv_consumed

struct nccl_net_v8 {
	const char *name;
	int (*init)(nccl_logger logger);
	nccl_devices devices;
	int (*get_properties)(int device, struct nccl_net_properties_v8 *properties);
	nccl_listen_v8 listen;
	nccl_connect_v8 connect;
	nccl_accept accept;
	NCCL_NET_MEMORY;
	nccl_send_v8 isend;
	nccl_recv_v8 irecv;
	NCCL_NET_ENDS;
};

struct nccl_net_v9 {
	const char *name;
	int (*init)(nccl_logger logger);
	nccl_devices devices;
	int (*get_properties)(int device, struct nccl_net_properties_v9 *properties);
	nccl_listen_v8 listen;
	nccl_connect_v8 connect;
	nccl_accept accept;
	NCCL_NET_MEMORY;
	nccl_send_v9 isend;
	nccl_recv_v9 irecv;
	NCCL_NET_ENDS;
	int (*make_virtual)(int *device, struct nccl_net_members_v9 *members);
};

struct nccl_net_v10 {
	const char *name;
	int (*init)(nccl_logger logger, nccl_profile profile);
	nccl_devices devices;
	int (*get_properties)(int device, struct nccl_net_properties_v9 *properties);
	nccl_listen_v8 listen;
	nccl_connect_v10 connect;
	nccl_accept accept;
	NCCL_NET_MEMORY;
	nccl_send_v10 isend;
	nccl_recv_v10 irecv;
	NCCL_NET_ENDS;
	int (*make_virtual)(int *device, struct nccl_net_members_v9 *members);
};

struct nccl_net_v11 {
	const char *name;
	nccl_init_v11 init;
	nccl_devices devices;
	int (*get_properties)(int device, struct nccl_net_properties_v11 *properties);
	nccl_listen_v11 listen;
	nccl_connect_v11 connect;
	nccl_accept accept;
	NCCL_NET_MEMORY;
	nccl_send_v10 isend;
	nccl_recv_v10 irecv;
	NCCL_NET_ENDS;
	int (*make_virtual)(int *device, struct nccl_net_members_v9 *members);
	int (*finalize)(void *context);
	int (*set_attributes)(void *context, void *attributes);
};

struct nccl_net_v12 {
	const char *name;
	nccl_init_v11 init;
	nccl_devices devices;
	int (*get_properties)(int device, struct nccl_net_properties_v12 *properties);
	nccl_listen_v11 listen;
	nccl_connect_v11 connect;
	nccl_accept accept;
	NCCL_NET_MEMORY;
	nccl_send_v10 isend;
	nccl_recv_v10 irecv;
	NCCL_NET_ENDS;
	int (*make_virtual)(int *device, struct nccl_net_members_v12 *members);
	int (*finalize)(void *context);
	int (*set_attributes)(void *context, void *attributes);
};

/* Offsets of the members. */
#define NCCL_AT(type, member, offset)                                                              \
	_Static_assert(offsetof(struct type, member) == (offset), #type "." #member)
#define NCCL_LONG(type, bytes) _Static_assert(sizeof(struct type) == (bytes), #type)

NCCL_AT(nccl_net_properties_v8, guid, 16);
NCCL_AT(nccl_net_properties_v8, speed, 32);
NCCL_AT(nccl_net_properties_v8, latency, 40);
NCCL_AT(nccl_net_properties_v8, max_recvs, 48);
NCCL_AT(nccl_net_properties_v8, device_version, 56);
NCCL_LONG(nccl_net_properties_v8, 64);
NCCL_AT(nccl_net_properties_v9, force_flush, 32);
NCCL_AT(nccl_net_properties_v9, speed, 36);
NCCL_AT(nccl_net_properties_v9, device_version, 60);
NCCL_AT(nccl_net_properties_v9, members, 64);
NCCL_AT(nccl_net_properties_v9, max_p2p_bytes, 88);
NCCL_LONG(nccl_net_properties_v9, 104);
NCCL_AT(nccl_net_properties_v11, max_coll_bytes, 96);
NCCL_AT(nccl_net_properties_v11, max_multi_request, 104);
NCCL_LONG(nccl_net_properties_v11, 112);
NCCL_AT(nccl_net_properties_v12, members, 64);
NCCL_AT(nccl_net_properties_v12, max_p2p_bytes, 104);
NCCL_AT(nccl_net_properties_v12, max_multi_request, 120);
NCCL_AT(nccl_net_properties_v12, rail_id, 124);
NCCL_AT(nccl_net_properties_v12, plane_id, 126);
NCCL_LONG(nccl_net_properties_v12, 128);

/* The number of functions in words. All tables have these members at the same offsets. */
#define NCCL_TABLE(type, words)                                                                    \
	NCCL_AT(type, init, 8);                                                                    \
	NCCL_AT(type, get_properties, 24);                                                         \
	NCCL_AT(type, connect, 40);                                                                \
	NCCL_AT(type, reg_mr, 56);                                                                 \
	NCCL_AT(type, isend, 80);                                                                  \
	NCCL_AT(type, irecv, 88);                                                                  \
	NCCL_AT(type, iflush, 96);                                                                 \
	NCCL_AT(type, test, 104);                                                                  \
	NCCL_AT(type, close_listen, 128);                                                          \
	NCCL_AT(type, irecv_consumed, 144);                                                        \
	NCCL_LONG(type, 8 * (words))

NCCL_TABLE(nccl_net_v8, 19);
NCCL_TABLE(nccl_net_v9, 20);
NCCL_TABLE(nccl_net_v10, 20);
NCCL_TABLE(nccl_net_v11, 22);
NCCL_TABLE(nccl_net_v12, 22);
NCCL_AT(nccl_net_v12, make_virtual, 152);
NCCL_AT(nccl_net_v12, finalize, 160);

#endif
