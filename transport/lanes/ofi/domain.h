/*
 * domain.h - a libfabric domain as a registrar of the pool: each region becomes a memory region of
 * the domain, once, with the descriptor that local operations name and the key that peers do.
 *
 *	region (slot, generation) --- fi_mr_reg ---> fid_mr: descriptor, key
 *
 * Providers that need no registration (tcp, shm of libfabric 1.17 without FI_MR_LOCAL) take it all
 * the same, for nothing; verbs, efa and the like pin here. Where memory regions must be bound to an
 * endpoint (FI_MR_ENDPOINT) the domain is told its endpoint before it becomes a registrar, and has
 * one only: the ofi lane makes a domain for each endpoint.
 *
 * add and remove come under the pool's control lock. Looking a region up is for the thread that
 * holds the engine, for a region that is held, which can therefore not go meanwhile.
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
 * Opens a domain of that provider ("tcp;ofi_rxm", "shm", "verbs;ofi_rxm", "efa"). TOW_OK;
 * TOW_EINVAL for NULL; TOW_ENOTSUP when the provider is not there or cannot be used, or when the
 * library was built without libfabric; TOW_ENOMEM; TOW_ESYSTEM.
 */
int twi_ofi_domain_open(const char *provider, struct twi_ofi_domain **out);

#ifdef TWI_HAVE_OFI
/* The same with a provider that was chosen (fabric.h); takes `info`, also when it fails. */
int twi_ofi_domain_create(struct fi_info *info, struct twi_ofi_domain **out);

struct fid_fabric *twi_ofi_domain_fabric(const struct twi_ofi_domain *domain);
struct fid_domain *twi_ofi_domain_fid(const struct twi_ofi_domain *domain);
struct fi_info *twi_ofi_domain_info(const struct twi_ofi_domain *domain);

/* Memory regions that are registered from now on are bound to `ep` where the provider asks it. */
void twi_ofi_domain_bind(struct twi_ofi_domain *domain, struct fid_ep *ep);
#endif

/* No region is registered any more (twi_pool_registrar_remove has returned). NULL is legal. */
void twi_ofi_domain_close(struct twi_ofi_domain *domain);

/* The registrar's table; its ctx is the domain. */
extern const struct twi_registrar twi_ofi_registrar;

/* The memory region of `region`, or NULL: the domain does not have it. */
struct fid_mr *twi_ofi_domain_mr(const struct twi_ofi_domain *domain,
				 const struct twi_region *region);

/* Members of the present object: provider, domain, what it asks of memory, what it has. */
void twi_ofi_domain_describe(const struct twi_ofi_domain *domain, struct twi_emit *e);

#endif
