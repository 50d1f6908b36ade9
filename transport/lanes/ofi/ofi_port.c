/*
 * ofi_port.c - opens and closes a port: a libfabric endpoint with everything that belongs to it;
 * and prepares it for a sleep. See ofi.h.
 */
#include "transport/lanes/ofi/ofi_calls.h"

#ifdef TWI_HAVE_OFI

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "diag/base/cancel.h"
#include "diag/base/error.h"
#include "memreg/pool/pool.h"
#include "transport/lanes/ofi/guard.h"
#include "transport/op/lane_host.h"

#define QUEUE_ENTRIES 2048u
#define NAMES_TRIED   16u

static uint64_t add_part(uint64_t *at, uint64_t bytes)
{
	uint64_t start = *at;

	*at += twi_align_up(bytes, 64);
	return start;
}

static void lay_slots(struct twi_ofi_port *port, uint8_t *small, uint8_t *big, uint32_t big_slots)
{
	for (uint32_t i = 0; i < TWI_OFI_SMALL_SLOTS + big_slots; i++) {
		struct twi_ofi_slot *slot = &port->slots[i];

		slot->req.kind = TWI_OFI_REQ_SLOT;
		slot->req.owner = slot;
		slot->big = i >= TWI_OFI_SMALL_SLOTS;
		slot->data = slot->big ? big + (uint64_t)(i - TWI_OFI_SMALL_SLOTS) *
							 twi_align_up(port->packet_bytes, 64)
				       : small + (uint64_t)i * TWI_OFI_SMALL_BYTES;
		twi_list_init(&slot->link);
		twi_list_push_back(slot->big ? &port->big_free : &port->small_free, &slot->link);
	}
	port->small_count = TWI_OFI_SMALL_SLOTS;
	port->big_count = big_slots;
}

static void lay_records(struct twi_ofi_port *port, uint64_t *cells)
{
	for (uint32_t i = 0; i < TWI_OFI_GIVES; i++) {
		struct twi_ofi_give *give = &port->gives[i];

		give->req.kind = TWI_OFI_REQ_GIVE;
		give->req.owner = give;
		give->cell = &cells[i];
		*give->cell = 0;
		twi_list_init(&give->link);
		twi_list_push_back(&port->give_free, &give->link);
	}
	for (uint32_t i = 0; i < TWI_OFI_PULLS; i++) {
		struct twi_ofi_pull *pull = &port->pulls[i];

		for (unsigned j = 0; j < TWI_OFI_READS; j++) {
			pull->reqs[j].kind = TWI_OFI_REQ_PULL;
			pull->reqs[j].owner = pull;
		}
		pull->cell = &cells[TWI_OFI_GIVES + i];
		twi_list_init(&pull->link);
		twi_list_init(&pull->retry);
		twi_list_push_back(&port->pull_free, &pull->link);
	}
}

/* Takes one block of the pool for everything that libfabric sends from and receives into. */
static int lay_out(struct twi_ofi_port *port)
{
	struct twi_engine *engine = port->lane->base.engine;
	uint64_t packet = twi_align_up(port->packet_bytes, 64), at = 0;
	uint32_t big_slots = (uint32_t)twi_max(twi_min((1u << 20) / packet, TWI_OFI_BIG_SLOTS), 8u);
	uint64_t small = add_part(&at, (uint64_t)TWI_OFI_SMALL_SLOTS * TWI_OFI_SMALL_BYTES);
	uint64_t big = add_part(&at, big_slots * packet);
	uint64_t cells = add_part(&at, (TWI_OFI_GIVES + TWI_OFI_PULLS) * sizeof(uint64_t)), first;
	void *memory;
	int status;

	port->buffer_count = port->multi_recv ? TWI_OFI_MULTI : TWI_OFI_BUFFERS;
	port->buffer_bytes =
		(uint32_t)(port->multi_recv ? twi_max(2 * packet, (uint64_t)(128u << 10)) : packet);
	first = add_part(&at, (uint64_t)port->buffer_count * port->buffer_bytes);
	status = twi_own_try(engine, at, 4096, &memory);
	if (status < 0)
		return twi_error(status,
				 "no room in the pool for an ofi endpoint (%llu bytes); raise "
				 "premap_memory_bytes",
				 (unsigned long long)at);
	port->memory = memory;
	port->memory_bytes = at;
	twi_pool_own(engine->pool, at, 1);
	port->slots = calloc(TWI_OFI_SMALL_SLOTS + big_slots, sizeof(port->slots[0]));
	port->gives = calloc(TWI_OFI_GIVES, sizeof(port->gives[0]));
	port->pulls = calloc(TWI_OFI_PULLS, sizeof(port->pulls[0]));
	if (port->slots == NULL || port->gives == NULL || port->pulls == NULL)
		return twi_error(TOW_ENOMEM, "no memory for an ofi endpoint");
	lay_slots(port, port->memory + small, port->memory + big, big_slots);
	lay_records(port, (uint64_t *)(void *)(port->memory + cells));
	for (uint32_t i = 0; i < port->buffer_count; i++) {
		struct twi_ofi_buffer *buffer = &port->buffers[i];

		buffer->req.kind = TWI_OFI_REQ_BUFFER;
		buffer->req.owner = buffer;
		buffer->data = port->memory + first + (uint64_t)i * port->buffer_bytes;
	}
	return TOW_OK;
}

