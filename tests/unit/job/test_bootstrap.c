/*
 * test_bootstrap.c - every launcher's variables: whole, with a hole, and contradicting themselves.
 * Each row is an environment and what must come of it.
 */
#include "twt.h"

#include <string.h>

#include <towline/status.h>

#include "diag/base/emit.h"
#include "transport/job/bootstrap.h"

#define VARS_MAX 16

struct row {
	const char *env[VARS_MAX];
	const char *launcher; /* NULL: refused */
	int64_t rank, world_size;
	const char *store; /* or the exchange, in brackets */
	const char *why;   /* parts of the message, with | between them */
	int64_t local_rank, local_size;
	uint32_t restarts;
	const char *job;
};

/* clang-format would break rows of members by name. */
#define IS(l, r, w, s) .launcher = l, .rank = r, .world_size = w, .store = s
#define LOCAL(r, s)    .local_rank = r, .local_size = s
#define JOB(times, j)  .restarts = times, .job = j
#define NOT(text)      .why = text

static const char *const exchanges[] = { "<none>", "<address>", "<pmix>",
					 "<pmi2>", "<pmi>",     "<caller>" };

static int detect_by(const char *const *env, bool caller, struct twi_bootstrap *out)
{
	const struct twi_bootstrap_input in = { .env = env,
						.hostname = "host",
						.fqdn = "train-2.workers.ns.svc.cluster.local",
						.rank = -1,
						.world_size = -1,
						.job = "j",
						.caller = caller };

	return twi_bootstrap_detect(&in, out);
}

static int detect(const char *const *env, struct twi_bootstrap *out)
{
	return detect_by(env, false, out);
}

/* With an exchange of the caller's the same rank of the same job, and no store of a launcher's. */
static void check_caller(const char *const *env, const struct twi_bootstrap *without)
{
	struct twi_bootstrap out;

	assert_int_equal(detect_by(env, true, &out), TOW_OK);
	assert_true(out.launcher == without->launcher && out.rank == without->rank);
	assert_true(out.world_size == without->world_size && out.restarts == without->restarts);
	assert_string_equal(out.job, without->job);
	assert_string_equal(out.store, "");
	assert_int_equal(out.exchange,
			 out.world_size == 1 ? TWI_EXCHANGE_NONE : TWI_EXCHANGE_CALLER);
}

/* What says nothing of a store is whole then. */
static void by_caller(void **state)
{
	static const char *const envs[][VARS_MAX] = {
		{ "RANK=1", "WORLD_SIZE=4" },
		{ "TOW_RANK=1", "TOW_WORLD_SIZE=4" },
		{ "TOW_RANK=1", "TOW_WORLD_SIZE=4", "TOW_STORE=nonsense" },
		{ "RANK=1", "WORLD_SIZE=4", "MASTER_ADDR=m", "MASTER_PORT=29500" },
	};
	struct twi_bootstrap out;

	(void)state;
	for (size_t i = 0; i < sizeof(envs) / sizeof(envs[0]); i++) {
		assert_int_equal(detect_by(envs[i], true, &out), TOW_OK);
		assert_true(out.rank == 1 && out.world_size == 4 && out.store[0] == '\0');
		assert_int_equal(out.exchange, TWI_EXCHANGE_CALLER);
	}
	assert_int_equal(detect_by((const char *const[]){ "RANK=1", NULL }, true, &out),
			 TOW_EINVAL);
}

static void print_env(const struct row *row)
{
	for (int i = 0; i < VARS_MAX && row->env[i] != NULL; i++)
		print_message("  %s\n", row->env[i]);
}

static void check_refusal(const struct row *row, const struct twi_bootstrap *out)
{
	char parts[256], *part, *save = NULL;

	assert_int_equal(out->status, TOW_EINVAL);
	snprintf(parts, sizeof(parts), "%s", row->why);
	for (part = strtok_r(parts, "|", &save); part != NULL; part = strtok_r(NULL, "|", &save)) {
		if (strstr(out->why, part) == NULL)
			fail_msg("'%s' is not in: %s", part, out->why);
	}
}

