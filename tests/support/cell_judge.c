/* cell_judge.c - a cell's transcript against the one that is written down. */
#include "cell_judge.h"

static bool twt_is_bad(const struct twt_place *at)
{
	return at->memory == TWT_UNREADABLE;
}

void twt_place_name(const struct twt_place *at, char out[96])
{
	snprintf(out, 96, "%s/%s/%s", twt_lanes[at->lane].name, twt_memories[at->memory],
		 twt_drivings[at->driving]);
}

void twt_start_cell(struct twt_suite *suite, unsigned slot, const struct twt_place *at)
{
	struct twt_cell_shared *shared = suite->shared[slot];

	memset(shared, 0, sizeof(*shared));
	suite->places[slot] = *at;
	suite->began_ns[slot] = twt_cell_now();
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
		cell->grouped = twt_is_grouped(at->which);
		cell->play = suite->play[twt_is_bad(at)];
		cell->shared = shared;
		_exit(twt_cell_run(cell));
	}
}

/* The first line in which two texts differ. */
static void twt_show_difference(const char *wanted, const char *found)
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

static enum twt_fate twt_judge(struct twt_suite *suite, unsigned slot, int how)
{
	const struct twt_cell_shared *shared = suite->shared[slot];
	const struct twt_place *at = &suite->places[slot];
	const char *fault = twt_fault_of(at), *wanted = suite->wanted[twt_is_bad(at)];
	char name[96];
	bool good =
		WIFEXITED(how) && WEXITSTATUS(how) == 0 && strcmp(shared->transcript, wanted) == 0;

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
		twt_show_difference(wanted, shared->transcript);
	else if (!good)
		printf("    it ended with 0x%x\n", (unsigned)how);
	printf("%s    it took %.1f s%s\n%.*s", shared->threads,
	       (double)(twt_cell_now() - suite->began_ns[slot]) / 1e9,
	       shared->log[0] != '\0' ? "; its log:" : ", and has logged nothing", TWT_CELL_LOG - 1,
	       shared->log);
	return TWT_FAILED;
}

bool twt_end_one(struct twt_suite *suite)
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

void twt_run_cell(struct twt_suite *suite, const struct twt_place *at)
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
