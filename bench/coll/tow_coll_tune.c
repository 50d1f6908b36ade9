/*
 * tow_coll_tune.c - measures which plan is the fastest for each collective, and writes the table
 * that the knob coll_table reads (transport/coll/coll_table.h has its form).
 *
 * For each lane, number of ranks and operation, every plan that can serve it runs over a list of
 * sizes. tow-coll runs them and checks the results. Plans take turns, several times, and medians
 * are compared. A plan stays chosen at the next size while it is within a few per cent of the best.
 * So noise does not change the table. Between two sizes with different plans, the border is their
 * geometric mean. At the end the table is read back, and the plans that then run are compared with
 * it.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "towline/towline.h"
#include "transport/coll/plan/plan.h"

#define SIZES_MAX  32
#define PLANS_MAX  32
#define LIST_MAX   16
#define PASSES_MAX 64
#define CLOSE      1.03 /* a time up to this factor is as good as the best */
#define FAILED     2

/* The names of the operations in tow-coll. */
static const char *const bench_names[TWI_COLL_KINDS] = {
	[TWI_COLL_ALL_REDUCE] = "allreduce",  [TWI_COLL_REDUCE_SCATTER] = "reduce_scatter",
	[TWI_COLL_ALL_GATHER] = "allgather",  [TWI_COLL_ALL_GATHER_V] = "allgather_v",
	[TWI_COLL_BROADCAST] = "bcast",       [TWI_COLL_REDUCE] = "reduce",
	[TWI_COLL_GATHER] = "gather",         [TWI_COLL_SCATTER] = "scatter",
	[TWI_COLL_ALL_TO_ALL] = "alltoall",   [TWI_COLL_ALL_TO_ALL_V] = "alltoall_v",
	[TWI_COLL_PERMUTE] = "permute",       [TWI_COLL_BARRIER] = "barrier",
	[TWI_COLL_SEND_RECEIVE] = "sendrecv",
};

static const char help[] =
	"usage: tow-coll-tune [options]\n"
	"\n"
	"  --out FILE       the table [standard output]\n"
	"  --lanes LIST     tow-coll's --lane [shm,tcp]; all but shm are \"net\" in "
	"the "
	"table\n"
	"  --ranks LIST     numbers of ranks [2,4]\n"
	"  --op LIST        operations, by tow-coll's names [all of them]\n"
	"  --sizes LIST     bytes, ascending "
	"[8,256,2K,8K,16K,64K,256K,1M,4M,16M]\n"
	"  --plans LIST     only these plans [all that can serve the operation]\n"
	"  --passes N       how often everything is measured [3]\n"
	"  --seconds S      time of each measurement [0.05]\n"
	"  --bench PROGRAM  tow-coll [the one beside this program]\n"
	"  -h, --help       this text\n"
	"  --version        the version\n"
	"\n"
	"Use it: export TOW_COLL_TABLE=FILE. Exit: 0 good, 1 a plan gave a wrong result or the\n"
	"table was not followed, 2 anything else.\n";

struct list {
	char text[512]; /* the text, cut into items */
	const char *items[LIST_MAX];
	unsigned int count;
};

struct tune {
	struct list lanes, ranks, ops, plans;
	char sizes_text[512]; /* as long as the text of a list */
	uint64_t sizes[SIZES_MAX];
	unsigned int size_count, passes;
	const char *seconds, *out_name;
	char bench[4096];
	FILE *out;
	int status; /* the worst status so far */
};

/* One lane, number of ranks and operation: times by plan, size and pass. */
struct field {
	const char *lane, *ranks;
	enum twi_coll_kind kind;
	const struct twi_plan_row *plans[PLANS_MAX];
	unsigned int plan_count;
	double times[PLANS_MAX][SIZES_MAX][PASSES_MAX];
	unsigned int samples[PLANS_MAX][SIZES_MAX];
	int chosen[SIZES_MAX];    /* index of a plan; -1: none */
	char seen[SIZES_MAX][32]; /* the plan that ran, as tow-coll reports it */
};

static int usage_error(const char *what, const char *value)
{
	fprintf(stderr, "tow-coll-tune: %s: '%s' (tow-coll-tune --help)\n", what, value);
	return FAILED;
}

