/* auto.c - the table of the lane tow://, and its endpoints. See auto.h. */
#include "transport/lanes/auto/auto.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "diag/base/error.h"
#include "diag/record/diag.h"
#include "transport/lanes/auto/auto_host.h"
#include "transport/op/lane_host.h"

static struct twi_auto_endpoint *auto_endpoint(struct tow_endpoint *endpoint)
{
	return (struct twi_auto_endpoint *)(void *)endpoint;
}

struct tow_endpoint *twi_auto_sub(const struct twi_auto_endpoint *endpoint, enum twi_lane_id lane)
{
	for (unsigned i = 0; i < endpoint->sub_count; i++) {
		if (endpoint->subs[i]->lane->ops->id == lane)
			return endpoint->subs[i];
	}
	return NULL;
}

static int lane_open(struct twi_engine *engine, struct twi_lane **lane_out)
{
	struct twi_lane *lane = calloc(1, sizeof(*lane));

	if (lane == NULL)
		return twi_error(TOW_ENOMEM, "no memory for a lane");
	lane->ops = &twi_lane_auto;
	lane->engine = engine;
	*lane_out = lane;
	return TOW_OK;
}

static void lane_close(struct twi_lane *lane)
{
	free(lane);
}

static int auto_resolve(const char *address, bool passive, char out[TOW_ADDRESS_MAX])
{
	if (passive)
		return twi_auto_resolve_host(address, out);
	if (strlen(address) >= TOW_ADDRESS_MAX)
		return twi_error(TOW_EINVAL, "address tow://%.40s...: it has over %d bytes",
				 address, TOW_ADDRESS_MAX - 1);
	snprintf(out, TOW_ADDRESS_MAX, "%s", address);
	return TOW_OK;
}

/* Opens a sub-endpoint. A failure is logged: the other lanes remain. */
static struct tow_endpoint *open_sub(struct twi_auto_endpoint *endpoint, enum twi_lane_id id,
				     const char *address)
{
	struct twi_engine *engine = endpoint->base.engine;
	struct twi_lane *lane = engine->lanes[id];
	struct tow_endpoint *sub = NULL;
	char missed[TWI_REQUIRE_WHY];
	const char *why;
	int status;

	if (lane == NULL || endpoint->sub_count == TWI_AUTO_SUBS_MAX)
		return NULL;
	if (!twi_require_lane(engine->knobs.require, lane->ops, missed)) {
		twi_log(engine->diag, 3, "tow:// goes without %s: %s", lane->ops->scheme, missed);
		twi_error(TOW_ENOTSUP, "%s", missed);
		return NULL;
	}
	if (lane->ops->wanted != NULL && !lane->ops->wanted(lane, &why)) {
		twi_log(engine->diag, 3, "tow:// goes without %s: %s", lane->ops->scheme, why);
		return NULL;
	}
	twi_lane_use(lane);
	status = lane->ops->endpoint_open(lane, address, &sub);
	if (status < 0) {
		endpoint->scarce = endpoint->scarce || status == TOW_EBUSY;
		twi_log(engine->diag, status == TOW_EBUSY ? 2 : 3, "tow:// goes without %s: %s",
			lane->ops->scheme, tow_error_message());
		return NULL;
	}
	sub->parent = &endpoint->base;
	endpoint->subs[endpoint->sub_count++] = sub;
	return sub;
}

/* The part behind "SCHEME://" in the address of a sub-endpoint. */
static const char *rest_of(const struct tow_endpoint *sub)
{
	return sub->address + strlen(sub->lane->ops->scheme) + 3;
}

static void open_name(struct twi_auto_endpoint *endpoint, enum twi_lane_id id, const char *name,
		      struct twi_auto_part *out)
{
	struct tow_endpoint *sub = open_sub(endpoint, id, name);

	if (sub != NULL && strlen(rest_of(sub)) < TWI_AUTO_NAME_MAX)
		snprintf(out->name, TWI_AUTO_NAME_MAX, "%s", rest_of(sub));
}

static uint16_t port_of(const struct tow_endpoint *sub)
{
	const char *colon = strrchr(sub->address, ':');

	return colon == NULL ? 0 : (uint16_t)strtoul(colon + 1, NULL, 10);
}