/* Opens the completion queue, with a descriptor to sleep on if the provider has one. */
static int open_queue(struct twi_ofi_port *port)
{
	struct fi_cq_attr attr = {
		.size = QUEUE_ENTRIES,
		.format = FI_CQ_FORMAT_DATA,
		.wait_obj = FI_WAIT_FD,
	};
	struct fid_domain *domain = twi_ofi_domain_fid(port->domain);
	int err = -fi_cq_open(domain, &attr, &port->cq, NULL);

	port->wait_fd = -1;
	if (err == 0) {
		err = -fi_control(&port->cq->fid, FI_GETWAIT, &port->wait_fd);
		if (err == 0 && port->wait_fd >= 0)
			return TOW_OK;
		fi_close(&port->cq->fid);
		port->cq = NULL;
	}
	port->wait_fd = -1;
	attr.wait_obj = FI_WAIT_NONE;
	err = -fi_cq_open(domain, &attr, &port->cq, NULL);
	return err == 0 ? TOW_OK : twi_fi_error(err, "fi_cq_open");
}

/* Returns libfabric's error, positive. *what_out names the call that failed. */
static int enable_endpoint(struct twi_ofi_port *port, const char **what_out)
{
	int err;

	*what_out = "fi_endpoint";
	err = -fi_endpoint(twi_ofi_domain_fid(port->domain), twi_ofi_domain_info(port->domain),
			   &port->ep, NULL);
	if (err != 0) {
		port->ep = NULL;
		return err;
	}
	*what_out = "fi_ep_bind";
	err = -fi_ep_bind(port->ep, &port->av->fid, 0);
	if (err == 0)
		err = -fi_ep_bind(port->ep, &port->cq->fid, FI_TRANSMIT | FI_RECV);
	if (err == 0) {
		*what_out = "fi_enable";
		err = -fi_enable(port->ep);
	}
	return err;
}

/*
 * libfabric's shm names an endpoint's file in /dev/shm by the pid and a count. The file may already
 * exist: a process with this pid was killed, or lives in another container. Then the endpoint is
 * busy, and the next endpoint has the next name.
 */
static int open_endpoint(struct twi_ofi_port *port)
{
	struct fid_domain *domain = twi_ofi_domain_fid(port->domain);
	struct fi_av_attr attr = { .type = FI_AV_TABLE };
	size_t least = port->packet_bytes, name_bytes = sizeof(port->name.bytes);
	const char *what = "fi_av_open";
	int err = -fi_av_open(domain, &attr, &port->av, NULL);

	if (err == FI_ENOSYS || err == FI_EINVAL || err == FI_EOPNOTSUPP) {
		attr.type = FI_AV_MAP;
		err = -fi_av_open(domain, &attr, &port->av, NULL);
	}
	for (unsigned left = NAMES_TRIED; err == 0; left--) {
		err = enable_endpoint(port, &what);
		if (err != FI_EBUSY || port->ep == NULL || left == 1)
			break;
		fi_close(&port->ep->fid);
		port->ep = NULL;
		err = 0;
	}
	/* Only now: an endpoint of libfabric's shm crashes on this before it is enabled. */
	if (err == 0 && port->multi_recv &&
	    fi_setopt(&port->ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &least,
		      sizeof(least)) != 0)
		port->multi_recv = false;
	if (err == 0) {
		what = "fi_getname";
		err = -fi_getname(&port->ep->fid, port->name.bytes, &name_bytes);
		port->name.count = (uint8_t)name_bytes;
	}
	return err == 0 ? TOW_OK : twi_fi_error(err, what);
}

