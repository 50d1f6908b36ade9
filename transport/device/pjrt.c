/*
 * pjrt.c - any device that has a PJRT plugin: TPUs, GPUs under XLA, XLA's CPU client.
 *
 * Mapping is PJRT_Client_DmaMap. A plugin without it says "unimplemented". XLA's CPU client is one,
 * because the device's memory is the host's. Such a plugin takes any host memory and prepares it by
 * itself, so staging before it would add a copy and gain nothing. The device is then used unmapped
 * and without staging, and says so in /v1/devices. If DmaMap exists, this code stages unmapped
 * memory, since the plugin would do the same unseen.
 *
 * To the device: PJRT_Client_BufferFromHostBuffer with kImmutableUntilTransferCompletes, u8[n]. The
 * chunk has ended when the plugin no longer uses the host buffer and the new buffer is ready. From
 * the device: PJRT_Buffer_CopyRawToHost, or without it PJRT_Buffer_ToHostBuffer of a whole buffer.
 * Copies are not cut: a tensor is one buffer, and the plugin cuts as its device prefers. PJRT
 * allocates for each copy in any case, so this backend may allocate, too.
 *
 * A polling thread queries the events (PJRT_Event_IsReady). The plugin's notification wakes a
 * sleeping thread (pjrt_ready.h). Without notifications that thread queries every POLL_NS while
 * something is in flight.
 *
 * Spec: "pjrt:FILE[,device=N]".
 */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "diag/base/error.h"
#include "transport/device/device.h"
#include "transport/device/pjrt_api.h"
#include "transport/device/pjrt_memory.h"
#include "transport/device/pjrt_ready.h"
#include "transport/engine/engine.h"

#define POLL_NS  50000u
#define WORD_NS  2000000u /* with notifications, in case the plugin forgets one */
#define CLOSE_NS 1000000000ull

struct job {
	void *event[2]; /* queried in this order; NULL: none */
	const char *what;
};

struct pjrt {
	struct twi_device device;
	struct twi_device_facts facts;
	struct twi_pjrt plugin;
	void *client;
	void *target; /* the PJRT_Device */
	struct job job[TWI_DEVICE_STREAMS][TWI_DEVICE_CHUNKS];
	struct twi_pjrt_ready *ready;
	bool notifies;            /* notifications work: none was refused so far */
	_Atomic uint64_t buffers; /* that exist */
	bool abandoned;           /* the plugin hangs, so nothing is destroyed any more */
	pthread_mutex_t lock;     /* for `memories` */
	struct twi_list memories;
};

static struct pjrt *pjrt_of(struct twi_device *device)
{
	return (struct pjrt *)(void *)device;
}

struct spec {
	char path[512];
	uint64_t index;
};

static int parse_spec(const char *text, struct spec *out)
{
	const char *option = strstr(text, ",device=");
	size_t length = option != NULL ? (size_t)(option - text) : strlen(text);
	struct twi_spec_item item;

	*out = (struct spec){ .index = 0 };
	if (length == 0 || length >= sizeof(out->path))
		return twi_error(TOW_EINVAL, "device pjrt: name the plugin: pjrt:/path/plugin.so");
	snprintf(out->path, sizeof(out->path), "%.*s", (int)length, text);
	if (option == NULL)
		return TOW_OK;
	option++;
	twi_spec_next(&option, &item);
	return twi_spec_bytes(&item, &out->index);
}

static int pjrt_probe(const char *text)
{
	struct twi_pjrt plugin;
	struct spec spec;
	int status = parse_spec(text, &spec);

	return status == TOW_OK ? twi_pjrt_load(spec.path, &plugin) : status;
}

static int dma_map(struct pjrt *pjrt, void *base, uint64_t bytes)
{
	struct twi_pjrt_dma_map_args args = { .client = pjrt->client,
					      .data = base,
					      .bytes = bytes };

	return twi_pjrt_do(&pjrt->plugin, TWI_PJRT_CLIENT_DMA_MAP, &args, "PJRT_Client_DmaMap");
}

