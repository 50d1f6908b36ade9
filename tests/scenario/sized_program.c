/*
 * sized_program.c - a rank whose need of pool memory is the same each time: `sized_program KIND
 * FOLDER`, under towrun. reduces: buffers that an all-reduce averages; holds: what lives all along,
 * and one buffer that comes and goes; waves: it rises and falls.
 *
 * It is ready when FOLDER/ready.RANK is there, and leaves when FOLDER/leave is there. Then it
 * prints what its pool had no room for, and the most that was allocated.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <towline/towline.h>

#define LIMIT_NS UINT64_C(20000000000)
#define MIB      ((size_t)1 << 20)
#define LARGE    6
#define SMALL    24
#define HELD     12
#define WAVES    24

static void check(int status, const char *what)
{
	if (status >= 0)
		return;
	fprintf(stderr, "sized_program: %s: %s: %s\n", what, tow_status_name(status),
		tow_error_message());
	exit(EXIT_FAILURE);
}

static void nap_ms(long ms)
{
	nanosleep(&(struct timespec){ ms / 1000, ms % 1000 * 1000000 }, NULL);
}

static void *take(struct tow_runtime *runtime, size_t bytes)
{
	void *memory;

	check(tow_alloc(runtime, bytes, 0, &memory), "tow_alloc");
	memset(memory, 0, bytes);
	return memory;
}

static size_t bytes_of(int i)
{
	return i < LARGE ? 2 * MIB + (size_t)i * (64 << 10) : 4096;
}

static void reduce_once(struct tow_runtime *runtime, struct tow_group *group, uint64_t step)
{
	struct tow_op *op[LARGE + SMALL];
	void *memory[LARGE + SMALL];

	check(tow_step_begin(runtime, step), "tow_step_begin");
	for (int i = 0; i < LARGE + SMALL; i++)
		memory[i] = take(runtime, bytes_of(i));
	for (int i = 0; i < LARGE + SMALL; i++)
		check(tow_coll_all_reduce_start(group, memory[i], memory[i], bytes_of(i) / 4,
						TOW_F32, TOW_SUM, NULL, &op[i]),
		      "tow_coll_all_reduce_start");
	for (int i = 0; i < LARGE + SMALL; i++) {
		check(tow_op_wait(op[i], LIMIT_NS), "an all-reduce");
		tow_op_release(op[i]);
	}
	for (int i = 0; i < LARGE + SMALL; i++)
		check(tow_free(runtime, memory[i]), "tow_free");
	check(tow_step_end(runtime, step), "tow_step_end");
}

static void wave_once(struct tow_runtime *runtime)
{
	void *memory[WAVES];

	for (int i = 0; i < WAVES; i++) {
		memory[i] = take(runtime, MIB - 4096 + (size_t)i * 1000);
		nap_ms(2);
	}
	for (int i = WAVES - 1; i >= 0; i--) {
		check(tow_free(runtime, memory[i]), "tow_free");
		nap_ms(2);
	}
}

static void tell_ready(const char *folder, uint32_t rank)
{
	char path[512];
	FILE *file;

	snprintf(path, sizeof(path), "%s/ready.%u", folder, rank);
	file = fopen(path, "w");
	if (file == NULL || fclose(file) != 0)
		exit(EXIT_FAILURE);
}

static unsigned long long number(struct tow_runtime *runtime, const char *path, const char *name)
{
	unsigned long long value = 0;
	char key[64], *text;
	const char *at;

	check(tow_stats_get(runtime, path, &text), path);
	snprintf(key, sizeof(key), "\"%s\":", name);
	at = strstr(text, key);
	if (at == NULL || sscanf(at + strlen(key), "%llu", &value) != 1)
		exit(EXIT_FAILURE);
	tow_stats_release(text);
	return value;
}

int main(int argc, char **argv)
{
	struct tow_options options = TOW_OPTIONS_INIT;
	struct tow_runtime *runtime;
	struct tow_group *group;
	bool reduces, holds;
	char leave[512];

	if (argc != 3)
		return 2;
	reduces = strcmp(argv[1], "reduces") == 0;
	holds = strcmp(argv[1], "holds") == 0;
	snprintf(leave, sizeof(leave), "%s/leave", argv[2]);
	check(tow_runtime_open(&options, &runtime), "tow_runtime_open");
	check(tow_group_open(runtime, NULL, &group), "tow_group_open");
	for (int i = 0; holds && i < HELD; i++)
		(void)take(runtime, MIB); /* until the end */
	check(tow_runtime_seal(runtime), "tow_runtime_seal");
	for (uint64_t step = 0; reduces && step < 4; step++)
		reduce_once(runtime, group, step);
	tell_ready(argv[2], tow_group_rank(group));
	for (int i = 0; i < 3000 && access(leave, F_OK) != 0; i++) {
		if (holds)
			check(tow_free(runtime, take(runtime, MIB)), "tow_free");
		else if (!reduces)
			wave_once(runtime);
		nap_ms(10);
	}
	printf("late %llu refused %llu peak %llu\n",
	       number(runtime, "/v1/counters", "late_registrations"),
	       number(runtime, "/v1/counters", "pool_exhausted"),
	       number(runtime, "/v1/pool", "allocated_peak_bytes"));
	check(tow_group_barrier(group, LIMIT_NS), "tow_group_barrier");
	check(tow_group_close(group), "tow_group_close");
	return tow_runtime_close(runtime) < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
