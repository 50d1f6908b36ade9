/*
 * domain.h - a libfabric domain as a registrar of the pool. Each region becomes one memory region
 * of the domain, with a descriptor for local operations and a key for peers.
 *
 *	region (slot, generation) --- fi_mr_reg ---> fid_mr: descriptor, key
 *
 * Providers that need no registration (tcp, shm of libfabric 1.17 without FI_MR_LOCAL) accept one
 * at no cost. Others, such as verbs and efa, pin the memory here. Some require that memory regions
 * are bound to an endpoint (FI_MR_ENDPOINT). The domain therefore gets its endpoint before it
 * becomes a registrar, and has only one: the ofi lane makes a domain for each endpoint.
 *
 * The pool calls add and remove under its control lock. The thread that holds the engine looks up a
 * region. The region is leased, so it cannot disappear meanwhile.
 */
#ifndef TWI_OFI_DOMAIN_H
#define TWI_OFI_DOMAIN_H

#include <stdint.h>

#include "memreg/region/registrar.h"

struct fi_info;
struct fid_domain;
struct fid_ep;
struct fid_fabric;
struct fid_mr;
struct twi_emit;
struct twi_ofi_domain;

/*
 * Opens a domain of that provider ("tcp;ofi_rxm", "shm", "verbs;ofi_rxm", "efa"). Returns TOW_OK;
 * TOW_EINVAL for NULL; TOW_ENOTSUP if the provider is missing or unusable, or if the library was
 * built without libfabric; TOW_ENOMEM; TOW_ESYSTEM.
 */
int twi_ofi_domain_open(const char *provider, struct twi_ofi_domain **out);

#ifdef TWI_HAVE_OFI
/* The same for a provider that was chosen (fabric.h). Takes `info`, even when it fails. */
int twi_ofi_domain_create(struct fi_info *info, struct twi_ofi_domain **out);

struct fid_fabric *twi_ofi_domain_fabric(const struct twi_ofi_domain *domain);
struct fid_domain *twi_ofi_domain_fid(const struct twi_ofi_domain *domain);
struct fi_info *twi_ofi_domain_info(const struct twi_ofi_domain *domain);

/* Memory regions registered from now on are bound to `ep` if the provider requires it. */
void twi_ofi_domain_bind(struct twi_ofi_domain *domain, struct fid_ep *ep);
#endif

/*
 * Closes the domain. No region is registered any more, because twi_pool_registrar_remove has
 * returned. NULL is legal.
 */
void twi_ofi_domain_close(struct twi_ofi_domain *domain);

/* The registrar's table; its ctx is the domain. */
extern const struct twi_registrar twi_ofi_registrar;

/* The memory region of `region`, or NULL if the domain has none. */
struct fid_mr *twi_ofi_domain_mr(const struct twi_ofi_domain *domain,
				 const struct twi_region *region);

/* Writes members of the current object: provider, domain, demands on memory, and regions. */
void twi_ofi_domain_describe(const struct twi_ofi_domain *domain, struct twi_emit *e);

#endif
