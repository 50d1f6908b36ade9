/*
 * test_ofi_domain.c - a libfabric domain as a registrar: it learns and forgets what the pool has,
 * with libfabric's own tcp and shm providers.
 */
#include "twt.h"

#include <stdlib.h>
#include <string.h>

#include "diag/base/error.h"
#include "diag/record/diag.h"
#include "memreg/pool/pool.h"
#include "memreg/pool/pool_regions.h"
#include "transport/lanes/ofi/domain.h"
#include <towline/status.h>

#define MIB ((uint64_t)1 << 20)

static struct twi_diag *diag;
static struct twi_pool *pool;
static struct twi_ofi_domain *domain;

struct tally {
	unsigned known, unknown;
};

static void tally_region(void *arg, const struct twi_region *region)
{
	struct tally *tally = arg;

	if (twi_ofi_domain_mr(domain, region) != NULL)
		tally->known++;
	else
		tally->unknown++;
}

static struct tally count(void)
{
	struct tally tally = { 0 };

	twi_pool_regions_each(pool, tally_region, &tally);
	return tally;
}

static int setup(void **state)
{
	struct twi_pool_options options = {
		.bytes = 8 * MIB,
		.exhaust = TWI_EXHAUST_GROW,
	};

	(void)state;
	assert_int_equal(twi_diag_create(&diag), TOW_OK);
	options.diag = diag;
	assert_int_equal(twi_pool_create(&options, &pool), TOW_OK);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	twi_pool_destroy(pool);
	twi_diag_destroy(diag);
	return 0;
}

/* All of the pool, a grown extent, user memory, and all of it forgotten again. */
static void learns_and_forgets(const char *provider)
{
	void *user = aligned_alloc(4096, 2 * MIB), *block[3];
	uint64_t handle;
	int status = twi_ofi_domain_open(provider, &domain);

	if (status == TOW_ENOTSUP) {
		print_message("%s: %s\n", provider, tow_error_message());
		free(user);
		skip();
	}
	assert_int_equal(status, TOW_OK);
	assert_int_equal(count().known, 0);
	assert_int_equal(twi_pool_registrar_add(pool, &twi_ofi_registrar, domain), TOW_OK);
	assert_int_equal(count().known, 1);
	for (int i = 0; i < 3; i++)
		assert_int_equal(twi_pool_alloc(pool, 4 * MIB - 4096, 0, &block[i]), TOW_OK);
	assert_int_equal(twi_counter_sum(diag, TWI_C_pool_grown), 1);
	assert_int_equal(twi_pool_register(pool, user, 2 * MIB, TWI_SITE_NONE, &handle), TOW_OK);
	assert_int_equal(count().known, 3);
	assert_int_equal(count().unknown, 0);
	assert_int_equal(twi_pool_deregister(pool, handle), TOW_OK);
	assert_int_equal(count().known, 2);
	twi_pool_registrar_remove(pool, &twi_ofi_registrar, domain);
	assert_int_equal(count().known, 0);
	twi_ofi_domain_close(domain);
	for (int i = 0; i < 3; i++)
		assert_int_equal(twi_pool_free(pool, block[i]), TOW_OK);
	free(user);
}

static void tcp(void **state)
{
	(void)state;
	learns_and_forgets("tcp;ofi_rxm");
}

static void shm(void **state)
{
	(void)state;
	learns_and_forgets("shm");
}

static void no_such_provider(void **state)
{
	(void)state;
	assert_int_equal(twi_ofi_domain_open("carrier-pigeon", &domain), TOW_ENOTSUP);
	assert_null(domain);
	assert_non_null(strstr(tow_error_message(), "libfabric"));
	twi_ofi_domain_close(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(tcp, setup, teardown),
		cmocka_unit_test_setup_teardown(shm, setup, teardown),
		cmocka_unit_test_setup_teardown(no_such_provider, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