static int split_list(struct list *list, const char *text)
{
	char *save = NULL;

	list->count = 0;
	if (strlen(text) >= sizeof(list->text))
		return usage_error("the list is too long", text);
	snprintf(list->text, sizeof(list->text), "%s", text);
	for (char *item = strtok_r(list->text, ",", &save); item != NULL;
	     item = strtok_r(NULL, ",", &save)) {
		if (list->count == LIST_MAX)
			return usage_error("the list is too long", text);
		list->items[list->count++] = item;
	}
	return list->count != 0 ? 0 : usage_error("the list is empty", text);
}

static bool holds_name(const struct list *list, const char *name)
{
	for (unsigned int i = 0; i < list->count; i++)
		if (strcmp(list->items[i], name) == 0)
			return true;
	return list->count == 0;
}

static int parse_sizes(struct tune *tune, const char *text)
{
	struct list list;
	int rc = split_list(&list, text);

	tune->size_count = 0;
	for (unsigned int i = 0; i < list.count && rc == 0; i++) {
		char *end;
		uint64_t value = strtoull(list.items[i], &end, 10);

		value <<= *end == 'K' ? 10 : *end == 'M' ? 20 : 0;
		end += *end == 'K' || *end == 'M';
		if (*end != '\0' || value == 0 ||
		    (i > 0 && value <= tune->sizes[tune->size_count - 1]))
			return usage_error("--sizes ascend, such as 8,4K,1M", text);
		tune->sizes[tune->size_count++] = value;
	}
	if (rc == 0)
		strcpy(tune->sizes_text, text);
	return rc;
}

static int parse_op_names(struct tune *tune, const char *text)
{
	int rc = split_list(&tune->ops, text);

	for (unsigned int i = 0; i < tune->ops.count && rc == 0; i++) {
		bool found = false;

		for (int kind = 0; kind < TWI_COLL_KINDS; kind++)
			found = found || strcmp(bench_names[kind], tune->ops.items[i]) == 0;
		if (!found)
			return usage_error("--op has no such operation", tune->ops.items[i]);
	}
	return rc;
}

static int parse_plan_names(struct tune *tune, const char *text)
{
	int rc = split_list(&tune->plans, text);

	for (unsigned int i = 0; i < tune->plans.count && rc == 0; i++)
		if (twi_plan_find(tune->plans.items[i]) == NULL)
			return usage_error("--plans has no such plan", tune->plans.items[i]);
	return rc;
}

static int apply_option(struct tune *tune, int option, const char *value)
{
	switch (option) {
	case 'f':
		tune->out_name = value;
		return 0;
	case 'l':
		return split_list(&tune->lanes, value);
	case 'n':
		return split_list(&tune->ranks, value);
	case 'o':
		return parse_op_names(tune, value);
	case 's':
		return parse_sizes(tune, value);
	case 'p':
		return parse_plan_names(tune, value);
	case 'c':
		tune->passes = (unsigned int)strtoul(value, NULL, 10);
		return tune->passes >= 1 && tune->passes <= PASSES_MAX
			       ? 0
			       : usage_error("--passes is 1 to 64", value);
	case 't':
		tune->seconds = value;
		return 0;
	case 'b':
		snprintf(tune->bench, sizeof(tune->bench), "%s", value);
		return 0;
	case 'h':
		fputs(help, stdout);
		return -1;
	case 'V':
		puts("tow-coll-tune " TOW_VERSION);
		return -1;
	}
	return FAILED; /* getopt has printed why */
}

