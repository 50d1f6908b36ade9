/*
 * store.c - serves each kind of request of the store. See store.h.
 */
#include "transport/job/store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <internal/base.h>

#include "diag/base/error.h"
#include "transport/job/store_meet.h"
#include "transport/job/store_table.h"

int twi_store_create(const struct twi_store_config *config, struct twi_store **out)
{
	struct twi_store *store = calloc(1, sizeof(*store));

	*out = NULL;
	if (store == NULL)
		return twi_error(TOW_ENOMEM, "no memory for the job's store");
	store->config = *config;
	store->ranks = calloc(config->world_size, sizeof(store->ranks[0]));
	store->clients = calloc(config->clients_max, sizeof(store->clients[0]));
	for (unsigned i = 0; i < TWI_STORE_BUCKETS; i++)
		twi_list_init(&store->buckets[i]);
	twi_list_init(&store->meets);
	twi_list_init(&store->made);
	twi_list_init(&store->going);
	if (store->ranks == NULL || store->clients == NULL) {
		twi_store_destroy(store);
		return twi_error(TOW_ENOMEM, "no memory for a store of %u ranks",
				 config->world_size);
	}
	*out = store;
	return TOW_OK;
}

void twi_store_destroy(struct twi_store *store)
{
	struct twi_list *entry;

	if (store == NULL)
		return;
	for (unsigned i = 0; i < TWI_STORE_BUCKETS; i++) {
		while ((entry = twi_list_first(&store->buckets[i])) != NULL)
			twi_store_drop(store,
				       twi_container_of(entry, struct twi_store_entry, link));
	}
	twi_store_meets_free(store);
	free(store->ranks);
	free(store->clients);
	free(store);
}

bool twi_store_is_done(const struct twi_store *store, uint64_t now_ns, uint64_t *again_ns_out)
{
	uint32_t awaited = store->config.world_size - store->done;

	*again_ns_out = UINT64_MAX;
	for (uint32_t i = 0; i < store->config.world_size && store->gone > 0 && awaited > 0; i++) {
		const struct twi_store_rank *rank = &store->ranks[i];

		if (rank->gone_ns == 0 || rank->done)
			continue;
		if (now_ns >= rank->gone_ns + TWI_STORE_REST_NS)
			awaited--;
		else
			*again_ns_out = twi_min(*again_ns_out, rank->gone_ns + TWI_STORE_REST_NS);
	}
	return awaited == 0;
}

bool twi_store_failed(const struct twi_store *store)
{
	return store->failed < 0;
}

uint64_t twi_store_bytes(const struct twi_store *store)
{
	return store->bytes;
}

bool twi_store_is_member(const struct twi_store *store, uint32_t index)
{
	return store->clients[index].member;
}

void twi_store_refused(struct twi_store *store, const char *why)
{
	store->strangers++;
	snprintf(store->refused, sizeof(store->refused), "%.*s", (int)sizeof(store->refused) - 1,
		 why);
}

static void rank_done(struct twi_store *store, uint32_t rank)
{
	if (rank != TWI_STORE_NOBODY && !store->ranks[rank].done) {
		store->ranks[rank].done = true;
		store->done++;
	}
}

void twi_store_answer(struct twi_store *store, uint32_t index, struct twi_store_frame reply)
{
	struct twi_store_connection *client = &store->clients[index];

	reply.kind = client->request.kind | TWI_STORE_REPLY;
	reply.number = client->request.number;
	if (client->waiting) {
		client->waiting = false;
		store->waiting--;
	}
	twi_store_meet_leave(store, index);
	store->config.reply(store->config.arg, index, &reply);
}

static void answer_text(struct twi_store *store, uint32_t index, int status, const char *text)
{
	twi_store_answer(store, index,
			 (struct twi_store_frame){ .status = status,
						   .value = (const uint8_t *)text,
						   .value_bytes = (uint32_t)strlen(text) });
}

int twi_store_refuse(struct twi_store *store, uint32_t index, int status)
{
	answer_text(store, index, status, tow_error_message());
	return TOW_OK;
}

static void answer_failed(struct twi_store *store, uint32_t index)
{
	rank_done(store, store->clients[index].rank);
	answer_text(store, index, store->failed, store->text);
}

