/*
 * provider.c - which provider is how good: pure judgement of what fabric.h calls an offer.
 */
#include <stdio.h>
#include <string.h>

#include <internal/base.h>

#include "transport/ofi/fabric.h"

/* By the core provider's name; the first row that fits counts. */
static const struct {
	const char *core;
	unsigned score;
	bool software;
	bool reads_in_order;
	bool prefers_tagged;
	bool driven;
	const char *what;
} known[] = {
	{ "efa", 90, false, false, false, false, "AWS's adapter" },
	{ "cxi", 90, false, false, false, false, "HPE Slingshot's adapter" },
	{ "opx", 85, false, false, false, false, "Cornelis Omni-Path" },
	{ "verbs", 80, false, false, false, false, "an RDMA adapter" },
	{ "psm3", 75, false, false, false, false, "an Ethernet or Omni-Path adapter" },
	{ "psm2", 70, false, false, false, false, "Omni-Path" },
	{ "net", 40, true, true, true, false, "TCP sockets" },
	{ "tcp", 35, true, true, true, false, "TCP sockets" },
	{ "shm", 30, true, true, false, false, "shared memory" },
	{ "sockets", 10, true, false, true, false, "TCP sockets and threads of its own" },
	{ "udp", 5, true, false, true, true, "UDP sockets" },
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

/* What makes an offer useless whatever it is called; NULL: nothing. */
static const char *unfit(const struct twi_ofi_offer *offer, const struct twi_ofi_bits *honoured)
{
	if (!offer->messages)
		return "it has no messages";
	if (!offer->ordered)
		return "it does not keep messages in order";
	if ((offer->mode & ~honoured->mode) != 0)
		return "it asks for a mode that we do not know";
	if ((offer->mr_mode & ~honoured->mr_mode) != 0)
		return "it asks for a kind of memory region that we do not know";
	if (offer->name_bytes > TWI_OFI_NAME_MAX)
		return "its addresses are too long for ours";
	if (offer->key_bytes > sizeof(uint64_t))
		return "its keys are longer than 64 bits";
	return NULL;
}

unsigned twi_ofi_judge(const struct twi_ofi_offer *offer, const struct twi_ofi_wish *wish,
		       const struct twi_ofi_bits *honoured, char *why, size_t why_bytes)
{
	const char *fault = unfit(offer, honoured);
	size_t row = row_of(offer->provider);
	bool named = wish->provider[0] != '\0';
	unsigned score = row < twi_array_count(known) ? known[row].score : UNKNOWN_SCORE;

	if (named && !twi_ofi_provider_is(offer->provider, wish->provider))
		fault = "another one was asked for";
	if (fault == NULL && !named && twi_ofi_is_software(offer->provider))
		fault = "our own lanes do the same; name it in ofi_provider or the address to "
			"have it";
	if (fault != NULL) {
		snprintf(why, why_bytes, "not used: %s", fault);
		return 0;
	}
	score = score * 4 + (offer->read ? 2 : 0) + (offer->tagged ? 1 : 0);
	snprintf(why, why_bytes, "fit, rank %u: %s%s%s", score,
		 row < twi_array_count(known) ? known[row].what : "not known to us",
		 offer->read ? ", with remote reads" : ", without remote reads",
		 named ? ", asked for by name" : "");
	return score;
}