static void check_row(const struct row *row)
{
	struct twi_bootstrap out;

	detect(row->env, &out);
	if ((row->launcher == NULL) != (out.status < 0)) {
		print_env(row);
		fail_msg("status %d, launcher %s: %s", out.status, twi_launcher_name(out.launcher),
			 out.why);
	}
	if (row->launcher == NULL) {
		check_refusal(row, &out);
		return;
	}
	check_caller(row->env, &out);
	assert_string_equal(twi_launcher_name(out.launcher), row->launcher);
	assert_int_equal(out.rank, row->rank);
	assert_int_equal(out.world_size, row->world_size);
	if (row->store != NULL && row->store[0] == '<')
		assert_string_equal(exchanges[out.exchange], row->store);
	else
		assert_string_equal(out.store, row->store == NULL ? "" : row->store);
	if (row->local_size != 0) {
		assert_int_equal(out.local_rank, row->local_rank);
		assert_int_equal(out.local_size, row->local_size);
	}
	assert_int_equal(out.restarts, row->restarts);
	if (row->job != NULL)
		assert_string_equal(out.job, row->job);
}

static void check_rows(const struct row *rows, size_t count)
{
	for (size_t i = 0; i < count; i++)
		check_row(&rows[i]);
}
#define CHECK(rows) check_rows(rows, sizeof(rows) / sizeof((rows)[0]))

static void single(void **state)
{
	static const struct row rows[] = {
		{ { NULL }, IS("single", 0, 1, "<none>"), LOCAL(0, 1), JOB(0, "j") },
		/* Addresses alone name no rank. */
		{ { "MASTER_ADDR=a", "MASTER_PORT=1" }, IS("single", 0, 1, "<none>") },
		{ { "TOW_STORE=a:1" }, IS("single", 0, 1, "<none>") },
		{ { "TOW_WORLD_SIZE=1" }, IS("single", 0, 1, "<none>") },
		{ { "TOW_WORLD_SIZE=4" }, NOT("4 ranks|TOW_RANK") },
		{ { "TOW_WORLD_SIZE=x" }, NOT("TOW_WORLD_SIZE|'x'|from 0") },
		{ { "TOW_WORLD_SIZE=65537" }, NOT("'65537'|65536") },
		{ { "TOW_STORE=a" }, NOT("TOW_STORE|'a'|HOST:PORT") },
		{ { "TOW_STORE=::1:80" }, NOT("TOW_STORE|brackets") },
		/* A name that begins like another's. */
		{ { "RANKS=3", "XRANK=3" }, IS("single", 0, 1, "<none>") },
	};

	(void)state;
	CHECK(rows);
}

static void own(void **state)
{
	static const struct row rows[] = {
		{ { "TOW_RANK=2", "TOW_WORLD_SIZE=4", "TOW_STORE=h:7", "TOW_LOCAL_RANK=0",
		    "TOW_LOCAL_SIZE=2" },
		  IS("tow", 2, 4, "h:7"),
		  LOCAL(0, 2),
		  JOB(0, "j") },
		{ { "TOW_RANK=0", "TOW_WORLD_SIZE=1" }, IS("tow", 0, 1, "<none>") },
		{ { "TOW_RANK=0" }, NOT("rank 0|TOW_WORLD_SIZE") },
		{ { "TOW_RANK=1", "TOW_WORLD_SIZE=2" }, NOT("TOW_STORE|HOST:PORT") },
		{ { "TOW_RANK=2", "TOW_WORLD_SIZE=2", "TOW_STORE=h:7" }, NOT("rank 2 of 2") },
		{ { "TOW_RANK=-1", "TOW_WORLD_SIZE=2", "TOW_STORE=h:7" }, NOT("TOW_RANK|'-1'") },
		{ { "TOW_RANK=", "TOW_WORLD_SIZE=2", "TOW_STORE=h:7" }, NOT("TOW_RANK|''") },
		{ { "TOW_RANK=99999999999999999999", "TOW_WORLD_SIZE=2" }, NOT("TOW_RANK") },
		{ { "TOW_RANK=1", "TOW_WORLD_SIZE=2", "TOW_STORE=h:7", "TOW_LOCAL_RANK=2",
		    "TOW_LOCAL_SIZE=2" },
		  NOT("local rank 2 of 2") },
		{ { "TOW_RANK=1", "TOW_WORLD_SIZE=2", "TOW_STORE=h:7", "TOW_LOCAL_SIZE=3" },
		  NOT("3 ranks on this host") },
		/* It comes before the launchers, whatever those say. */
		{ { "TOW_RANK=1", "TOW_WORLD_SIZE=2", "TOW_STORE=[::1]:7", "RANK=9",
		    "PMI_RANK=broken" },
		  IS("tow", 1, 2, "[::1]:7") },
	};

	(void)state;
	CHECK(rows);
}

