/* fake_registrar.c - a registrar that counts, and fails when it is told to. */
#include "fake_registrar.h"

static pthread_mutex_t twt_fake_lock = PTHREAD_MUTEX_INITIALIZER;

static void twt_fake_broken(const char *what)
{
	fprintf(stderr, "fake registrar: %s\n", what);
	abort();
}

static int twt_fake_add(void *ctx, const struct twi_region *region)
{
	struct twt_fake *fake = ctx;
	struct timespec latency = { .tv_nsec = (long)fake->latency_ns };

	if (fake->latency_ns > 0)
		nanosleep(&latency, NULL);
	if (fake->fail_kind == 0 || (fake->fail_kind >> region->kind & 1)) {
		fake->calls++;
		if (fake->fail_at > 0 && (fake->calls == fake->fail_at ||
					  (fake->fail_all && fake->calls > fake->fail_at)))
			return twi_error(fake->fail_status ? fake->fail_status : TOW_ESYSTEM,
					 "fake fails");
	}
	pthread_mutex_lock(&twt_fake_lock);
	for (uint32_t i = region->slot; i < region->slot + region->slots; i++) {
		if (fake->table[i].generation != 0)
			twt_fake_broken("a slot is given twice");
		fake->table[i] = *region;
	}
	fake->adds++;
	fake->known++;
	fake->known_bytes += region->bytes;
	pthread_mutex_unlock(&twt_fake_lock);
	return TOW_OK;
}

static void twt_fake_remove(void *ctx, const struct twi_region *region)
{
	struct twt_fake *fake = ctx;

	pthread_mutex_lock(&twt_fake_lock);
	for (uint32_t i = region->slot; i < region->slot + region->slots; i++) {
		if (fake->table[i].generation != region->generation)
			twt_fake_broken("a region goes that has not come");
		fake->table[i].generation = 0;
	}
	fake->removes++;
	fake->known--;
	fake->known_bytes -= region->bytes;
	pthread_mutex_unlock(&twt_fake_lock);
}

const struct twi_registrar twt_fake_registrar = { "fake", twt_fake_add, twt_fake_remove };

bool twt_fake_knows(struct twt_fake *fake, const struct twi_region *region, const void *p,
		    uint64_t bytes)
{
	const struct twi_region *seen = &fake->table[region->slot];
	uint64_t offset = (uint64_t)((uintptr_t)p - (uintptr_t)region->base);
	bool known;

	pthread_mutex_lock(&twt_fake_lock);
	known = seen->generation == region->generation && seen->base == region->base &&
		offset < seen->bytes && bytes <= seen->bytes - offset;
	pthread_mutex_unlock(&twt_fake_lock);
	return known;
}

bool twt_fake_translate(struct twt_fake *fake, const void *p, uint64_t bytes)
{
	for (uint32_t i = 0; i < TWI_REGION_SLOTS; i++) {
		if (fake->table[i].generation != 0 &&
		    twt_fake_knows(fake, &fake->table[i], p, bytes))
			return true;
	}
	return false;
}
