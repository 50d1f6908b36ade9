/*
 * auto.c - the table of the lane that is all lanes, and its endpoints. See auto.h.
 */
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

static int resolve(const char *address, bool passive, char out[TOW_ADDRESS_MAX])
{
	if (passive)
		return twi_auto_resolve_host(address, out);
	if (strlen(address) >= TOW_ADDRESS_MAX)
		return twi_error(TOW_EINVAL, "address tow://%.40s...: it has over %d bytes",
				 address, TOW_ADDRESS_MAX - 1);
	snprintf(out, TOW_ADDRESS_MAX, "%s", address);
	return TOW_OK;
}

/* Opens a sub-endpoint. One that cannot be had is logged: the others remain. */
static struct tow_endpoint *open_sub(struct twi_auto_endpoint *endpoint, enum twi_lane_id id,
				     const char *address)
{
	struct twi_engine *engine = endpoint->base.engine;
	struct twi_lane *lane = engine->lanes[id];
	struct tow_endpoint *sub = NULL;
	const char *why;

	if (lane == NULL || endpoint->sub_count == TWI_AUTO_SUBS_MAX)
		return NULL;
	if (lane->ops->wanted != NULL && !lane->ops->wanted(lane, &why)) {
		twi_log(engine->diag, 3, "tow:// goes without %s: %s", lane->ops->scheme, why);
		return NULL;
	}
	twi_lane_use(lane);
	if (lane->ops->endpoint_open(lane, address, &sub) < 0) {
		twi_log(engine->diag, 3, "tow:// goes without %s: %s", lane->ops->scheme,
			tow_error_message());
		return NULL;
	}
	sub->parent = &endpoint->base;
	endpoint->subs[endpoint->sub_count++] = sub;
	return sub;
}

/* What stands behind "SCHEME://" in the address of a sub-endpoint. */
static const char *rest_of(const struct tow_endpoint *sub)
{
	return sub->address + strlen(sub->lane->ops->scheme) + 3;
}

static void open_named(struct twi_auto_endpoint *endpoint, enum twi_lane_id id, const char *name,
		       char out[TWI_AUTO_NAME_MAX])
{
	struct tow_endpoint *sub = open_sub(endpoint, id, name);

	if (sub != NULL && strlen(rest_of(sub)) < TWI_AUTO_NAME_MAX)
		snprintf(out, TWI_AUTO_NAME_MAX, "%s", rest_of(sub));
}

static uint16_t port_of(const struct tow_endpoint *sub)
{
	const char *colon = strrchr(sub->address, ':');

	return colon == NULL ? 0 : (uint16_t)strtoul(colon + 1, NULL, 10);
}

static void open_tcp4(struct twi_auto_endpoint *endpoint, const char *host,
		      const struct in_addr *hosts, unsigned count, struct twi_auto_address *out)
{
	char address[TOW_ADDRESS_MAX];
	struct tow_endpoint *sub;

	if (count == 0)
		return;
	snprintf(address, sizeof(address), "%.64s:0", host);
	sub = open_sub(endpoint, TWI_LANE_TCP, address);
	if (sub == NULL)
		return;
	out->tcp4_port = port_of(sub);
	out->tcp4_count = (uint8_t)twi_min(count, (unsigned)TWI_AUTO_TCP4_MAX);
	for (unsigned i = 0; i < 4u * out->tcp4_count; i++)
		out->tcp4[i / 4][i % 4] = ((const uint8_t *)&hosts[i / 4].s_addr)[i % 4];
}

static void open_tcp6(struct twi_auto_endpoint *endpoint, const char *host,
		      const struct in6_addr *hosts, unsigned count, struct twi_auto_address *out)
{
	char address[TOW_ADDRESS_MAX];
	struct tow_endpoint *sub;

	if (count == 0)
		return;
	snprintf(address, sizeof(address), "[%.64s]:0", host);
	sub = open_sub(endpoint, TWI_LANE_TCP, address);
	if (sub == NULL)
		return;
	out->tcp6_port = port_of(sub);
	out->tcp6_count = (uint8_t)twi_min(count, (unsigned)TWI_AUTO_TCP6_MAX);
	for (unsigned i = 0; i < 16u * out->tcp6_count; i++)
		out->tcp6[i / 16][i % 16] = hosts[i / 16].s6_addr[i % 16];
}

/*
 * At the given host, or wherever the knob `interfaces` allows: one address is listened at itself,
 * several at the wildcard, so that the tcp lane may spread a peer's connections over them.
 */
static void open_tcp(struct twi_auto_endpoint *endpoint, const char *host,
		     struct twi_auto_address *out)
{
	char text[INET6_ADDRSTRLEN];
	struct twi_auto_hosts hosts = { 0 };

