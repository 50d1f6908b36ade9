/*
 * domain.c - opening a libfabric domain, and the registrar's two functions. See domain.h.
 */
#include "transport/ofi/domain.h"

#include "diag/error.h"
#include <towline/status.h>

#ifdef TWI_HAVE_OFI

#include <dlfcn.h>
#include <pthread.h>
#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "diag/emit.h"

#define VERSION FI_VERSION(1, 17)
#define ACCESS  (FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE)
/* What we can live with: addresses for offsets, keys of the provider's, memory that is there. */
#define MR_MODES (FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY)

/*
 * libfabric is loaded when a domain is opened, and stays: linked to it, every process that has
 * towline would load the verbs and other libraries behind it at its start (measured: 0.2 s when
 * they are not in the page cache).
 */
static struct {
	int (*getinfo)(uint32_t version, const char *node, const char *service, uint64_t flags,
		       const struct fi_info *hints, struct fi_info **info);
	struct fi_info *(*dupinfo)(const struct fi_info *info);
	void (*freeinfo)(struct fi_info *info);
	int (*fabric)(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context);
	const char *(*strerror)(int errnum);
} fi;

static pthread_once_t loaded = PTHREAD_ONCE_INIT;
static char load_failure[256]; /* "": it is there */

static void load(void)
{
	static const struct {
		const char *name;
		void *place;
	} symbols[] = {
		{ "fi_getinfo", &fi.getinfo },   { "fi_dupinfo", &fi.dupinfo },
		{ "fi_freeinfo", &fi.freeinfo }, { "fi_fabric", &fi.fabric },
		{ "fi_strerror", &fi.strerror },
	};
	void *library = dlopen("libfabric.so.1", RTLD_NOW | RTLD_LOCAL);

	if (library == NULL) {
		snprintf(load_failure, sizeof(load_failure), "%s", dlerror());
		return;
	}
	for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
		void *found = dlsym(library, symbols[i].name);

		if (found == NULL)
			snprintf(load_failure, sizeof(load_failure), "it has no %s",
				 symbols[i].name);
		/* POSIX has it that a pointer from dlsym fits a function pointer. */
		*(void **)symbols[i].place = found;
	}
}

struct twi_ofi_domain {
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct {
		struct fid_mr *mr;
		_Atomic uint64_t generation; /* 0: none */
	} entry[TWI_REGION_SLOTS];           /* by a region's first slot */
	_Atomic uint64_t regions, bytes;
};

static int ofi_error(int err, const char *what)
{
	int status = err == FI_ENOMEM                                                ? TOW_ENOMEM
		     : err == FI_EPERM || err == FI_EACCES                           ? TOW_EPERM
		     : err == FI_ENODATA || err == FI_ENOSYS || err == FI_EOPNOTSUPP ? TOW_ENOTSUP
										     : TOW_ESYSTEM;

	return twi_error(status, "libfabric: %s: %s", what, fi.strerror(err));
}

static int find_provider(const char *provider, struct fi_info **info_out)
{
	struct fi_info *hints = fi.dupinfo(NULL);
	char what[128];
	int err;

	if (hints == NULL)
		return twi_error(TOW_ENOMEM, "libfabric: no memory for hints");
	hints->ep_attr->type = FI_EP_RDM;
	hints->caps = FI_TAGGED | FI_MSG | FI_RMA;
	hints->domain_attr->mr_mode = MR_MODES;
	hints->fabric_attr->prov_name = strdup(provider); /* fi_freeinfo frees it */
	err = hints->fabric_attr->prov_name == NULL
		      ? FI_ENOMEM
		      : -fi.getinfo(VERSION, NULL, NULL, 0, hints, info_out);
	fi.freeinfo(hints);
	snprintf(what, sizeof(what), "provider %.64s with tagged messages and RMA", provider);
	return err == 0 ? TOW_OK : ofi_error(err, what);
}

int twi_ofi_domain_open(const char *provider, struct twi_ofi_domain **out)
{
	struct twi_ofi_domain *domain;
	int status, err;

	if (provider == NULL || out == NULL)
		return twi_error(TOW_EINVAL, "libfabric: provider or out is NULL");
	*out = NULL;
	pthread_once(&loaded, load);
	if (load_failure[0] != '\0')
		return twi_error(TOW_ENOTSUP, "libfabric: cannot be loaded: %s", load_failure);
	domain = calloc(1, sizeof(*domain));
	if (domain == NULL)
		return twi_error(TOW_ENOMEM, "libfabric: no memory for a domain");
	status = find_provider(provider, &domain->info);
	if (status < 0)
		goto failed;
	err = -fi.fabric(domain->info->fabric_attr, &domain->fabric, NULL);
	if (err != 0) {
		status = ofi_error(err, "fi_fabric");
		goto failed;
	}
	err = -fi_domain(domain->fabric, domain->info, &domain->domain, NULL);
	if (err != 0) {
		status = ofi_error(err, "fi_domain");
		goto failed;
	}
	*out = domain;
	return TOW_OK;
failed:
	twi_ofi_domain_close(domain);
	return status;
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
		fi.freeinfo(domain->info);
	free(domain);
}

static int registrar_add(void *ctx, const struct twi_region *region)
{
	struct twi_ofi_domain *domain = ctx;
	struct fid_mr *mr;
	/* The key that is asked for counts only where the provider does not choose it itself. */
	int err = -fi_mr_reg(domain->domain, region->base, region->bytes, ACCESS, 0,
			     region->generation, 0, &mr, NULL);

	if (err != 0)
		return ofi_error(err, "fi_mr_reg");
	domain->entry[region->slot].mr = mr;
	atomic_fetch_add_explicit(&domain->regions, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&domain->bytes, region->bytes, memory_order_relaxed);
	/* Release: pairs with the acquire of twi_ofi_domain_mr. */
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
