/*
 * malloc_program.c - what test_malloc runs with the preload: an ordinary program that allocates in
 * every way there is, from several threads, across forks and runtimes. Its argument names the part;
 * it says what is wrong and ends with 1.
 */
#include "malloc_program.h"

#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define LEAST   ((size_t)128 << 10) /* the knob's default */
#define THREADS 8
#define STEPS   4000
#define SLOTS   64

struct tow_runtime *runtime;
static volatile size_t huge = SIZE_MAX / 2; /* the compiler is not to know it */

void open_runtime(void)
{
	struct tow_options options = TOW_OPTIONS_INIT;

	options.premap_memory_bytes = 64 << 20;
	TWT_MUST(tow_runtime_open(&options, &runtime) == TOW_OK);
}

void close_runtime(void)
{
	TWT_MUST(tow_runtime_close(runtime) == TOW_OK);
	runtime = NULL;
}

/* A number of a document of the runtime's. */
static uint64_t number_of(const char *path, const char *name)
{
	char key[80], *text, *at;
	uint64_t number;

	snprintf(key, sizeof(key), "\"%s\":", name);
	TWT_MUST(tow_stats_get(runtime, path, &text) == TOW_OK);
	at = strstr(text, key);
	TWT_MUST(at != NULL);
	number = strtoull(at + strlen(key), NULL, 10);
	tow_stats_release(text);
	return number;
}

static uint64_t counter(const char *name)
{
	char *text, *at;
	char key[80];
	uint64_t number;

	snprintf(key, sizeof(key), "towline_%s_total", name);
	TWT_MUST(tow_stats_get(runtime, "/metrics", &text) == TOW_OK);
	for (at = strstr(text, key); at != NULL && at != text && at[-1] != '\n';)
		at = strstr(at + 1, key);
	TWT_MUST(at != NULL);
	number = strtoull(strchr(at, ' '), NULL, 10);
	tow_stats_release(text);
	return number;
}

bool is_placed(const void *memory)
{
	return towline_malloc_placed(memory) > 0;
}

/* --- every call of the family --- */

static void family(void)
{
	char *before = malloc(MIB), *a, *b;
	void *p = NULL;

	TWT_MUST(before != NULL && !is_placed(before));
	memset(before, 1, MIB);
	open_runtime();
	a = malloc(MIB);
	TWT_MUST(a != NULL && is_placed(a) && malloc_usable_size(a) >= MIB);
	memset(a, 2, MIB);
	b = malloc(LEAST - 1);
	TWT_MUST(b != NULL && !is_placed(b));
	free(b);
	free(a);
	a = calloc(LEAST, 3); /* where the other has been */
	TWT_MUST(a != NULL && is_placed(a));
	for (size_t i = 0; i < 3 * LEAST; i++)
		TWT_MUST(a[i] == 0);
	free(a);
	TWT_MUST(calloc(huge, 3) == NULL && errno == ENOMEM);
	TWT_MUST(reallocarray(NULL, huge, 3) == NULL && errno == ENOMEM);
	TWT_MUST(malloc(huge + 1) == NULL);
	for (size_t align = 16; align <= 8 * MIB; align *= 2) {
		TWT_MUST(posix_memalign(&p, align, MIB) == 0);
		TWT_MUST((uintptr_t)p % align == 0 && is_placed(p) == (align <= 2 * MIB));
		memset(p, 3, MIB);
		free(p);
		p = aligned_alloc(align, align > MIB ? align : MIB);
		TWT_MUST(p != NULL && (uintptr_t)p % align == 0);
		free(p);
		p = memalign(align, MIB);
		TWT_MUST(p != NULL && (uintptr_t)p % align == 0);
		free(p);
	}
	TWT_MUST(posix_memalign(&p, 24, MIB) == EINVAL);
	p = valloc(MIB);
	TWT_MUST(p != NULL && is_placed(p) && (uintptr_t)p % 4096 == 0);
	free(p);
	p = pvalloc(MIB + 1);
	TWT_MUST(p != NULL && malloc_usable_size(p) >= MIB + 4096);
	free(p);
	free(NULL);
	free(before);
	errno = 77;
	a = malloc(MIB);
	free(a);
	TWT_MUST(errno == 77);
	TWT_MUST(number_of("/v1/pool", "placed_bytes") == 0);
	TWT_MUST(counter("placed_allocs") > 20 && counter("placed_alloc_bytes") > 20 * MIB);
}

static void check_bytes(const unsigned char *at, size_t bytes, unsigned seed)
{
	for (size_t i = 0; i < bytes; i += 509)
		TWT_MUST(at[i] == (unsigned char)(seed + i));
	TWT_MUST(bytes == 0 || at[bytes - 1] == (unsigned char)(seed + bytes - 1));
}