static int parse_options(struct tune *tune, int argc, char **argv)
{
	static const struct option options[] = {
		{ "out", required_argument, NULL, 'f' },
		{ "lanes", required_argument, NULL, 'l' },
		{ "ranks", required_argument, NULL, 'n' },
		{ "op", required_argument, NULL, 'o' },
		{ "sizes", required_argument, NULL, 's' },
		{ "plans", required_argument, NULL, 'p' },
		{ "passes", required_argument, NULL, 'c' },
		{ "seconds", required_argument, NULL, 't' },
		{ "bench", required_argument, NULL, 'b' },
		{ "help", no_argument, NULL, 'h' },
		{ "version", no_argument, NULL, 'V' },
		{ NULL, 0, NULL, 0 },
	};
	ssize_t length = readlink("/proc/self/exe", tune->bench, sizeof(tune->bench) - 16);
	int option, rc;

	tune->bench[length > 0 ? length : 0] = '\0';
	if (strrchr(tune->bench, '/') != NULL)
		strcpy(strrchr(tune->bench, '/') + 1, "tow-coll");
	tune->passes = 3;
	tune->seconds = "0.05";
	rc = split_list(&tune->lanes, "shm,tcp");
	if (rc == 0)
		rc = split_list(&tune->ranks, "2,4");
	if (rc == 0)
		rc = parse_sizes(tune, "8,256,2K,8K,16K,64K,256K,1M,4M,16M");
	while (rc == 0 && (option = getopt_long(argc, argv, "h", options, NULL)) != -1)
		rc = apply_option(tune, option, optarg);
	if (rc == 0 && optind < argc)
		rc = usage_error("not an option", argv[optind]);
	return rc;
}

/* Runs in the child: executes tow-coll with one plan; NULL checks the table without --plan. */
static _Noreturn void become_bench(const struct tune *tune, const struct field *field,
				   const char *plan, int fd)
{
	const char *argv[] = { tune->bench,
			       "--plain",
			       "--lane",
			       field->lane,
			       "--ranks",
			       field->ranks,
			       "--op",
			       bench_names[field->kind],
			       "--sizes",
			       tune->sizes_text,
			       "--seconds",
			       tune->seconds,
			       "--timeout",
			       "30",
			       plan != NULL ? "--plan" : NULL,
			       plan,
			       NULL };

	if (dup2(fd, STDOUT_FILENO) >= 0 &&
	    (plan != NULL || setenv("TOW_COLL_TABLE", tune->out_name, 1) == 0))
		execv(tune->bench, (char *const *)argv);
	fprintf(stderr, "tow-coll-tune: %s: %s\n", tune->bench, strerror(errno));
	_exit(FAILED);
}

/* Takes a line of tow-coll: a time, or the plan that ran. */
static void take_line(const struct tune *tune, struct field *field, unsigned int plan,
		      const char *line)
{
	char metric[32], name[32];
	uint64_t bytes;
	double value;
	bool timed = sscanf(line, "%*s %*s %*s %" SCNu64 " %31s %lf", &bytes, metric, &value) == 3;

	if (!timed && sscanf(line, "#plan %*s %" SCNu64 " %31s", &bytes, name) != 2)
		return;
	if (timed && strcmp(metric, "time_us") != 0)
		return;
	for (unsigned int i = 0; i < tune->size_count; i++) {
		if (tune->sizes[i] != bytes && field->kind != TWI_COLL_BARRIER)
			continue;
		if (!timed)
			snprintf(field->seen[i], sizeof(field->seen[i]), "%s", name);
		else if (plan < PLANS_MAX && field->samples[plan][i] < PASSES_MAX)
			field->times[plan][i][field->samples[plan][i]++] = value;
	}
}

