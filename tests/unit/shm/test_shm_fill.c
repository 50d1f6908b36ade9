/*
 * test_shm_fill.c - how many page tables of others' pools a process fills as it connects: of
 * extents that are not too large, up to a total of all of them, which ends with the mappings.
 */
#include "twt.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "transport/lanes/shm/shm.h"
#include "transport/lanes/shm/shm_extent.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif

#define GIB (1ull << 30)

static struct twi_list known;
static uint64_t filled; /* bytes, by calls of madvise, which are not carried out */

int madvise(void *at, size_t bytes, int advice)
{
	if (advice != MADV_POPULATE_READ)
		return (int)syscall(SYS_madvise, at, bytes, advice);
	filled += bytes;
	return 0;
}

/* Maps an extent of another process, which has no memory yet. Returns what that has filled. */
static uint64_t get(uint64_t bytes, struct twi_shm_extent **extent)
{
	uint64_t before = filled;
	int fd = memfd_create("extent", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
	assert_int_equal(twi_shm_extent_get(&known, fd, bytes, extent), TOW_OK);
	(*extent)->window_fd = fd; /* its own from now on */
	return filled - before;
}

static uint64_t open_window(struct twi_shm_extent *extent)
{
	uint64_t before = filled;

	assert_int_equal(twi_shm_extent_open(extent), TOW_OK);
	return filled - before;
}

static void one_peer_is_filled_whole(void **state)
{
	struct twi_shm_extent *extent;

	(void)state;
	assert_int_equal(get(TWI_SHM_POPULATE_MAX, &extent), TWI_SHM_POPULATE_MAX);
	assert_int_equal(open_window(extent), TWI_SHM_POPULATE_MAX);
	assert_int_equal(open_window(extent), 0);
	twi_shm_extent_put(extent);
}

static void one_too_large_is_not(void **state)
{
	struct twi_shm_extent *extent;

	(void)state;
	assert_int_equal(get(TWI_SHM_POPULATE_MAX + 4096, &extent), 0);
	assert_int_equal(open_window(extent), 0);
	twi_shm_extent_put(extent);
}

/* Mappings come and go at random: each is filled where the total has room for it. */
static void the_total_has_a_bound(void **state)
{
	struct twi_shm_extent *extents[24] = { NULL };
	uint64_t seed = twt_seed(), held[24] = { 0 }, total = 0, most = 0;

	(void)state;
	for (unsigned i = 0; i < 500; i++) {
		unsigned n = (unsigned)twt_random_below(&seed, 24);
		uint64_t bytes = (1 + twt_random_below(&seed, 8)) * (GIB / 8), got;
		bool room;

		if (extents[n] != NULL && extents[n]->window == NULL) {
			bytes = extents[n]->bytes;
			room = total + bytes <= TWI_SHM_POPULATE_TOTAL;
			got = open_window(extents[n]);
		} else if (extents[n] != NULL) {
			twi_shm_extent_put(extents[n]);
			extents[n] = NULL;
			total -= held[n];
			held[n] = 0;
			continue;
		} else {
			room = total + bytes <= TWI_SHM_POPULATE_TOTAL;
			got = get(bytes, &extents[n]);
		}
		assert_int_equal(got, room ? bytes : 0);
		held[n] += got;
		total += got;
		most = total > most ? total : most;
	}
	assert_true(most > TWI_SHM_POPULATE_TOTAL - GIB);
	for (unsigned n = 0; n < 24; n++)
		if (extents[n] != NULL)
			twi_shm_extent_put(extents[n]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_peer_is_filled_whole),
		cmocka_unit_test(one_too_large_is_not),
		cmocka_unit_test(the_total_has_a_bound),
		/* Nothing of it is left. */
		cmocka_unit_test(one_peer_is_filled_whole),
	};

	twi_list_init(&known);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