static void options(void **state)
{
	static const char *const env[] = { "TOW_RANK=3", "TOW_STORE=e:1", "TOW_WORLD_SIZE=8",
					   NULL };
	struct twi_bootstrap_input in = { .env = env,
					  .hostname = "",
					  .fqdn = "",
					  .rank = 1,
					  .world_size = 2,
					  .store = "o:1",
					  .job = "j" };
	struct twi_bootstrap out;

	(void)state;
	assert_int_equal(twi_bootstrap_detect(&in, &out), TOW_OK);
	assert_string_equal(twi_launcher_name(out.launcher), "options");
	assert_int_equal(out.rank, 1);
	assert_int_equal(out.world_size, 2);
	assert_string_equal(out.store, "o:1");
	in.world_size = -1; /* what is not set there is taken from the environment */
	in.store = NULL;
	assert_int_equal(twi_bootstrap_detect(&in, &out), TOW_OK);
	assert_int_equal(out.world_size, 8);
	assert_string_equal(out.store, "e:1");
	in.world_size = 1 << 20;
	assert_int_equal(twi_bootstrap_detect(&in, &out), TOW_EINVAL);
	assert_non_null(strstr(out.why, "world_size"));
	in.world_size = 2;
	in.store = "nonsense:";
	assert_int_equal(twi_bootstrap_detect(&in, &out), TOW_EINVAL);
}

#define TORCH "RANK=1", "WORLD_SIZE=4", "MASTER_ADDR=m", "MASTER_PORT=29500"

static void torchrun(void **state)
{
	static const struct row rows[] = {
		{ { TORCH, "LOCAL_RANK=1", "LOCAL_WORLD_SIZE=2", "TORCHELASTIC_RUN_ID=r",
		    "TORCHELASTIC_RESTART_COUNT=3", "TORCHELASTIC_USE_AGENT_STORE=True" },
		  IS("torchrun", 1, 4, "m:29601"),
		  LOCAL(1, 2),
		  JOB(3, "j/torchrun-r") },
		{ { TORCH }, IS("torchrun", 1, 4, "m:29601") },
		{ { TORCH, "TOW_STORE=s:9" }, IS("torchrun", 1, 4, "s:9") },
		{ { "RANK=0", "WORLD_SIZE=2", "MASTER_ADDR=::1", "MASTER_PORT=65535" },
		  IS("torchrun", 0, 2, "[::1]:65434") },
		{ { "RANK=0", "WORLD_SIZE=1" }, IS("torchrun", 0, 1, "<none>") },
		{ { "RANK=0" }, NOT("WORLD_SIZE is not set|RANK is there") },
		{ { "WORLD_SIZE=4" }, NOT("RANK is not set") },
		{ { "TORCHELASTIC_RUN_ID=x" }, NOT("RANK is not set|TORCHELASTIC_RUN_ID") },
		{ { "RANK=1", "WORLD_SIZE=4", "MASTER_PORT=1" }, NOT("MASTER_ADDR is not set") },
		{ { "RANK=1", "WORLD_SIZE=4", "MASTER_ADDR=", "MASTER_PORT=1" },
		  NOT("MASTER_ADDR is empty") },
		{ { "RANK=1", "WORLD_SIZE=4", "MASTER_ADDR=m" }, NOT("MASTER_PORT is not set") },
		{ { "RANK=1", "WORLD_SIZE=4", "MASTER_ADDR=m", "MASTER_PORT=70000" },
		  NOT("MASTER_PORT|'70000'|65535") },
		{ { "RANK=4", "WORLD_SIZE=4", "MASTER_ADDR=m", "MASTER_PORT=1" },
		  NOT("rank 4 of 4") },
		{ { TORCH, "LOCAL_RANK=2", "LOCAL_WORLD_SIZE=2" }, NOT("local rank 2 of 2") },
		{ { TORCH, "TORCHELASTIC_RESTART_COUNT=-1" }, NOT("RESTART_COUNT|'-1'") },
		{ { TORCH, "TOW_WORLD_SIZE=8" }, NOT("4 ranks|TOW_WORLD_SIZE|8") },
	};

	(void)state;
	CHECK(rows);
}

