/*
 * fabric.h - loads libfabric at its first use, and chooses among its providers.
 *
 *	fi_getinfo --> fi_info --(read_offer)--> twi_ofi_offer --(twi_ofi_judge)--> score, why
 *
 * An offer holds one entry of fi_getinfo in plain numbers. So the judgement is a pure function that
 * needs no library. Every candidate keeps a sentence that says why it was taken or not.
 *
 * libfabric is not linked, because it loads verbs and other libraries. Every process that uses
 * towline would load them at its start, which takes 0.2 s when they are not in the page cache
 * (measured). Once loaded, libfabric stays.
 */
#ifndef TWI_OFI_FABRIC_H
#define TWI_OFI_FABRIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <towline/endpoint.h>

#define TWI_OFI_PROVIDER_MAX 48
#define TWI_OFI_NAME_MAX     54 /* longest libfabric address that fits a text address */
#define TWI_OFI_CANDIDATES   48

/* One entry of fi_getinfo. */
struct twi_ofi_offer {
	char provider[TWI_OFI_PROVIDER_MAX];
	char domain[40];
	uint64_t mode;    /* what it requires, as FI_CONTEXT; unknown bits disqualify it */
	uint64_t mr_mode; /* the same for memory regions */
	uint64_t inject_bytes;
	uint64_t message_bytes_max;
	uint64_t name_bytes; /* of its addresses; 0: unknown */
	uint64_t key_bytes;
	bool messages, tagged, read, ordered, multi_recv, device_memory;
};

/* The provider and address that the user asks for. */
struct twi_ofi_wish {
	char provider[TWI_OFI_PROVIDER_MAX]; /* "": the best */
	char node[TOW_ADDRESS_MAX];          /* "": the provider chooses the address */
	char service[8];                     /* "": any port */
};

/* The modes that this lane supports, from libfabric's constants, or set by a test. */
struct twi_ofi_bits {
	uint64_t mode, mr_mode;
};

/*
 * Scores an offer: 0 if it cannot or must not be used, else a higher score is better. Writes the
 * reason to `why`, in one sentence.
 */
unsigned twi_ofi_judge(const struct twi_ofi_offer *offer, const struct twi_ofi_wish *wish,
		       const struct twi_ofi_bits *honoured, char *why, size_t why_bytes);

/* Returns whether the user's `wish` names `provider`: "tcp" is any stack on top of tcp. */
bool twi_ofi_provider_is(const char *provider, const char *wish);

/* Returns whether the provider uses the host's sockets or memory, as our own lanes do. */
bool twi_ofi_is_software(const char *provider);

/* Returns whether the reads of one peer are carried out in the order in which they were issued. */
bool twi_ofi_reads_in_order(const char *provider);

/* Returns whether a tagged send into the posted buffer is faster with this provider than a read. */
bool twi_ofi_prefers_tagged(const char *provider);

/* The size above which messages take a much slower path inside the provider; 0: there is none. */
uint32_t twi_ofi_quick_bytes(const char *provider, uint64_t inject_bytes);

/* Returns whether the provider sends again only when it is called, whatever its descriptor says. */
bool twi_ofi_is_driven(const char *provider);

/* Returns whether the provider loses packets when an address is removed that comes again. */
bool twi_ofi_keeps_addresses(const char *provider);

/*
 * Returns whether a directory like /dev has a device for a provider that is not software. libfabric
 * itself could tell only after it is loaded, with all its libraries.
 */
bool twi_ofi_device_there(const char *dev);

struct twi_ofi_candidate {
	struct twi_ofi_offer offer;
	unsigned score;
	bool taken;
	char why[160];
};

struct twi_ofi_candidates {
	unsigned count, left_out;
	struct twi_ofi_candidate entry[TWI_OFI_CANDIDATES];
};

#ifdef TWI_HAVE_OFI
#include <rdma/fabric.h>

/* Functions of the library itself. All others are reached through its objects. */
struct twi_fi {
	int (*getinfo)(uint32_t version, const char *node, const char *service, uint64_t flags,
		       const struct fi_info *hints, struct fi_info **info);
	struct fi_info *(*dupinfo)(const struct fi_info *info);
	void (*freeinfo)(struct fi_info *info);
	int (*fabric)(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context);
	const char *(*strerror)(int errnum);
};

extern struct twi_fi twi_fi;

#define TWI_FI_VERSION FI_VERSION(1, 17)

/* What this lane supports: context space, and memory regions with all of these requirements. */
#define TWI_FI_MODE (FI_CONTEXT | FI_CONTEXT2)
#define TWI_FI_MR_MODE                                                                             \
	(FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_ENDPOINT)

/* Turns the failure `err` (positive) of `what` into a status with its message. */
int twi_fi_error(int err, const char *what);

/*
 * Loads libfabric at the first call, asks it, judges, and takes the best provider. The caller frees
 * *info_out (twi_fi.freeinfo). Writes the candidates even when it takes none. Guarded (guard.h).
 * TOW_OK; TOW_ENOTSUP; TOW_ENOMEM; TOW_ESYSTEM.
 */
int twi_ofi_choose(const struct twi_ofi_wish *wish, struct twi_ofi_candidates *candidates,
		   struct fi_info **info_out);
#endif

#endif