static void dma_unmap(struct pjrt *pjrt, void *base)
{
	struct twi_pjrt_dma_map_args args = { .client = pjrt->client, .data = base };

	(void)twi_pjrt_call_named(&pjrt->plugin, TWI_PJRT_CLIENT_DMA_UNMAP, &args,
				  TWI_PJRT_DMA_UNMAP_BYTES, "PJRT_Client_DmaUnmap");
}

/* Tries DmaMap on a page of our own. Only a call shows whether the plugin has it. */
static int try_mapping(struct pjrt *pjrt)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	void *memory = aligned_alloc(page, page);
	int status;

	if (memory == NULL)
		return twi_error(TOW_ENOMEM, "device pjrt: no memory to try DmaMap with");
	status = dma_map(pjrt, memory, page);
	if (status == TOW_OK)
		dma_unmap(pjrt, memory);
	free(memory);
	if (status == TOW_ENOTSUP) {
		pjrt->facts.takes_any = true;
		snprintf(pjrt->facts.takes_any_why, sizeof(pjrt->facts.takes_any_why),
			 "the plugin has no DmaMap: what it copies inside cannot be seen");
	}
	return TOW_OK;
}

static int find_device(struct pjrt *pjrt, uint64_t index)
{
	struct twi_pjrt_devices_args devices = { .client = pjrt->client };
	struct twi_pjrt_name_args name = { .client = pjrt->client };
	int status = twi_pjrt_do(&pjrt->plugin, TWI_PJRT_CLIENT_ADDRESSABLE_DEVICES, &devices,
				 "PJRT_Client_AddressableDevices");

	if (status == TOW_OK && index >= devices.count)
		status = twi_error(TOW_ENOTSUP, "device pjrt: no device %llu; the plugin has %zu",
				   (unsigned long long)index, devices.count);
	if (status < 0)
		return status;
	pjrt->target = devices.devices[index];
	status = twi_pjrt_do(&pjrt->plugin, TWI_PJRT_CLIENT_PLATFORM_NAME, &name,
			     "PJRT_Client_PlatformName");
	if (status == TOW_OK)
		snprintf(pjrt->facts.name, sizeof(pjrt->facts.name), "%.*s:%llu",
			 (int)twi_min(name.bytes, 64u), name.text, (unsigned long long)index);
	return status;
}

/* Checks functions that every copy needs, so that open fails and not the first copy. */
static int check_functions(const struct twi_pjrt *plugin)
{
	static const enum twi_pjrt_function needed[] = {
		TWI_PJRT_EVENT_DESTROY,
		TWI_PJRT_EVENT_IS_READY,
		TWI_PJRT_EVENT_ERROR,
		TWI_PJRT_CLIENT_CREATE,
		TWI_PJRT_CLIENT_DESTROY,
		TWI_PJRT_CLIENT_PLATFORM_NAME,
		TWI_PJRT_CLIENT_ADDRESSABLE_DEVICES,
		TWI_PJRT_BUFFER_FROM_HOST_BUFFER,
		TWI_PJRT_BUFFER_DESTROY,
		TWI_PJRT_BUFFER_TO_HOST_BUFFER,
	};

	for (unsigned i = 0; i < twi_array_count(needed); i++) {
		if (!twi_pjrt_has(plugin, needed[i]))
			return twi_error(TOW_ENOTSUP,
					 "device pjrt: %.200s (PJRT %d.%d) has no function number "
					 "%d, which is needed",
					 plugin->path, plugin->table->version.major,
					 plugin->table->version.minor, (int)needed[i]);
	}
	return TOW_OK;
}

static void end_job(struct pjrt *pjrt, struct job *job)
{
	for (unsigned i = 0; i < twi_array_count(job->event); i++) {
		twi_pjrt_destroy(&pjrt->plugin, TWI_PJRT_EVENT_DESTROY, job->event[i]);
		job->event[i] = NULL;
	}
}

