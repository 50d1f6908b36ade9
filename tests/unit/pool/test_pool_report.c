/* test_pool_report.c - /v1/pool is JSON that tells page kind, registrations and late ones. */
#include "twt.h"

#include <jansson.h>

#include "diag/base/emit.h"
#include "diag/base/error.h"
#include "diag/record/diag.h"
#include "diag/serve/render.h"
#include "memreg/pool/pool.h"

static int yes(void *ctx, const struct twi_region *region)
{
	(void)region;
	return ctx != NULL ? TOW_OK : twi_error(TOW_EPERM, "may not");
}

static void forget(void *ctx, const struct twi_region *region)
{
	(void)ctx;
	(void)region;
}

static const struct twi_registrar early = { "early", yes, forget };
static const struct twi_registrar late = { "late", yes, forget };
static const struct twi_registrar refused = { "refused", yes, forget };

static json_t *report(struct twi_diag *diag)
{
	struct twi_emit e = { 0 };
	json_t *root;

	assert_int_equal(twi_registry_render(diag, "/v1/pool", &e), TOW_OK);
	root = json_loadb(e.text, e.bytes, 0, NULL);
	assert_non_null(root);
	free(e.text);
	return root;
}

static int64_t number(json_t *object, const char *key)
{
	assert_true(json_is_integer(json_object_get(object, key)));
	return json_integer_value(json_object_get(object, key));
}

static const char *text(json_t *object, const char *key)
{
	assert_true(json_is_string(json_object_get(object, key)));
	return json_string_value(json_object_get(object, key));
}

static void tells_all(void **state)
{
	struct twi_pool_options options = { .bytes = 4 << 20, .huge_pages = true };
	json_t *root, *extent, *registrar;
	struct twi_pool *pool;
	void *p;

	(void)state;
	assert_int_equal(twi_diag_create(&options.diag), TOW_OK);
	assert_int_equal(twi_pool_create(&options, &pool), TOW_OK);
	assert_int_equal(twi_pool_registrar_add(pool, &early, &options), TOW_OK);
	twi_pool_seal(pool);
	assert_int_equal(twi_pool_registrar_add(pool, &late, &options), TOW_OK);
	assert_int_equal(twi_pool_registrar_add(pool, &refused, NULL), TOW_OK);
	assert_int_equal(twi_pool_alloc(pool, 5000, 0, &p), TOW_OK);
	assert_int_equal(twi_pool_lease(pool, p), TOW_OK);
	root = report(options.diag);
	assert_int_equal(number(root, "asked_bytes"), 4 << 20);
	assert_int_equal(number(root, "allocated_bytes"), 8192);
	assert_int_equal(number(root, "waste_bytes"), 8192 - 5000);
	assert_int_equal(number(root, "leased_bytes"), 8192);
	assert_int_equal(number(root, "registered_bytes"), 0); /* one refused */
	extent = json_array_get(json_object_get(root, "extents"), 0);
	assert_int_equal(number(extent, "resident_bytes"), 4 << 20);
	assert_true(number(extent, "populate_ns") > 0);
	assert_true(*text(extent, "pages"));
	registrar = json_array_get(json_object_get(root, "registrars"), 0);
	assert_string_equal(text(registrar, "name"), "early");
	assert_false(json_is_true(json_object_get(registrar, "late")));
	registrar = json_array_get(json_object_get(root, "registrars"), 1);
	assert_true(json_is_true(json_object_get(registrar, "late")));
	assert_int_equal(number(registrar, "bytes"), 4 << 20);
	registrar = json_array_get(json_object_get(root, "registrars"), 2);
	assert_string_equal(text(registrar, "status"), "TOW_EPERM");
	assert_true(*text(registrar, "mend"));
	json_decref(root);
	twi_pool_release(pool, p);
	twi_pool_destroy(pool);
	twi_diag_destroy(options.diag);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(tells_all) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
