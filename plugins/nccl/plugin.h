/*
 * plugin.h - the core of NCCL's network plugin. The tables of all versions (tables.c) call the
 * core.
 *
 *	state    one runtime of the process, its devices, and the count of its users
 *	device   a network interface, with an endpoint from the first listen or connect on
 *	link     a connection with another process, which carries comms
 *	comm     a communicator of NCCL: a channel of a link, in one direction
 *	listen   the result of listen: a secret by which a connect finds it
 *	request  the result of isend or irecv: up to TWN_GROUP operations
 *
 * Two processes have few links (TOW_NCCL_CONNECTIONS) and any number of comms. So 512 communicators
 * cost 512 channels, and not 512 connections with their descriptors. The connecting process opens
 * the link and picks a channel number. Its hello (struct twn_hello) on the link names the channel
 * and the listen. The accepting process opens the channel of this number.
 *
 * Two kinds of threads call. One kind connects, registers and closes, and takes the lock of the
 * state. The other kind sends, receives and tests without that lock: it takes a request by an
 * atomic exchange. Operations end in a callback, which stores into the request alone.
 */
#ifndef TWN_PLUGIN_H
#define TWN_PLUGIN_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <towline/towline.h>

#include "plugins/nccl/nccl_net_abi.h"

#define TWN_DEVICES_MAX     32
#define TWN_GROUP           8  /* receives in one request */
#define TWN_CHUNK           32 /* requests that are allocated at once */
#define TWN_CHUNKS_RECV     1
#define TWN_CHUNKS_SEND     8    /* the other side may group each of its receives */
#define TWN_CALLS_MAX       4096 /* connects to one listen that wait for an accept */
#define TWN_CONNECTIONS_MAX 64
#define TWN_TEXT            256
#define TWN_HIDDEN          __attribute__((visibility("hidden")))

struct twn_device {
	char name[TOW_INTERFACE_NAME_MAX];
	char host[TOW_INTERFACE_TEXT_MAX];
	char pci_path[TOW_INTERFACE_PATH_MAX];
	int speed_mbits;
	struct tow_endpoint *endpoint;
	char address[TOW_ADDRESS_MAX];
	struct tow_op *accept;
};

/* The first message of the side that opens a channel, on the link itself. */
#define TWN_HELLO_TAG   1
#define TWN_HELLO_MAGIC 0x3148574eu /* "NWH1" */
struct twn_hello {
	uint32_t magic;
	uint32_t channel;
	uint64_t secret;
};

enum twn_link_state { TWN_LINK_CONNECTING, TWN_LINK_UP, TWN_LINK_ENDED };

struct twn_link {
	struct twn_link *next;
	struct twn_device *device;
	enum twn_link_state state;
	bool outbound;
	bool greeted;                  /* a hello has come */
	char address[TOW_ADDRESS_MAX]; /* of the other side, if this side has connected */
	struct tow_peer *peer;
	struct tow_op *op;   /* connect, or receive of a hello; NULL: to be started */
	uint64_t give_up_ns; /* until then, a refused connect is tried again */
	uint64_t again_ns;
	unsigned users; /* comms, and calls that wait for an accept */
	uint32_t last_channel;
	int status; /* why the link has ended */
	char why[TWN_TEXT];
	struct twn_hello hello;
};

struct twn_listen {
	struct twn_listen *next;
	struct twn_device *device;
	uint64_t secret;
	uint64_t comm_id;                    /* of NCCL's communicator; 0: unknown */
	struct twn_call *calls, **calls_end; /* in the order of arrival */
	unsigned call_count;
};

struct twn_call {
	struct twn_call *next;
	struct twn_link *link;
	uint32_t channel;
};

/* One operation of a request. */
struct twn_part {
	struct twn_request *request;
	void *data;
	uint64_t bytes; /* room at first, then the bytes moved */
	uint32_t tag;
	int status;
	_Atomic bool done;
};

struct twn_request {
	struct twn_comm *comm;
	_Atomic bool used;
	uint32_t count;   /* number of parts */
	uint32_t started; /* started parts; the others wait for room in the table of operations */
	struct twn_part parts[];
};

struct twn_comm {
	struct twn_comm *next; /* next in the list of connecting comms */
	struct twn_context *context;
	struct twn_link *link;
	struct tow_channel *channel;
	struct tow_peer *peer;
	struct tow_runtime *runtime;
	uint64_t number; /* counts the comms of this process; the stage in a handle */
	uint32_t channel_number, channels_tried;
	char name[TOW_FOREIGN_NAME_MAX]; /* of NCCL's communicator; "": unknown */
	bool sends;
	bool greeted;    /* the send of the hello has started */
	bool retried;    /* on another link, because the first one had broken unseen */
	uint64_t secret; /* of the listen that the hello names */
	struct tow_op *hello_op;
	_Atomic unsigned idle;      /* tests in a row that found nothing to do */
	_Atomic uint32_t in_flight; /* operations whose callback has not run */
	_Atomic int failed;         /* the first failure, set after `why` is written */
	_Atomic bool failing, failure_logged, cut_logged;
	char why[TWN_TEXT];
	struct twn_request *_Atomic stalled; /* a group of receives that started in part */
	_Atomic uint32_t cursor;
	uint32_t request_bytes, chunks_max;
	_Atomic uint32_t chunk_count;
	pthread_mutex_t grow;
	char *_Atomic chunks[TWN_CHUNKS_SEND];
};

