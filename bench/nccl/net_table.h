/*
 * net_table.h - loads a network plugin of NCCL's as NCCL does, and calls it.
 *
 * Each function has one signature for all versions of the plugin's table, and returns NCCL's
 * result.
 */
#ifndef NET_TABLE_H
#define NET_TABLE_H

#include <stddef.h>
#include <stdint.h>

#include "plugins/nccl/nccl_net_abi.h"

#define NET_VERSION_FIRST 8
#define NET_VERSION_LAST  12

struct net_table {
	int version;
	const void *table;
	void *module;
};

/* The result of getProperties, with what the newest version has; -1: this version has none. */
struct net_properties {
	const char *name, *pci_path;
	uint64_t guid;
	int ptr_support, reg_is_global, speed, max_comms, max_recvs, device_type;
	int64_t members, max_p2p_bytes, max_coll_bytes, max_multi_request, rail_id;
};

/* version 0 is the newest. Returns 0, or -1 after printing why. */
int net_load(struct net_table *net, const char *path, int version);

const char *net_name(const struct net_table *net);
int net_init(const struct net_table *net, void **context, uint64_t comm_id, nccl_logger logger);
int net_finalize(const struct net_table *net, void *context); /* before version 11: nothing */
int net_devices(const struct net_table *net, int *count);
int net_get_properties(const struct net_table *net, int device, struct net_properties *out);
int net_listen(const struct net_table *net, void *context, int device, void *handle,
	       void **listening);
int net_connect(const struct net_table *net, void *context, int device, void *handle,
		void **sending);
int net_accept(const struct net_table *net, void *listening, void **receiving);
int net_register(const struct net_table *net, void *comm, void *data, size_t bytes, int type,
		 void **region);
int net_register_dmabuf(const struct net_table *net, void *comm, int fd, void **region);
int net_deregister(const struct net_table *net, void *comm, void *region);
int net_send(const struct net_table *net, void *comm, void *data, size_t bytes, int tag,
	     void *region, void **request);
int net_recv(const struct net_table *net, void *comm, int count, void **data, size_t *bytes,
	     int *tags, void **regions, void **request);
int net_flush(const struct net_table *net, void *comm, void *data, int bytes, void *region,
	      void **request);
int net_test(const struct net_table *net, void *request, int *done, int *bytes);
int net_close_send(const struct net_table *net, void *comm);
int net_close_recv(const struct net_table *net, void *comm);
int net_close_listen(const struct net_table *net, void *listening);

#endif
