/*
 * provider.c - scores the offers of providers (fabric.h), without calling libfabric; and finds out
 * whether this host has a device for one.
 */
#include <dirent.h>
#include <stdio.h>
#include <string.h>

#include <internal/base.h>

#include "transport/lanes/ofi/fabric.h"

/* Known providers by the core provider's name. The first row that fits counts. */
static const struct {
	const char *core;
	unsigned score;
	bool software;
	bool reads_in_order;
	bool prefers_tagged;
	bool driven;
	bool keeps_addresses;
	const char *what;
} known[] = {
	{ "efa", 90, false, false, false, false, false, "AWS's adapter" },
	{ "cxi", 90, false, false, false, false, false, "HPE Slingshot's adapter" },
	{ "opx", 85, false, false, false, false, false, "Cornelis Omni-Path" },
	{ "verbs", 80, false, false, false, false, false, "an RDMA adapter" },
	{ "psm3", 75, false, false, false, false, false, "an Ethernet or Omni-Path adapter" },
	{ "psm2", 70, false, false, false, false, false, "Omni-Path" },
	{ "net", 40, true, true, true, false, false, "TCP sockets" },
	{ "tcp", 35, true, true, true, false, false, "TCP sockets" },
	{ "shm", 30, true, true, false, false, true, "shared memory" },
	{ "sockets", 10, true, false, true, false, false, "TCP sockets and threads of its own" },
	{ "udp", 5, true, false, true, true, false, "UDP sockets" },
};

#define UNKNOWN_SCORE 50u

static size_t core_bytes(const char *provider)
{
	return strcspn(provider, ";");
}

static size_t row_of(const char *provider)
{
	size_t n = core_bytes(provider);

	for (size_t i = 0; i < twi_array_count(known); i++) {
		if (strlen(known[i].core) == n && strncmp(known[i].core, provider, n) == 0)
			return i;
	}
	return twi_array_count(known);
}

bool twi_ofi_provider_is(const char *provider, const char *wish)
{
	size_t n = core_bytes(provider);

	if (strcmp(provider, wish) == 0)
		return true;
	return strchr(wish, ';') == NULL && strlen(wish) == n && strncmp(provider, wish, n) == 0;
}

bool twi_ofi_is_software(const char *provider)
{
	size_t row = row_of(provider);

	return row < twi_array_count(known) && known[row].software;
}

bool twi_ofi_reads_in_order(const char *provider)
{
	size_t row = row_of(provider);

	return row < twi_array_count(known) && known[row].reads_in_order;
}

bool twi_ofi_prefers_tagged(const char *provider)
{
	size_t row = row_of(provider);

	return row < twi_array_count(known) && known[row].prefers_tagged;
}

bool twi_ofi_is_driven(const char *provider)
{
	size_t row = row_of(provider);

	return row < twi_array_count(known) && known[row].driven;
}

bool twi_ofi_keeps_addresses(const char *provider)
{
	size_t row = row_of(provider);

	return row < twi_array_count(known) && known[row].keeps_addresses;
}

/*
 * libfabric's shm passes what it can inject through its own queue, and copies the rest through the
 * other process's memory (0.8 us against 3.5). rxm has buffers of 16 KiB, and begins a rendezvous
 * of its own above that size.
 */
uint32_t twi_ofi_quick_bytes(const char *provider, uint64_t inject_bytes)
{
	const char *layer = strchr(provider, ';');

	if (layer != NULL && strcmp(layer, ";ofi_rxm") == 0)
		return 16384;
	if (twi_ofi_provider_is(provider, "shm") && inject_bytes >= 1024)
		return (uint32_t)twi_min(inject_bytes, 16384u);
	return 0;
}

/* Returns what makes an offer useless whatever its provider's name is, or NULL. */
static const char *why_unfit(const struct twi_ofi_offer *offer, const struct twi_ofi_bits *honoured)
{
	if (!offer->messages)
		return "it has no messages";
	if (!offer->ordered)
		return "it does not keep messages in order";
	if ((offer->mode & ~honoured->mode) != 0)
		return "it needs a mode that Towline does not support";
	if ((offer->mr_mode & ~honoured->mr_mode) != 0)
		return "it needs a kind of memory region that Towline does not support";
	if (offer->name_bytes > TWI_OFI_NAME_MAX)
		return "its addresses are too long for Towline's";
	if (offer->key_bytes > sizeof(uint64_t))
		return "its keys are longer than 64 bits";
	return NULL;
}

unsigned twi_ofi_judge(const struct twi_ofi_offer *offer, const struct twi_ofi_wish *wish,
		       const struct twi_ofi_bits *honoured, char *why, size_t why_bytes)
{
	const char *fault = why_unfit(offer, honoured);
	size_t row = row_of(offer->provider);
	bool named = wish->provider[0] != '\0';
	unsigned score = row < twi_array_count(known) ? known[row].score : UNKNOWN_SCORE;

	if (named && !twi_ofi_provider_is(offer->provider, wish->provider))
		fault = "another one was asked for";
	if (fault == NULL && !named && twi_ofi_is_software(offer->provider))
		fault = "Towline's own lanes do the same; name it in ofi_provider or the "
			"address to use it";
	if (fault != NULL) {
		snprintf(why, why_bytes, "not used: %s", fault);
		return 0;
	}
	score = score * 4 + (offer->read ? 2 : 0) + (offer->tagged ? 1 : 0);
	snprintf(why, why_bytes, "fit, rank %u: %s%s%s", score,
		 row < twi_array_count(known) ? known[row].what : "not known to Towline",
		 offer->read ? ", with remote reads" : ", without remote reads",
		 named ? ", asked for by name" : "");
	return score;
}

/* Prefixes of the device files that a process opens to use a fabric, by folder. */
static const struct {
	const char *folder, *prefix;
} devices[] = {
	{ "/infiniband", "uverbs" }, /* verbs, efa, usnic, psm3 */
	{ "", "hfi1_" },             /* opx, psm2 */
	{ "", "cxi" },
	{ "", "ipath" }, /* psm */
	{ "", "kgni" },
};

static bool has_entry(const char *folder, const char *prefix)
{
	DIR *dir = opendir(folder);
	const struct dirent *entry;
	bool found = false;

	while (dir != NULL && !found && (entry = readdir(dir)) != NULL)
		found = strncmp(entry->d_name, prefix, strlen(prefix)) == 0;
	if (dir != NULL)
		closedir(dir);
	return found;
}

bool twi_ofi_device_there(const char *dev)
{
	for (size_t i = 0; i < twi_array_count(devices); i++) {
		char folder[256];
		int n = snprintf(folder, sizeof(folder), "%s%s", dev, devices[i].folder);

		if (n > 0 && (size_t)n < sizeof(folder) && has_entry(folder, devices[i].prefix))
			return true;
	}
	return false;
}
