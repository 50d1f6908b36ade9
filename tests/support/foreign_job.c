/* foreign_job.c - a job whose bytes another library carries, with a fault in it. */
#include "foreign_job.h"

#include <jansson.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "command.h"
#include "store_port.h"

#include "transport/engine/engine.h"
#include "transport/engine/runtime.h"
#include "transport/wire/feature.h"

#define LIMIT_S   60
#define JOIN_NAPS 600

const char *const twt_fj_names[FJ_FAULTS] = { "healthy", "late",    "slow link",
					      "device",  "missing", "stopped" };

/* --- a rank --- */

static void nap_us(unsigned us)
{
	const struct timespec nap = { .tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000 };

	nanosleep(&nap, NULL);
}

bool twt_fj_meet(struct twt_fj *job)
{
	uint32_t all = ++job->met * job->ranks;

	atomic_fetch_add(&job->marks->arrived, 1);
	while (atomic_load(&job->marks->arrived) < all) {
		if (atomic_load(&job->marks->stop))
			return false;
		nap_us(100);
	}
	return true;
}

bool twt_fj_step(struct twt_fj *job, uint32_t rank)
{
	nap_us(10000);
	if (atomic_load(&job->marks->stop) || !twt_fj_meet(job))
		return false;
	if (rank == 0)
		atomic_fetch_add(&job->marks->steps, 1);
	if (job->fault != FJ_MISSING || rank != job->victim || job->step++ < FJ_STEPS)
		return true;
	while (!atomic_load(&job->marks->stop))
		nap_us(10000);
	return false;
}

void twt_fj_dawdle(const struct twt_fj *job, uint32_t rank)
{
	if (job->fault == FJ_LATE && rank == job->victim)
		nap_us(FJ_LATE_MS * 1000);
}

static void set_environment(const struct twt_fj *job, uint32_t rank)
{
	char text[16];

	snprintf(text, sizeof(text), "%u", rank);
	setenv("TOW_RANK", text, 1);
	snprintf(text, sizeof(text), "%u", job->ranks);
	setenv("TOW_WORLD_SIZE", text, 1);
	setenv("TOW_JOB", job->name, 1);
	setenv("TOW_PREMAP_MEMORY_BYTES", "4194304", 1);
	if (job->joins) {
		setenv("TOW_STORE", job->store, 1);
		setenv("TOW_NCCL_JOIN", "1", 1);
	}
}

/* What plays shares the runtime of the process. */
static struct tow_group *join_group(struct twt_fj *job, uint32_t rank)
{
	struct tow_group_options where = TOW_GROUP_OPTIONS_INIT;
	struct tow_options options = TOW_OPTIONS_INIT;
	struct tow_group *group;

	TWT_MUST(tow_runtime_share(&options, &job->runtime) == TOW_OK);
	if (job->old && rank + 1 == job->ranks)
		twi_runtime_engine(job->runtime)->features.offered &=
			~TWI_FEATURE_BIT(foreign_groups);
	where.rank = rank;
	where.world_size = job->ranks;
	where.store = job->store;
	TWT_MUST(tow_group_open(job->runtime, &where, &group) == TOW_OK);
	TWT_MUST(tow_group_barrier(group, (uint64_t)LIMIT_S * 1000000000u) == TOW_OK);
	return group;
}

static void rank_main(struct twt_fj *job, uint32_t rank)
{
	struct tow_group *group = NULL;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	signal(SIGSEGV, SIG_DFL); /* cmocka would go on with the next test in here */
	alarm(LIMIT_S);
	set_environment(job, rank);
	if (job->grouped)
		group = join_group(job, rank);
	job->play(job, rank);
	if (group != NULL) {
		TWT_MUST(tow_group_close(group) == TOW_OK);
		TWT_MUST(tow_runtime_close(job->runtime) == TOW_OK);
	}
	exit(0); /* not _exit: leaks are looked for at exit */
}

/* --- the job --- */

static json_t *member(json_t *object, const char *key)
{
	return json_object_get(object, key);
}

/* Until the first rank can answer for all. */
static void await_join(const struct twt_fj *job)
{
	struct twt_command *command = malloc(sizeof(*command));
	long long known = 0;
	char line[128];

	assert_non_null(command);
	snprintf(line, sizeof(line), "@/tools/towstat/towstat verdict --json %s.0 2>/dev/null",
		 job->name);
	/* An ask takes a second or 5 ms: the naps bound the wait, for half of the job's time. */
	for (unsigned i = 0; i < JOIN_NAPS && known < job->ranks; i++) {
		json_t *document;

		if (i > 0)
			nap_us(LIMIT_S * 1000000 / 2 / JOIN_NAPS);
		twt_command(line, command);
		document = json_loads(command->text, 0, NULL);
		known = json_integer_value(member(document, "ranks_answered"));
		json_decref(document);
	}
	free(command);
	if (known < job->ranks)
		fail_msg("%lld of %u ranks are joined", known, job->ranks);
}

