/*
 * test_site.c - places: the table against a shadow, threads and a reader beside them, a full table,
 * no memory for one, and the two documents made of it.
 */
#include "twt.h"

#include <jansson.h>
#include <pthread.h>
#include <string.h>

#include <towline/towline.h>

#include "diag/base/emit.h"
#include "diag/record/diag.h"
#include "diag/record/site_report.h"
#include "diag/serve/render.h"

static struct twi_diag *diag;
static const char places[4096]; /* for return addresses */

#ifndef TWT_SANITIZED
static _Atomic int refuse; /* so many calls of aligned_alloc */

void *aligned_alloc(size_t align, size_t bytes)
{
	void *memory;

	if (atomic_load(&refuse) > 0 && atomic_fetch_sub(&refuse, 1) > 0)
		return NULL;
	return posix_memalign(&memory, align, bytes) == 0 ? memory : NULL;
}
#endif

static int setup(void **state)
{
	(void)state;
	return twi_diag_create(&diag);
}

static int teardown(void **state)
{
	(void)state;
	twi_diag_destroy(diag);
	return 0;
}

static struct twi_site at(size_t place, uint32_t tag)
{
	return (struct twi_site){ .caller = &places[place], .tag = tag };
}

/* The row of that key, NULL when there is none; checks that there is only one. */
static const struct twi_site_sum *find(const struct twi_site_sum *rows, size_t count,
				       enum twi_reason reason, struct twi_site site, uint64_t bytes)
{
	const struct twi_site_sum *found = NULL;

	for (size_t i = 0; i < count; i++) {
		if (rows[i].other || rows[i].reason != reason ||
		    rows[i].site.caller != site.caller || rows[i].site.tag != site.tag ||
		    rows[i].size_class != twi_size_class(bytes))
			continue;
		assert_null(found);
		found = &rows[i];
	}
	return found;
}

/* What the places of a reason sum up to is what the reason has. */
static void check_sums(void)
{
	struct twi_site_sum *rows, sums[TWI_R_COUNT] = { 0 };
	size_t count;

	assert_int_equal(twi_site_sums(diag, &rows, &count), TOW_OK);
	for (size_t i = 0; i < count; i++) {
		struct twi_site_sum *sum = &sums[rows[i].reason];

		sum->count += rows[i].count;
		sum->bytes += rows[i].bytes;
		sum->ns += rows[i].ns;
		assert_true(rows[i].max_ns <= rows[i].ns);
		assert_true(rows[i].first_ns <= rows[i].last_ns);
	}
	free(rows);
	for (unsigned i = 0; i < TWI_R_COUNT; i++) {
		struct twi_reason_sum reason;

		twi_reason_sum(diag, i, &reason);
		assert_int_equal(sums[i].count, reason.count);
		assert_int_equal(sums[i].bytes, reason.bytes);
		assert_int_equal(sums[i].ns, reason.ns);
	}
}

#define SHADOW_PLACES 5
#define SHADOW_TAGS   3
static const uint64_t shadow_bytes[] = { 64, 65, 4096, 20u << 20 };
#define SHADOW_SIZES 4

struct shadow {
	uint64_t count, bytes, ns, max_ns;
};