/* libfabric's shm installs signal handlers here, to remove its files. */
static int open_guarded(void *arg)
{
	struct twi_ofi_port *port = arg;
	int status = open_queue(port);

	return status == TOW_OK ? open_endpoint(port) : status;
}

/* Copies the provider's properties. */
static void read_info(struct twi_ofi_port *port)
{
	const struct fi_info *info = twi_ofi_domain_info(port->domain);
	int modes = info->domain_attr->mr_mode;

	snprintf(port->provider, sizeof(port->provider), "%s", info->fabric_attr->prov_name);
	port->inject_bytes = info->tx_attr->inject_size;
	port->message_bytes_max = info->ep_attr->max_msg_size;
	port->local_mr = (modes & FI_MR_LOCAL) != 0;
	port->virtual_addresses = (modes & FI_MR_VIRT_ADDR) != 0;
	port->reads = (info->caps & FI_RMA) != 0;
	port->tagged = (info->caps & FI_TAGGED) != 0;
	port->multi_recv = (info->caps & FI_MULTI_RECV) != 0;
	/* Our tags are numbers as wide as the provider's. */
	port->tag_mask = info->ep_attr->mem_tag_format;
	for (unsigned shift = 1; shift < 64; shift *= 2)
		port->tag_mask |= port->tag_mask >> shift;
	if (port->tag_mask < UINT32_MAX)
		port->tagged = false;
	port->reads_in_order = twi_ofi_reads_in_order(port->provider);
	port->quick_bytes = twi_ofi_quick_bytes(port->provider, port->inject_bytes);
	port->driven = twi_ofi_is_driven(port->provider);
	port->reads_two = port->reads_in_order && info->tx_attr->rma_iov_limit >= 2 &&
			  info->tx_attr->iov_limit >= 2;
	port->prefers_tagged = twi_ofi_prefers_tagged(port->provider);
}

/* Registers the pool with the domain, and with it the memory for packets. */
static int register_pool(struct twi_ofi_port *port)
{
	struct twi_engine *engine = port->lane->base.engine;
	const struct twi_extent *extent = twi_pool_find(engine->pool, port->memory, 1);
	struct fid_mr *mr;
	int status;

	twi_ofi_domain_bind(port->domain, port->ep);
	status = twi_pool_registrar_add(engine->pool, &twi_ofi_registrar, port->domain);
	if (status < 0)
		return status;
	port->registered = true;
	mr = extent != NULL ? twi_ofi_domain_mr(port->domain, &extent->region) : NULL;
	if (mr == NULL && port->local_mr)
		return twi_error(TOW_EPERM,
				 "libfabric: %s needs registered memory, and the pool could not "
				 "be registered: %.200s",
				 port->provider, tow_error_message());
	if (mr == NULL)
		port->reads = false; /* cells cannot be read without it */
	port->memory_desc = mr != NULL && port->local_mr ? fi_mr_desc(mr) : NULL;
	return TOW_OK;
}

static int set_up(struct twi_ofi_port *port, const struct twi_ofi_wish *wish)
{
	struct fi_info *info;
	int status;

	port->candidates = calloc(1, sizeof(*port->candidates));
	if (port->candidates == NULL)
		return twi_error(TOW_ENOMEM, "no memory for an ofi endpoint");
	status = twi_ofi_choose(wish, port->candidates, &info);
	if (status == TOW_OK)
		status = twi_ofi_domain_create(info, &port->domain);
	if (status < 0)
		return status;
	read_info(port);
	status = twi_ofi_guarded(open_guarded, port);
	if (status == TOW_OK)
		status = lay_out(port);
	if (status == TOW_OK)
		status = register_pool(port);
	if (status == TOW_OK)
		status = twi_ofi_post_buffers(port);
	return status;
}