static void fill_bytes(unsigned char *at, size_t bytes, unsigned seed)
{
	for (size_t i = 0; i < bytes; i += 509)
		at[i] = (unsigned char)(seed + i);
	if (bytes > 0)
		at[bytes - 1] = (unsigned char)(seed + bytes - 1);
}

/* From small to placed, longer, shorter, and back. */
static void resizes(void)
{
	static const size_t sizes[] = { 10,          LEAST - 1, LEAST,       LEAST + 1, 3 * MIB,
					3 * MIB + 5, 2 * MIB,   2 * MIB - 1, 900000,    5000 };
	unsigned char *a = NULL;
	size_t was = 0;

	open_runtime();
	for (int round = 0; round < 3; round++) {
		for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
			a = realloc(a, sizes[i]);
			TWT_MUST(a != NULL && malloc_usable_size(a) >= sizes[i]);
			for (size_t k = 0; k < was && k < sizes[i]; k += 509)
				TWT_MUST(a[k] == (unsigned char)(was + k));
			fill_bytes(a, sizes[i], (unsigned)sizes[i]);
			was = sizes[i];
		}
	}
	a = realloc(a, MIB);
	TWT_MUST(is_placed(a));
	a = realloc(a, 100); /* not a MiB of the pool for 100 bytes */
	TWT_MUST(!is_placed(a));
	a = realloc(a, MIB);
	TWT_MUST(is_placed(a) && realloc(a, 0) == NULL);
	TWT_MUST(number_of("/v1/pool", "placed_bytes") == 0);
}

/* --- threads --- */

static _Atomic(unsigned char *) slot[SLOTS];

static uint64_t next_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

/* A block begins with its length and ends with its seed's bytes: whoever takes it knows it. */
static unsigned char *new_block(uint64_t *state)
{
	size_t bytes = 64 + next_random(state) % (next_random(state) % 4 == 0 ? 4 * LEAST : 4000);
	unsigned char *at = next_random(state) % 2 == 0 ? malloc(bytes) : calloc(1, bytes);

	TWT_MUST(at != NULL);
	memcpy(at, &bytes, sizeof(bytes));
	fill_bytes(at + 16, bytes - 16, (unsigned)bytes);
	return at;
}

static void end_block(unsigned char *at, uint64_t *state)
{
	size_t bytes;

	if (at == NULL)
		return;
	memcpy(&bytes, at, sizeof(bytes));
	check_bytes(at + 16, bytes - 16, (unsigned)bytes);
	if (next_random(state) % 8 == 0) {
		at = realloc(at, 2 * bytes);
		TWT_MUST(at != NULL);
		check_bytes(at + 16, bytes - 16, (unsigned)bytes);
	}
	free(at);
}

static void *churn(void *arg)
{
	uint64_t state = (uint64_t)(uintptr_t)arg * 0x9e3779b97f4a7c15u + 1;

	for (int i = 0; i < STEPS; i++)
		end_block(atomic_exchange(&slot[next_random(&state) % SLOTS], new_block(&state)),
			  &state);
	return NULL;
}