/* Few enough keys that every one has a row, which is then exact. */
static void equals_shadow(void **state)
{
	static struct shadow shadow[TWI_R_COUNT][SHADOW_PLACES][SHADOW_TAGS][SHADOW_SIZES];
	static const enum twi_reason reasons[] = { TWI_R_unexpected_arrival, TWI_R_late_extent };
	uint64_t random = twt_seed();
	struct twi_site_sum *rows;
	size_t count;

	(void)state;
	for (unsigned i = 0; i < 200000; i++) {
		enum twi_reason reason = reasons[i % 2];
		size_t place = twt_random_below(&random, SHADOW_PLACES);
		uint32_t tag = (uint32_t)twt_random_below(&random, SHADOW_TAGS);
		size_t size = twt_random_below(&random, SHADOW_SIZES);
		uint64_t ns = twt_random_below(&random, 1000);
		struct shadow *at_key = &shadow[reason][place][tag][size];

		if (i % 2)
			twi_late_record(diag, reason, shadow_bytes[size], ns, at(place * 5, tag));
		else
			twi_copy_record(diag, reason, shadow_bytes[size], ns, at(place * 5, tag));
		at_key->count++;
		at_key->bytes += shadow_bytes[size];
		at_key->ns += ns;
		at_key->max_ns = ns > at_key->max_ns ? ns : at_key->max_ns;
	}
	assert_int_equal(twi_site_sums(diag, &rows, &count), TOW_OK);
	for (size_t i = 0; i < 2 * SHADOW_PLACES * SHADOW_TAGS * SHADOW_SIZES; i++) {
		size_t size = i % SHADOW_SIZES, place = i / (2 * SHADOW_SIZES * SHADOW_TAGS);
		uint32_t tag = i / SHADOW_SIZES % SHADOW_TAGS;
		enum twi_reason reason = reasons[i / (SHADOW_SIZES * SHADOW_TAGS) % 2];
		const struct shadow *want = &shadow[reason][place][tag][size];
		const struct twi_site_sum *got =
			find(rows, count, reason, at(place * 5, tag), shadow_bytes[size]);

		assert_non_null(got);
		assert_int_equal(got->count, want->count);
		assert_int_equal(got->bytes, want->bytes);
		assert_int_equal(got->ns, want->ns);
		assert_int_equal(got->max_ns, want->max_ns);
	}
	assert_int_equal(count, 2 * SHADOW_PLACES * SHADOW_TAGS * SHADOW_SIZES);
	free(rows);
	check_sums();
}

/* More places than there are rows: those have it that came first, the sums have all. */
static void full(void **state)
{
	struct twi_site_sum *rows;
	size_t count, others = 0;

	(void)state;
	for (size_t i = 0; i < 10 * TWI_SITE_ROWS; i++) {
		twi_copy_record(diag, TWI_R_unexpected_arrival, 8, 2, at(i, 0));
		twi_late_record(diag, TWI_R_late_extent, 4096, 5, at(i, 1));
	}
	twi_copy_record(diag, TWI_R_unexpected_arrival, 8, 1000, at(0, 0));
	assert_int_equal(twi_site_sums(diag, &rows, &count), TOW_OK);
	assert_true(count <= TWI_SITE_ROWS + TWI_R_COUNT);
	assert_true(count > TWI_SITE_ROWS / 2); /* hashing that clusters would leave it empty */
	for (size_t i = 0; i < count; i++)
		others += rows[i].other;
	assert_int_equal(others, 2); /* one for each reason */
	assert_int_equal(find(rows, count, TWI_R_unexpected_arrival, at(0, 0), 8)->count, 2);
	assert_int_equal(find(rows, count, TWI_R_unexpected_arrival, at(0, 0), 8)->max_ns, 1000);
	free(rows);
	check_sums();
}

#ifndef TWT_SANITIZED
/* Without memory for rows the place is lost and nothing else; later ones are kept again. */
static void no_memory(void **state)
{
	struct twi_site_sum *rows;
	size_t count;

	(void)state;
	twi_count(diag, TWI_C_sends, 1); /* this thread's block */
	atomic_store(&refuse, 1);
	twi_copy_record(diag, TWI_R_unregistered_send, 100, 7, at(1, 0));
	atomic_store(&refuse, 0);
	twi_copy_record(diag, TWI_R_unregistered_send, 100, 7, at(2, 0));
	assert_int_equal(twi_site_sums(diag, &rows, &count), TOW_OK);
	assert_int_equal(count, 2);
	assert_non_null(find(rows, count, TWI_R_unregistered_send, at(2, 0), 100));
	assert_null(find(rows, count, TWI_R_unregistered_send, at(1, 0), 100));
	free(rows);
	check_sums();
	assert_int_equal(twi_counter_sum(diag, TWI_C_fallback_copies), 2);
}
#endif

#define THREADS 8
#define EACH    20000
static _Atomic int stop;