static int ask_events(struct pjrt *pjrt, const struct job *job)
{
	for (unsigned i = 0; i < twi_array_count(job->event); i++) {
		struct twi_pjrt_ready_args ready = { .event = job->event[i] };
		struct twi_pjrt_object_args error = { .object = job->event[i] };
		int status;

		if (job->event[i] == NULL)
			continue;
		status = twi_pjrt_do(&pjrt->plugin, TWI_PJRT_EVENT_IS_READY, &ready,
				     "PJRT_Event_IsReady");
		if (status == TOW_OK && !ready.ready)
			return TOW_AGAIN;
		if (status == TOW_OK)
			status =
				twi_pjrt_do(&pjrt->plugin, TWI_PJRT_EVENT_ERROR, &error, job->what);
		if (status < 0)
			return TOW_EDEVICE;
	}
	return TOW_OK;
}

static int pjrt_query(struct twi_device *device, enum tow_direction direction, unsigned slot)
{
	struct pjrt *pjrt = pjrt_of(device);
	struct job *job = &pjrt->job[direction][slot];
	int status = ask_events(pjrt, job);

	if (status != TOW_AGAIN)
		end_job(pjrt, job);
	return status;
}

/* Waits for jobs in flight, as destroying the client would. A client that hangs is left alone. */
static bool client_settled(struct pjrt *pjrt)
{
	const struct timespec nap = { .tv_nsec = POLL_NS };
	uint64_t until = twi_now_ns() + CLOSE_NS;

	for (unsigned i = 0; i < TWI_DEVICE_STREAMS * TWI_DEVICE_CHUNKS; i++) {
		struct job *job = &pjrt->job[i / TWI_DEVICE_CHUNKS][i % TWI_DEVICE_CHUNKS];

		while (ask_events(pjrt, job) == TOW_AGAIN) {
			if (twi_now_ns() >= until)
				return false;
			nanosleep(&nap, NULL);
		}
		end_job(pjrt, job);
	}
	return true;
}

static void destroy_buffer(void *ctx, void *buffer)
{
	struct pjrt *pjrt = ctx;

	if (!pjrt->abandoned)
		twi_pjrt_destroy(&pjrt->plugin, TWI_PJRT_BUFFER_DESTROY, buffer);
	pjrt->buffers--;
}

static int pjrt_alloc(struct twi_device *device, uint64_t bytes, void **memory_out)
{
	struct twi_pjrt_memory *memory = calloc(1, sizeof(*memory));
	struct pjrt *pjrt = pjrt_of(device);

	*memory_out = memory;
	if (memory == NULL)
		return twi_error(TOW_ENOMEM, "device pjrt: no memory to note memory of it");
	*memory =
		(struct twi_pjrt_memory){ .bytes = bytes, .destroy = destroy_buffer, .ctx = pjrt };
	pthread_mutex_lock(&pjrt->lock);
	twi_list_push_back(&pjrt->memories, &memory->link);
	pthread_mutex_unlock(&pjrt->lock);
	return TOW_OK;
}

static void pjrt_free(struct twi_device *device, void *memory)
{
	struct pjrt *pjrt = pjrt_of(device);

	pthread_mutex_lock(&pjrt->lock);
	twi_list_remove(&((struct twi_pjrt_memory *)memory)->link);
	pthread_mutex_unlock(&pjrt->lock);
	twi_pjrt_memory_clear(memory);
	free(memory);
}

static void pjrt_close(struct twi_device *device)
{
	struct pjrt *pjrt = pjrt_of(device);
	struct twi_list *entry;

	twi_pjrt_ready_close(pjrt->ready);
	pjrt->abandoned = !client_settled(pjrt);
	while ((entry = twi_list_first(&pjrt->memories)) != NULL)
		pjrt_free(device, twi_container_of(entry, struct twi_pjrt_memory, link));
	pthread_mutex_destroy(&pjrt->lock);
	if (pjrt->client != NULL && !pjrt->abandoned)
		twi_pjrt_destroy(&pjrt->plugin, TWI_PJRT_CLIENT_DESTROY, pjrt->client);
	free(pjrt);
}

