/* verdict_job.c - a job of a few processes with a fault in it. */
#include "verdict_job.h"

static pid_t twt_vj_fork_rank(const struct twt_vj_job *job, int rank)
{
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		exit(twt_vj_rank_main(job, rank)); /* not _exit: leaks are looked for at exit */
	}
	return pid;
}

/* One side of the cable: half of the ranks. */
static int twt_vj_side(int side, void *arg)
{
	const struct twt_vj_job *job = arg;
	int half = job->size / 2, first = side == 0 ? 0 : half, last = side == 0 ? half : job->size;
	int how, left = last - first;

	prctl(PR_SET_CHILD_SUBREAPER, 1);
	for (int rank = first; rank < last; rank++)
		twt_vj_fork_rank(job, rank);
	while (left-- > 0)
		wait(&how);
	return 0;
}

static void twt_vj_script(struct twt_nl_world *world, uint64_t elapsed_ns, void *arg)
{
	const struct twt_vj_job *job = arg;

	(void)elapsed_ns;
	world->link.shape.mute = (unsigned)atomic_load(&job->marks->mute);
	world->link.shape.bytes_per_second = (uint64_t)atomic_load(&job->marks->rate);
}

/* The process that is the cable. */
static void twt_vj_world(struct twt_vj_job *job)
{
	struct twt_nl_world world;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (!twt_nl_world_open(&world, job->seed, twt_vj_side, job)) {
		fprintf(stderr, "no network of its own: %s\n", world.reason);
		_exit(77);
	}
	twt_nl_world_run(&world, (uint64_t)VJ_LIMIT_S * VJ_NS_PER_S, twt_vj_script, job);
	twt_nl_world_close(&world);
	_exit(0);
}

/* Hogs from now on: as many as there are, on the victim's CPU. */
static void twt_vj_hog_main(const struct twt_vj_job *job)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	twt_vj_pin(1);
	alarm(VJ_LIMIT_S);
	while (atomic_load(&job->marks->stop) == 0)
		twt_vj_compute(1000000);
	_exit(0);
}

void twt_vj_begin(struct twt_vj_job *job)
{
	static _Atomic int jobs;
	char store[32];

	snprintf(job->name, sizeof(job->name), "v%d-%d-%d", (int)getpid(),
		 atomic_fetch_add(&jobs, 1), (int)job->fault);
	snprintf(job->dir, sizeof(job->dir), "/tmp/tow-verdict-XXXXXX");
	assert_non_null(mkdtemp(job->dir));
	job->marks = mmap(NULL, sizeof(*job->marks), PROT_READ | PROT_WRITE,
			  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_true(job->marks != MAP_FAILED);
	job->port = twt_store_port(store, sizeof(store));
	snprintf(job->store, sizeof(job->store), "%s%s",
		 twt_vj_is_far(job) ? "10.77.0.1" : "127.0.0.1", strchr(store, ':'));
	fflush(NULL);
	if (!twt_vj_is_far(job)) {
		for (int i = 0; i < job->size; i++)
			job->pids[i] = twt_vj_fork_rank(job, i);
		return;
	}
	job->world = fork();
	if (job->world == 0)
		twt_vj_world(job);
}

bool twt_vj_refused(const struct twt_vj_job *job)
{
	siginfo_t info = { .si_pid = 0 };

	return waitid(P_PID, (id_t)job->pids[0], &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
	       info.si_pid == job->pids[0] && info.si_status == 77;
}

bool twt_vj_reached(const struct twt_vj_job *job, int steps)
{
	for (int turn = 0; turn < VJ_LIMIT_S * 1000; turn++) {
		bool all = true;
		int how = 0;

		for (int i = 0; i < job->size; i++)
			all &= atomic_load(&job->marks->steps[i]) >= steps;
		if (all)
			return true;
		if (job->world != 0 && waitpid(job->world, &how, WNOHANG) == job->world)
			return false;
		if (job->fault == VJ_CREDIT_OFI && twt_vj_refused(job))
			return false;
		usleep(1000);
	}
	return false;
}

/* Stopped for 100 of 300 ms, until this process ends. */
static void twt_vj_pulse_main(const struct twt_vj_job *job)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	alarm(VJ_LIMIT_S);
	while (atomic_load(&job->marks->stop) == 0) {
		kill(job->pids[job->victim], SIGSTOP);
		usleep(100000);
		kill(job->pids[job->victim], SIGCONT);
		usleep(200000);
	}
	_exit(0);
}

bool twt_vj_plant(struct twt_vj_job *job)
{
	if (job->fault == VJ_STOPPED)
		kill(job->pids[job->victim], SIGSTOP);
	if (job->fault == VJ_DROPPED)
		atomic_store(&job->marks->mute, 1 << (job->victim >= job->size / 2));
	if (job->fault == VJ_SLOW)
		atomic_store(&job->marks->rate, VJ_SLOW_RATE);
	for (int i = 0; job->fault == VJ_HOG && i < VJ_HOGS; i++) {
		fflush(NULL);
		job->hogs[i] = fork();
		if (job->hogs[i] == 0)
			twt_vj_hog_main(job);
	}
	if (job->fault == VJ_HELD) {
		fflush(NULL);
		job->hogs[0] = fork();
		if (job->hogs[0] == 0)
			twt_vj_pulse_main(job);
	}
	return job->fault != VJ_QUOTA ||
	       twt_quota_begin(&job->quota, job->pids[job->victim], VJ_QUOTA_PERCENT);
}

static void twt_vj_kill(pid_t *pid)
{
	int how;

	if (*pid <= 0)
		return;
	kill(*pid, SIGKILL);
	waitpid(*pid, &how, 0);
	*pid = 0;
}

bool twt_vj_end(struct twt_vj_job *job)
{
	bool well = true;
	int how;

	atomic_store(&job->marks->stop, 1);
	atomic_store(&job->marks->mute, 0);
	atomic_store(&job->marks->rate, 0);
	if (twt_vj_is_far(job)) /* the connections would take seconds to come back */
		for (int i = 0; i < job->size; i++)
			kill(atomic_load(&job->marks->pids[i]), SIGKILL);
	for (int i = 0; i < VJ_HOGS; i++)
		twt_vj_kill(&job->hogs[i]);
	if (job->fault == VJ_STOPPED || job->fault == VJ_HELD) /* nobody stops it any more */
		kill(job->pids[job->victim], SIGCONT);
	for (int i = 0; !twt_vj_is_far(job) && i < job->size; i++) {
		for (int turn = 0; turn < 20000 && job->pids[i] > 0; turn++) {
			if (waitpid(job->pids[i], &how, WNOHANG) == job->pids[i]) {
				well &= how == 0;
				job->pids[i] = 0;
			} else {
				usleep(1000);
			}
		}
		well &= job->pids[i] == 0;
		twt_vj_kill(&job->pids[i]);
	}
	twt_vj_kill(&job->world);
	twt_quota_end(&job->quota);
	close(job->port);
	munmap(job->marks, sizeof(*job->marks));
	rmdir(job->dir);
	return well;
}