	if (inet_pton(AF_INET, host, &hosts.in4[0]) == 1) {
		open_tcp4(endpoint, host, hosts.in4, 1, out);
		return;
	}
	if (inet_pton(AF_INET6, host, &hosts.in6[0]) == 1) {
		open_tcp6(endpoint, host, hosts.in6, 1, out);
		return;
	}
	twi_auto_hosts_read(endpoint->base.engine->knobs.interfaces, &hosts);
	if (hosts.count4 == 1)
		open_tcp4(endpoint, inet_ntop(AF_INET, &hosts.in4[0], text, sizeof(text)),
			  hosts.in4, 1, out);
	else
		open_tcp4(endpoint, "0.0.0.0", hosts.in4, hosts.count4, out);
	if (hosts.count6 == 1)
		open_tcp6(endpoint, inet_ntop(AF_INET6, &hosts.in6[0], text, sizeof(text)),
			  hosts.in6, 1, out);
	else
		open_tcp6(endpoint, "::", hosts.in6, hosts.count6, out);
}

static int hex(char digit)
{
	const char *at = strchr("0123456789abcdef", digit);

	return digit == '\0' || at == NULL ? -1 : (int)(at - "0123456789abcdef");
}

/* PROVIDER/HEX, as the ofi lane names itself, in its short form. */
static void open_ofi(struct twi_auto_endpoint *endpoint, struct twi_auto_address *out)
{
	struct tow_endpoint *sub = open_sub(endpoint, TWI_LANE_OFI, "");
	const char *slash = sub == NULL ? NULL : strchr(rest_of(sub), '/');
	size_t bytes = slash == NULL ? 0 : strlen(slash + 1) / 2;

	if (slash == NULL || slash - rest_of(sub) >= TWI_AUTO_PROVIDER_MAX ||
	    bytes > TWI_AUTO_OFI_MAX)
		return;
	snprintf(out->ofi_provider, sizeof(out->ofi_provider), "%.*s", (int)(slash - rest_of(sub)),
		 rest_of(sub));
	for (size_t i = 0; i < bytes; i++) {
		int high = hex(slash[1 + 2 * i]), low = hex(slash[2 + 2 * i]);

		if (high < 0 || low < 0)
			return;
		out->ofi[i] = (uint8_t)(high << 4 | low);
	}
	out->ofi_bytes = (uint8_t)bytes;
}

static void drop_subs(struct twi_auto_endpoint *endpoint)
{
	while (endpoint->sub_count > 0)
		twi_endpoint_drop(endpoint->subs[--endpoint->sub_count]);
}

/* Under a virtual clock there is the loop lane alone. */
static void open_subs(struct twi_auto_endpoint *endpoint, const char *host,
		      struct twi_auto_address *out)
{
	struct twi_engine *engine = endpoint->base.engine;
	static _Atomic uint64_t next_name = 1;
	char name[TWI_AUTO_NAME_MAX];

	if (engine->virtual_clock) {
		snprintf(name, sizeof(name), "tow-%llu",
			 (unsigned long long)atomic_fetch_add_explicit(&next_name, 1,
								       memory_order_relaxed));
		open_named(endpoint, TWI_LANE_LOOP, name, out->loop);
	}
	open_named(endpoint, TWI_LANE_SHM, "", out->shm);
	open_ofi(endpoint, out);
	open_tcp(endpoint, host, out);
}

static int endpoint_open(struct twi_lane *lane, const char *host, struct tow_endpoint **out)
{
	struct twi_auto_endpoint *endpoint = twi_endpoint_alloc(sizeof(*endpoint));
	struct twi_auto_address address = { .host = twi_auto_host_id() };
	bool had_ofi;
	int status;

	if (endpoint == NULL)
		return twi_error(TOW_ENOMEM, "no memory for an endpoint");
	/* Before its sub-endpoints: whoever closes all goes through the list and drops it first. */
	twi_endpoint_setup(&endpoint->base, lane);
	twi_list_init(&endpoint->dials);
	endpoint->host = address.host;
	open_subs(endpoint, host, &address);
	had_ofi = address.ofi_bytes > 0;
	status = endpoint->sub_count == 0
			 ? twi_error(TOW_ENOTSUP,
				     "tow://%s: there is no lane to open it on (knobs lanes, "
				     "interfaces); the last said: %.200s",
				     host, tow_error_message())
			 : twi_auto_address_put(&address, endpoint->base.address);
	if (status < 0) {
		drop_subs(endpoint);
		twi_list_remove(&endpoint->base.link);
		twi_endpoint_free(&endpoint->base);
		return status;
	}
	if (had_ofi && address.ofi_bytes == 0)
		twi_log(lane->engine->diag, 2,
			"tow://: the address has no room for ofi: nobody will connect by it");
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
		dial->endpoint = NULL; /* the way being tried is the last */
	}
	drop_subs(endpoint);
	twi_endpoint_free(&endpoint->base);
}

const struct twi_lane_ops twi_lane_auto = {
	.id = TWI_LANE_AUTO,
	.scheme = "tow",
	.resolve = resolve,
	.open = lane_open,
	.close = lane_close,
	.endpoint_open = endpoint_open,
	.endpoint_close = endpoint_close,
	.connect = twi_auto_connect,
	.connect_abort = twi_auto_connect_abort,
};
