/*
 * test_place.c - addresses become names: against dladdr, against the file of the module, at the
 * edges of notes that are cut or wrong, and where no module is.
 */
#include "twt.h"

#include <dlfcn.h>
#include <link.h>
#include <string.h>
#include <unistd.h>

#include "diag/base/place.h"

/* What offsets in a file are counted from: where it lies, or 0 for a program with a fixed place. */
static uintptr_t origin_of(const Dl_info *info)
{
	const ElfW(Ehdr) *head = info->dli_fbase;

	return head->e_type == ET_EXEC ? 0 : (uintptr_t)head;
}

/* Functions of libc, as dladdr names them: the same start, whichever of its names. */

static void functions(void **state)
{
	static const char *const names[] = { "getpid", "qsort",  "fclose", "pthread_create",
					     "malloc", "printf", "system", "setenv" };
	struct twi_place place;

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const char *start = dlsym(RTLD_DEFAULT, names[i]), *again;
		Dl_info info;

		assert_non_null(start);
		twi_place_find(start + 1, &place);
		assert_true(place.found);
		assert_true(dladdr(start, &info) != 0);
		assert_int_equal(place.module_offset, (uintptr_t)start + 1 - origin_of(&info));
		assert_int_equal(place.symbol_offset, 1);
		again = dlsym(RTLD_DEFAULT, place.symbol);
		assert_ptr_equal(again, start);
	}
}

/* A function of this program, which exports none: module and offset. */
static void this_program(void **state)
{
	char exe[256] = "", text[TWI_PLACE_TEXT_BYTES];
	const char *address = (const char *)(uintptr_t)&this_program + 4;
	struct twi_place place;

	(void)state;
	assert_true(readlink("/proc/self/exe", exe, sizeof(exe) - 1) > 0);
	twi_place_find(address, &place);
	assert_true(place.found);
	assert_string_equal(place.module, exe);
	twi_place_text(&place, text, sizeof(text));
	assert_non_null(strstr(text, strrchr(exe, '/') + 1));
	assert_true(strlen(place.build_id) == 0 || strlen(place.build_id) == 40);
}

/* The build-id that is mapped is the one in the file, which is read here by its section. */
static void build_id_of_file(void **state)
{
	struct twi_place place;
	char command[512], line[256] = "";
	FILE *pipe;

	(void)state;
	twi_place_find((const char *)(uintptr_t)&build_id_of_file + 4, &place);
	if (place.build_id[0] == '\0' || system("command -v readelf >/dev/null") != 0) {
		print_message("this program has no build-id, or there is no readelf\n");
		skip();
	}
	snprintf(command, sizeof(command), "readelf -n '%s' | grep 'Build ID'", place.module);
	pipe = popen(command, "r");
	assert_non_null(pipe);
	assert_non_null(fgets(line, sizeof(line), pipe));
	pclose(pipe);
	assert_non_null(strstr(line, place.build_id));
}

static void nowhere(void **state)
{
	static const char data; /* a module has it, no function does */
	char *heap = malloc(64), text[TWI_PLACE_TEXT_BYTES];
	struct twi_place place;

	(void)state;
	twi_place_find(NULL, &place);
	assert_false(place.found);
	twi_place_find((const void *)UINTPTR_MAX, &place);
	assert_false(place.found);
	twi_place_find((const void *)1, &place);
	assert_false(place.found);
	twi_place_find(heap, &place);
	assert_false(place.found);
	snprintf(text, sizeof(text), "0x%llx", (unsigned long long)(uintptr_t)heap);
	twi_place_text(&place, text + 32, sizeof(text) - 32);
	assert_string_equal(text + 32, text);
	twi_place_find(&data + 1, &place);
	assert_true(place.found);
	assert_string_equal(place.symbol, "");
	free(heap);
}

/* A note into `at`; its bytes. */
static size_t put_note(unsigned char *at, uint32_t type, const char *name, size_t name_bytes,
		       const char *text, size_t align)
{
	uint32_t head[3] = { (uint32_t)name_bytes, (uint32_t)strlen(text), type };
	size_t text_at = (sizeof(head) + name_bytes + align - 1) / align * align;

	memcpy(at, head, sizeof(head));
	memcpy(at + sizeof(head), name, name_bytes);
	memcpy(at + text_at, text, strlen(text));
	return (text_at + strlen(text) + align - 1) / align * align;
}

/* In memory of exactly that size, so that a sanitizer sees every byte read beyond it. */
static bool build_id(const unsigned char *notes, size_t bytes, size_t align, char out[65])
{
	unsigned char *copy = malloc(bytes > 0 ? bytes : 1);
	bool found;

	assert_non_null(copy);
	memcpy(copy, notes, bytes);
	found = twi_place_build_id(copy, bytes, align, out, 65);
	free(copy);
	return found;
}

static void notes(void **state)
{
	unsigned char buffer[512] = { 0 };
	char out[65];
	size_t used;

	(void)state;
	for (size_t align = 4; align <= 8; align += 4) {
		memset(buffer, 0, sizeof(buffer));
		used = put_note(buffer, NT_GNU_BUILD_ID, "XYZ", 4, "other", align);
		used += put_note(buffer + used, 1, "GNU", 4, "abi", align);
		used += put_note(buffer + used, NT_GNU_BUILD_ID, "GNU", 4, "\x01\xab\xff\x10",
				 align);
		assert_true(build_id(buffer, used, align, out));
		assert_string_equal(out, "01abff10");
		for (size_t cut = 0; cut < used; cut++) {
			bool whole = align == 8 && cut >= used - 4; /* only padding is missing */

			assert_int_equal(build_id(buffer, cut, align, out), whole);
		}
	}
	used = put_note(buffer, NT_GNU_BUILD_ID, "GNU", 4, "", 4);
	assert_false(build_id(buffer, used, 4, out)); /* empty */
	used = put_note(buffer, NT_GNU_BUILD_ID, "GNU", 4, "123456789012345678901234567890123", 4);
	assert_false(build_id(buffer, used, 4, out)); /* too long to print */
}

/* Any bytes: nothing is read beyond them. */
static void wild_notes(void **state)
{
	uint64_t random = twt_seed();
	unsigned found = 0;

	(void)state;
	for (int i = 0; i < 200000; i++) {
		unsigned char buffer[128] = { 0 };
		size_t used = put_note(buffer, NT_GNU_BUILD_ID, "GNU", 4, "0123456789", 4);
		char out[65];

		used += put_note(buffer + used, NT_GNU_BUILD_ID, "GNU", 4, "0123456789", 4);
		for (size_t hits = twt_random_below(&random, 4); hits > 0; hits--)
			buffer[twt_random_below(&random, used)] =
				(unsigned char)twt_random(&random);
		found += build_id(buffer, twt_random_below(&random, used + 1), twt_random(&random),
				  out);
	}
	assert_true(found > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(functions),
		cmocka_unit_test(this_program),
		cmocka_unit_test(build_id_of_file),
		cmocka_unit_test(nowhere),
		cmocka_unit_test(notes),
		cmocka_unit_test(wild_notes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
