/* store_rig.c - see store_rig.h. */
#include "twt.h"

#include "store_rig.h"

#include <string.h>

#include <towline/status.h>

struct twt_store_reply twt_store_replies[TWT_STORE_CLIENTS];

void twt_store_keep(void *arg, uint32_t client, const struct twi_store_frame *frame)
{
	struct twt_store_reply *reply = &twt_store_replies[client];

	(void)arg;
	reply->count++;
	reply->status = frame->status;
	reply->number = frame->number;
	reply->a = frame->a;
	reply->bytes = frame->value_bytes;
	if (frame->value_bytes > 0)
		memcpy(reply->value, frame->value, frame->value_bytes);
	snprintf(reply->text, sizeof(reply->text), "%.*s",
		 (int)(frame->value_bytes < 255 ? frame->value_bytes : 255),
		 frame->value == NULL ? "" : (const char *)frame->value);
}

struct twi_store *twt_store_make(void)
{
	const struct twi_store_config config = { .world_size = TWT_STORE_RANKS,
						 .restarts = 2,
						 .clients_max = TWT_STORE_CLIENTS,
						 .session = 42,
						 .job = "job",
						 .reply = twt_store_keep };
	struct twi_store *store;

	memset(twt_store_replies, 0, sizeof(twt_store_replies));
	assert_int_equal(twi_store_create(&config, &store), TOW_OK);
	return store;
}

/* One answer, or none, since last asked. */
const struct twt_store_reply *twt_store_take(uint32_t client, int count)
{
	assert_int_equal(twt_store_replies[client].count, count);
	twt_store_replies[client].count = 0;
	return &twt_store_replies[client];
}

struct twi_store_frame twt_store_request(uint8_t kind, const char *key)
{
	static uint32_t number;

	return (struct twi_store_frame){ .kind = kind,
					 .number = ++number,
					 .wait_ms = 1000,
					 .key = key,
					 .key_bytes = (uint32_t)strlen(key) };
}

int twt_store_ask(struct twi_store *store, uint32_t client, struct twi_store_frame frame,
		  uint64_t now)
{
	return twi_store_request(store, client, &frame, now);
}

int twt_store_hello(struct twi_store *store, uint32_t client, uint32_t rank, uint32_t world,
		    uint64_t instance, const char *job, uint32_t version, uint32_t restarts)
{
	struct twi_store_frame frame = twt_store_request(TWI_STORE_KIND_HELLO, job);
	uint8_t value[TWI_STORE_HELLO];

	twi_store_hello_put(value, version, restarts);
	frame.a = twi_store_pair(rank, world);
	frame.b = instance;
	frame.value = value;
	frame.value_bytes = sizeof(value);
	return twt_store_ask(store, client, frame, 1);
}

/* A connection that has greeted as `rank`, and has asked for something. */
uint32_t twt_store_member(struct twi_store *store, uint32_t rank)
{
	uint32_t client = twi_store_enter(store);

	assert_true(client < TWT_STORE_CLIENTS);
	assert_int_equal(twt_store_hello(store, client, rank, TWT_STORE_RANKS, 100 + rank, "job",
					 TWI_STORE_VERSION, 2),
			 TOW_OK);
	assert_int_equal(twt_store_take(client, 1)->status, TOW_OK);
	assert_int_equal(twt_store_replies[client].a, 42);
	assert_int_equal(twt_store_ask(store, client,
				       twt_store_request(TWI_STORE_KIND_DELETE, "nothing"), 1),
			 TOW_OK);
	assert_int_equal(twt_store_take(client, 1)->status, TOW_OK);
	assert_true(twi_store_is_member(store, client));
	return client;
}

struct twi_store_frame twt_store_gather(const char *key, uint32_t index, uint32_t members,
					uint32_t generation, const char *value)
{
	struct twi_store_frame frame = twt_store_request(TWI_STORE_KIND_GATHER, key);

	frame.a = twi_store_pair(index, members);
	frame.b = twi_store_pair(generation, 0);
	frame.value = (const uint8_t *)value;
	frame.value_bytes = (uint32_t)strlen(value);
	return frame;
}

const char *twt_store_texts(const struct twt_store_reply *reply)
{
	static char out[256];
	const struct twi_store_frame frame = { .value = reply->value, .value_bytes = reply->bytes };
	size_t at = 0, used = 0;

	out[0] = '\0';
	while (at < reply->bytes) {
		const uint8_t *value;
		uint32_t bytes;

		assert_int_equal(twi_store_gathered_take(&frame, &at, &value, &bytes), TOW_OK);
		used += (size_t)snprintf(out + used, sizeof(out) - used, "%.*s ", (int)bytes,
					 (const char *)value);
	}
	return out;
}