void twi_store_fail(struct twi_store *store, int status, bool lost)
{
	if (store->failed < 0)
		return;
	store->failed = status;
	store->lost = lost;
	snprintf(store->text, sizeof(store->text), "%.*s", (int)sizeof(store->text) - 1,
		 tow_error_message());
	for (uint32_t i = 0; i < store->config.clients_max; i++) {
		if (store->clients[i].waiting && !(lost && store->clients[i].meet != NULL))
			answer_failed(store, i);
	}
}

uint32_t twi_store_enter(struct twi_store *store)
{
	for (uint32_t i = 0; i < store->config.clients_max; i++) {
		struct twi_store_connection *client = &store->clients[i];

		if (client->used)
			continue;
		client->used = true;
		client->waiting = client->member = false;
		client->rank = TWI_STORE_NOBODY;
		return i;
	}
	return UINT32_MAX;
}

void twi_store_leave(struct twi_store *store, uint32_t index, uint64_t now_ns)
{
	struct twi_store_connection *client = &store->clients[index];
	struct twi_store_rank *rank;

	if (client->waiting)
		store->waiting--;
	client->waiting = false;
	client->used = false;
	twi_store_meet_leave(store, index);
	if (!client->member)
		return;
	client->member = false;
	rank = &store->ranks[client->rank];
	if (--rank->clients == 0 && !rank->done) {
		rank->gone_ns = now_ns == 0 ? 1 : now_ns;
		store->gone++;
	}
}

/* Refuses a connection that is not of the job. It gets the reason, and the caller closes it. */
static int turn_away(struct twi_store *store, uint32_t index, int status)
{
	twi_store_refuse(store, index, status);
	return status;
}

static int on_hello(struct twi_store *store, uint32_t index, const struct twi_store_frame *frame)
{
	struct twi_store_connection *client = &store->clients[index];
	int status;

	if (client->rank != TWI_STORE_NOBODY)
		return twi_error(TOW_EPROTOCOL, "store: rank %u sent a second greeting",
				 client->rank);
	status = twi_store_judge_hello(store, frame);
	if (status == TOW_EPROTOCOL)
		return status;
	if (status < 0)
		return turn_away(store, index, status);
	client->rank = (uint32_t)frame->a;
	client->instance = frame->b;
	/*
	 * A rank that belongs to another process is refused at once. A process that returns is a
	 * member again at once.
	 */
	if (store->ranks[client->rank].instance != 0)
		status = twi_store_claim(store, index);
	if (status < 0) {
		client->rank = TWI_STORE_NOBODY;
		return turn_away(store, index, status);
	}
	/* After a rank has gone, other members may still return and meet. */
	if (store->failed < 0 && !(store->lost && client->member))
		answer_failed(store, index);
	else
		twi_store_answer(
			store, index,
			(struct twi_store_frame){ .a = store->config.session,
						  .b = TWI_STORE_CAN_MEET | TWI_STORE_CAN_SLICE });
	return TOW_OK;
}

void twi_store_wait(struct twi_store *store, uint32_t index, uint64_t now_ns)
{
	struct twi_store_connection *client = &store->clients[index];

	client->waiting = true;
	client->until_ns = now_ns + (uint64_t)client->request.wait_ms * 1000000u;
	store->waiting++;
}

static bool same_key(const struct twi_store_connection *client, const struct twi_store_entry *entry)
{
	return client->request.key_bytes == entry->key_bytes &&
	       memcmp(client->key, entry->key, entry->key_bytes) == 0;
}

static void answer_value(struct twi_store *store, uint32_t index,
			 const struct twi_store_entry *entry)
{
	twi_store_answer(
		store, index,
		(struct twi_store_frame){ .value = entry->value, .value_bytes = entry->bytes });
}

static void wake_gets(struct twi_store *store, const struct twi_store_entry *entry)
{
	for (uint32_t i = 0; i < store->config.clients_max && store->waiting > 0; i++) {
		const struct twi_store_connection *client = &store->clients[i];

		if (client->waiting && client->request.kind == TWI_STORE_KIND_GET &&
		    same_key(client, entry))
			answer_value(store, i, entry);
	}
}

static int not_a_value(const struct twi_store_frame *frame)
{
	return twi_error(TOW_EINVAL,
			 "store: the value of '%.*s' is not of the kind that the "
			 "request needs",
			 (int)twi_min(frame->key_bytes, 64u), frame->key);
}

