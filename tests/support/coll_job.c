/* coll_job.c - ranks that run a scenario of collectives over each lane. */
#include "coll_job.h"

const char *const twt_job_addresses[TWT_JOB_ADDRESSES] = {
#define TWT_LANE(name, near, far, one, pair) one ? NULL : near,
#define TWT_VARIANT(...)
#include "lanes.def"
#undef TWT_LANE
#undef TWT_VARIANT
};

int64_t twt_job_pool_bytes = 8 << 20;
struct twt_job_marks *twt_marks;

uint64_t twt_job_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

void twt_job_mark(const struct twt_job *job, int value)
{
	atomic_store(&twt_marks->at[job->rank], value);
}

bool twt_job_reached(unsigned ranks, int value)
{
	for (int turn = 0; turn < 20000; turn++) {
		bool all = true;

		for (int i = 0; i < TWT_JOB_RANKS; i++)
			all &= (ranks >> i & 1) == 0 || atomic_load(&twt_marks->at[i]) >= value;
		if (all)
			return true;
		usleep(1000);
	}
	return false;
}

void twt_job_meet(const struct twt_job *job, int mark)
{
	twt_job_mark(job, mark);
	twt_must(twt_job_reached((1u << job->size) - 1, mark));
}

int twt_job_end(const struct twt_job *job, struct tow_op *op, char text[512])
{
	int status = tow_op_wait(op, TWT_JOB_WAIT_NS);

	twt_must(status != TOW_ETIMEDOUT);
	snprintf(text, 512, "%s", status < 0 ? tow_error_message() : "");
	twt_must(tow_op_release(op) == TOW_OK);
	return status;
}

void twt_job_sum(const struct twt_job *job, struct tow_group *group, uint64_t count)
{
	uint32_t rank = tow_group_rank(group), size = tow_group_size(group);
	struct tow_op *op;
	char text[512];
	void *memory;
	int32_t *data;

	twt_must(tow_alloc(job->runtime, count * 4 + 4, 64, &memory) == TOW_OK);
	data = memory;
	for (uint64_t i = 0; i < count; i++)
		data[i] = (int32_t)(rank + i);
	twt_must(tow_coll_all_reduce_start(group, data, data, count, TOW_S32, TOW_SUM, NULL, &op) ==
		 TOW_OK);
	twt_must(twt_job_end(job, op, text) == TOW_OK);
	for (uint64_t i = 0; i < count; i++)
		twt_must((uint32_t)data[i] == size * (size - 1) / 2 + size * (uint32_t)i);
	twt_must(tow_free(job->runtime, memory) == TOW_OK);
}

static void twt_job_child(struct twt_job *job, const char *store,
			  void (*play)(struct twt_job *job, const void *plan), const void *plan)
{
	struct tow_group_options where = TOW_GROUP_OPTIONS_INIT;
	struct tow_options options = TOW_OPTIONS_INIT;

	alarm(TWT_JOB_LIMIT_S);
	options.premap_memory_bytes = twt_job_pool_bytes;
	options.stats = 0;
	where.rank = job->rank;
	where.world_size = job->size;
	where.store = store;
	where.timeout_ns = TWT_JOB_WAIT_NS;
	where.address = strcmp(job->lane, "shm") == 0      ? "shm://*"
			: strstr(job->lane, "://") != NULL ? job->lane
							   : "tcp://127.0.0.1:0";
	twt_must(tow_runtime_open(&options, &job->runtime) == TOW_OK);
	twt_must(tow_group_open(job->runtime, &where, &job->group) == TOW_OK);
	play(job, plan);
	if (job->group != NULL)
		twt_must(tow_group_close(job->group) == TOW_OK);
	if (!job->keep_runtime)
		twt_must(tow_runtime_close(job->runtime) == TOW_OK);
}

unsigned twt_job_wait(const pid_t *pids, int size, unsigned victims)
{
	unsigned left = (1u << size) - 1, bad = 0;

	for (int turn = 0; left != 0 && turn < TWT_JOB_LIMIT_S * 1000; turn++) {
		for (int i = 0; i < size; i++) {
			int how;

			if ((left >> i & 1) == 0 || waitpid(pids[i], &how, WNOHANG) != pids[i])
				continue;
			left &= ~(1u << i);
			if (WIFEXITED(how) && WEXITSTATUS(how) == 0)
				continue;
			if ((victims >> i & 1) != 0 && WIFSIGNALED(how) && WTERMSIG(how) == SIGKILL)
				continue;
			fprintf(stderr, "rank %d ended with 0x%x\n", i, (unsigned)how);
			bad |= 1u << i;
		}
		usleep(1000);
	}
	for (int i = 0; i < size; i++) {
		if ((left >> i & 1) != 0) {
			fprintf(stderr, "rank %d did not end\n", i);
			kill(pids[i], SIGKILL);
			waitpid(pids[i], NULL, 0);
		}
	}
	return bad | left;
}

void twt_job_run(const char *lane, int size, unsigned victims,
		 void (*play)(struct twt_job *job, const void *plan), const void *plan,
		 void (*watch)(const pid_t *pids, const void *plan))
{
	pid_t pids[TWT_JOB_RANKS];
	char store[64];
	int fd = twt_store_port(store, sizeof(store));

	assert_true(size <= TWT_JOB_RANKS);
	twt_marks = mmap(NULL, sizeof(*twt_marks), PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_true(twt_marks != MAP_FAILED);
	fflush(NULL);
	for (int i = 0; i < size; i++) {
		pids[i] = fork();
		assert_true(pids[i] >= 0);
		if (pids[i] == 0) {
			struct twt_job job = { .lane = lane, .size = size, .rank = i };

			twt_job_child(&job, store, play, plan);
			/* _exit looks for no leaks by itself. */
			_exit(__lsan_do_recoverable_leak_check != NULL &&
			      __lsan_do_recoverable_leak_check() != 0);
		}
	}
	if (watch != NULL)
		watch(pids, plan);
	if (twt_job_wait(pids, size, victims) != 0)
		fail_msg("a job of %d ranks over %s went wrong", size, lane);
	munmap(twt_marks, sizeof(*twt_marks));
	close(fd);
}
