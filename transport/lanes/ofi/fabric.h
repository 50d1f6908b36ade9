/*
 * fabric.h - libfabric, loaded when it is first asked for, and the choice among its providers.
 *
 *	fi_getinfo --> fi_info --(read_offer)--> twi_ofi_offer --(twi_ofi_judge)--> score, why
 *
 * An offer is what one entry of fi_getinfo says, in plain numbers, so that judging is a pure
 * function that needs no library. Every candidate keeps the sentence why it was taken or not.
 *
 * libfabric is not linked: every process that has towline would load the verbs and other libraries
 * behind it at its start (measured: 0.2 s when they are not in the page cache). Once loaded it
 * stays.
 */
#ifndef TWI_OFI_FABRIC_H
#define TWI_OFI_FABRIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <towline/endpoint.h>

#define TWI_OFI_PROVIDER_MAX 48
#define TWI_OFI_NAME_MAX     54 /* bytes of a libfabric address that fit a text address */
#define TWI_OFI_CANDIDATES   48

/* What one entry of fi_getinfo offers. */
struct twi_ofi_offer {
	char provider[TWI_OFI_PROVIDER_MAX];
	char domain[40];
	uint64_t mode;    /* what it asks of us, as FI_CONTEXT: bits that we do not know are bad */
	uint64_t mr_mode; /* likewise of memory regions */
	uint64_t inject_bytes;
	uint64_t message_bytes_max;
	uint64_t name_bytes; /* of its addresses; 0: it does not say */
	uint64_t key_bytes;
	bool messages, tagged, read, ordered, multi_recv, device_memory;
};

/* What is asked for. */
struct twi_ofi_wish {
	char provider[TWI_OFI_PROVIDER_MAX]; /* "": the best */
	char node[TOW_ADDRESS_MAX];          /* "": any address of the provider's choice */
	char service[8];                     /* "": any port */
};

/* What we honour; set by fabric.c from libfabric's constants, or by a test. */
struct twi_ofi_bits {
	uint64_t mode, mr_mode;
};

/*
 * How good an offer is: 0: it cannot or must not be used, else the higher the better. `why` says
 * it in one sentence.
 */
unsigned twi_ofi_judge(const struct twi_ofi_offer *offer, const struct twi_ofi_wish *wish,
		       const struct twi_ofi_bits *honoured, char *why, size_t why_bytes);

/* True when `provider` is what the user means by `wish`: "tcp" is any stack upon tcp. */
bool twi_ofi_provider_is(const char *provider, const char *wish);

/* The provider carries messages over the host's sockets or memory, as our own lanes do. */
bool twi_ofi_is_software(const char *provider);

/* True when reads of one peer are carried out in the order in which they were issued. */
bool twi_ofi_reads_in_order(const char *provider);

/* True when a tagged send into the posted buffer is quicker there than a read. */
bool twi_ofi_prefers_tagged(const char *provider);

/* Messages above this size take a much longer way inside the provider; 0: there is no such size. */
uint32_t twi_ofi_quick_bytes(const char *provider, uint64_t inject_bytes);

/* It sends again by itself only when it is called, whatever its descriptor says. */
bool twi_ofi_is_driven(const char *provider);

/*
 * True when a directory like /dev has a device that a provider other than the software ones could
 * use. libfabric itself would have to be loaded to say it, with all that is behind it.
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

/* Functions of the library itself; all others are reached through its objects. */
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

/* What we can live with: context space, and memory regions with every one of these habits. */
#define TWI_FI_MODE (FI_CONTEXT | FI_CONTEXT2)
#define TWI_FI_MR_MODE                                                                             \
	(FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_ENDPOINT)

/* The failure `err` (positive) of `what` as a status with its message. */
int twi_fi_error(int err, const char *what);

/*
 * Loads libfabric if that has not been done, asks it, judges, and takes the best: *info_out is the
 * caller's (twi_fi.freeinfo). The candidates are written whether or not one is taken. Guarded
 * (guard.h). TOW_OK; TOW_ENOTSUP; TOW_ENOMEM; TOW_ESYSTEM.
 */
int twi_ofi_choose(const struct twi_ofi_wish *wish, struct twi_ofi_candidates *candidates,
		   struct fi_info **info_out);
#endif

#endif
