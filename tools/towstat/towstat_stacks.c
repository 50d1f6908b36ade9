/*
 * towstat_stacks.c - prints /v1/stacks for people: the stack of each thread of a rank, with file
 * and line where its module has them.
 */
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "tools/common/words.h"
#include "tools/towstat/lines.h"
#include "tools/towstat/towstat.h"

/* Limits for a rank that a verdict names, so that its stacks fit on a page below the verdict. */
#define BESIDE_THREADS 4
#define BESIDE_FRAMES  12

static const char *text_of(const json_t *object, const char *key)
{
	return json_string_value(json_object_get(object, key));
}

/* Prints the best known place: function, file and line, or the runtime's own text. */
static void print_frame(struct lines *lines, const char *indent, size_t number, const json_t *frame)
{
	const char *module = text_of(frame, "module"), *symbol = text_of(frame, "symbol");
	char missing[512];
	struct line line = { .file = "" };
	int found = 0;

	if (module != NULL && lines != NULL)
		found = lines_find(
			lines, module, text_of(frame, "build_id"),
			(uint64_t)json_integer_value(json_object_get(frame, "module_offset")),
			&line, missing, sizeof(missing));
	printf("%s  #%-2zu ", indent, number);
	if (line.symbol[0] == '\0') {
		print_clean(text_of(frame, "place"));
	} else {
		print_clean(symbol != NULL ? symbol : line.symbol);
		printf(" in ");
		print_clean(base_name(module));
	}
	if (found) {
		printf(" at ");
		print_clean(base_name(line.file));
		printf(":%d", line.line);
	}
	printf("\n");
}

/* Prints a thread. frames_max 0: all frames. */
static void print_thread(struct lines *lines, const char *indent, const json_t *thread,
			 size_t frames_max)
{
	const char *kernel = text_of(thread, "kernel"), *why = text_of(thread, "why_none");
	json_t *frames = json_object_get(thread, "frames"), *frame;
	size_t i;

	printf("%sthread %lld ", indent,
	       (long long)json_integer_value(json_object_get(thread, "tid")));
	print_clean(text_of(thread, "name"));
	printf(": state ");
	print_clean(text_of(thread, "state"));
	if (kernel != NULL) {
		printf(", in the kernel's ");
		print_clean(kernel);
	}
	printf(", %.3f s of CPU\n",
	       (double)json_integer_value(json_object_get(thread, "cpu_ns")) / 1e9);
	if (why != NULL) {
		printf("%s  no stack: ", indent);
		print_clean(why);
		printf("\n");
	}
	json_array_foreach(frames, i, frame)
	{
		if (frames_max != 0 && i == frames_max) {
			printf("%s  and %zu more\n", indent, json_array_size(frames) - i);
			break;
		}
		print_frame(lines, indent, i, frame);
	}
}

static long pid_of(const char *socket_path)
{
	json_t *info = fetch_json(socket_path, "/v1/info");
	long pid = (long)json_integer_value(json_object_get(info, "pid"));

	json_decref(info);
	return pid;
}

static int print_stacks(const char *socket_path)
{
	json_t *root = fetch_json(socket_path, "/v1/stacks"), *thread;
	long long left;
	struct lines *lines;
	size_t i;

	if (root == NULL)
		return 1;
	left = (long long)json_integer_value(json_object_get(root, "threads_left_out"));
	lines = lines_open(pid_of(socket_path));
	json_array_foreach(json_object_get(root, "threads"), i, thread)
		print_thread(lines, "", thread, 0);
	if (left > 0)
		printf("%lld more threads\n", left);
	if (json_integer_value(json_object_get(root, "signal")) == 0)
		printf("to see their stacks, set TOW_STACKS_SIGNAL=40, or another signal that "
		       "the program does not handle\n");
	lines_close(lines);
	json_decref(root);
	return 0;
}