#define SLICES "MEGASCALE_NUM_SLICES=2", "MEGASCALE_SLICE_ID=1"
#define TPU    "TPU_WORKER_ID=2", "TPU_WORKER_HOSTNAMES=a,b,c"

static void megascale(void **state)
{
	static const struct row rows[] = {
		{ { "MEGASCALE_COORDINATOR_ADDRESS=co", SLICES, TPU },
		  IS("megascale", 5, 6, "co:8182") },
		{ { "MEGASCALE_COORDINATOR_ADDRESS=co:90", SLICES, TPU },
		  IS("megascale", 5, 6, "co:191") },
		{ { "MEGASCALE_COORDINATOR_ADDRESS=co", "MEGASCALE_PORT=100", SLICES, TPU },
		  IS("megascale", 5, 6, "co:201") },
		/* An empty coordinator means none: then the slice alone is a job. */
		{ { "MEGASCALE_COORDINATOR_ADDRESS=", SLICES, TPU },
		  IS("megascale", 2, 3, "a:8182") },
		{ { "MEGASCALE_COORDINATOR_ADDRESS=", SLICES }, IS("single", 0, 1, "<none>") },
		{ { TPU }, IS("megascale", 2, 3, "a:8182") },
		{ { "TPU_WORKER_ID=0", "TPU_WORKER_HOSTNAMES=localhost" },
		  IS("single", 0, 1, "<none>") },
		{ { SLICES, TPU }, NOT("MEGASCALE_COORDINATOR_ADDRESS is not set") },
		{ { "MEGASCALE_COORDINATOR_ADDRESS=co", "MEGASCALE_SLICE_ID=0", TPU },
		  NOT("MEGASCALE_NUM_SLICES is not set") },
		{ { "MEGASCALE_COORDINATOR_ADDRESS=co", "MEGASCALE_NUM_SLICES=2",
		    "MEGASCALE_SLICE_ID=2", TPU },
		  NOT("MEGASCALE_SLICE_ID|'2'|0 to 1") },
		{ { "MEGASCALE_COORDINATOR_ADDRESS=co", SLICES },
		  NOT("TPU_WORKER_HOSTNAMES is not set") },
		{ { "MEGASCALE_COORDINATOR_ADDRESS=co", SLICES, "TPU_WORKER_HOSTNAMES=a,b" },
		  NOT("TPU_WORKER_ID is not set") },
		{ { "MEGASCALE_COORDINATOR_ADDRESS=co", SLICES, "TPU_WORKER_HOSTNAMES=a,,b",
		    "TPU_WORKER_ID=0" },
		  NOT("TPU_WORKER_HOSTNAMES|comma") },
		{ { "MEGASCALE_COORDINATOR_ADDRESS=co", SLICES, "TPU_WORKER_HOSTNAMES=a,b",
		    "TPU_WORKER_ID=2" },
		  NOT("TPU_WORKER_ID|'2'") },
		{ { "MEGASCALE_COORDINATOR_ADDRESS=co:x", SLICES, TPU },
		  NOT("MEGASCALE_COORDINATOR_ADDRESS|'co:x'") },
	};

	(void)state;
	CHECK(rows);
}