static void *record(void *arg)
{
	size_t number = (size_t)(uintptr_t)arg;

	for (size_t i = 0; i < EACH; i++)
		twi_copy_record(diag, TWI_R_unexpected_arrival, 8, 1,
				at(i % 10, (uint32_t)(number % 2)));
	return NULL;
}

static void *read_sums(void *arg)
{
	uint64_t last = 0;

	while (!atomic_load(&stop)) {
		struct twi_site_sum *rows;
		uint64_t sum = 0;
		size_t count;

		if (twi_site_sums(diag, &rows, &count) < 0)
			*(int *)arg = 1;
		for (size_t i = 0; i < count; i++) {
			sum += rows[i].count;
			if (rows[i].other || rows[i].site.caller < (const void *)&places[0] ||
			    rows[i].site.caller >= (const void *)&places[10])
				*(int *)arg = 1;
		}
		free(rows);
		if (sum < last)
			*(int *)arg = 1;
		last = sum;
	}
	return NULL;
}

/* Threads that come and go, and a reader that never sees half a key or a sum that shrinks. */
static void threads(void **state)
{
	pthread_t writers[THREADS], reader;
	struct twi_site_sum *rows;
	int wrong = 0;
	size_t count;

	(void)state;
	atomic_store(&stop, 0);
	assert_int_equal(pthread_create(&reader, NULL, read_sums, &wrong), 0);
	for (int round = 0; round < 3; round++) {
		for (size_t i = 0; i < THREADS; i++)
			assert_int_equal(
				pthread_create(&writers[i], NULL, record, (void *)(uintptr_t)i), 0);
		for (size_t i = 0; i < THREADS; i++)
			pthread_join(writers[i], NULL);
	}
	atomic_store(&stop, 1);
	pthread_join(reader, NULL);
	assert_int_equal(wrong, 0);
	assert_int_equal(twi_site_sums(diag, &rows, &count), TOW_OK);
	assert_int_equal(count, 20);
	for (size_t i = 0; i < count; i++)
		assert_int_equal(rows[i].count, 3 * THREADS * EACH / 20);
	free(rows);
	check_sums();
}

static json_t *document(const char *path)
{
	struct twi_emit e;
	json_t *root;
	char *text;

	twi_emit_init(&e);
	assert_int_equal(twi_registry_render(diag, path, &e), TOW_OK);
	assert_int_equal(twi_emit_take(&e, &text), TOW_OK);
	root = json_loads(text, 0, NULL);
	assert_non_null(root);
	free(text);
	return root;
}

static const char *text_of(json_t *object, const char *key)
{
	return json_string_value(json_object_get(object, key));
}

static json_int_t number_of(json_t *object, const char *key)
{
	return json_integer_value(json_object_get(object, key));
}