static int on_set(struct twi_store *store, uint32_t index, const struct twi_store_frame *frame)
{
	struct twi_store_entry *entry;
	int status;

	entry = twi_store_make(store, frame->key, frame->key_bytes, &status);
	if (entry != NULL && entry->parts != NULL)
		status = not_a_value(frame);
	if (status == TOW_OK)
		status = twi_store_put(store, &entry->value, &entry->bytes, frame->value,
				       frame->value_bytes);
	if (status < 0)
		return twi_store_refuse(store, index, status);
	twi_store_answer(store, index, (struct twi_store_frame){ 0 });
	wake_gets(store, entry);
	return TOW_OK;
}

static int on_get(struct twi_store *store, uint32_t index, const struct twi_store_frame *frame,
		  uint64_t now_ns)
{
	struct twi_store_entry *entry = twi_store_find(store, frame->key, frame->key_bytes);

	if (entry != NULL && entry->parts != NULL)
		return twi_store_refuse(store, index, not_a_value(frame));
	if (entry != NULL && entry->value != NULL)
		answer_value(store, index, entry);
	else
		twi_store_wait(store, index, now_ns);
	return TOW_OK;
}

/* Reads a value of eight bytes as a sum; a new one is 0. */
static int read_sum(const struct twi_store_entry *entry, const struct twi_store_frame *frame,
		    uint64_t *out)
{
	*out = 0;
	if (entry->value == NULL && entry->parts == NULL)
		return TOW_OK;
	if (entry->parts != NULL || entry->bytes != 8)
		return not_a_value(frame);
	*out = twi_get_le(entry->value, 8);
	return TOW_OK;
}

/* The result of this request, if it is repeated and was carried out before; NULL: it was not. */
static const struct twi_store_added *find_added(const struct twi_store_rank *rank, uint32_t number)
{
	for (uint32_t i = 0; i < TWI_STORE_ADDED && number != 0; i++) {
		if (rank->added[i].number == number)
			return &rank->added[i];
	}
	return NULL;
}

static int on_add(struct twi_store *store, uint32_t index, const struct twi_store_frame *frame)
{
	struct twi_store_rank *rank = &store->ranks[store->clients[index].rank];
	const struct twi_store_added *added = find_added(rank, frame->number);
	struct twi_store_entry *entry;
	uint8_t bytes[8];
	uint64_t sum = 0;
	int status = TOW_OK;

	if (added != NULL) {
		twi_store_answer(store, index, (struct twi_store_frame){ .a = added->sum });
		return TOW_OK;
	}
	entry = twi_store_make(store, frame->key, frame->key_bytes, &status);
	if (entry != NULL)
		status = read_sum(entry, frame, &sum);
	sum += frame->a;
	twi_put_le(bytes, sum, 8);
	if (status == TOW_OK)
		status = twi_store_put(store, &entry->value, &entry->bytes, bytes, sizeof(bytes));
	if (status < 0)
		return twi_store_refuse(store, index, status);
	rank->added[rank->added_next++ % TWI_STORE_ADDED] =
		(struct twi_store_added){ .number = frame->number, .sum = sum };
	twi_store_answer(store, index, (struct twi_store_frame){ .a = sum });
	wake_gets(store, entry);
	return TOW_OK;
}

static int on_delete(struct twi_store *store, uint32_t index, const struct twi_store_frame *frame,
		     uint64_t now_ns)
{
	struct twi_store_entry *entry = twi_store_find(store, frame->key, frame->key_bytes);

	/* Other members may still wait for this gather. */
	if (entry != NULL && entry->parts != NULL && entry->given < entry->members)
		return twi_store_refuse(store, index, not_a_value(frame));
	twi_store_answer(store, index, (struct twi_store_frame){ .a = entry != NULL });
	if (entry != NULL && entry->parts == NULL) {
		twi_store_drop(store, entry);
	} else if (entry != NULL && entry->drop_ns == 0) {
		/* Other members may have got only a part of the values, or ask again. */
		entry->drop_ns = now_ns + TWI_STORE_KEEP_NS;
		twi_list_push_back(&store->going, &entry->going);
	}
	return TOW_OK;
}