#define OMPI "OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=2"

static void mpi(void **state)
{
	static const struct row rows[] = {
		{ { OMPI, "OMPI_COMM_WORLD_LOCAL_RANK=0", "OMPI_COMM_WORLD_LOCAL_SIZE=1",
		    "PMIX_RANK=1", "PMIX_NAMESPACE=77" },
		  IS("openmpi", 1, 2, "<pmix>"),
		  LOCAL(0, 1),
		  JOB(0, "j/openmpi-77") },
		{ { OMPI, "TOW_STORE=s:1" }, IS("openmpi", 1, 2, "s:1") },
		{ { "OMPI_COMM_WORLD_RANK=0", "OMPI_COMM_WORLD_SIZE=1" },
		  IS("openmpi", 0, 1, "<none>") },
		{ { OMPI }, NOT("PMIX_NAMESPACE is not set|TOW_STORE") },
		{ { OMPI, "PMIX_NAMESPACE=1" }, NOT("PMIX_RANK is not set") },
		{ { OMPI, "PMIX_NAMESPACE=1", "PMIX_RANK=0" }, NOT("PMIX_RANK = 0|expected 1") },
		{ { "OMPI_COMM_WORLD_RANK=1" }, NOT("OMPI_COMM_WORLD_SIZE is not set") },
		{ { "OMPI_COMM_WORLD_SIZE=1" }, NOT("OMPI_COMM_WORLD_RANK is not set") },
		{ { "PMIX_RANK=1", "PMIX_NAMESPACE=n" },
		  IS("pmix", 1, 0, "<pmix>"),
		  JOB(0, "j/pmix-n") },
		{ { "PMIX_RANK=1", "PMIX_NAMESPACE=n", "TOW_WORLD_SIZE=2", "TOW_STORE=s:1" },
		  IS("pmix", 1, 2, "s:1") },
		{ { "PMIX_RANK=1" }, NOT("PMIX_NAMESPACE is not set") },
		{ { "PMIX_NAMESPACE=1" }, NOT("PMIX_RANK is not set") },
		{ { "PMI_RANK=1", "PMI_SIZE=2", "PMI_FD=6", "MPI_LOCALRANKID=1",
		    "MPI_LOCALNRANKS=2" },
		  IS("pmi", 1, 2, "<pmi>"),
		  LOCAL(1, 2) },
		{ { "PMI_RANK=1", "PMI_SIZE=2", "PMI_FD=6", "SLURM_PROCID=1" },
		  IS("pmi", 1, 2, "<pmi2>") },
		{ { "PMI_RANK=1", "PMI_SIZE=2", "TOW_STORE=s:1" }, IS("pmi", 1, 2, "s:1") },
		{ { "PMI_RANK=1", "PMI_SIZE=2" }, NOT("PMI_FD is not set|TOW_STORE") },
		{ { "PMI_RANK=1", "PMI_SIZE=2", "PMI_FD=x" }, NOT("PMI_FD|'x'") },
		{ { "PMI_FD=5" }, NOT("PMI_RANK is not set|PMI_FD is there") },
		{ { "PMI_RANK=1" }, NOT("PMI_SIZE is not set") },
		{ { "PMI_PORT=h:1" }, NOT("PMI_RANK is not set") },
	};

	(void)state;
	CHECK(rows);
}

#define STEP "SLURM_JOB_ID=1000", "SLURM_STEP_ID=2", "SLURM_LOCALID=1"