static void run_threads(uint64_t seed, void *(*run)(void *))
{
	pthread_t thread[THREADS];

	for (uintptr_t i = 0; i < THREADS; i++)
		TWT_MUST(pthread_create(&thread[i], NULL, run, (void *)(seed + i)) == 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
}

static void empty_slots(void)
{
	uint64_t state = 1;

	for (int i = 0; i < SLOTS; i++)
		end_block(atomic_exchange(&slot[i], NULL), &state);
}

static void threads(uint64_t seed)
{
	open_runtime();
	run_threads(seed, churn);
	TWT_MUST(counter("placed_allocs") > 100);
	empty_slots();
	TWT_MUST(number_of("/v1/pool", "placed_bytes") == 0);
}

/* Runtimes come and go while threads allocate and free what was placed in any of them. */
static void runtimes(uint64_t seed)
{
	pthread_t thread[THREADS];

	for (uintptr_t i = 0; i < THREADS; i++)
		TWT_MUST(pthread_create(&thread[i], NULL, churn, (void *)(seed + i)) == 0);
	for (int i = 0; i < 5; i++) {
		open_runtime();
		usleep(20000);
		close_runtime();
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	empty_slots();
}

/* What was placed outlives its runtime. */
static void outlives(void)
{
	unsigned char *a, *b;

	open_runtime();
	a = malloc(MIB);
	b = malloc(MIB);
	TWT_MUST(is_placed(a) && is_placed(b));
	fill_bytes(a, MIB, 5);
	close_runtime();
	check_bytes(a, MIB, 5);
	free(b);
	b = malloc(MIB);
	TWT_MUST(b != NULL && !is_placed(b));
	open_runtime();
	a = realloc(a, 4 * MIB);
	check_bytes(a, MIB, 5);
	TWT_MUST(is_placed(a) && number_of("/v1/pool", "placed_bytes") >= 4 * MIB);
	free(a);
	free(b);
	TWT_MUST(number_of("/v1/pool", "placed_bytes") == 0);
}

/* Two plugins share a runtime, as they would without the preload. */
static void shares(void)
{
	struct tow_runtime *other;
	void *a, *b;

	TWT_MUST(tow_runtime_share(NULL, &runtime) == TOW_OK);
	a = malloc(MIB);
	TWT_MUST(is_placed(a));
	TWT_MUST(tow_runtime_share(NULL, &other) == TOW_OK && other == runtime);
	TWT_MUST(tow_runtime_close(other) == TOW_OK);
	b = malloc(MIB);
	TWT_MUST(is_placed(b));
	close_runtime();
	memset(a, 1, MIB);
	free(a);
	a = malloc(MIB);
	TWT_MUST(a != NULL && !is_placed(a));
	free(a);
	free(b);
}

/* --- forks --- */

static void wait_child(pid_t child)
{
	int status;

	TWT_MUST(child > 0 && waitpid(child, &status, 0) == child);
	TWT_MUST(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void in_child(unsigned char *a, unsigned char *b, bool again)
{
	unsigned char *c;

	check_bytes(a, MIB, 1);
	check_bytes(b, 3 * MIB, 2);
	fill_bytes(a, MIB, 9); /* its parent does not see that */
	if (again) {
		pid_t child = fork();

		if (child == 0) {
			check_bytes(a, MIB, 9);
			free(a);
			_exit(0);
		}
		wait_child(child);
	}
	check_bytes(a, MIB, 9);
	c = realloc(b, 5 * MIB);
	check_bytes(c, 3 * MIB, 2);
	c = calloc(1, 2 * MIB);
	TWT_MUST(c != NULL && !is_placed(c));
	free(c);
	free(a);
	a = malloc(MIB);
	TWT_MUST(a != NULL);
	memset(a, 0, MIB);
	free(a);
	_exit(0);
}

static void forks(uint64_t seed)
{
	pthread_t thread;
	unsigned char *a, *b;

	open_runtime();
	a = malloc(MIB);
	b = malloc(3 * MIB);
	TWT_MUST(is_placed(a) && is_placed(b));
	fill_bytes(a, MIB, 1);
	fill_bytes(b, 3 * MIB, 2);
	TWT_MUST(pthread_create(&thread, NULL, churn, (void *)(uintptr_t)seed) == 0);
	for (int i = 0; i < 10; i++) {
		pid_t child = fork();

		if (child == 0)
			in_child(a, b, i % 2 == 0);
		wait_child(child);
		check_bytes(a, MIB, 1);
	}
	pthread_join(thread, NULL);
	free(a);
	free(b);
	empty_slots();
	TWT_MUST(number_of("/v1/pool", "placed_bytes") == 0);
}

static size_t mapped_bytes(void)
{
	FILE *file = fopen("/proc/self/statm", "r");
	size_t pages = 0;

	TWT_MUST(file != NULL && fscanf(file, "%zu", &pages) == 1);
	fclose(file);
	return pages * 4096;
}

/* A thread whose first allocation it is maps 128 MiB for a moment (glibc's arenas): not then. */
static size_t settled_bytes(void)
{
	size_t before, now = mapped_bytes();

	for (int i = 0; i < 100; i++) {
		before = now;
		usleep(20000);
		now = mapped_bytes();
		if (now == before)
			break;
	}
	return now;
}

/* A child without a copy of a block may free it, whatever it has mapped since. */
static void short_fork(void)
{
	unsigned char *a, *other;
	struct rlimit limit, tight;
	pid_t child;

	open_runtime();
	a = malloc(16 * MIB);
	TWT_MUST(is_placed(a));
	TWT_MUST(getrlimit(RLIMIT_AS, &limit) == 0);
	tight = limit;
	tight.rlim_cur = settled_bytes() + MIB;
	TWT_MUST(setrlimit(RLIMIT_AS, &tight) == 0);
	child = fork();
	TWT_MUST(setrlimit(RLIMIT_AS, &limit) == 0);
	if (child == 0) {
		other = mmap(a, 16 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			     0);
		TWT_MUST(other != MAP_FAILED);
		fill_bytes(other, 16 * MIB, 7);
		free(a);
		check_bytes(other, 16 * MIB, 7);
		TWT_MUST(other != a && !is_placed(a));
		a = mmap(a, 16 * MIB, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE,
			 -1, 0);
		TWT_MUST(a != MAP_FAILED); /* the free has given the address back */
		_exit(0);
	}
	wait_child(child);
	free(a);
	TWT_MUST(number_of("/v1/pool", "placed_bytes") == 0);
}

/* --- how much --- */

/* place_share is 25 of 64 MiB. */
static void share(void)
{
	void *at[64];
	unsigned placed = 0;

	open_runtime();
	for (int i = 0; i < 64; i++) {
		at[i] = malloc(MIB);
		TWT_MUST(at[i] != NULL);
		placed += is_placed(at[i]);
	}
	TWT_MUST(placed == 16 && counter("place_refused_share") == 48);
	TWT_MUST(number_of("/v1/pool", "placed_bytes") == 16 * MIB);
	for (int i = 0; i < 64; i++)
		free(at[i]);
}

/* place_share is 100: what is left is less than what is asked for. */
static void full(void)
{
	void *at[80];
	unsigned placed = 0;

	open_runtime();
	for (int i = 0; i < 80; i++) {
		at[i] = malloc(MIB);
		TWT_MUST(at[i] != NULL);
		placed += is_placed(at[i]);
	}
	TWT_MUST(placed > 40 && placed < 64 && counter("place_refused_full") > 0);
	TWT_MUST(counter("pool_grown") == 0);
	for (int i = 0; i < 80; i++)
		free(at[i]);
}

/* --- what it is for --- */

static struct tow_peer *ended(struct tow_op *op)
{
	struct tow_result result = TOW_RESULT_INIT;

	TWT_MUST(tow_op_wait(op, 20000000000u) == TOW_OK);
	TWT_MUST(tow_op_result(op, &result) == TOW_OK);
	TWT_MUST(tow_op_release(op) == TOW_OK);
	return result.peer;
}

/* A message of ordinary memory. How many of its bytes were copied though they lie outside. */
static uint64_t copied(const char *address)
{
	struct tow_op *connecting, *accepting, *send, *recv;
	struct tow_endpoint *endpoint[2];
	struct tow_peer *peer[2];
	unsigned char *out = malloc(4 * MIB), *in = malloc(4 * MIB);
	char at[TOW_ADDRESS_MAX];
	uint64_t before = counter("fallback_copy_bytes");

	TWT_MUST(out != NULL && in != NULL);
	fill_bytes(out, 4 * MIB, 3);
	for (int i = 0; i < 2; i++)
		TWT_MUST(tow_endpoint_open(runtime, address, &endpoint[i]) == TOW_OK);
	TWT_MUST(tow_endpoint_address(endpoint[1], at, sizeof(at)) == TOW_OK);
	TWT_MUST(tow_accept_start(endpoint[1], NULL, &accepting) == TOW_OK);
	TWT_MUST(tow_connect_start(endpoint[0], at, NULL, &connecting) == TOW_OK);
	peer[0] = ended(connecting);
	peer[1] = ended(accepting);
	TWT_MUST(tow_recv_start(peer[1], in, 4 * MIB, 1, NULL, &recv) == TOW_OK);
	TWT_MUST(tow_send_start(peer[0], out, 4 * MIB, 1, NULL, &send) == TOW_OK);
	ended(recv);
	ended(send);
	check_bytes(in, 4 * MIB, 3);
	free(out);
	free(in);
	return counter("fallback_copy_bytes") - before;
}

static void messages(bool expect_copies)
{
	open_runtime();
	TWT_MUST((copied("shm://*") > 0) == expect_copies);
	TWT_MUST(copied("tcp://127.0.0.1:0") == 0 || expect_copies);
	close_runtime();
}

int main(int argc, char **argv)
{
	const char *part = argc > 1 ? argv[1] : "";
	uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 0) : 1;

	TWT_MUST(towline_malloc_placed != NULL);
	if (strcmp(part, "family") == 0)
		family();
	else if (strcmp(part, "resizes") == 0)
		resizes();
	else if (strcmp(part, "threads") == 0)
		threads(seed);
	else if (strcmp(part, "runtimes") == 0)
		runtimes(seed);
	else if (strcmp(part, "outlives") == 0)
		outlives();
	else if (strcmp(part, "shares") == 0)
		shares();
	else if (strcmp(part, "forks") == 0)
		forks(seed);
	else if (strcmp(part, "swaps") == 0)
		swap_runtimes();
	else if (strcmp(part, "short_fork") == 0)
		short_fork();
	else if (strcmp(part, "share") == 0)
		share();
	else if (strcmp(part, "full") == 0)
		full();
	else if (strcmp(part, "messages") == 0)
		messages(false);
	else if (strcmp(part, "copies") == 0)
		messages(true);
	else
		return 2;
	if (runtime != NULL)
		close_runtime();
	return 0;
}