/* Replies with the values from `from` on, as many as fit. */
static void answer_gather(struct twi_store *store, uint32_t index,
			  const struct twi_store_part *parts, uint32_t members, uint32_t from)
{
	uint32_t used = 0, at;

	for (at = from; at < members; at++) {
		const struct twi_store_part *part = &parts[at];

		if (used + 2 + part->bytes > sizeof(store->reply))
			break;
		used += (uint32_t)twi_store_gathered_put(store->reply + used, part->value,
							 part->bytes);
	}
	twi_store_answer(store, index,
			 (struct twi_store_frame){ .a = at < members ? at : 0,
						   .value = store->reply,
						   .value_bytes = used });
}

static void wake_gather(struct twi_store *store, const struct twi_store_entry *entry)
{
	for (uint32_t i = 0; i < store->config.clients_max && store->waiting > 0; i++) {
		const struct twi_store_connection *client = &store->clients[i];

		if (client->waiting && client->request.kind == TWI_STORE_KIND_GATHER &&
		    same_key(client, entry))
			answer_gather(store, i, entry->parts, entry->members, client->from);
	}
}

/*
 * Other members are one generation ahead, since they have all of this one's parts. This member does
 * not have them: its reply was lost, or was the first of several.
 */
static bool is_before(const struct twi_store_entry *entry, uint32_t generation)
{
	return entry->before != NULL && generation + 1 == entry->generation;
}

/* The member has gone on since it sent this, which came late over a connection that broke. */
static bool is_late(const struct twi_store_part *given, const struct twi_store_frame *frame,
		    uint32_t rank)
{
	return given->rank == rank && (int32_t)(frame->number - given->number) < 0;
}

/*
 * Checks whether the part may be given now. A failure's text is the thread's error; TOW_ECANCELED
 * for a part that is late.
 */
static int judge_gather(const struct twi_store_entry *entry, const struct twi_store_frame *frame,
			uint32_t rank)
{
	uint32_t index = (uint32_t)frame->a, members = (uint32_t)(frame->a >> 32);
	uint32_t generation = (uint32_t)frame->b, giver;

	if (entry->parts == NULL && entry->value != NULL)
		return not_a_value(frame);
	if (entry->parts == NULL)
		return TOW_OK;
	if (entry->members != members)
		return twi_error(TOW_EMISMATCH,
				 "rank %u says that '%.*s' has %u members, other ranks "
				 "say %u",
				 rank, (int)entry->key_bytes, entry->key, members, entry->members);
	if (generation == entry->generation + 1 && entry->given == entry->members)
		return TOW_OK;
	giver = entry->parts[index].rank;
	if (generation < entry->generation && is_late(&entry->parts[index], frame, rank))
		return twi_error(TOW_ECANCELED, "rank %u has given a later part of '%.*s'", rank,
				 (int)entry->key_bytes, entry->key);
	if (is_before(entry, generation))
		giver = entry->before[index].rank;
	else if (generation != entry->generation)
		return twi_error(TOW_EMISMATCH,
				 "rank %u is at number %u of '%.*s', other ranks are at %u", rank,
				 generation, (int)entry->key_bytes, entry->key, entry->generation);
	if (giver != TWI_STORE_NOBODY && giver != rank)
		return twi_error(TOW_EMISMATCH,
				 "ranks %u and %u both claim to be member %u of "
				 "'%.*s'",
				 giver, rank, index, (int)entry->key_bytes, entry->key);
	return TOW_OK;
}

static int give_value(struct twi_store *store, struct twi_store_entry *entry,
		      const struct twi_store_frame *frame, uint32_t rank, uint64_t now_ns)
{
	struct twi_store_part *part;
	int status = TOW_OK;

	if (entry->parts == NULL || entry->generation != (uint32_t)frame->b)
		status = twi_store_gather_begin(store, entry, (uint32_t)(frame->a >> 32),
						(uint32_t)frame->b);
	if (status < 0)
		return status;
	part = &entry->parts[(uint32_t)frame->a];
	if (entry->given == entry->members)
		return TOW_OK; /* repeated, as the reply was lost */
	status = twi_store_put(store, &part->value, &part->bytes, frame->value, frame->value_bytes);
	if (status < 0)
		return status;
	if (part->rank == TWI_STORE_NOBODY) {
		entry->given++;
		part->number = frame->number;
		part->since_ns = now_ns;
	}
	part->rank = rank;
	return TOW_OK;
}

