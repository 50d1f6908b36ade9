/*
 * program_trace.c - a program that fails is shown by the shortest one that does: the test is run
 * again with the same seed and without some of the actions, as long as it still fails.
 *
 *	TWT_PROGRAM_SKIP   one character for each action: 1 leaves it out
 *	TWT_PROGRAM_TRACE  what happens is printed
 *	TWT_PROGRAM_SHORT  it is such a run: it ends at the first fault, and shortens nothing
 */
#include "program.h"

#include <errno.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static struct twt_program *playing;
static bool telling;

void twt_program_plays(struct twt_program *program)
{
	playing = program;
}

bool twt_program_skips(int act)
{
	const char *skip = getenv("TWT_PROGRAM_SKIP");

	return skip != NULL && act < (int)strlen(skip) && skip[act] == '1';
}

void twt_program_note(struct twt_program *program, const char *format, ...)
{
	static int wanted = -1;
	va_list args;

	if (wanted < 0)
		wanted = getenv("TWT_PROGRAM_TRACE") != NULL;
	if (!wanted)
		return;
	fprintf(stderr, "%6llu  ", (unsigned long long)program->moment);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
}

/* Runs this program with these acts left out; true: it has failed. */
static bool run_fails(uint64_t seed, const char *skip, bool shown)
{
	char words[32];
	pid_t child = fork();
	int status = 0;

	if (child == 0) {
		snprintf(words, sizeof(words), "%llu", (unsigned long long)seed);
		setenv("TOW_TEST_SEED", words, 1);
		setenv("TWT_PROGRAM_SKIP", skip, 1);
		setenv("TWT_PROGRAM_SHORT", "1", 1);
		if (shown)
			setenv("TWT_PROGRAM_TRACE", "1", 1);
		else if (freopen("/dev/null", "w", stderr) == NULL ||
			 freopen("/dev/null", "w", stdout) == NULL)
			_exit(0);
		alarm(20);
		execl("/proc/self/exe", program_invocation_name, (char *)NULL);
		_exit(0);
	}
	if (child < 0 || waitpid(child, &status, 0) != child)
		return false;
	return WIFSIGNALED(status) || WEXITSTATUS(status) != 0;
}

/* Leaves out what it can, in pieces that get shorter. */
static void shorten(uint64_t seed)
{
	char skip[TWT_PROGRAM_ACTS + 1], tried[TWT_PROGRAM_ACTS + 1];
	unsigned budget = TWT_PROGRAM_BUDGET;

	memset(skip, '0', TWT_PROGRAM_ACTS);
	skip[TWT_PROGRAM_ACTS] = '\0';
	for (int piece = TWT_PROGRAM_ACTS / 2; piece > 0 && budget > 0; piece /= 2) {
		for (int at = 0; at < TWT_PROGRAM_ACTS && budget > 0; at += piece) {
			int end = twi_min(at + piece, TWT_PROGRAM_ACTS);

			memcpy(tried, skip, sizeof(tried));
			memset(tried + at, '1', (size_t)(end - at));
			if (memcmp(tried, skip, sizeof(tried)) == 0)
				continue;
			budget--;
			if (run_fails(seed, tried, false))
				memcpy(skip, tried, sizeof(skip));
		}
	}
	fprintf(stderr, "The shortest program of this seed that fails, TWT_PROGRAM_SKIP=%s:\n",
		skip);
	(void)run_fails(seed, skip, true);
}

static void tell(void)
{
	uint64_t seed = playing->seed;

	if (telling)
		return;
	telling = true;
	fprintf(stderr, "replay: TOW_TEST_SEED=%llu %s\n", (unsigned long long)seed,
		program_invocation_name);
	if (getenv("TWT_PROGRAM_SHORT") == NULL && getenv("TWT_PROGRAM_TRACE") == NULL)
		shorten(seed);
}

void twt_program_fault(struct twt_program *program, const char *format, ...)
{
	va_list args;

	fprintf(stderr, "seed %llu: ", (unsigned long long)program->seed);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	tell();
	_exit(1);
}

/* The test has failed anyway: what is called here may be more than a handler may call. */
static void on_signal(int number)
{
	signal(number, SIG_DFL);
	fprintf(stderr, "signal %d\n", number);
	if (playing != NULL)
		tell();
	raise(number);
}

void twt_program_watch(void)
{
	static const int numbers[] = { SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP };

	for (unsigned i = 0; i < twi_array_count(numbers); i++)
		signal(numbers[i], on_signal);
}