void twt_fj_begin(struct twt_fj *job)
{
	char store[32];
	int port;

	snprintf(job->dir, sizeof(job->dir), "/tmp/tow-foreign-XXXXXX");
	assert_non_null(mkdtemp(job->dir));
	snprintf(job->name, sizeof(job->name), "f%d-%d", (int)getpid(), (int)job->fault);
	setenv("TOW_STATS_DIR", job->dir, 1);
	job->marks = mmap(NULL, sizeof(*job->marks), PROT_READ | PROT_WRITE,
			  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_true(job->marks != MAP_FAILED);
	port = twt_store_port(store, sizeof(store));
	snprintf(job->store, sizeof(job->store), "%s", store);
	for (uint32_t rank = 0; rank < job->ranks; rank++) {
		fflush(NULL);
		job->pids[rank] = fork();
		assert_true(job->pids[rank] >= 0);
		if (job->pids[rank] == 0)
			rank_main(job, rank);
	}
	for (unsigned i = 0; i < 3000 && atomic_load(&job->marks->steps) < FJ_STEPS; i++)
		nap_us(10000);
	close(port);
	if (atomic_load(&job->marks->steps) < FJ_STEPS)
		fail_msg("%s: the job has not come to its fault", twt_fj_names[job->fault]);
	if (job->joins)
		await_join(job);
	if (job->fault == FJ_STOPPED)
		kill(job->pids[job->victim], SIGSTOP);
	if (job->fault == FJ_MISSING)
		nap_us(4500000);
}

/* What the finding says of the culprit. */
static bool names_culprit(const struct twt_fj *job, json_t *finding)
{
	json_t *ranks = member(finding, "ranks"), *links = member(finding, "links");

	if (job->fault != FJ_LINK)
		return json_array_size(ranks) == 1 && json_array_size(links) == 0 &&
		       json_integer_value(json_array_get(ranks, 0)) == job->victim;
	return json_array_size(ranks) == 0 && json_array_size(links) == 1 &&
	       json_integer_value(member(json_array_get(links, 0), "from")) == job->victim &&
	       json_integer_value(member(json_array_get(links, 0), "to")) ==
		       (job->victim + 1) % job->ranks;
}

static bool is_right(const struct twt_fj *job, json_t *document, int status)
{
	static const char *const causes[FJ_FAULTS] = { "",       "late",          "slow_link",
						       "device", "never_entered", "stopped" };
	json_t *findings = member(document, "findings"), *finding = json_array_get(findings, 0);
	bool joined = json_is_true(member(document, "joined"));
	const char *evidence = json_string_value(json_array_get(member(finding, "evidence"), 0));
	long long silent = job->fault == FJ_STOPPED;

	if (json_integer_value(member(document, "ranks_answered")) != job->ranks - silent ||
	    json_integer_value(member(document, "ranks_in_job")) != job->ranks ||
	    joined == (job->joins || job->grouped))
		return false;
	if (job->fault == FJ_HEALTHY)
		return status == 0 && json_array_size(findings) == 0;
	return status == 3 && json_array_size(findings) == 1 &&
	       strcmp(json_string_value(member(finding, "cause")), causes[job->fault]) == 0 &&
	       names_culprit(job, finding) && evidence != NULL &&
	       (job->fault == FJ_STOPPED || strstr(evidence, "communicator " FJ_NAME) != NULL);
}

void twt_fj_expect(struct twt_fj *job)
{
	struct twt_command *command = malloc(sizeof(*command));
	json_t *document;
	char line[128];
	bool right;

	assert_non_null(command);
	snprintf(line, sizeof(line), "@/tools/towstat/towstat verdict --json %s 2>/dev/null",
		 job->name);
	twt_command(line, command);
	document = json_loads(command->text, 0, NULL);
	right = document != NULL && is_right(job, document, command->status);
	if (!right)
		fprintf(stderr, "%s of %u ranks, victim %u: %s\n", twt_fj_names[job->fault],
			job->ranks, job->victim, command->text);
	json_decref(document);
	free(command);
	assert_true(right);
}

char *twt_fj_document(struct twt_fj *job, uint32_t rank)
{
	struct twt_command *command = malloc(sizeof(*command));
	char line[128], *text;

	assert_non_null(command);
	snprintf(line, sizeof(line), "@/tools/towstat/towstat get /v1/coll --rank %u --json %s",
		 rank, job->name);
	twt_command(line, command);
	assert_int_equal(command->status, 0);
	text = strdup(command->text);
	free(command);
	return text;
}

void twt_fj_end(struct twt_fj *job)
{
	char line[128];
	bool bad = false;
	int how;

	atomic_store(&job->marks->stop, true);
	if (job->fault == FJ_STOPPED)
		kill(job->pids[job->victim], SIGCONT);
	for (uint32_t rank = 0; rank < job->ranks; rank++) {
		assert_int_equal(waitpid(job->pids[rank], &how, 0), job->pids[rank]);
		bad |= !WIFEXITED(how) || WEXITSTATUS(how) != 0;
	}
	munmap(job->marks, sizeof(*job->marks));
	snprintf(line, sizeof(line), "rm -r %s", job->dir);
	if (system(line) != 0)
		fprintf(stderr, "%s is left behind\n", job->dir);
	if (bad)
		fail_msg("%s: a rank did not end well", twt_fj_names[job->fault]);
}
