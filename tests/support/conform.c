/* conform.c - the main function of a case of the conformance suite. */
#include "conform.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

/* As containers do: from now on nobody here gets an io_uring. */
static bool twt_refuse_io_uring(void)
{
	struct sock_filter steps[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { sizeof(steps) / sizeof(steps[0]), steps };

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
	       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0 &&
	       syscall(SYS_io_uring_setup, 0, NULL) == -1 && errno == EPERM;
}

static void twt_run_selected(struct twt_suite *suite, const char *what)
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

static void twt_print_table(struct twt_suite *suite)
{
	for (size_t i = 0; i < TWT_KNOWN_FAULTS; i++)
		printf("known fault: %s: %s\n",
		       twt_faults[i].lane != NULL ? twt_faults[i].lane : "any lane",
		       twt_faults[i].why);
	printf("\n%s; in each column pool, registered, plain, unreadable: . passed, F failed, k "
	       "known fault, - no cell, o not here\n%-14s",
	       twt_cases[suite->which], "");
	for (unsigned d = 0; d < TWT_DRIVINGS; d++)
		printf(" %10s", twt_drivings[d]);
	for (unsigned l = 0; l < TWT_LANES; l++) {
		printf("\n%-14s", twt_lanes[l].name);
		for (unsigned d = 0; d < TWT_DRIVINGS; d++) {
			printf("       ");
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

static void twt_wanted_path(const struct twt_suite *suite, bool bad, char out[512])
{
	const char *source = getenv("TOW_TEST_SOURCE");

	snprintf(out, 512, "%s/tests/conformance/%s%s.txt", source != NULL ? source : ".",
		 twt_cases[suite->which], bad ? "-unreadable" : "");
}

static char *twt_read_wanted(const char *path)
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

static int twt_write_wanted(struct twt_suite *suite, bool bad)
{
	const struct twt_place at = { 0, bad ? TWT_UNREADABLE : TWT_POOL, TWT_WAIT, suite->which };
	char path[512];
	FILE *file;
	int how = -1;

	twt_start_cell(suite, 0, &at);
	waitpid(suite->pids[0], &how, 0);
	twt_wanted_path(suite, bad, path);
	file = how == 0 ? fopen(path, "we") : NULL;
	if (file == NULL) {
		printf("0x%x: %s\n", (unsigned)how, suite->shared[0]->wrong);
		return 1;
	}
	fputs(suite->shared[0]->transcript, file);
	fclose(file);
	return 0;
}

static bool twt_suite_open(struct twt_suite *suite)
{
	for (unsigned i = 0; i < TWT_AT_ONCE; i++) {
		suite->shared[i] = mmap(NULL, sizeof(*suite->shared[i]), PROT_READ | PROT_WRITE,
					MAP_SHARED | MAP_ANONYMOUS, -1, 0);
		if (suite->shared[i] == MAP_FAILED)
			return false;
	}
	return true;
}

static int twt_suite_run(struct twt_suite *suite, const char *what)
{
	char path[512];

	for (int bad = 0; bad < 2 && suite->play[bad] != NULL; bad++) {
		twt_wanted_path(suite, bad, path);
		suite->wanted[bad] = twt_read_wanted(path);
	}
	twt_run_selected(suite, what);
	if (strchr(what, '/') != NULL)
		fputs(suite->shared[0]->transcript, stdout);
	twt_print_table(suite);
	free(suite->wanted[0]);
	free(suite->wanted[1]);
	return suite->counts[TWT_FAILED] > 0 || suite->counts[TWT_PASSED] == 0;
}

int twt_conform(enum twt_case which, void (*play)(struct twt_end *end),
		void (*play_bad)(struct twt_end *end))
{
	struct twt_suite *suite = calloc(1, sizeof(*suite));
	const char *what = getenv("TOW_CONFORM");
	int bad = 0;

	if (suite == NULL || !twt_suite_open(suite))
		return 1;
	if (getenv("TOW_CONFORM_NO_IO_URING") != NULL && !twt_refuse_io_uring()) {
		printf("seccomp does not take a filter here: %s\n", strerror(errno));
		free(suite);
		return TWT_NOT_HERE;
	}
	suite->which = which;
	suite->play[0] = play;
	suite->play[1] = play_bad;
	if (what == NULL || strcmp(what, "write") != 0)
		bad = twt_suite_run(suite, what != NULL && *what != '\0' ? what : "cover");
	for (int i = 0; i < 2 && what != NULL && strcmp(what, "write") == 0; i++)
		bad |= suite->play[i] != NULL && twt_write_wanted(suite, i);
	free(suite);
	return bad;
}