static void open_in4(struct twi_auto_endpoint *endpoint, enum twi_lane_id id, const char *host,
		     const struct twi_auto_hosts *hosts, struct twi_auto_part *out)
{
	char address[TOW_ADDRESS_MAX];
	struct tow_endpoint *sub;

	if (hosts->count4 == 0)
		return;
	snprintf(address, sizeof(address), "%.64s:0", host);
	sub = open_sub(endpoint, id, address);
	if (sub == NULL)
		return;
	out->in4_port = port_of(sub);
	out->in4_count = (uint8_t)twi_min(hosts->count4, (unsigned)TWI_AUTO_IN4_MAX);
	for (unsigned i = 0; i < 4u * out->in4_count; i++)
		out->in4[i / 4][i % 4] = ((const uint8_t *)&hosts->in4[i / 4].s_addr)[i % 4];
}

static void open_in6(struct twi_auto_endpoint *endpoint, enum twi_lane_id id, const char *host,
		     const struct twi_auto_hosts *hosts, struct twi_auto_part *out)
{
	char address[TOW_ADDRESS_MAX];
	struct tow_endpoint *sub;

	if (hosts->count6 == 0)
		return;
	snprintf(address, sizeof(address), "[%.64s]:0", host);
	sub = open_sub(endpoint, id, address);
	if (sub == NULL)
		return;
	out->in6_port = port_of(sub);
	out->in6_count = (uint8_t)twi_min(hosts->count6, (unsigned)TWI_AUTO_IN6_MAX);
	for (unsigned i = 0; i < 16u * out->in6_count; i++)
		out->in6[i / 16][i % 16] = hosts->in6[i / 16].s6_addr[i % 16];
}

/*
 * Listens at the given host, or wherever the knob `interfaces` allows. A single address is listened
 * at itself. Several are listened at by the wildcard, so that the lane may spread a peer's
 * connections over them.
 */
static void open_inet(struct twi_auto_endpoint *endpoint, enum twi_lane_id id, const char *host,
		      struct twi_auto_part *out)
{
	char text[INET6_ADDRSTRLEN];
	struct twi_auto_hosts hosts = { 0 };

	hosts.count4 = inet_pton(AF_INET, host, &hosts.in4[0]) == 1;
	hosts.count6 = inet_pton(AF_INET6, host, &hosts.in6[0]) == 1;
	if (hosts.count4 + hosts.count6 == 0)
		twi_auto_hosts_read(endpoint->base.engine->knobs.interfaces, &hosts);
	open_in4(endpoint, id,
		 hosts.count4 == 1 ? inet_ntop(AF_INET, &hosts.in4[0], text, sizeof(text))
				   : "0.0.0.0",
		 &hosts, out);
	open_in6(endpoint, id,
		 hosts.count6 == 1 ? inet_ntop(AF_INET6, &hosts.in6[0], text, sizeof(text)) : "::",
		 &hosts, out);
}

static int hex_value(char digit)
{
	const char *at = strchr("0123456789abcdef", digit);

	return digit == '\0' || at == NULL ? -1 : (int)(at - "0123456789abcdef");
}

/* Puts PROVIDER/HEX, the name that such a lane gives itself, in its short form. */
static void open_raw(struct twi_auto_endpoint *endpoint, enum twi_lane_id id,
		     struct twi_auto_part *out)
{
	struct tow_endpoint *sub = open_sub(endpoint, id, "");
	const char *slash = sub == NULL ? NULL : strchr(rest_of(sub), '/');
	size_t bytes = slash == NULL ? 0 : strlen(slash + 1) / 2;

	if (slash == NULL || slash - rest_of(sub) >= TWI_AUTO_NAME_MAX || bytes > TWI_AUTO_RAW_MAX)
		return;
	snprintf(out->name, sizeof(out->name), "%.*s", (int)(slash - rest_of(sub)), rest_of(sub));
	for (size_t i = 0; i < bytes; i++) {
		int high = hex_value(slash[1 + 2 * i]), low = hex_value(slash[2 + 2 * i]);

		if (high < 0 || low < 0)
			return;
		out->raw[i] = (uint8_t)(high << 4 | low);
	}
	out->raw_bytes = (uint8_t)bytes;
}

static void drop_subs(struct twi_auto_endpoint *endpoint)
{
	while (endpoint->sub_count > 0)
		twi_endpoint_drop(endpoint->subs[--endpoint->sub_count]);
}

/*
 * Opens the endpoint of one lane. A lane that stays within the process is opened only under a
 * virtual clock, which has no other.
 */
