/*
 * conform.h - the conformance suite: cases over all lanes, kinds of memory and ways to drive. Each
 * cell's transcript must be the one that is written down beside the case (NAME.txt).
 *
 *	TOW_CONFORM=cover                 a selection in which every two values of two dimensions
 *	                                  meet, of all cases together; by TOW_TEST_SEED [the
 *default] TOW_CONFORM=all                   the whole product TOW_CONFORM=shm/pool/callback     one
 *cell; its transcript is printed TOW_CONFORM=write                 writes NAME.txt anew, by the
 *cell tcp/pool/wait
 *
 * A cell that makes no sense says why, and does not count as passed. A fault that is known stands
 *in one list with its reason: it is left out of the selection, and in the whole product it must
 *fail.
 */
#ifndef TWT_CONFORM_H
#define TWT_CONFORM_H

#include "cell_cover.h"
#include "cell_run.h"

#include <signal.h>
#include <sys/wait.h>

#define TWT_AT_ONCE 2

struct twt_suite {
	enum twt_case which;
	void (*play)(struct twt_end *end);
	char *wanted; /* transcript */
	unsigned char fates[TWT_LANES][TWT_MEMORIES][TWT_DRIVINGS];
	struct twt_cell_shared *shared[TWT_AT_ONCE];
	struct twt_place places[TWT_AT_ONCE];
	pid_t pids[TWT_AT_ONCE]; /* 0: none */
	unsigned counts[sizeof(twt_marks_of)];
};

/* --- running them --- */

static inline void twt_place_name(const struct twt_place *at, char out[96])
{
	snprintf(out, 96, "%s/%s/%s", twt_lanes[at->lane].name, twt_memories[at->memory],
		 twt_drivings[at->driving]);
}

static inline void twt_start_cell(struct twt_suite *suite, unsigned slot,
				  const struct twt_place *at)
{
	struct twt_cell_shared *shared = suite->shared[slot];

	memset(shared, 0, sizeof(*shared));
	suite->places[slot] = *at;
	fflush(NULL);
	suite->pids[slot] = fork();
	assert_true(suite->pids[slot] >= 0);
	if (suite->pids[slot] == 0) {
		struct twt_cell *cell = calloc(1, sizeof(*cell));

		alarm(120);
		if (cell == NULL)
			_exit(2);
		cell->lane = &twt_lanes[at->lane];
		cell->memory = at->memory;
		cell->driving = at->driving;
		cell->play = suite->play;
		cell->shared = shared;
		_exit(twt_cell_run(cell));
	}
}

/* The first line in which two texts differ. */
static inline void twt_show_difference(const char *wanted, const char *found)
{
	while (*wanted != '\0' && *found != '\0') {
		size_t a = strcspn(wanted, "\n"), b = strcspn(found, "\n");

		if (a != b || memcmp(wanted, found, a) != 0)
			break;
		wanted += a + (wanted[a] != '\0');
		found += b + (found[b] != '\0');
	}
	printf("    should be: %.*s\n    is:        %.*s\n", (int)strcspn(wanted, "\n"), wanted,
	       (int)strcspn(found, "\n"), found);
}

static inline enum twt_fate twt_judge(struct twt_suite *suite, unsigned slot, int how)
{
	const struct twt_cell_shared *shared = suite->shared[slot];
	const struct twt_place *at = &suite->places[slot];
	const char *fault = twt_fault_of(at);
	char name[96];
	bool good = WIFEXITED(how) && WEXITSTATUS(how) == 0 &&
		    strcmp(shared->transcript, suite->wanted) == 0;

	twt_place_name(at, name);
	if (WIFEXITED(how) && WEXITSTATUS(how) == TWT_NOT_HERE) {
		printf("%s: not here: %.200s\n", name, shared->wrong);
		return TWT_ABSENT;
	}
	if (fault != NULL && !good)
		return TWT_KNOWN;
	if (good && fault == NULL)
		return TWT_PASSED;
	printf("%s: %s; again: TOW_CONFORM=%s\n", name,
	       good ? "is right now: take it off the list of known faults" : "is wrong", name);
	if (!good && shared->wrong[0] != '\0')
		printf("    %s\n", shared->wrong);
	else if (!good && WIFEXITED(how) && WEXITSTATUS(how) == 0)
		twt_show_difference(suite->wanted, shared->transcript);
	else if (!good)
		printf("    it ended with 0x%x\n", (unsigned)how);
	return TWT_FAILED;
}

/* Waits for one of those that run, and judges it. False: none runs. */
static inline bool twt_end_one(struct twt_suite *suite)
{
	bool any = false;

	for (unsigned i = 0; i < TWT_AT_ONCE; i++)
		any |= suite->pids[i] != 0;
	while (any) {
		for (unsigned i = 0; i < TWT_AT_ONCE; i++) {
			const struct twt_place *at = &suite->places[i];
			int how;

			if (suite->pids[i] == 0 ||
			    waitpid(suite->pids[i], &how, WNOHANG) != suite->pids[i])
				continue;
			suite->pids[i] = 0;
			suite->fates[at->lane][at->memory][at->driving] =
				(unsigned char)twt_judge(suite, i, how);
			return true;
		}
		usleep(1000);
	}
	return false;
}

static inline void twt_run_cell(struct twt_suite *suite, const struct twt_place *at)
{
	for (;;) {
		for (unsigned i = 0; i < TWT_AT_ONCE; i++) {
			if (suite->pids[i] == 0) {
				twt_start_cell(suite, i, at);
				return;
			}
		}
		twt_end_one(suite);
	}
}

