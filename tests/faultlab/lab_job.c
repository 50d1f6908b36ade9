/*
 * lab_job.c - one rank of a job with a fault in it.
 *
 *	lab_job shape=coll fault=slow page=FILE [how=spin|sleep]
 *		[way=wait|test|fd|call|queue] [address=ADDRESS] [NAME=NUMBER...]
 *
 * Who it is comes from the launcher's variables (docs/bootstrap.md). FILE is the page that all
 * ranks share; it ends when the page says so, when its limit is over, or when its job has failed,
 * and says how long its steps took. By hand:
 *
 *	towrun -n 3 lab_job shape=coll buckets=4 fault=slow rank=1 pct=100 at_s=3 limit_s=20 page=p
 */
#include "lab.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_S    1000000000u
#define PHASE_SHIFT 30
#define US_MASK     ((1u << PHASE_SHIFT) - 1)

static const struct lab_shape *const shapes[] = { &lab_coll, &lab_fused, &lab_pool, &lab_ring,
						  &lab_pipe, &lab_flow,  &lab_rpc };

uint64_t lab_now(void)
{
	struct timespec at;

	clock_gettime(CLOCK_MONOTONIC, &at);
	return (uint64_t)at.tv_sec * NS_PER_S + (uint64_t)at.tv_nsec;
}

void lab_sleep(int64_t us)
{
	const struct timespec time = { us / 1000000, us % 1000000 * 1000 };

	if (us > 0)
		nanosleep(&time, NULL);
}

enum lab_phase lab_phase_now(const struct lab *lab)
{
	if (lab->at_s != 0)
		return lab_now() - lab->begun_ns < (uint64_t)lab->at_s * NS_PER_S ? LAB_BEFORE
										  : LAB_FAULT;
	return (enum lab_phase)atomic_load(&lab->page->phase);
}

bool lab_stops(const struct lab *lab)
{
	return atomic_load(&lab->page->stop) != 0 ||
	       lab_now() - lab->begun_ns > (uint64_t)lab->limit_s * NS_PER_S;
}

bool lab_has(const struct lab *lab, const char *fault)
{
	return lab->me == lab->rank && strcmp(lab->fault, fault) == 0 &&
	       lab_phase_now(lab) == LAB_FAULT;
}

bool lab_once(struct lab *lab, const char *fault)
{
	if (lab->done || !lab_has(lab, fault))
		return false;
	lab->done = true;
	return true;
}

/* By the time that it had a CPU, as work is: who gets none takes longer. */
static void spin(uint64_t cpu_ns)
{
	struct timespec at;
	uint64_t now, until = 0;

	do {
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &at);
		now = (uint64_t)at.tv_sec * NS_PER_S + (uint64_t)at.tv_nsec;
		until = until == 0 ? now + cpu_ns : until;
	} while (now < until);
}

void lab_compute(const struct lab *lab, int64_t us)
{
	if (lab_has(lab, "slow"))
		us += us * lab->pct / 100;
	if (us <= 0)
		return;
	if (strcmp(lab->how, "spin") == 0)
		spin((uint64_t)us * LAB_US);
	else
		lab_sleep(us);
}

void lab_tell(int status, const char *why)
{
	fprintf(stderr, "error: %s: %s\n", tow_status_name(status),
		why != NULL ? why : tow_error_message());
}

/* What a rank does in place of its next step, or before it. */
static void misbehave(struct lab *lab)
{
	if (lab_has(lab, "hang")) {
		while (!lab_stops(lab))
			lab_sleep(100000);
	}
	if (lab_has(lab, "busy")) {
		while (!lab_stops(lab))
			spin(LAB_MS);
	}
	if (lab_has(lab, "pause") && ++lab->paused_at % (uint64_t)lab->every == 0)
		lab_sleep(lab->ms * 1000);
	if (lab_once(lab, "leave")) {
		tow_group_close(lab->group);
		tow_runtime_close(lab->runtime);
		_exit(0);
	}
}

static void note_step(struct lab *lab, uint64_t took_ns, enum lab_phase phase)
{
	struct lab_steps *mine = &lab->page->ranks[lab->me];
	uint64_t us = took_ns / LAB_US, at = atomic_load(&mine->count);

	us = us > US_MASK ? US_MASK : us;
	atomic_store(&mine->us[at % LAB_KEPT], (uint32_t)us | (uint32_t)phase << PHASE_SHIFT);
	atomic_store(&mine->last_ns, lab_now());
	atomic_store(&mine->count, at + 1);
}

static int run_steps(struct lab *lab, const struct lab_shape *shape)
{
	int status = TOW_OK;

	for (uint64_t n = 0; status >= 0 && !lab_stops(lab); n++) {
		enum lab_phase phase = lab_phase_now(lab);
		uint64_t begun = lab_now();

		misbehave(lab);
		if (lab->marks != 0)
			tow_step_begin(lab->runtime, n + 1);
		status = shape->step(lab, n);
		if (lab->marks != 0)
			tow_step_end(lab->runtime, n + 1);
		if (status >= 0 && (shape->counts == NULL || shape->counts(lab)))
			note_step(lab, lab_now() - begun, phase);
	}
	return status;
}

static int by_size(const void *a, const void *b)
{
	uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;

	return left < right ? -1 : left > right;
}

