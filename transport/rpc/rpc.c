/*
 * rpc.c - the tables of a runtime's calls, and its methods. See rpc.h.
 */
#include "transport/rpc/rpc.h"
#include "transport/rpc/rpc_records.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "diag/base/error.h"
#include "diag/base/sized.h"
#include "transport/engine/engine.h"
#include "transport/engine/runtime.h"

static void list_all(struct twi_rpc *rpc, uint8_t *buffer)
{
	size_t bytes = TWI_RPC_HEAD_BYTES + rpc->inline_max;

	for (uint32_t i = 0; i < rpc->records; i++) {
		struct twi_call *call = &rpc->call_rows[i];
		struct tow_call_in *in = &rpc->in_rows[i];
		struct twi_rpc_slot *slot = &rpc->slot_rows[i];

		call->rpc = in->rpc = rpc;
		call->index = i;
		call->out.data = buffer;
		in->out.data = buffer + bytes;
		slot->data = buffer + 2 * bytes;
		buffer += 3 * bytes;
		twi_list_push_back(&rpc->calls, &call->link);
		twi_list_push_back(&rpc->ins, &in->link);
		twi_list_push_back(&rpc->slots, &slot->link);
	}
	for (uint32_t i = 0; i < TWI_RPC_STREAMS; i++) {
		struct tow_stream *stream = &rpc->stream_rows[i];

		stream->rpc = rpc;
		for (unsigned j = 0; j < TWI_RPC_PARCELS; j++, buffer += bytes)
			stream->push[j].parcel.data = buffer;
		stream->window.data = stream->window_data;
		twi_list_push_back(&rpc->streams, &stream->link);
	}
}

static void free_tables(struct twi_rpc *rpc)
{
	free(rpc->call_rows);
	free(rpc->in_rows);
	free(rpc->slot_rows);
	free(rpc->stream_rows);
	free(rpc->buffers);
	twi_rpc_stats_fini(rpc);
	free(rpc);
}

static int make_tables(struct twi_rpc *rpc)
{
	size_t bytes = TWI_RPC_HEAD_BYTES + rpc->inline_max;
	int status = twi_rpc_stats_init(rpc); /* in any case, as free_tables ends it */

	rpc->call_rows = calloc(rpc->records, sizeof(rpc->call_rows[0]));
	rpc->in_rows = calloc(rpc->records, sizeof(rpc->in_rows[0]));
	rpc->slot_rows = calloc(rpc->records, sizeof(rpc->slot_rows[0]));
	rpc->stream_rows = calloc(TWI_RPC_STREAMS, sizeof(rpc->stream_rows[0]));
	/* Not touched here, so the kernel adds pages as they are used. */
	rpc->buffers = calloc(3 * rpc->records + TWI_RPC_PARCELS * TWI_RPC_STREAMS, bytes);
	if (rpc->call_rows == NULL || rpc->in_rows == NULL || rpc->slot_rows == NULL ||
	    rpc->stream_rows == NULL || rpc->buffers == NULL)
		return TOW_ENOMEM;
	return status;
}

struct twi_rpc *twi_rpc_of(struct twi_engine *engine)
{
	uint64_t eager = engine->knobs.eager_max_bytes;
	struct twi_rpc *rpc = engine->rpc;

	twi_assert_held(engine);
	if (twi_likely(rpc != NULL))
		return rpc;
	rpc = calloc(1, sizeof(*rpc));
	if (rpc == NULL) {
		twi_error(TOW_ENOMEM, "no memory for the tables of calls");
		return NULL;
	}
	rpc->engine = engine;
	/* A separate body must be longer than any small message (rpc.h). */
	rpc->inline_max = (uint32_t)twi_max(eager, (uint64_t)TWI_RPC_INLINE_MIN);
	rpc->records = TWI_RPC_BUFFERS_BYTES / (TWI_RPC_HEAD_BYTES + rpc->inline_max);
	rpc->records = twi_max(twi_min(rpc->records, TWI_RPC_RECORDS), TWI_RPC_RECORDS_MIN);
	twi_list_init(&rpc->peers);
	twi_list_init(&rpc->calls);
	twi_list_init(&rpc->ins);
	twi_list_init(&rpc->slots);
	twi_list_init(&rpc->streams);
	if (make_tables(rpc) < 0) {
		free_tables(rpc);
		twi_error(TOW_ENOMEM, "no memory for the tables of calls");
		return NULL;
	}
	list_all(rpc, rpc->buffers);
	engine->rpc = rpc;
	return rpc;
}

void twi_rpc_destroy(struct twi_engine *engine)
{
	struct twi_rpc *rpc = engine->rpc;
	struct twi_list *entry;

	engine->rpc = NULL;
	if (rpc == NULL)
		return;
	/* Calls in service that were not answered still hold their peers. */
	while ((entry = twi_list_first(&rpc->peers)) != NULL) {
		struct twi_rpc_peer *rp = twi_container_of(entry, struct twi_rpc_peer, link);

		twi_list_remove(entry);
		free(rp->own.data);
		free(rp);
	}
	free_tables(rpc);
}

