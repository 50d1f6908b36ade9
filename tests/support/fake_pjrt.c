/*
 * fake_pjrt.c - a PJRT plugin that lies or fails as FAKE_PJRT says, built as a shared object of its
 * own. Its devices' memory is malloc's; its events are ready when they have been asked twice.
 *
 *	null small version truncated holes   what GetPjrtApi returns is wrong in that way
 *	init create nodevices                that call fails, or finds nothing
 *	nodma unimplemented limit            DmaMap is not in the table, says code 12, or refuses
 *	                                     2 MiB
 *	h2d event noraw hang                 copies are refused, end badly, only whole, never end
 *	word mute at_once                    events end after 50 ms, with a word from a thread or
 *	                                     without; or in the asking for it. Else none is given
 *
 * fake_pjrt_live counts the objects it has given out and not got back; fake_pjrt_asked, how often
 * it was asked whether an event has ended.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "transport/device/pjrt_api.h"

#define FUNCTIONS 112
#define LIMIT     ((size_t)2 << 20)

struct error {
	int code;
	const char *text;
};

struct event {
	int asked;
	bool bad, slow;
	struct timespec ends; /* of one that is slow and gives no word */
	_Atomic bool ended;
	_Atomic int holders; /* who made it, and the thread that ends it */
};

struct word {
	struct event *event;
	struct twi_pjrt_on_ready_args args;
};

struct buffer {
	size_t bytes;
	unsigned char data[];
};

static _Atomic int live, client, device, mapped, asked;
static void *devices[] = { &device };

__attribute__((visibility("default"))) int fake_pjrt_live(void);
__attribute__((visibility("default"))) int fake_pjrt_mapped(void);
__attribute__((visibility("default"))) int fake_pjrt_asked(void);
__attribute__((visibility("default"))) const struct twi_pjrt_table *GetPjrtApi(void);

int fake_pjrt_live(void)
{
	return live;
}

int fake_pjrt_mapped(void)
{
	return mapped;
}

int fake_pjrt_asked(void)
{
	return asked;
}

static bool mode(const char *name)
{
	const char *value = getenv("FAKE_PJRT");

	return value != NULL && strcmp(value, name) == 0;
}

static void *fail(int code, const char *text)
{
	struct error *error = malloc(sizeof(*error));

	*error = (struct error){ code, text };
	live++;
	return error;
}

static void *destroy(void *args)
{
	struct twi_pjrt_object_args *a = args;

	free(a->object);
	live--;
	return NULL;
}

static void *error_message(void *args)
{
	struct twi_pjrt_error_message_args *a = args;

	a->text = ((const struct error *)a->error)->text;
	a->bytes = strlen(a->text);
	return NULL;
}

static void *error_code(void *args)
{
	struct twi_pjrt_error_code_args *a = args;

	a->code = ((const struct error *)a->error)->code;
	return NULL;
}

static void *initialize(void *args)
{
	struct twi_pjrt_head *head = args;

	if (head->struct_size != sizeof(*head))
		return fail(3, "wrong size of PJRT_Plugin_Initialize_Args");
	return mode("init") ? fail(13, "it does not start") : NULL;
}

static void *client_create(void *args)
{
	struct twi_pjrt_client_create_args *a = args;

	if (a->head.struct_size != 88)
		return fail(3, "wrong size of PJRT_Client_Create_Args");
	if (mode("create"))
		return fail(14, "no hardware");
	a->client = &client;
	live++;
	return NULL;
}

static void *client_destroy(void *args)
{
	(void)args;
	live--;
	return NULL;
}

static void *platform_name(void *args)
{
	struct twi_pjrt_name_args *a = args;

	a->text = "fakeXXX"; /* not ended where its length ends */
	a->bytes = 4;
	return NULL;
}

static void *addressable_devices(void *args)
{
	struct twi_pjrt_devices_args *a = args;

	a->devices = devices;
	a->count = mode("nodevices") ? 0 : 1;
	return NULL;
}

static void *dma_map(void *args)
{
	struct twi_pjrt_dma_map_args *a = args;

	if (a->head.struct_size != 40)
		return fail(3, "wrong size of PJRT_Client_DmaMap_Args");
	if (mode("unimplemented"))
		return fail(12, "DmaMap is not there");
	if (mode("limit") && a->bytes > LIMIT)
		return fail(8, "too much to map");
	mapped++;
	return NULL;
}

static void *dma_unmap(void *args)
{
	struct twi_pjrt_dma_map_args *a = args;

	if (a->head.struct_size != 32)
		return fail(3, "wrong size of PJRT_Client_DmaUnmap_Args");
	mapped--;
	return NULL;
}

static void *new_event(void)
{
	struct event *event = malloc(sizeof(*event));

	*event = (struct event){ .bad = mode("event"), .holders = 1 };
	event->slow = mode("word") || mode("mute") || mode("at_once");
	clock_gettime(CLOCK_MONOTONIC, &event->ends);
	event->ends.tv_nsec += 50000000;
	live++;
	return event;
}

static bool is_over(const struct timespec *ends)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (now.tv_sec - ends->tv_sec) * 1000000000 + now.tv_nsec - ends->tv_nsec >= 0;
}

static void *is_ready(void *args)
{
	struct twi_pjrt_ready_args *a = args;
	struct event *event = a->event;

	asked++;
	if (mode("mute"))
		a->ready = is_over(&event->ends);
	else
		a->ready = event->slow ? event->ended : !mode("hang") && ++event->asked > 2;
	return NULL;
}

static void drop_event(struct event *event)
{
	if (--event->holders == 0)
		free(event);
}

