/*
 * fabric.c - loads libfabric and asks it for providers. See fabric.h.
 */
#include "transport/lanes/ofi/fabric.h"

#ifdef TWI_HAVE_OFI

#include <dlfcn.h>
#include <pthread.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "diag/base/error.h"
#include "diag/base/fd.h"
#include "transport/lanes/ofi/guard.h"

struct twi_fi twi_fi;

#define FAILURE_BYTES 256

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool loaded;

/* The lock is held. False with the reason. */
static bool load_fabric(char failure[FAILURE_BYTES])
{
	static const struct {
		const char *name;
		void *place;
	} symbols[] = {
		{ "fi_getinfo", &twi_fi.getinfo },   { "fi_dupinfo", &twi_fi.dupinfo },
		{ "fi_freeinfo", &twi_fi.freeinfo }, { "fi_fabric", &twi_fi.fabric },
		{ "fi_strerror", &twi_fi.strerror },
	};
	void *library = dlopen("libfabric.so.1", RTLD_NOW | RTLD_LOCAL);

	if (library == NULL) {
		snprintf(failure, FAILURE_BYTES, "%s", dlerror());
		return false;
	}
	for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
		void *found = dlsym(library, symbols[i].name);

		if (found == NULL) {
			snprintf(failure, FAILURE_BYTES, "it has no %s", symbols[i].name);
			return false;
		}
		/* POSIX requires that a pointer from dlsym fits a function pointer. */
		*(void **)symbols[i].place = found;
		twi_ofi_guard_library(found);
	}
	return true;
}

/*
 * Loads libfabric, unless it is loaded. Returns TOW_OK, or TOW_ENOTSUP with the reason. The next
 * call tries again: the process may have had no descriptor left just then.
 */
static int load_once(void)
{
	char failure[FAILURE_BYTES] = "";
	bool good;

	twi_fd_fill();
	pthread_mutex_lock(&lock);
	if (!loaded)
		loaded = load_fabric(failure);
	good = loaded;
	pthread_mutex_unlock(&lock);
	if (!good)
		return twi_error(TOW_ENOTSUP, "libfabric: cannot be loaded: %s", failure);
	return TOW_OK;
}

int twi_fi_error(int err, const char *what)
{
	int status = err == FI_ENOMEM                                                ? TOW_ENOMEM
		     : err == FI_EPERM || err == FI_EACCES                           ? TOW_EPERM
		     : err == FI_EADDRINUSE                                          ? TOW_EBUSY
		     : err == FI_ENODATA || err == FI_ENOSYS || err == FI_EOPNOTSUPP ? TOW_ENOTSUP
										     : TOW_ESYSTEM;

	return twi_error(status, "libfabric: %s: %s", what, twi_fi.strerror(err));
}

static void read_offer(const struct fi_info *info, struct twi_ofi_offer *out)
{
	*out = (struct twi_ofi_offer){
		.mode = info->mode | info->domain_attr->mode | info->tx_attr->mode |
			info->rx_attr->mode,
		.mr_mode = (uint64_t)info->domain_attr->mr_mode,
		.inject_bytes = info->tx_attr->inject_size,
		.message_bytes_max = info->ep_attr->max_msg_size,
		.name_bytes = info->src_addr != NULL ? info->src_addrlen : 0,
		.key_bytes = info->domain_attr->mr_key_size,
		.messages = (info->caps & FI_MSG) != 0,
		.tagged = (info->caps & FI_TAGGED) != 0,
		.read = (info->caps & FI_RMA) != 0,
		.ordered = (info->tx_attr->msg_order & FI_ORDER_SAS) != 0 &&
			   (info->rx_attr->msg_order & FI_ORDER_SAS) != 0,
		.multi_recv = (info->caps & FI_MULTI_RECV) != 0,
		.device_memory = (info->caps & FI_HMEM) != 0,
	};
	snprintf(out->provider, sizeof(out->provider), "%s", info->fabric_attr->prov_name);
	snprintf(out->domain, sizeof(out->domain), "%s",
		 info->domain_attr->name != NULL ? info->domain_attr->name : "");
}

/*
 * Calls fi_getinfo once. A provider that is not asked for caps names all that it has, even those
 * that cost it something, such as RMA. So take_candidate calls again with the caps that we use.
 */
static int ask_provider(const struct twi_ofi_wish *wish, const char *provider, uint64_t caps,
			struct fi_info **out)
{
	struct fi_info *hints = twi_fi.dupinfo(NULL);
	const char *node = wish->node[0] != '\0' ? wish->node : NULL;
	const char *service = wish->service[0] != '\0' ? wish->service : NULL;
	int err = FI_ENOMEM;

	*out = NULL;
	if (hints == NULL)
		return FI_ENOMEM;
	hints->ep_attr->type = FI_EP_RDM;
	hints->caps = caps;
	hints->mode = TWI_FI_MODE;
	hints->domain_attr->mr_mode = TWI_FI_MR_MODE;
	/* One thread at a time uses an endpoint, but any thread that allocates registers memory. */
	hints->domain_attr->threading = FI_THREAD_COMPLETION;
	hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
	hints->tx_attr->msg_order = hints->rx_attr->msg_order = FI_ORDER_SAS;
	if (provider != NULL)
		hints->fabric_attr->prov_name = strdup(provider); /* fi_freeinfo frees it */
	if (provider == NULL || hints->fabric_attr->prov_name != NULL)
		err = -twi_fi.getinfo(TWI_FI_VERSION, node, service,
				      node != NULL || service != NULL ? FI_SOURCE : 0, hints, out);
	twi_fi.freeinfo(hints);
	return err;
}

