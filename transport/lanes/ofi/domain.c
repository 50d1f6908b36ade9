/*
 * domain.c - opens a libfabric domain, and has the registrar's two functions. See domain.h.
 */
#include "transport/lanes/ofi/domain.h"

#include "diag/base/error.h"
#include <towline/status.h>

#ifdef TWI_HAVE_OFI

#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "diag/base/emit.h"
#include "transport/lanes/ofi/fabric.h"
#include "transport/lanes/ofi/guard.h"

#define ACCESS (FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE)

struct twi_ofi_domain {
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_ep *ep; /* memory regions are bound to it if they must be */
	struct {
		struct fid_mr *mr;
		_Atomic uint64_t generation; /* 0: no region */
	} entry[TWI_REGION_SLOTS];           /* indexed by a region's first slot */
	_Atomic uint64_t regions, bytes;
};

int twi_ofi_domain_open(const char *provider, struct twi_ofi_domain **out)
{
	struct twi_ofi_candidates *candidates;
	struct twi_ofi_wish wish = { .provider = "" };
	struct fi_info *info = NULL;
	int status;

	if (provider == NULL || out == NULL)
		return twi_error(TOW_EINVAL, "libfabric: provider or out is NULL");
	*out = NULL;
	candidates = malloc(sizeof(*candidates));
	if (candidates == NULL)
		return twi_error(TOW_ENOMEM, "libfabric: no memory for a domain");
	snprintf(wish.provider, sizeof(wish.provider), "%s", provider);
	status = twi_ofi_choose(&wish, candidates, &info);
	free(candidates);
	if (status < 0)
		return status;
	return twi_ofi_domain_create(info, out);
}

static int open_guarded(void *arg)
{
	struct twi_ofi_domain *domain = arg;
	int err = -twi_fi.fabric(domain->info->fabric_attr, &domain->fabric, NULL);

	if (err != 0)
		return twi_fi_error(err, "fi_fabric");
	err = -fi_domain(domain->fabric, domain->info, &domain->domain, NULL);
	return err == 0 ? TOW_OK : twi_fi_error(err, "fi_domain");
}

int twi_ofi_domain_create(struct fi_info *info, struct twi_ofi_domain **out)
{
	struct twi_ofi_domain *domain = calloc(1, sizeof(*domain));
	int status;

	*out = NULL;
	if (domain == NULL) {
		twi_fi.freeinfo(info);
		return twi_error(TOW_ENOMEM, "libfabric: no memory for a domain");
	}
	domain->info = info;
	status = twi_ofi_guarded(open_guarded, domain);
	if (status < 0) {
		twi_ofi_domain_close(domain);
		return status;
	}
	*out = domain;
	return TOW_OK;
}

struct fid_fabric *twi_ofi_domain_fabric(const struct twi_ofi_domain *domain)
{
	return domain->fabric;
}

struct fid_domain *twi_ofi_domain_fid(const struct twi_ofi_domain *domain)
{
	return domain->domain;
}

struct fi_info *twi_ofi_domain_info(const struct twi_ofi_domain *domain)
{
	return domain->info;
}

void twi_ofi_domain_bind(struct twi_ofi_domain *domain, struct fid_ep *ep)
{
	domain->ep = ep;
}

void twi_ofi_domain_close(struct twi_ofi_domain *domain)
{
	if (domain == NULL)
		return;
	if (domain->domain != NULL)
		fi_close(&domain->domain->fid);
	if (domain->fabric != NULL)
		fi_close(&domain->fabric->fid);
	if (domain->info != NULL)
		twi_fi.freeinfo(domain->info);
	free(domain);
}

static int registrar_add(void *ctx, const struct twi_region *region)
{
	struct twi_ofi_domain *domain = ctx;
	int modes = domain->info->domain_attr->mr_mode;
	struct fid_mr *mr;
	/* The requested key counts only if the provider does not choose the key itself. */
	int err = -fi_mr_reg(domain->domain, region->base, region->bytes, ACCESS, 0,
			     region->generation, 0, &mr, NULL);

	if (err == 0 && domain->ep != NULL && (modes & FI_MR_ENDPOINT) != 0) {
		err = -fi_mr_bind(mr, &domain->ep->fid, 0);
		if (err == 0)
			err = -fi_mr_enable(mr);
		if (err != 0)
			fi_close(&mr->fid);
	}
	if (err != 0)
		return twi_fi_error(err, "fi_mr_reg");
	domain->entry[region->slot].mr = mr;
	atomic_fetch_add_explicit(&domain->regions, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&domain->bytes, region->bytes, memory_order_relaxed);
	/* release: pairs with the acquire of twi_ofi_domain_mr */
	atomic_store_explicit(&domain->entry[region->slot].generation, region->generation,
			      memory_order_release);
	return TOW_OK;
}

static void registrar_remove(void *ctx, const struct twi_region *region)
{
	struct twi_ofi_domain *domain = ctx;

	if (twi_ofi_domain_mr(domain, region) == NULL)
		return;
	atomic_store_explicit(&domain->entry[region->slot].generation, 0, memory_order_relaxed);
	fi_close(&domain->entry[region->slot].mr->fid);
	atomic_fetch_sub_explicit(&domain->regions, 1, memory_order_relaxed);
	atomic_fetch_sub_explicit(&domain->bytes, region->bytes, memory_order_relaxed);
}

struct fid_mr *twi_ofi_domain_mr(const struct twi_ofi_domain *domain,
				 const struct twi_region *region)
{
	if (atomic_load_explicit(&domain->entry[region->slot].generation, memory_order_acquire) !=
	    region->generation)
		return NULL;
	return domain->entry[region->slot].mr;
}

void twi_ofi_domain_describe(const struct twi_ofi_domain *domain, struct twi_emit *e)
{
	int modes = domain->info->domain_attr->mr_mode;

	twi_emit_str(e, "provider", domain->info->fabric_attr->prov_name);
	twi_emit_str(e, "domain", domain->info->domain_attr->name);
	twi_emit_bool(e, "local_registration_needed", (modes & FI_MR_LOCAL) != 0);
	twi_emit_u64(e, "regions", atomic_load_explicit(&domain->regions, memory_order_relaxed));
	twi_emit_u64(e, "registered_bytes",
		     atomic_load_explicit(&domain->bytes, memory_order_relaxed));
}

#else

int twi_ofi_domain_open(const char *provider, struct twi_ofi_domain **out)
{
	(void)provider;
	if (out != NULL)
		*out = NULL;
	return twi_error(TOW_ENOTSUP, "libfabric: built without it (%s)", TWI_OFI_OFF);
}

void twi_ofi_domain_close(struct twi_ofi_domain *domain)
{
	(void)domain;
}

static int registrar_add(void *ctx, const struct twi_region *region)
{
	(void)ctx, (void)region;
	return twi_error(TOW_ENOTSUP, "libfabric: built without it (%s)", TWI_OFI_OFF);
}

static void registrar_remove(void *ctx, const struct twi_region *region)
{
	(void)ctx, (void)region;
}

struct fid_mr *twi_ofi_domain_mr(const struct twi_ofi_domain *domain,
				 const struct twi_region *region)
{
	(void)domain, (void)region;
	return NULL;
}

void twi_ofi_domain_describe(const struct twi_ofi_domain *domain, struct twi_emit *e)
{
	(void)domain, (void)e;
}

#endif

const struct twi_registrar twi_ofi_registrar = {
	.name = "libfabric",
	.add = registrar_add,
	.remove = registrar_remove,
};