/* plan PLANS_MAX is no plan: the table decides. Returns tow-coll's exit code. */
static int run_bench(struct tune *tune, struct field *field, unsigned int plan)
{
	const char *name = plan < PLANS_MAX ? field->plans[plan]->name : NULL;
	char line[512];
	int fds[2], status = 0;
	FILE *from;
	pid_t child;

	fflush(NULL);
	if (pipe(fds) != 0 || (child = fork()) < 0) {
		fprintf(stderr, "tow-coll-tune: no process: %s\n", strerror(errno));
		return FAILED;
	}
	if (child == 0) {
		close(fds[0]);
		become_bench(tune, field, name, fds[1]);
	}
	close(fds[1]);
	from = fdopen(fds[0], "r");
	while (from != NULL && fgets(line, sizeof(line), from) != NULL)
		take_line(tune, field, plan, line);
	if (from != NULL)
		fclose(from);
	if (waitpid(child, &status, 0) != child || !WIFEXITED(status))
		return FAILED;
	return WEXITSTATUS(status);
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* 0: it was not measured there. */
static double median_of(struct field *field, unsigned int plan, unsigned int size)
{
	unsigned int count = field->samples[plan][size];

	if (count == 0)
		return 0;
	qsort(field->times[plan][size], count, sizeof(double), by_value);
	return field->times[plan][size][count / 2];
}

static void choose_plans(struct tune *tune, struct field *field)
{
	int last = -1;

	for (unsigned int s = 0; s < tune->size_count; s++) {
		double best = 0, kept = last >= 0 ? median_of(field, (unsigned int)last, s) : 0;

		field->chosen[s] = -1;
		for (unsigned int p = 0; p < field->plan_count; p++) {
			double time = median_of(field, p, s);

			if (time > 0 && (best == 0 || time < best)) {
				best = time;
				field->chosen[s] = (int)p;
			}
		}
		if (kept > 0 && kept <= best * CLOSE)
			field->chosen[s] = last;
		last = field->chosen[s];
	}
}

/* Bytes as the library counts them: in an all-to-all, those for one rank. */
static double table_bytes(const struct tune *tune, const struct field *field, unsigned int size)
{
	double bytes = (double)tune->sizes[size];

	return field->kind == TWI_COLL_ALL_TO_ALL ? bytes / atof(field->ranks) : bytes;
}

static void write_line(const struct tune *tune, const struct field *field, unsigned int s,
		       bool last)
{
	fprintf(tune->out, "%s %s %s ", twi_coll_kind_name(field->kind),
		strcmp(field->lane, "shm") == 0 ? "shm" : "net", field->ranks);
	if (last)
		fprintf(tune->out, "inf");
	else
		fprintf(tune->out, "%.0f",
			floor(sqrt(table_bytes(tune, field, s) * table_bytes(tune, field, s + 1))));
	fprintf(tune->out, " %s\n", field->plans[field->chosen[s]]->name);
}

static void write_field(struct tune *tune, struct field *field)
{
	for (unsigned int s = 0; s < tune->size_count; s++) {
		fprintf(tune->out, "# %s %s %s, %" PRIu64 " bytes, us:", bench_names[field->kind],
			field->lane, field->ranks, tune->sizes[s]);
		for (unsigned int p = 0; p < field->plan_count; p++)
			if (field->samples[p][s] != 0)
				fprintf(tune->out, " %s %.4g", field->plans[p]->name,
					median_of(field, p, s));
		fprintf(tune->out, "\n");
		if (field->kind == TWI_COLL_BARRIER)
			break;
	}
	for (unsigned int s = 0; s < tune->size_count; s++) {
		bool last = s + 1 == tune->size_count;

		/* The library has no size for a barrier, nor one for an all-to-all-v. */
		if (!last && (field->kind == TWI_COLL_ALL_TO_ALL_V ||
			      field->chosen[s] == field->chosen[s + 1]))
			continue;
		if (field->chosen[s] >= 0)
			write_line(tune, field, s, last);
	}
	fflush(tune->out);
}

/*
 * Finds the plans that may serve the operation. tow-coll reports the sizes that a plan cannot
 * serve.
 */
static void find_plans(const struct tune *tune, struct field *field)
{
	bool shm = strcmp(field->lane, "shm") == 0;

	for (unsigned int i = 0; i < twi_plan_row_count && field->plan_count < PLANS_MAX; i++) {
		const struct twi_plan_row *row = &twi_plan_rows[i];

		if ((row->kinds >> field->kind & 1) != 0 && (shm || !row->local) &&
		    holds_name(&tune->plans, row->name))
			field->plans[field->plan_count++] = row;
	}
}

static void measure_field(struct tune *tune, struct field *field)
{
	bool broken[PLANS_MAX] = { false };

	for (unsigned int pass = 0; pass < tune->passes; pass++) {
		for (unsigned int p = 0; p < field->plan_count; p++) {
			int rc = broken[p] ? 0 : run_bench(tune, field, p);

			if (rc == 0)
				continue;
			fprintf(stderr,
				"tow-coll-tune: %s on %s, %s ranks, plan %s: exit code %d\n",
				bench_names[field->kind], field->lane, field->ranks,
				field->plans[p]->name, rc);
			broken[p] = true;
			memset(field->samples[p], 0, sizeof(field->samples[p]));
			tune->status = tune->status == 1 ? 1 : rc;
		}
	}
	choose_plans(tune, field);
	write_field(tune, field);
}

/* Runs with the new table, and checks that its plans run. */
static void read_back(struct tune *tune, struct field *field)
{
	int rc;

	memset(field->seen, 0, sizeof(field->seen));
	rc = run_bench(tune, field, PLANS_MAX);
	if (rc != 0)
		tune->status = rc;
	for (unsigned int s = 0; s < tune->size_count && rc == 0; s++) {
		unsigned int at = field->kind == TWI_COLL_ALL_TO_ALL_V ? tune->size_count - 1 : s;

		if (field->chosen[at] < 0 || field->seen[s][0] == '\0' ||
		    strcmp(field->seen[s], field->plans[field->chosen[at]]->name) == 0)
			continue;
		fprintf(stderr, "tow-coll-tune: %s of %" PRIu64 " bytes ran by %s, not by %s\n",
			bench_names[field->kind], tune->sizes[s], field->seen[s],
			field->plans[field->chosen[at]]->name);
		tune->status = 1;
	}
}

static int tune_one(struct tune *tune, const char *lane, const char *ranks, enum twi_coll_kind kind)
{
	struct field *field = calloc(1, sizeof(*field));

	if (field == NULL) {
		fprintf(stderr, "tow-coll-tune: no memory\n");
		return FAILED;
	}
	field->lane = lane;
	field->ranks = ranks;
	field->kind = kind;
	find_plans(tune, field);
	if (field->plan_count != 0)
		measure_field(tune, field);
	if (field->plan_count != 0 && tune->out_name != NULL)
		read_back(tune, field);
	free(field);
	return 0;
}

static void write_head(const struct tune *tune)
{
	char model[128] = "", line[256], date[32];
	time_t now = time(NULL);
	struct utsname host;
	struct tm day;
	FILE *cpus = fopen("/proc/cpuinfo", "re");

	while (cpus != NULL && fgets(line, sizeof(line), cpus) != NULL)
		if (sscanf(line, "model name : %127[^\n]", model) == 1)
			break;
	if (cpus != NULL)
		fclose(cpus);
	uname(&host);
	strftime(date, sizeof(date), "%Y-%m-%d", gmtime_r(&now, &day));
	fprintf(tune->out,
		"# tow-coll-tune of towline %s, %s\n# %s, %ld CPUs, %s %s; medians of %u "
		"passes\n# kind lane ranks bytes_max plan\n",
		tow_version(), date, model, sysconf(_SC_NPROCESSORS_ONLN), host.sysname,
		host.release, tune->passes);
}

int main(int argc, char **argv)
{
	static struct tune tune;
	int rc = parse_options(&tune, argc, argv);

	if (rc != 0)
		return rc < 0 ? EXIT_SUCCESS : rc;
	unsetenv("TOW_COLL_TABLE");
	unsetenv("TOW_COLL_PLAN");
	tune.out = tune.out_name != NULL ? fopen(tune.out_name, "we") : stdout;
	if (tune.out == NULL) {
		fprintf(stderr, "tow-coll-tune: %s: %s\n", tune.out_name, strerror(errno));
		return FAILED;
	}
	write_head(&tune);
	for (unsigned int l = 0; l < tune.lanes.count; l++)
		for (unsigned int n = 0; n < tune.ranks.count; n++)
			for (int kind = 0; kind < TWI_COLL_KINDS && rc == 0; kind++)
				if (holds_name(&tune.ops, bench_names[kind]))
					rc = tune_one(&tune, tune.lanes.items[l],
						      tune.ranks.items[n], kind);
	if (tune.out_name != NULL && fclose(tune.out) != 0) {
		fprintf(stderr, "tow-coll-tune: %s: %s\n", tune.out_name, strerror(errno));
		return FAILED;
	}
	return rc != 0 ? rc : tune.status;
}