/* Sets of caps, from everything that we can use down to the least that we need. */
static const uint64_t caps_sets[] = {
	FI_MSG | FI_TAGGED | FI_RMA | FI_MULTI_RECV | FI_HMEM,
	FI_MSG | FI_TAGGED | FI_RMA | FI_MULTI_RECV,
	FI_MSG | FI_TAGGED | FI_RMA,
	FI_MSG | FI_TAGGED,
	FI_MSG,
};

static struct fi_info *find_offer(struct fi_info *list, const struct twi_ofi_offer *offer)
{
	for (; list != NULL; list = list->next) {
		const char *domain = list->domain_attr->name;

		if (strcmp(list->fabric_attr->prov_name, offer->provider) == 0 &&
		    strncmp(domain != NULL ? domain : "", offer->domain,
			    sizeof(offer->domain) - 1) == 0)
			return list;
	}
	return NULL;
}

/* Asks for the best candidate again, with as many of the caps that we use as it has. */
static int take_candidate(const struct twi_ofi_wish *wish, struct twi_ofi_candidate *best,
			  struct fi_info **info_out)
{
	int err = FI_ENODATA;

	for (size_t i = 0; i < sizeof(caps_sets) / sizeof(caps_sets[0]); i++) {
		struct fi_info *list, *found;

		err = ask_provider(wish, best->offer.provider, caps_sets[i], &list);
		if (err != 0)
			continue;
		found = find_offer(list, &best->offer);
		*info_out = found != NULL ? twi_fi.dupinfo(found) : NULL;
		twi_fi.freeinfo(list);
		if (found == NULL)
			continue;
		if (*info_out == NULL)
			return twi_error(TOW_ENOMEM, "libfabric: no memory for a provider");
		read_offer(*info_out, &best->offer);
		best->taken = true;
		return TOW_OK;
	}
	return twi_fi_error(err, best->offer.provider);
}

static int no_provider_error(const struct twi_ofi_wish *wish,
			     const struct twi_ofi_candidates *candidates)
{
	char text[320];
	size_t used = 0;

	text[0] = '\0';
	for (unsigned i = 0; i < candidates->count && used < sizeof(text); i++) {
		const struct twi_ofi_candidate *c = &candidates->entry[i];

		if (i > 0 && strcmp(c->offer.provider, c[-1].offer.provider) == 0)
			continue; /* listed once for each interface */
		used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s: %s",
					 used > 0 ? "; " : "", c->offer.provider, c->why);
	}
	return twi_error(TOW_ENOTSUP, "libfabric: no provider for ofi://%s: %s", wish->provider,
			 used > 0 ? text : "none has reliable messages here");
}

static int choose_candidate(const struct twi_ofi_wish *wish, struct twi_ofi_candidates *candidates,
			    struct fi_info **info_out)
{
	const struct twi_ofi_bits honoured = { TWI_FI_MODE, TWI_FI_MR_MODE };
	struct twi_ofi_candidate *best = NULL;
	struct fi_info *list;
	int err, status = load_once();

	*info_out = NULL;
	candidates->count = candidates->left_out = 0;
	if (status < 0)
		return status;
	err = ask_provider(wish, wish->provider[0] != '\0' ? wish->provider : NULL, FI_MSG, &list);
	if (err != 0 && err != FI_ENODATA)
		return twi_fi_error(err, "fi_getinfo");
	for (const struct fi_info *info = list; info != NULL; info = info->next) {
		struct twi_ofi_candidate *c = &candidates->entry[candidates->count];

		if (candidates->count == TWI_OFI_CANDIDATES) {
			candidates->left_out++;
			continue;
		}
		candidates->count++;
		read_offer(info, &c->offer);
		c->taken = false;
		c->score = twi_ofi_judge(&c->offer, wish, &honoured, c->why, sizeof(c->why));
		if (c->score > 0 && (best == NULL || c->score > best->score))
			best = c;
	}
	if (list != NULL)
		twi_fi.freeinfo(list);
	return best == NULL ? no_provider_error(wish, candidates)
			    : take_candidate(wish, best, info_out);
}

struct choice {
	const struct twi_ofi_wish *wish;
	struct twi_ofi_candidates *candidates;
	struct fi_info **info_out;
};

static int choose_guarded(void *arg)
{
	const struct choice *choice = arg;

	return choose_candidate(choice->wish, choice->candidates, choice->info_out);
}

int twi_ofi_choose(const struct twi_ofi_wish *wish, struct twi_ofi_candidates *candidates,
		   struct fi_info **info_out)
{
	struct choice choice = { wish, candidates, info_out };

	return twi_ofi_guarded(choose_guarded, &choice);
}

#endif
