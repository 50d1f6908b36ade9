/*
 * plugin.c - what a runtime loads: a library linked to libtowline.so, and to nothing of jemalloc.
 */
#include <stdio.h>
#include <string.h>

#include <towline/towline.h>

#define PLUGIN __attribute__((visibility("default")))

PLUGIN int plugin_use(char *arena_out, size_t room);

static int report(const char *what, int status)
{
	if (status < 0)
		fprintf(stderr, "plugin: %s: %s: %s\n", what, tow_status_name(status),
			tow_error_message());
	return status < 0;
}

static int use(struct tow_runtime *runtime)
{
	static const size_t size[] = { 1, 100, 4096, 100000, 1 << 20 };
	void *p[sizeof(size) / sizeof(size[0])];

	for (size_t i = 0; i < sizeof(size) / sizeof(size[0]); i++) {
		if (report("alloc", tow_alloc(runtime, size[i], 0, &p[i])))
			return 1;
		memset(p[i], (int)i, size[i]);
	}
	for (size_t i = 0; i < sizeof(size) / sizeof(size[0]); i++)
		if (report("free", tow_free(runtime, p[i])))
			return 1;
	return 0;
}

/* Which arena does /v1/pool name? */
static int name_of_arena(struct tow_runtime *runtime, char *arena_out, size_t room)
{
	char *text, *at;
	int found = 0;

	if (report("/v1/pool", tow_stats_get(runtime, "/v1/pool", &text)))
		return 1;
	at = strstr(text, "\"arena\":");
	if (at != NULL && sscanf(at, "\"arena\": \"%15[a-z]", arena_out) == 1 && room > 15)
		found = 1;
	tow_stats_release(text);
	return !found;
}

/* Opens a runtime, allocates, frees, closes. 0, or 1 after saying what went wrong. */
int plugin_use(char *arena_out, size_t room)
{
	struct tow_options options = TOW_OPTIONS_INIT;
	struct tow_runtime *runtime;
	int failed;

	options.premap_memory_bytes = 8 << 20;
	options.job = "plugin";
	if (report("open", tow_runtime_open(&options, &runtime)))
		return 1;
	failed = use(runtime) || name_of_arena(runtime, arena_out, room);
	return report("close", tow_runtime_close(runtime)) || failed;
}