int show_stacks(const struct runtime_list *targets)
{
	int failed = 0;

	for (size_t i = 0; i < targets->count; i++) {
		print_heading(targets, i);
		failed |= print_stacks(targets->rows[i].path);
	}
	return failed;
}

/* --- beside a verdict --- */

/* The runtime of that rank on this host, of the same job and user; NULL: there is none. */
static const struct runtime_entry *runtime_of_rank(const struct runtime_list *all,
						   const struct runtime_entry *of, long long rank)
{
	struct runtime_name job, name;

	runtime_name_of(of->name, &job);
	for (size_t i = 0; i < all->count; i++) {
		runtime_name_of(all->rows[i].name, &name);
		if (name.rank == rank && all->rows[i].uid == of->uid &&
		    strcmp(name.job, job.job) == 0)
			return &all->rows[i];
	}
	return NULL;
}

/*
 * Asks for 2 s at most, and prints nothing without an answer, as the verdict already names the
 * rank.
 */
static json_t *ask_beside(const struct runtime_entry *runtime)
{
	struct runtime_entry row = *runtime;
	const struct runtime_list one = { .count = 1, .rows = &row };
	json_t **all = fetch_all(&one, "/v1/stacks"), *root = NULL;

	if (all != NULL)
		root = json_incref(all[0]);
	fetched_free(all, 1);
	return root;
}

static void print_beside(const struct runtime_entry *runtime, long long rank)
{
	json_t *root = ask_beside(runtime), *thread;
	json_t *threads = json_object_get(root, "threads");
	struct lines *lines;
	size_t i, shown = 0;

	if (root == NULL)
		return;
	if (json_integer_value(json_object_get(root, "signal")) == 0) {
		printf("  stack of rank %lld: with TOW_STACKS_SIGNAL=40 it would be here\n", rank);
		json_decref(root);
		return;
	}
	lines = lines_open(pid_of(runtime->path));
	json_array_foreach(threads, i, thread)
	{
		/*
		 * The main thread, and others that have answered. Threads of libraries do not
		 * answer.
		 */
		if (i > 0 && text_of(thread, "why_none") != NULL)
			continue;
		if (shown++ == BESIDE_THREADS)
			break;
		printf("  where rank %lld is:\n", rank);
		print_thread(lines, "    ", thread, BESIDE_FRAMES);
	}
	if (shown > BESIDE_THREADS) {
		printf("  more of rank %lld: towstat stacks ", rank);
		print_clean(runtime->name);
		printf("\n");
	}
	lines_close(lines);
	json_decref(root);
}

/* A stopped or ended process runs no signal handler. */
static int runs_nothing(const json_t *finding)
{
	const char *cause = text_of(finding, "cause");

	return cause == NULL || strcmp(cause, "stopped") == 0 || strcmp(cause, "dead") == 0;
}

/* Prints each rank once, in the order of the findings. */
static void print_ranks(const struct runtime_list *all, const struct runtime_entry *of,
			const json_t *findings)
{
	json_t *told = json_object(), *finding, *rank;
	char key[32];
	size_t i, k;

	json_array_foreach(findings, i, finding)
	{
		json_array_foreach(json_object_get(finding, "ranks"), k, rank)
		{
			long long number = (long long)json_integer_value(rank);
			const struct runtime_entry *runtime = runtime_of_rank(all, of, number);

			snprintf(key, sizeof(key), "%lld", number);
			if (runtime == NULL || runs_nothing(finding) ||
			    json_object_get(told, key) != NULL)
				continue;
			json_object_set_new(told, key, json_true());
			print_beside(runtime, number);
		}
	}
	json_decref(told);
}

void print_named_stacks(const struct runtime_entry *of, const json_t *root)
{
	const char *state = text_of(root, "state");
	struct runtime_list all;

	if (state == NULL || strcmp(state, "stuck") != 0 || find_sockets(&all) != 0)
		return;
	print_ranks(&all, of, json_object_get(root, "findings"));
	runtime_list_fini(&all);
}