static void open_lane(struct twi_auto_endpoint *endpoint, enum twi_lane_id id, const char *host,
		      struct twi_auto_part *out)
{
	const struct twi_lane_info *lane = twi_lane_describe(id);
	static _Atomic uint64_t next_name = 1;
	char name[TWI_AUTO_NAME_MAX] = "";

	if (lane->reach == TWI_REACH_PROCESS) {
		if (!endpoint->base.engine->virtual_clock)
			return;
		snprintf(name, sizeof(name), "tow-%llu",
			 (unsigned long long)atomic_fetch_add_explicit(&next_name, 1,
								       memory_order_relaxed));
	}
	switch (lane->form) {
	case TWI_FORM_NAME:
		open_name(endpoint, id, name, out);
		return;
	case TWI_FORM_INET:
		open_inet(endpoint, id, host, out);
		return;
	case TWI_FORM_RAW:
		open_raw(endpoint, id, out);
		return;
	case TWI_FORM_NONE:
		return;
	}
}

/*
 * Writes the endpoint's address. A lane that has no room in it is logged, as no peer will connect
 * by it.
 */
static int put_address(struct twi_auto_endpoint *endpoint, struct twi_auto_address *address)
{
	struct twi_auto_address whole = *address;
	int status = twi_auto_address_put(address, endpoint->base.address);

	for (unsigned i = 0; i < TWI_LANE_COUNT && status == TOW_OK; i++) {
		enum twi_lane_id id = (enum twi_lane_id)i;

		if (twi_auto_address_has(&whole, id) && !twi_auto_address_has(address, id))
			twi_log(endpoint->base.engine->diag, 2,
				"tow://: the address has no room for %s: no peer will connect "
				"by it",
				twi_lane_name(id));
	}
	return status;
}

static int endpoint_open(struct twi_lane *lane, const char *host, struct tow_endpoint **out)
{
	struct twi_auto_endpoint *endpoint = twi_endpoint_alloc(sizeof(*endpoint));
	struct twi_auto_address address = { .host = twi_auto_host_id() };
	int status;

	if (endpoint == NULL)
		return twi_error(TOW_ENOMEM, "no memory for an endpoint");
	/*
	 * Listed before its sub-endpoints: a close of all goes through the list, and drops it
	 * first.
	 */
	twi_endpoint_setup(&endpoint->base, lane);
	twi_list_init(&endpoint->dials);
	endpoint->host = address.host;
	for (unsigned turn = 0; turn < TWI_LANE_COUNT; turn++) {
		enum twi_lane_id id = twi_lane_at_turn(turn);

		open_lane(endpoint, id, host, &address.parts[id]);
	}
	if (endpoint->sub_count > 0)
		status = put_address(endpoint, &address);
	else if (endpoint->scarce)
		status = twi_error(TOW_EBUSY,
				   "tow://%s: no lane could be opened; the last one failed: %.200s",
				   host, tow_error_message());
	else
		status = twi_error(TOW_ENOTSUP,
				   "tow://%s: no lane can open it (knobs lanes, interfaces, "
				   "require); the last one failed: %.200s",
				   host, tow_error_message());
	if (status < 0) {
		drop_subs(endpoint);
		twi_list_remove(&endpoint->base.link);
		twi_endpoint_free(&endpoint->base);
		return status;
	}
	*out = &endpoint->base;
	return TOW_OK;
}

static void endpoint_close(struct tow_endpoint *base)
{
	struct twi_auto_endpoint *endpoint = auto_endpoint(base);
	struct twi_list *entry;

	while ((entry = twi_list_first(&endpoint->dials)) != NULL) {
		struct twi_auto_dial *dial = twi_container_of(entry, struct twi_auto_dial, link);

		twi_list_remove(entry);
		dial->endpoint = NULL; /* the route being tried is the last */
	}
	drop_subs(endpoint);
	twi_endpoint_free(&endpoint->base);
}

const struct twi_lane_ops twi_lane_auto = {
	.id = TWI_LANE_AUTO,
	.scheme = "tow",
	.resolve = auto_resolve,
	.open = lane_open,
	.close = lane_close,
	.endpoint_open = endpoint_open,
	.endpoint_close = endpoint_close,
	.connect = twi_auto_connect,
	.connect_abort = twi_auto_connect_abort,
	.connect_measure = twi_auto_connect_measure,
};