static inline void twt_run_selected(struct twt_suite *suite, const char *what)
{
	bool selected[TWT_LANES][TWT_MEMORIES][TWT_DRIVINGS] = { { { false } } };
	bool all = strcmp(what, "all") == 0, cover = strcmp(what, "cover") == 0;
	uint64_t random;
	char name[96];

	if (cover) {
		random = getenv("TOW_TEST_SEED") != NULL ? twt_seed() : 1;
		twt_select_cover(suite->which, &random, selected);
	}
	for (size_t i = 0; i < TWT_LANES * TWT_MEMORIES * TWT_DRIVINGS * TWT_CASES; i++) {
		struct twt_place at = twt_place_of(i);
		unsigned char *fate = &suite->fates[at.lane][at.memory][at.driving];

		if (at.which != suite->which)
			continue;
		twt_place_name(&at, name);
		if (twt_nonsense_of(&at) != NULL) {
			printf("%s: no cell: %s\n", name, twt_nonsense_of(&at));
			*fate = TWT_SENSELESS;
		} else if (cover && twt_fault_of(&at) != NULL) {
			*fate = TWT_KNOWN;
		} else if (all || selected[at.lane][at.memory][at.driving] ||
			   strcmp(what, name) == 0) {
			twt_run_cell(suite, &at);
		}
	}
	while (twt_end_one(suite))
		continue;
}

/* --- what came of it --- */

static inline void twt_print_table(struct twt_suite *suite)
{
	for (size_t i = 0; i < sizeof(twt_faults) / sizeof(twt_faults[0]); i++)
		printf("known fault: %s: %s\n",
		       twt_faults[i].lane != NULL ? twt_faults[i].lane : "any lane",
		       twt_faults[i].why);
	printf("\n%s; in each column pool, registered, plain: . passed, F failed, k known fault, "
	       "- no cell, o not here\n%-14s",
	       twt_cases[suite->which], "");
	for (unsigned d = 0; d < TWT_DRIVINGS; d++)
		printf(" %10s", twt_drivings[d]);
	for (unsigned l = 0; l < TWT_LANES; l++) {
		printf("\n%-14s", twt_lanes[l].name);
		for (unsigned d = 0; d < TWT_DRIVINGS; d++) {
			printf("        ");
			for (unsigned m = 0; m < TWT_MEMORIES; m++) {
				putchar(twt_marks_of[suite->fates[l][m][d]]);
				suite->counts[suite->fates[l][m][d]]++;
			}
		}
	}
	printf("\n%s: %u passed, %u failed, %u with a known fault, %u without a meaning, %u not "
	       "here, %u not selected\n",
	       twt_cases[suite->which], suite->counts[TWT_PASSED], suite->counts[TWT_FAILED],
	       suite->counts[TWT_KNOWN], suite->counts[TWT_SENSELESS], suite->counts[TWT_ABSENT],
	       suite->counts[TWT_UNSELECTED]);
}

static inline void twt_wanted_path(const struct twt_suite *suite, char out[512])
{
	const char *source = getenv("TOW_TEST_SOURCE");

	snprintf(out, 512, "%s/tests/conformance/%s.txt", source != NULL ? source : ".",
		 twt_cases[suite->which]);
}

static inline char *twt_read_wanted(const char *path)
{
	char *text = calloc(1, 3 * TWT_CELL_TEXT);
	FILE *file = fopen(path, "re");

	if (file == NULL || text == NULL || fread(text, 1, 3 * TWT_CELL_TEXT - 1, file) == 0) {
		printf("cannot read %s (TOW_TEST_SOURCE is the source folder)\n", path);
		exit(1);
	}
	fclose(file);
	return text;
}

static inline int twt_write_wanted(struct twt_suite *suite, const char *path)
{
	const struct twt_place at = { 0, TWT_POOL, TWT_WAIT, suite->which };
	FILE *file = fopen(path, "we");
	int how = -1;

	twt_start_cell(suite, 0, &at);
	waitpid(suite->pids[0], &how, 0);
	if (file == NULL || how != 0) {
		printf("0x%x: %s\n", (unsigned)how, suite->shared[0]->wrong);
		return 1;
	}
	fputs(suite->shared[0]->transcript, file);
	fclose(file);
	return 0;
}

/* The whole of a program of the suite. */
static inline int twt_conform(enum twt_case which, void (*play)(struct twt_end *end))
{
	struct twt_suite *suite = calloc(1, sizeof(*suite));
	const char *what = getenv("TOW_CONFORM");
	char path[512];

	if (suite == NULL)
		return 1;
	suite->which = which;
	suite->play = play;
	for (unsigned i = 0; i < TWT_AT_ONCE; i++) {
		suite->shared[i] = mmap(NULL, sizeof(*suite->shared[i]), PROT_READ | PROT_WRITE,
					MAP_SHARED | MAP_ANONYMOUS, -1, 0);
		if (suite->shared[i] == MAP_FAILED)
			return 1;
	}
	twt_wanted_path(suite, path);
	if (what != NULL && strcmp(what, "write") == 0)
		return twt_write_wanted(suite, path);
	suite->wanted = twt_read_wanted(path);
	twt_run_selected(suite, what != NULL && *what != '\0' ? what : "cover");
	if (what != NULL && strchr(what, '/') != NULL)
		fputs(suite->shared[0]->transcript, stdout);
	twt_print_table(suite);
	free(suite->wanted);
	which = suite->counts[TWT_FAILED] > 0 || suite->counts[TWT_PASSED] == 0;
	free(suite);
	return (int)which;
}

#endif