static void slurm(void **state)
{
	static const struct row rows[] = {
		{ { "SLURM_PROCID=3", "SLURM_NTASKS=4", STEP, "SLURM_STEP_NODELIST=n[08-09],m",
		    "SLURM_STEP_NUM_NODES=3", "SLURM_RESTART_COUNT=1" },
		  IS("slurm", 3, 4, "n08:22706"),
		  JOB(1, "j/slurm-1000.2") },
		{ { "SLURM_PROCID=1", "SLURM_NTASKS=8", "SLURM_STEP_NUM_TASKS=2", STEP,
		    "SLURM_STEP_NODELIST=x" },
		  IS("slurm", 1, 2, "x:22706") },
		{ { "SLURM_PROCID=1", "SLURM_NTASKS=2", STEP, "SLURM_STEP_NODELIST=x",
		    "TOW_STORE=s:1" },
		  IS("slurm", 1, 2, "s:1") },
		/* The script of sbatch is no step. */
		{ { "SLURM_PROCID=0", "SLURM_NTASKS=4", "SLURM_JOB_ID=1" },
		  IS("single", 0, 1, "<none>") },
		{ { "SLURM_PROCID=2", "SLURM_NTASKS=4", STEP },
		  NOT("SLURM_STEP_NODELIST is not set") },
		{ { "SLURM_NTASKS=4", STEP, "SLURM_STEP_NODELIST=x" },
		  NOT("SLURM_PROCID is not set") },
		{ { "SLURM_PROCID=0", STEP, "SLURM_STEP_NODELIST=x" },
		  NOT("SLURM_NTASKS is not set") },
		{ { "SLURM_PROCID=0", "SLURM_NTASKS=2", "SLURM_STEP_ID=1",
		    "SLURM_STEP_NODELIST=x" },
		  NOT("SLURM_JOB_ID is not set") },
		{ { "SLURM_PROCID=0", "SLURM_NTASKS=2", "SLURM_JOB_ID=1", "SLURM_STEP_NODELIST=x" },
		  NOT("SLURM_STEP_ID is not set") },
		{ { "SLURM_PROCID=0", "SLURM_NTASKS=2", STEP, "SLURM_STEP_NODELIST=n[1-" },
		  NOT("SLURM_STEP_NODELIST|'n[1-'") },
		{ { "SLURM_PROCID=0", "SLURM_NTASKS=2", STEP, "SLURM_STEP_NODELIST=n[1-2]",
		    "SLURM_STEP_NUM_NODES=3" },
		  NOT("SLURM_STEP_NUM_NODES = 3|expected 2") },
	};

	(void)state;
	CHECK(rows);
}

#define K8S  "KUBERNETES_SERVICE_HOST=10.0.0.1"
#define TAIL ".workers.ns.svc.cluster.local:29407"