/* A place that no module has is told by its address; the dearest comes first. */
static void copies(void **state)
{
	json_t *root, *site, *reason;

	(void)state;
	assert_int_equal(tow_tag_set("embedding"), TOW_OK);
	twi_copy_record(diag, TWI_R_unregistered_send, 1000, 30, TWI_SITE_NONE);
	twi_copy_record(diag, TWI_R_unregistered_send, 1ull << 30, 400000000,
			(struct twi_site){ (const void *)0x10, twi_tag_current });
	for (int i = 0; i < 1203; i++)
		twi_copy_record(diag, TWI_R_unregistered_send, 1ull << 20, 8312,
				(struct twi_site){ (const void *)0x10, twi_tag_current });
	twi_copy_record(diag, TWI_R_unexpected_arrival, 8, 40, TWI_SITE_NONE);
	twi_late_record(diag, TWI_R_late_extent, 1, 1, TWI_SITE_NONE);
	twi_count(diag, TWI_C_necessary_copies, 3);
	root = document("/v1/copies");
	assert_int_equal(number_of(json_object_get(root, "total"), "count"), 1206);
	assert_int_equal(number_of(json_object_get(root, "necessary"), "count"), 3);
	assert_int_equal(json_array_size(json_object_get(root, "reasons")), 2);
	reason = json_array_get(json_object_get(root, "reasons"), 0);
	assert_string_equal(text_of(reason, "name"), "unregistered_send");
	assert_int_equal(number_of(reason, "count"), 1205);
	assert_int_equal(number_of(root, "sites_known"), 3);
	site = json_array_get(json_object_get(root, "sites"), 0);
	assert_string_equal(text_of(site, "tag"), "embedding");
	assert_string_equal(text_of(site, "address"), "0x10");
	assert_true(json_is_null(json_object_get(site, "module")));
	assert_int_equal(number_of(site, "max_ns"), 400000000);
	assert_int_equal(number_of(site, "bytes_min"), (256 << 10) + 1);
	assert_true(json_is_null(json_object_get(site, "bytes_max")));
	assert_int_equal(json_array_size(json_object_get(site, "sizes")), 2);
	assert_string_equal(
		text_of(site, "text"),
		"1,204 copies, 2.2 GiB, 410 ms: send of unregistered memory from 0x10 "
		"(tag \"embedding\"), copied where memory of the pool would have been "
		"read in place; the input of a collective counts as a send; allocate it "
		"with tow_alloc; over a network tow_mem_register helps, too, but not between "
		"processes of one host, which share the pool alone");
	site = json_array_get(json_object_get(root, "sites"), 1);
	assert_true(json_is_null(json_object_get(site, "place")));
	assert_string_equal(text_of(site, "text"),
			    "1 copy, 8 B, 40 ns: a small message came before its receive was "
			    "posted, or its view found no room in the pool; it waited in a buffer "
			    "of the library; post receives before the peer sends; where the pool "
			    "is full (pool_exhausted), raise premap_memory_bytes, or release views "
			    "sooner");
	json_decref(root);
	assert_int_equal(tow_tag_set(NULL), TOW_OK);
}

static void registrations(void **state)
{
	json_t *root, *site;

	(void)state;
	root = document("/v1/registrations");
	assert_int_equal(json_array_size(json_object_get(root, "sites")), 0);
	assert_int_equal(json_array_size(json_object_get(root, "reasons")), 0);
	json_decref(root);
	for (size_t i = 0; i < 200; i++)
		twi_late_record(diag, TWI_R_late_user_memory, 4096, 100 + i,
				(struct twi_site){ (const void *)(i + 1), 0 });
	root = document("/v1/registrations");
	assert_int_equal(number_of(root, "sites_known") >= 100, 1);
	assert_int_equal(json_array_size(json_object_get(root, "sites")), TWI_SITES_SHOWN);
	for (size_t i = 1; i < TWI_SITES_SHOWN; i++) {
		site = json_array_get(json_object_get(root, "sites"), i - 1);
		assert_true(number_of(site, "ns") >=
			    number_of(json_array_get(json_object_get(root, "sites"), i), "ns"));
	}
	json_decref(root);
}

/* Every reason's sentence is one with and without a place, and whole. */
static void sentences(void **state)
{
	const struct twi_site_sum one = { .count = 1 }, most = { .count = UINT64_MAX,
								 .bytes = UINT64_MAX,
								 .ns = UINT64_MAX };
	char before[512], after[512], text[1024];

	(void)state;
	for (unsigned i = 0; i < TWI_R_COUNT; i++) {
		const struct twi_reason_info *info = twi_reason_describe(i);

		twi_site_sentence(i, &most, before, after, sizeof(before));
		snprintf(text, sizeof(text), "%s%s", before, after);
		assert_non_null(strstr(text, info->help));
		assert_non_null(strstr(text, info->cure));
		assert_int_equal(strcmp(text + strlen(text) - strlen(info->cure), info->cure), 0);
		twi_site_sentence(i, &one, before, after, sizeof(before));
		assert_true(strncmp(before, "1 copy, 0 B, 0 ns: ", 19) == 0 ||
			    strncmp(before, "1 late registration, 0 B, 0 ns: ", 32) == 0);
	}
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(equals_shadow), TEST(full),
#ifndef TWT_SANITIZED
		TEST(no_memory),
#endif
		TEST(threads),       TEST(copies), TEST(registrations), TEST(sentences),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
