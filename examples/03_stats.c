/*
 * 03_stats.c - a program reads its own stats, and they tell what is wrong with it.
 *
 * The pool here is far too small on purpose. The failing call says how large it should have been,
 * and /v1/pool says it for the run as a whole. The same documents are on the stats socket of every
 * process that has a runtime:
 *
 *   curl --unix-socket SOCKET http://towline/v1/pool
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <towline/towline.h>

#define MIB      (1 << 20)
#define BUFFERS  12
#define POOL_MIB 8

static void check(int status, const char *what)
{
	if (status >= TOW_OK)
		return;
	fprintf(stderr, "%s: %s: %s\n", what, tow_status_name(status), tow_error_message());
	exit(EXIT_FAILURE);
}

/* The text is JSON; a real program would parse it. Here people do. */
static void show(struct tow_runtime *runtime, const char *path)
{
	char *text;

	check(tow_stats_get(runtime, path, &text), path);
	printf("%s\n%s\n\n", path, text);
	tow_stats_release(text);
}

/* Takes buffers from the pool, and from the heap when the pool has no more. */
static int take_buffers(struct tow_runtime *runtime, void **buffers)
{
	int from_heap = 0;

	for (int i = 0; i < BUFFERS; i++) {
		int status = tow_alloc(runtime, MIB, 0, &buffers[i]);

		if (status == TOW_OK)
			continue;
		if (status != TOW_EEXHAUSTED)
			check(status, "buffer");
		if (from_heap == 0) /* the message is this thread's; it names the cure */
			printf("the pool is full: %s\n\n", tow_error_message());
		buffers[i] = malloc(MIB);
		if (buffers[i] == NULL)
			exit(EXIT_FAILURE);
		from_heap++;
	}
	return from_heap;
}

int main(void)
{
	struct tow_options options = TOW_OPTIONS_INIT;
	struct tow_runtime *runtime;
	void *buffers[BUFFERS];
	int from_heap;

	options.premap_memory_bytes = POOL_MIB * MIB;
	options.exhaust = "fail"; /* the default, "grow", would register more: late, and counted */
	options.job = "example";  /* the stats socket is <stats_dir>/example.<rank>.sock */
	check(tow_runtime_open(&options, &runtime), "runtime");
	from_heap = take_buffers(runtime, buffers);
	show(runtime, "/v1/pool");
	show(runtime, "/v1/counters");
	printf("%d of %d buffers did not fit into %d MiB; look from outside with\n"
	       "  curl --unix-socket %s http://towline/v1/pool\n",
	       from_heap, BUFFERS, POOL_MIB, tow_stats_socket(runtime));
	for (int i = 0; i < BUFFERS; i++) {
		/* tow_free knows its own: any other pointer is refused and left as it is. */
		if (tow_free(runtime, buffers[i]) == TOW_EFOREIGN)
			free(buffers[i]);
	}
	check(tow_runtime_close(runtime), "close");
	return from_heap > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