static int on_gather(struct twi_store *store, uint32_t index, const struct twi_store_frame *frame,
		     uint64_t now_ns)
{
	struct twi_store_connection *client = &store->clients[index];
	uint32_t members = (uint32_t)(frame->a >> 32), from = (uint32_t)(frame->b >> 32);
	struct twi_store_entry *entry;
	int status;

	if (members == 0 || members > store->config.world_size || (uint32_t)frame->a >= members ||
	    from >= members || frame->value_bytes > TWI_STORE_GATHERED_MAX)
		return twi_error(TOW_EPROTOCOL, "store: a gather of %u members, %u bytes", members,
				 frame->value_bytes);
	entry = twi_store_make(store, frame->key, frame->key_bytes, &status);
	if (entry != NULL)
		status = judge_gather(entry, frame, client->rank);
	if (status == TOW_EMISMATCH) {
		twi_store_fail(store, status, false);
		answer_failed(store, index);
		return TOW_OK;
	}
	if (status == TOW_OK && is_before(entry, (uint32_t)frame->b)) {
		answer_gather(store, index, entry->before, members, from);
		return TOW_OK;
	}
	if (status == TOW_OK)
		status = give_value(store, entry, frame, client->rank, now_ns);
	if (status < 0)
		return twi_store_refuse(store, index, status);
	if (entry->given == 1 && entry->since_ns == 0) {
		entry->since_ns = now_ns;
		entry->tell_ns = now_ns + store->config.late_ns;
	}
	if (entry->given == entry->members)
		entry->since_ns = 0;
	client->from = from;
	if (entry->given < entry->members) {
		twi_store_wait(store, index, now_ns);
		return TOW_OK;
	}
	twi_store_gather_end(store, entry);
	answer_gather(store, index, entry->parts, members, from);
	wake_gather(store, entry);
	return TOW_OK;
}

int twi_store_request(struct twi_store *store, uint32_t index, const struct twi_store_frame *frame,
		      uint64_t now_ns)
{
	struct twi_store_connection *client = &store->clients[index];

	if (frame->kind < TWI_STORE_KIND_HELLO || frame->kind >= TWI_STORE_KIND_END)
		return twi_error(TOW_EPROTOCOL, "store: kind %u is no request", frame->kind);
	if (client->waiting)
		return twi_error(TOW_EPROTOCOL, "store: a request while another waits");
	if (client->rank == TWI_STORE_NOBODY && frame->kind != TWI_STORE_KIND_HELLO)
		return twi_error(TOW_EPROTOCOL, "store: a request before the greeting");
	client->request = *frame;
	client->request.key = client->key;
	client->request.value = NULL;
	twi_store_copy(client->key, frame->key, frame->key_bytes);
	if (frame->kind == TWI_STORE_KIND_HELLO)
		return on_hello(store, index, frame);
	if (frame->kind != TWI_STORE_KIND_BYE && !client->member) {
		int status = twi_store_claim(store, index);

		if (status < 0)
			return turn_away(store, index, status);
	}
	if (frame->kind == TWI_STORE_KIND_BYE) {
		if (client->member) {
			rank_done(store, client->rank);
			store->left += !store->ranks[client->rank].left;
			store->ranks[client->rank].left = true;
		}
		twi_store_answer(store, index, (struct twi_store_frame){ 0 });
		return TOW_OK;
	}
	if (frame->kind == TWI_STORE_KIND_MEET && (store->failed == TOW_OK || store->lost))
		return twi_store_on_meet(store, index, frame, now_ns);
	if (store->failed < 0) {
		answer_failed(store, index);
		return TOW_OK;
	}
	switch (frame->kind) {
	case TWI_STORE_KIND_SET:
		return on_set(store, index, frame);
	case TWI_STORE_KIND_GET:
		return on_get(store, index, frame, now_ns);
	case TWI_STORE_KIND_ADD:
		return on_add(store, index, frame);
	case TWI_STORE_KIND_DELETE:
		return on_delete(store, index, frame, now_ns);
	default:
		return on_gather(store, index, frame, now_ns);
	}
}