static void kubernetes(void **state)
{
	static const struct row rows[] = {
		{ { K8S }, IS("single", 0, 1, "<none>") },
		{ { "JOB_COMPLETION_INDEX=1" }, IS("single", 0, 1, "<none>") },
		{ { K8S, "LWS_LEADER_ADDRESS=l.s", "LWS_GROUP_SIZE=4", "LWS_WORKER_INDEX=3" },
		  IS("kubernetes", 3, 4, "l.s:29407"),
		  JOB(0, "j/kubernetes-l.s") },
		{ { K8S, "LWS_GROUP_SIZE=4", "LWS_WORKER_INDEX=3" },
		  NOT("LWS_LEADER_ADDRESS is not set") },
		{ { K8S, "LWS_LEADER_ADDRESS=l", "LWS_WORKER_INDEX=3" },
		  NOT("LWS_GROUP_SIZE is not set") },
		{ { K8S, "LWS_LEADER_ADDRESS=l", "LWS_GROUP_SIZE=4" },
		  NOT("LWS_WORKER_INDEX is not set") },
		{ { K8S, "LWS_LEADER_ADDRESS=l", "LWS_GROUP_SIZE=4", "LWS_WORKER_INDEX=4" },
		  NOT("LWS_WORKER_INDEX|'4'|0 to 3") },
		{ { K8S, "JOB_COMPLETION_INDEX=2", "HOSTNAME=train-2", "TOW_WORLD_SIZE=4" },
		  IS("kubernetes", 2, 4, "train-0" TAIL),
		  JOB(0, "j/kubernetes-train") },
		{ { K8S, "JOB_COMPLETION_INDEX=2", "HOSTNAME=train-2" },
		  NOT("JOB_COMPLETION_INDEX = 2|TOW_WORLD_SIZE") },
		{ { K8S, "JOB_COMPLETION_INDEX=2", "HOSTNAME=train-3", "TOW_WORLD_SIZE=4" },
		  NOT("HOSTNAME|'train-3'|-2") },
		{ { K8S, "JOB_COMPLETION_INDEX=2", "HOSTNAME=train", "TOW_WORLD_SIZE=4" },
		  NOT("HOSTNAME|'train'") },
		{ { K8S, "JOB_COMPLETION_INDEX=5", "HOSTNAME=train-5", "TOW_WORLD_SIZE=4" },
		  NOT("rank 5 of 4") },
		/* A StatefulSet shows only with the number of ranks. */
		{ { K8S, "HOSTNAME=web-1" }, IS("single", 0, 1, "<none>") },
		{ { K8S, "HOSTNAME=web-1", "TOW_WORLD_SIZE=2" },
		  IS("kubernetes", 1, 2, "web-0" TAIL) },
		{ { K8S, "HOSTNAME=web-1", "TOW_WORLD_SIZE=2", "TOW_STORE=s:1" },
		  IS("kubernetes", 1, 2, "s:1") },
		{ { K8S, "HOSTNAME=web-x7f", "TOW_WORLD_SIZE=2" }, NOT("TOW_RANK") },
	};
	static const char *const env[] = { K8S, "HOSTNAME=web-1", "TOW_WORLD_SIZE=2", NULL };
	struct twi_bootstrap_input in = { .env = env, .hostname = "", .fqdn = "web-1", .rank = -1 };
	struct twi_bootstrap out;

	(void)state;
	CHECK(rows);
	assert_int_equal(twi_bootstrap_detect(&in, &out), TOW_EINVAL);
	assert_non_null(strstr(out.why, "headless service"));
}

/* The first whose variables are there is believed, and the others are reported. */
static void order(void **state)
{
	static const char *const all[] = { "TOW_RANK=0",
					   "TOW_WORLD_SIZE=1",
					   "RANK=0",
					   "WORLD_SIZE=1",
					   "TPU_WORKER_HOSTNAMES=a",
					   "OMPI_COMM_WORLD_RANK=0",
					   "OMPI_COMM_WORLD_SIZE=1",
					   "PMIX_RANK=0",
					   "PMIX_NAMESPACE=n",
					   "PMI_RANK=0",
					   "PMI_SIZE=1",
					   "SLURM_PROCID=0",
					   "SLURM_NTASKS=1",
					   "SLURM_JOB_ID=1",
					   "SLURM_STEP_ID=0",
					   "SLURM_STEP_NODELIST=n",
					   NULL };
	static const struct {
		int from;
		const char *launcher;
	} steps[] = { { 0, "tow" }, { 2, "torchrun" }, { 5, "openmpi" }, { 7, "pmix" },
		      { 9, "pmi" }, { 11, "slurm" },   { 16, "single" } };
	struct twi_bootstrap out;
	struct twi_emit emit;
	char *text;

	(void)state;
	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		assert_int_equal(detect(all + steps[i].from, &out), TOW_OK);
		assert_string_equal(twi_launcher_name(out.launcher), steps[i].launcher);
		assert_non_null(strstr(out.verdicts[out.launcher], "taken"));
	}
	detect(all, &out);
	assert_string_equal(out.verdicts[TWI_LAUNCHER_SLURM],
			    "not used, though there: SLURM_STEP_NODELIST");
	twi_emit_init(&emit);
	twi_emit_object_begin(&emit, NULL);
	twi_bootstrap_describe(&out, &emit);
	twi_emit_object_end(&emit);
	assert_int_equal(twi_emit_take(&emit, &text), TOW_OK);
	assert_non_null(strstr(text, "\"launcher\":\"tow\""));
	assert_non_null(strstr(text, "though there: RANK"));
	free(text);
}