static int start_client(struct pjrt *pjrt, const struct spec *spec)
{
	struct twi_pjrt_client_create_args create = { .options = NULL };
	int status = twi_pjrt_load(spec->path, &pjrt->plugin);

	if (status == TOW_OK)
		status = check_functions(&pjrt->plugin);
	if (status == TOW_OK)
		status = twi_pjrt_do(&pjrt->plugin, TWI_PJRT_CLIENT_CREATE, &create,
				     "PJRT_Client_Create");
	if (status < 0)
		return status;
	pjrt->client = create.client;
	pjrt->ready = twi_pjrt_ready_new(&pjrt->plugin, pjrt->device.engine);
	pjrt->notifies = pjrt->ready != NULL;
	status = find_device(pjrt, spec->index);
	return status == TOW_OK ? try_mapping(pjrt) : status;
}

static int pjrt_open(struct twi_engine *engine, const char *text, struct twi_device **out)
{
	struct pjrt *pjrt = calloc(1, sizeof(*pjrt));
	struct spec spec;
	int status;

	*out = NULL;
	if (pjrt == NULL)
		return twi_error(TOW_ENOMEM, "device pjrt: no memory for it");
	pjrt->device = (struct twi_device){ &twi_device_pjrt, engine };
	pjrt->facts.chunk_bytes = UINT64_MAX;
	pthread_mutex_init(&pjrt->lock, NULL);
	twi_list_init(&pjrt->memories);
	status = parse_spec(text, &spec);
	if (status == TOW_OK)
		status = start_client(pjrt, &spec);
	if (status < 0) {
		pjrt_close(&pjrt->device);
		return status;
	}
	*out = &pjrt->device;
	return TOW_OK;
}

static const struct twi_device_facts *pjrt_facts(const struct twi_device *device)
{
	return &((const struct pjrt *)(const void *)device)->facts;
}

static int pjrt_map(struct twi_device *device, void *base, uint64_t bytes)
{
	return dma_map(pjrt_of(device), base, bytes);
}

static void pjrt_unmap(struct twi_device *device, void *base, uint64_t bytes)
{
	(void)bytes;
	dma_unmap(pjrt_of(device), base);
}

static int to_device(struct pjrt *pjrt, const struct twi_device_copy *copy, struct job *job)
{
	struct twi_pjrt_buffer_event_args ready = { .event = NULL };
	const int64_t dim = (int64_t)copy->bytes;
	struct twi_pjrt_from_host_args args = {
		.client = pjrt->client,
		.data = copy->host,
		.type = TWI_PJRT_TYPE_U8,
		.dims = &dim,
		.dim_count = 1,
		.semantics = TWI_PJRT_IMMUTABLE_UNTIL_TRANSFER_COMPLETES,
		.device = pjrt->target,
	};
	struct twi_pjrt_room room;
	int status = twi_pjrt_room_init(&room);

	if (status < 0)
		return status;
	status = twi_pjrt_do(&pjrt->plugin, TWI_PJRT_BUFFER_FROM_HOST_BUFFER, &args,
			     "PJRT_Client_BufferFromHostBuffer");
	if (status == TOW_OK) {
		job->what = "a copy to the device";
		job->event[0] = args.done_with_host;
		ready.buffer = args.buffer;
		/* Without it the copy ends when the host buffer is free: nearly the same. */
		if (twi_pjrt_has(&pjrt->plugin, TWI_PJRT_BUFFER_READY_EVENT) &&
		    twi_pjrt_do(&pjrt->plugin, TWI_PJRT_BUFFER_READY_EVENT, &ready,
				"PJRT_Buffer_ReadyEvent") == TOW_OK)
			job->event[1] = ready.event;
		pjrt->buffers++;
		twi_pjrt_memory_put(copy->memory, &room, copy->offset, copy->bytes, args.buffer);
	}
	twi_pjrt_room_fini(&room);
	return status;
}