/* The result of init: one communicator of NCCL with all its comms. */
struct twn_context {
	uint64_t comm_id;
};

struct twn_state {
	pthread_mutex_t lock;
	unsigned users; /* contexts, listens and comms: the last one closes the runtime */
	struct tow_runtime *runtime;
	struct tow_group *group; /* of the ranks of the job, if TOW_NCCL_JOIN asks for it */
	struct tow_op *joining;
	struct twn_device devices[TWN_DEVICES_MAX];
	int device_count; /* 0: not searched yet */
	struct twn_link *links;
	struct twn_listen *listens;
	struct twn_comm *connecting;
	uint64_t last_number;
	bool net_read;   /* the variables of the network have been read */
	int connections; /* between two processes, from TOW_NCCL_CONNECTIONS */
	const char *lane;
};

extern struct twn_state twn TWN_HIDDEN;

/* log.c: messages for NCCL's log, and statuses for NCCL. */
void twn_log_to(nccl_logger logger);
void twn_log(int level, const char *format, ...) __attribute__((format(printf, 2, 3)));
void twn_log_line(void *user, int level, const char *text);
void twn_log_busy(void); /* once in a process; the lock is held */
enum nccl_result twn_result(int status);
enum nccl_result twn_refuse(int status, const char *what); /* logs tow_error_message */

/* runtime.c: the caller of release holds the lock. context_out may be NULL: the use never ends. */
enum nccl_result twn_init(struct twn_context **context_out, uint64_t comm_id, nccl_logger logger);
enum nccl_result twn_finalize(struct twn_context *context);
void twn_release(void); /* removes one user */
/* Adds one user; the caller holds the lock. The first user opens the runtime. rank: -1: unknown. */
enum nccl_result twn_runtime_use(nccl_logger logger, int rank);
uint64_t twn_now_ns(void);

/* device.c */
enum nccl_result twn_devices_find(struct tow_runtime *runtime);
bool twn_name_allowed(const char *list, const char *name);   /* list: see NCCL_SOCKET_IFNAME */
enum nccl_result twn_device_open(struct twn_device *device); /* opens its endpoint; lock held */
void twn_device_close(struct twn_device *device);

/* handle.c: the 128 bytes between listen and connect. */
enum nccl_result twn_handle_write(void *handle, const char *address, uint64_t secret);
enum nccl_result twn_handle_read(const void *handle, char address_out[TOW_ADDRESS_MAX],
				 uint64_t *secret_out);
uint64_t twn_handle_stage(const void *handle);
void twn_handle_set_stage(void *handle, uint64_t stage);

/* link.c: the lock is held. */
struct twn_link *twn_link_take(struct twn_device *device, const char *address);
void twn_link_leave(struct twn_link *link); /* removes one user */
/* Takes no more users, and tells those that wait for the link why. Its last user destroys it. */
void twn_link_end(struct twn_link *link, int status, const char *why);
void twn_link_poll(struct twn_link *link);
void twn_links_accept(struct twn_device *device);
void twn_links_close(void);

/* accept.c: the lock is held in take and refuse. */
void twn_listen_take(struct twn_link *link, const struct twn_hello *hello);
enum nccl_result twn_listen(uint64_t comm_id, int device, void *handle, void **listening);
enum nccl_result twn_accept(struct twn_listen *listening, void **receiving);
enum nccl_result twn_listen_close(struct twn_listen *listening);

/* connect.c */
enum nccl_result twn_connect(struct twn_context *context, int device, void *handle, void **sending);
void twn_connect_end(struct twn_context *context); /* ends its connects; the lock is held */

/* comm.c */
struct twn_comm *twn_comm_create(struct twn_link *link, bool sends);
void twn_comm_destroy(struct twn_comm *comm); /* the lock is held */
enum nccl_result twn_comm_close(struct twn_comm *comm);
/* Sets the name of NCCL's communicator, if the init of a profiler gave one (profiler.h). */
void twn_comm_name(struct twn_comm *comm, uint64_t comm_id);
void twn_comm_fail(struct twn_comm *comm, int status, const char *why);

/* memory.c: the lock is held in retry and forget. */
enum nccl_result twn_memory_register(void *data, size_t bytes, int type, void **region);
enum nccl_result twn_memory_deregister(void *region);
void twn_memory_retry(void);
void twn_memory_forget(void);

/* data.c */
enum nccl_result twn_send(struct twn_comm *comm, void *data, size_t bytes, int tag, void **request);
enum nccl_result twn_recv(struct twn_comm *comm, int count, void **data, const size_t *bytes,
			  const int *tags, void **request);
enum nccl_result twn_test(struct twn_request *request, int *done, int *bytes);

#endif