static void *destroy_event(void *args)
{
	drop_event(((struct twi_pjrt_object_args *)args)->object);
	live--;
	return NULL;
}

static void *end_event(void *argument)
{
	struct word *word = argument;

	usleep(50000);
	word->event->ended = true;
	word->args.callback(word->event->bad ? fail(15, "the bytes are lost") : NULL,
			    word->args.argument);
	drop_event(word->event);
	free(word);
	return NULL;
}

static void *on_ready(void *args)
{
	struct twi_pjrt_on_ready_args *a = args;
	struct event *event = a->event;
	struct word *word;
	pthread_t thread;

	if (a->head.struct_size != 40)
		return fail(3, "wrong size of PJRT_Event_OnReady_Args");
	if (!event->slow || mode("mute"))
		return fail(12, "no callbacks");
	if (mode("at_once")) {
		event->ended = true;
		a->callback(NULL, a->argument);
		return NULL;
	}
	word = malloc(sizeof(*word));
	*word = (struct word){ event, *a };
	event->holders++;
	pthread_create(&thread, NULL, end_event, word);
	pthread_detach(thread);
	return NULL;
}

static void *event_error(void *args)
{
	struct twi_pjrt_object_args *a = args;

	return ((struct event *)a->object)->bad ? fail(15, "the bytes are lost") : NULL;
}

static void *from_host(void *args)
{
	struct twi_pjrt_from_host_args *a = args;
	struct buffer *buffer;

	if (a->head.struct_size != sizeof(*a) || a->dim_count != 1 || a->type != 6)
		return fail(3, "wrong arguments of PJRT_Client_BufferFromHostBuffer");
	if (mode("h2d"))
		return fail(13, "no copy today");
	buffer = malloc(sizeof(*buffer) + (size_t)a->dims[0]);
	buffer->bytes = (size_t)a->dims[0];
	memcpy(buffer->data, a->data, buffer->bytes);
	live++;
	a->buffer = buffer;
	a->done_with_host = new_event();
	return NULL;
}

static void *ready_event(void *args)
{
	struct twi_pjrt_buffer_event_args *a = args;

	a->event = new_event();
	return NULL;
}

static void *copy_raw(void *args)
{
	struct twi_pjrt_copy_raw_args *a = args;
	struct buffer *buffer = a->buffer;

	if (mode("noraw"))
		return fail(12, "no raw copies");
	if (a->offset < 0 || (size_t)(a->offset + a->bytes) > buffer->bytes)
		return fail(11, "out of the buffer");
	memcpy(a->to, buffer->data + a->offset, (size_t)a->bytes);
	a->event = new_event();
	return NULL;
}

static void *to_host(void *args)
{
	struct twi_pjrt_to_host_args *a = args;
	struct buffer *buffer = a->buffer;

	if (a->bytes < buffer->bytes)
		return fail(3, "too little room");
	memcpy(a->to, buffer->data, buffer->bytes);
	a->event = new_event();
	return NULL;
}

static const struct {
	unsigned number;
	twi_pjrt_call call;
} functions[] = {
	{ TWI_PJRT_ERROR_DESTROY, destroy },
	{ TWI_PJRT_ERROR_MESSAGE, error_message },
	{ TWI_PJRT_ERROR_GET_CODE, error_code },
	{ TWI_PJRT_PLUGIN_INITIALIZE, initialize },
	{ TWI_PJRT_EVENT_DESTROY, destroy_event },
	{ TWI_PJRT_EVENT_IS_READY, is_ready },
	{ TWI_PJRT_EVENT_ERROR, event_error },
	{ TWI_PJRT_EVENT_ON_READY, on_ready },
	{ TWI_PJRT_CLIENT_CREATE, client_create },
	{ TWI_PJRT_CLIENT_DESTROY, client_destroy },
	{ TWI_PJRT_CLIENT_PLATFORM_NAME, platform_name },
	{ TWI_PJRT_CLIENT_ADDRESSABLE_DEVICES, addressable_devices },
	{ TWI_PJRT_BUFFER_FROM_HOST_BUFFER, from_host },
	{ TWI_PJRT_BUFFER_DESTROY, destroy },
	{ TWI_PJRT_BUFFER_TO_HOST_BUFFER, to_host },
	{ TWI_PJRT_BUFFER_READY_EVENT, ready_event },
	{ TWI_PJRT_BUFFER_COPY_RAW_TO_HOST, copy_raw },
	{ TWI_PJRT_CLIENT_DMA_MAP, dma_map },
	{ TWI_PJRT_CLIENT_DMA_UNMAP, dma_unmap },
};

const struct twi_pjrt_table *GetPjrtApi(void)
{
	/* A new one each time, so that each is initialised; words, since its end is open. */
	static uint64_t tables[64][5 + FUNCTIONS];
	static unsigned used;
	struct twi_pjrt_table *table = (void *)tables[used++ % 64];

	if (mode("null"))
		return NULL;
	for (unsigned i = 0; i < sizeof(functions) / sizeof(functions[0]); i++)
		table->function[functions[i].number] = functions[i].call;
	table->struct_size = sizeof(tables[0]);
	table->version.struct_size = sizeof(table->version);
	table->version.major = mode("version");
	table->version.minor = 115;
	if (mode("small"))
		table->struct_size = 16;
	if (mode("truncated")) /* ends before BufferFromHostBuffer */
		table->struct_size = 40 + 8 * TWI_PJRT_BUFFER_FROM_HOST_BUFFER;
	if (mode("nodma"))
		table->struct_size = 40 + 8 * TWI_PJRT_CLIENT_DMA_MAP;
	if (mode("holes"))
		table->function[TWI_PJRT_CLIENT_CREATE] = NULL;
	return table;
}