static int copy_whole(struct pjrt *pjrt, void *buffer, void *to, uint64_t bytes, struct job *job)
{
	struct twi_pjrt_to_host_args args = { .buffer = buffer, .to = to, .bytes = bytes };
	int status = twi_pjrt_do(&pjrt->plugin, TWI_PJRT_BUFFER_TO_HOST_BUFFER, &args,
				 "PJRT_Buffer_ToHostBuffer");

	job->event[0] = status == TOW_OK ? args.event : NULL;
	return status;
}

static int from_device(struct pjrt *pjrt, const struct twi_device_copy *copy, struct job *job,
		       uint64_t *taken_out)
{
	const struct twi_pjrt_piece *piece = twi_pjrt_memory_at(copy->memory, copy->offset);
	struct twi_pjrt_copy_raw_args args;
	uint64_t bytes;
	int status;

	if (piece == NULL)
		return twi_error(TOW_EINVAL,
				 "device pjrt: the byte at offset %llu of this memory was never "
				 "written, and has no content",
				 (unsigned long long)copy->offset);
	bytes = twi_min(copy->bytes, piece->offset + piece->bytes - copy->offset);
	*taken_out = bytes;
	job->what = "a copy from the device";
	args = (struct twi_pjrt_copy_raw_args){
		.buffer = piece->buffer->buffer,
		.to = copy->host,
		.offset = (int64_t)(piece->buffer_offset + (copy->offset - piece->offset)),
		.bytes = (int64_t)bytes,
	};
	status = twi_pjrt_do(&pjrt->plugin, TWI_PJRT_BUFFER_COPY_RAW_TO_HOST, &args,
			     "PJRT_Buffer_CopyRawToHost");
	if (status == TOW_ENOTSUP && bytes == piece->buffer->bytes)
		return copy_whole(pjrt, args.buffer, copy->host, bytes, job);
	job->event[0] = status == TOW_OK ? args.event : NULL;
	return status;
}

static void request_notification(struct pjrt *pjrt, const struct job *job)
{
	for (unsigned i = 0; i < twi_array_count(job->event) && pjrt->notifies; i++)
		if (job->event[i] != NULL)
			pjrt->notifies = twi_pjrt_ready_ask(pjrt->ready, job->event[i]);
}

static int pjrt_copy(struct twi_device *device, const struct twi_device_copy *copy,
		     uint64_t *taken_out)
{
	struct pjrt *pjrt = pjrt_of(device);
	struct job *job = &pjrt->job[copy->direction][copy->slot];
	int status;

	*taken_out = copy->bytes;
	if (copy->direction == TOW_TO_DEVICE)
		status = to_device(pjrt, copy, job);
	else
		status = from_device(pjrt, copy, job, taken_out);
	if (status == TOW_OK)
		request_notification(pjrt, job);
	return status;
}

static uint64_t pjrt_deadline_ns(struct twi_device *device)
{
	return twi_engine_now(device->engine) + (pjrt_of(device)->notifies ? WORD_NS : POLL_NS);
}

static void pjrt_describe(struct twi_device *device, struct twi_emit *emit)
{
	struct pjrt *pjrt = pjrt_of(device);

	twi_emit_str(emit, "plugin", pjrt->plugin.path);
	twi_emit_i64(emit, "pjrt_major", pjrt->plugin.table->version.major);
	twi_emit_i64(emit, "pjrt_minor", pjrt->plugin.table->version.minor);
	twi_emit_u64(emit, "pjrt_buffers", pjrt->buffers);
	twi_emit_bool(emit, "pjrt_gives_word", pjrt->notifies);
	twi_emit_u64(emit, "pjrt_words", twi_pjrt_ready_words(pjrt->ready));
}

const struct twi_device_ops twi_device_pjrt = {
	.kind = "pjrt",
	.help = "pjrt:FILE[,device=N]",
	.probe = pjrt_probe,
	.open = pjrt_open,
	.close = pjrt_close,
	.facts = pjrt_facts,
	.map = pjrt_map,
	.unmap = pjrt_unmap,
	.alloc = pjrt_alloc,
	.free = pjrt_free,
	.copy = pjrt_copy,
	.query = pjrt_query,
	.deadline_ns = pjrt_deadline_ns,
	.describe = pjrt_describe,
};