int twi_ofi_port_open(struct twi_ofi_lane *lane, const struct twi_ofi_wish *wish,
		      struct twi_ofi_port **out)
{
	struct twi_engine *engine = lane->base.engine;
	struct twi_ofi_port *port = calloc(1, sizeof(*port));
	uint64_t random[2];
	int status;

	if (port == NULL)
		return twi_error(TOW_ENOMEM, "no memory for an ofi endpoint");
	port->lane = lane;
	port->wait_fd = -1;
	port->index = lane->next_index++;
	port->packet_bytes = TWI_OFI_HEAD_BYTES + (uint32_t)twi_max(engine->knobs.eager_max_bytes,
								    (uint64_t)TWI_OFI_PAYLOAD_MIN);
	twi_list_init(&port->link);
	twi_list_init(&port->small_free);
	twi_list_init(&port->big_free);
	twi_list_init(&port->give_free);
	twi_list_init(&port->pull_free);
	twi_list_init(&port->blocked);
	twi_list_init(&port->stalled);
	twi_list_init(&port->ailing);
	twi_list_init(&port->sending);
	twi_list_init(&port->retry);
	if (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random)) {
		free(port);
		return twi_error(TOW_ESYSTEM, "no random numbers for an ofi endpoint");
	}
	port->next_cell = random[0];
	port->next_tag = random[1];
	status = set_up(port, wish);
	if (status < 0) {
		twi_ofi_port_close(port);
		return status;
	}
	twi_list_push_back(&lane->ports, &port->link);
	*out = port;
	return TOW_OK;
}

/* Closes the port. Closing the endpoint ends all requests that libfabric holds. */
void twi_ofi_port_close(struct twi_ofi_port *port)
{
	struct twi_engine *engine = port->lane->base.engine;

	twi_list_remove(&port->link);
	if (port->ep != NULL)
		fi_close(&port->ep->fid);
	if (port->registered)
		twi_pool_registrar_remove(engine->pool, &twi_ofi_registrar, port->domain);
	if (port->av != NULL)
		fi_close(&port->av->fid);
	if (port->cq != NULL && port->wait_fd >= 0)
		twi_ring_forget(engine, port->wait_fd);
	if (port->cq != NULL)
		fi_close(&port->cq->fid);
	twi_ofi_domain_close(port->domain);
	if (port->memory != NULL) {
		twi_pool_own(engine->pool, port->memory_bytes, -1);
		twi_own_give(engine, port->memory);
	}
	free(port->slots);
	free(port->gives);
	free(port->pulls);
	free(port->candidates);
	free(port->peers);
	free(port);
}

void twi_ofi_port_release(struct twi_ofi_port *port)
{
	if (port->endpoint == NULL && port->peer_count == 0)
		twi_ofi_port_close(port);
}

bool twi_ofi_local(const struct twi_ofi_port *port, const struct twi_claim *claim, void **desc_out)
{
	struct fid_mr *mr;

	*desc_out = NULL;
	if (!port->local_mr)
		return true;
	mr = claim->region != NULL ? twi_ofi_domain_mr(port->domain, claim->region) : NULL;
	if (mr == NULL)
		return false;
	*desc_out = fi_mr_desc(mr);
	return true;
}

bool twi_ofi_remote(const struct twi_ofi_port *port, const struct twi_region *region,
		    const void *memory, uint64_t *address_out, uint64_t *key_out)
{
	struct fid_mr *mr = region != NULL ? twi_ofi_domain_mr(port->domain, region) : NULL;

	if (mr == NULL)
		return false;
	*address_out =
		port->virtual_addresses
			? (uint64_t)(uintptr_t)memory
			: (uint64_t)((const uint8_t *)memory - (const uint8_t *)region->base);
	*key_out = fi_mr_key(mr);
	return *key_out != FI_KEY_NOTAVAIL;
}

/* Prepares a sleep: libfabric must agree to it, and its descriptor must wake the sleeper. */
void twi_ofi_arm(struct twi_ofi_port *port)
{
	TWI_UNCANCELED;
	struct fid *fids[1] = { &port->cq->fid };

	if (port->wait_fd < 0 || port->dead)
		return;
	port->asleep_ok = fi_trywait(twi_ofi_domain_fabric(port->domain), fids, 1) == FI_SUCCESS &&
			  twi_watch(port->lane->base.engine, TWI_LANE_OFI, port->index,
				    port->wait_fd, &port->armed_rings);
}

#endif