struct twi_rpc_method *twi_rpc_method_find(struct twi_rpc *rpc, uint64_t hash)
{
	for (unsigned i = 0; i < TOW_METHODS_MAX; i++) {
		if (rpc->methods[i].hash == hash)
			return hash == 0 ? NULL : &rpc->methods[i];
	}
	return NULL;
}

/* Returns TOW_OK, or an error that says what is wrong with the name. */
static int check_name(const char *name, const char *call)
{
	size_t bytes = name == NULL ? 0 : strnlen(name, TOW_METHOD_NAME_MAX);

	if (bytes == 0 || bytes == TOW_METHOD_NAME_MAX)
		return twi_error(TOW_EINVAL, "%s: a method's name has 1 to %d bytes", call,
				 TOW_METHOD_NAME_MAX - 1);
	for (size_t i = 0; i < bytes; i++) {
		if (name[i] < ' ' || name[i] > '~' || name[i] == '"' || name[i] == '\\')
			return twi_error(TOW_EINVAL,
					 "%s: byte %zu of the method's name is not printable "
					 "ASCII, or it is a quote or a backslash",
					 call, i);
	}
	return TOW_OK;
}

static int add_method(struct twi_rpc *rpc, const char *name, tow_method_handler handler, void *user,
		      const struct tow_method_options *options)
{
	uint64_t hash = twi_rpc_hash(name);
	struct twi_rpc_method *method = twi_rpc_method_find(rpc, hash);
	uint32_t generation;

	if (method != NULL)
		return twi_error(TOW_EBUSY,
				 strcmp(method->name, name) == 0
					 ? "method '%s' is registered already%s"
					 : "method '%s' has the hash of method '%s'; rename one",
				 name, strcmp(method->name, name) == 0 ? "" : method->name);
	for (method = rpc->methods; method < rpc->methods + TOW_METHODS_MAX; method++) {
		if (method->hash == 0)
			break;
	}
	if (method == rpc->methods + TOW_METHODS_MAX)
		return twi_error(TOW_EBUSY, "method '%s': there are %d methods already", name,
				 TOW_METHODS_MAX);
	twi_engine_time_looks(rpc->engine);
	generation = method->generation + 1;
	*method = (struct twi_rpc_method){ .hash = hash,
					   .handler = handler,
					   .user = user,
					   .options = *options,
					   .generation = generation };
	snprintf(method->name, sizeof(method->name), "%s", name);
	rpc->engine->handoff.served++;
	return TOW_OK;
}

TOW_PUBLIC int tow_method_register(struct tow_runtime *runtime, const char *name,
				   tow_method_handler handler, void *user,
				   const struct tow_method_options *options)
{
	static const struct tow_method_options usual = TOW_METHOD_OPTIONS_INIT;
	struct tow_method_options known;
	int status = twi_runtime_check(runtime, "tow_method_register");
	struct twi_engine *engine;
	struct twi_rpc *rpc;

	if (status == TOW_OK)
		status = check_name(name, "tow_method_register");
	if (status < 0)
		return status;
	if (handler == NULL)
		return twi_error(TOW_EINVAL, "tow_method_register: handler is NULL");
	status = TWI_SIZED_IN(tow_method_options, "tow_method_register", options, &known);
	if (status < 0)
		return status;
	engine = twi_runtime_engine(runtime);
	twi_engine_enter(engine);
	rpc = twi_rpc_of(engine);
	status = rpc == NULL
			 ? TOW_ENOMEM
			 : add_method(rpc, name, handler, user, options == NULL ? &usual : options);
	twi_engine_leave(engine);
	return status;
}

TOW_PUBLIC int tow_method_deregister(struct tow_runtime *runtime, const char *name)
{
	int status = twi_runtime_check(runtime, "tow_method_deregister");
	struct twi_rpc_method *method = NULL;
	struct twi_engine *engine;

	if (status == TOW_OK)
		status = check_name(name, "tow_method_deregister");
	if (status < 0)
		return status;
	engine = twi_runtime_engine(runtime);
	twi_engine_enter(engine);
	if (engine->rpc != NULL)
		method = twi_rpc_method_find(engine->rpc, twi_rpc_hash(name));
	if (method == NULL) {
		status = twi_error(TOW_EINVAL, "no method '%s' is registered", name);
	} else {
		for (struct twi_list *pos = engine->rpc->peers.next; pos != &engine->rpc->peers;
		     pos = pos->next)
			twi_container_of(pos, struct twi_rpc_peer, link)
				->in_service[method - engine->rpc->methods] = 0;
		method->hash = 0;
		engine->handoff.served--;
	}
	twi_engine_leave(engine);
	return status;
}