static void hostlists(void **state)
{
	static const struct {
		const char *list, *first;
		uint64_t count;
	} good[] = {
		{ "a", "a", 1 },
		{ "a,b,c", "a", 3 },
		{ "n[1-4]", "n1", 4 },
		{ "n[001-120,7],m", "n001", 122 },
		{ "r[1-2]n[10-19]x", "r1n10x", 20 },
		{ "n[5]", "n5", 1 },
	};
	static const char *const bad[] = { "",     ",",     "a,",           "a,,b", "n[",
					   "n[]",  "n[1",   "n[2-1]",       "n]1",  "n[1-2",
					   "n[a]", "n[1,]", "n[1234567890]" };
	char first[16];
	uint64_t count;

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		assert_true(twi_hostlist(good[i].list, first, sizeof(first), &count));
		assert_string_equal(first, good[i].first);
		assert_int_equal(count, good[i].count);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		if (twi_hostlist(bad[i], first, sizeof(first), &count))
			fail_msg("'%s' was taken for a list of hosts", bad[i]);
	}
	assert_false(twi_hostlist("a-name-that-is-too-long", first, sizeof(first), &count));
	/* 999999999 to the fifth is more than 64 bits. */
	assert_false(twi_hostlist("n[1-999999999][1-999999999][1-999999999]", first, sizeof(first),
				  &count));
}

static void host_ports(void **state)
{
	static const char *const bad[] = { "",    ":1", "[a",    "[]:1",   "a:0", "a:65536",
					   "a:x", "a:", "a:1:2", "[::1]x", "a:-1" };
	char host[8];
	uint16_t port;

	(void)state;
	assert_true(twi_host_port("a:1", 9, host, sizeof(host), &port));
	assert_string_equal(host, "a");
	assert_int_equal(port, 1);
	assert_true(twi_host_port("a", 9, host, sizeof(host), &port));
	assert_int_equal(port, 9);
	assert_true(twi_host_port("[::1]", 9, host, sizeof(host), &port));
	assert_string_equal(host, "::1");
	assert_true(twi_host_port("[::1]:65535", 9, host, sizeof(host), &port));
	assert_int_equal(port, 65535);
	assert_false(twi_host_port("12345678:1", 9, host, sizeof(host), &port));
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		if (twi_host_port(bad[i], 9, host, sizeof(host), &port))
			fail_msg("'%s' was taken for a host and port", bad[i]);
	}
	assert_false(twi_host_port("a", 0, host, sizeof(host), &port));
	assert_true(twi_host_port_put("::1", 3, host, sizeof(host)));
	assert_string_equal(host, "[::1]:3");
	assert_false(twi_host_port_put("abcdef", 3, host, sizeof(host)));
}

/* Long texts are cut, never overrun, and two long names do not become one. */
static void long_texts(void **state)
{
	char run[600] = "TORCHELASTIC_RUN_ID=", other[600], host[600] = "MASTER_ADDR=";
	const char *env[] = { "RANK=0", "WORLD_SIZE=1", run, host, NULL };
	const char *two[] = { "RANK=0", "WORLD_SIZE=2", "MASTER_PORT=1", host, NULL };
	struct twi_bootstrap a, b;

	(void)state;
	memset(run + strlen(run), 'x', 500);
	memset(host + strlen(host), 'h', 550);
	snprintf(other, sizeof(other), "%.*sy", (int)strlen(run) - 1, run);
	assert_int_equal(detect(env, &a), TOW_OK);
	env[2] = other;
	assert_int_equal(detect(env, &b), TOW_OK);
	assert_string_not_equal(a.job, b.job);
	assert_int_equal(detect(two, &a), TOW_EINVAL);
	assert_non_null(strstr(a.why, "too long"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(single),     cmocka_unit_test(own),
		cmocka_unit_test(by_caller),  cmocka_unit_test(options),
		cmocka_unit_test(torchrun),   cmocka_unit_test(megascale),
		cmocka_unit_test(mpi),        cmocka_unit_test(slurm),
		cmocka_unit_test(kubernetes), cmocka_unit_test(order),
		cmocka_unit_test(hostlists),  cmocka_unit_test(host_ports),
		cmocka_unit_test(long_texts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