static void tell_steps(const struct lab *lab)
{
	static const char *const names[LAB_PHASES] = { "before", "while it is there", "mended" };
	const struct lab_steps *mine = &lab->page->ranks[lab->me];
	uint64_t count = atomic_load(&mine->count);
	static uint32_t found[LAB_KEPT];

	for (uint32_t phase = 0; phase < LAB_PHASES; phase++) {
		unsigned n = 0;

		for (uint64_t i = 0; i < count && i < LAB_KEPT; i++) {
			uint32_t word = atomic_load(&mine->us[i]);

			if (word >> PHASE_SHIFT == phase)
				found[n++] = word & US_MASK;
		}
		qsort(found, n, sizeof(found[0]), by_size);
		if (n > 0)
			printf("rank %d, %s: %u steps, median %.2f ms\n", lab->me, names[phase], n,
			       found[n / 2] / 1e3);
	}
}

static void fail(const char *what, const char *why)
{
	fprintf(stderr, "lab_job: %s: %s\n", what, why);
	exit(2);
}

static void set_option(struct lab *lab, const char *text)
{
	const char *value = strchr(text, '=');
	size_t bytes;
	char *end;

	if (value == NULL)
		fail(text, "is not NAME=VALUE");
	bytes = (size_t)(value++ - text);
#define IS(name) (bytes == sizeof(name) - 1 && strncmp(text, name, bytes) == 0)
#define SET_NUMBER(name, initial, what)                                                            \
	if (IS(#name)) {                                                                           \
		lab->name = strtoll(value, &end, 10);                                              \
		if (*end != '\0' || end == value)                                                  \
			fail(text, "is no number: " what);                                         \
		return;                                                                            \
	}
	LAB_NUMBERS(SET_NUMBER)
#undef SET_NUMBER
	if (IS("shape"))
		lab->shape = value;
	else if (IS("how"))
		lab->how = value;
	else if (IS("way"))
		lab->way = value;
	else if (IS("fault"))
		lab->fault = value;
	else if (IS("address"))
		lab->address = value;
	else if (IS("page"))
		lab->page_path = value;
	else
		fail(text, "has a name that is none");
#undef IS
}

static void check_options(const struct lab *lab)
{
	if (lab->buckets < 1 || lab->buckets > LAB_BUFFERS || lab->bytes < 64 ||
	    lab->messages < 1 || lab->messages > LAB_MESSAGES || lab->every < 1 ||
	    lab->limit_s < 1 || lab->limit_s > 3600)
		fail("options", "a number is out of its range");
	if (strcmp(lab->how, "spin") != 0 && strcmp(lab->how, "sleep") != 0)
		fail(lab->how, "how is spin or sleep");
	if (!lab_way_known(lab))
		fail(lab->way, "way is wait, test, fd, call or queue");
}

/* The page is made by whoever comes first, all zero. */
static void map_page(struct lab *lab)
{
	int fd = open(lab->page_path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

	if (fd < 0 || ftruncate(fd, sizeof(struct lab_page)) != 0)
		fail(lab->page_path, strerror(errno));
	lab->page = mmap(NULL, sizeof(struct lab_page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (lab->page == MAP_FAILED)
		fail(lab->page_path, strerror(errno));
	close(fd);
}

static int open_all(struct lab *lab, const struct lab_shape *shape)
{
	struct tow_group_options where = TOW_GROUP_OPTIONS_INIT;
	int status = tow_runtime_open(NULL, &lab->runtime);
	void *memory;

	where.address = lab->address;
	if (status == TOW_OK)
		status = lab_way_open(lab);
	if (status == TOW_OK)
		status = tow_group_open(lab->runtime, &where, &lab->group);
	if (status < 0)
		return status;
	lab->me = (int)tow_group_rank(lab->group);
	lab->size = (int)tow_group_size(lab->group);
	if (lab->size > LAB_RANKS)
		fail("ranks", "there are more than the page has room for");
	for (int i = 0; status == TOW_OK && i < lab->buckets && shape != &lab_pool; i++) {
		status = tow_alloc(lab->runtime, (size_t)lab->bytes, 64, &memory);
		if (status == TOW_OK) {
			memset(memory, 0, (size_t)lab->bytes);
			lab->buffers[i] = memory;
		}
	}
	lab->heap = calloc(1, (size_t)lab->bytes);
	if (lab->heap == NULL)
		return TOW_ENOMEM;
	if (status == TOW_OK && lab->input_kib > 0)
		status = lab_input_open(lab);
	return status == TOW_OK && shape->open != NULL ? shape->open(lab) : status;
}

int main(int argc, char **argv)
{
	const struct lab_shape *shape = NULL;
	struct lab lab = { .shape = "coll", .how = "sleep", .way = "wait", .fault = "none" };
	int status;

#define SET_DEFAULT(name, initial, what) lab.name = (initial);
	LAB_NUMBERS(SET_DEFAULT)
#undef SET_DEFAULT
	for (int i = 1; i < argc; i++)
		set_option(&lab, argv[i]);
	for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++)
		shape = strcmp(shapes[i]->name, lab.shape) == 0 ? shapes[i] : shape;
	if (shape == NULL || lab.page_path == NULL)
		fail(lab.shape, "is no shape, or there is no page");
	check_options(&lab);
	prctl(PR_SET_PDEATHSIG, SIGKILL); /* a rank that is stopped would never end by itself */
	alarm((unsigned)lab.limit_s + 20);
	map_page(&lab);
	lab.begun_ns = lab_now();
	if (lab.no_registration != 0 && !lab_refuse_registration())
		fail("no_registration", "seccomp cannot be had here");
	status = open_all(&lab, shape);
	if (status >= 0)
		status = run_steps(&lab, shape);
	tell_steps(&lab);
	if (status < 0 && !lab_stops(&lab)) {
		lab_tell(status, NULL);
		return 1;
	}
	fflush(NULL);
	_exit(0); /* the others may be in a collective that nobody ends */
}
