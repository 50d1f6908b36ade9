/* cpu_log.c - reads CPU times of a thread, and keeps points of them. See cpu_log.h. */
#include "transport/engine/cpu_log.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "diag/base/cancel.h"
#include "diag/base/cgroup.h"
#include "diag/base/fd.h"

bool twi_cpu_read(const char *tid, uint64_t *on_cpu_ns, uint64_t *run_queue_ns)
{
	TWI_UNCANCELED;
	unsigned long long ran, waited;
	char path[64], text[128];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/self/task/%.16s/schedstat", tid);
	fd = twi_fd_high(open(path, O_RDONLY | O_CLOEXEC));
	if (fd < 0)
		return false;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	text[n > 0 ? n : 0] = '\0';
	if (sscanf(text, "%llu %llu", &ran, &waited) != 2)
		return false;
	*on_cpu_ns = ran;
	*run_queue_ns = waited;
	return true;
}

/*
 * The throttled time is read at least so often: a thread that is denied later needs an earlier
 * figure.
 */
#define THROTTLED_NS 10000000000ull

#define DENIED 10 /* of so many parts of the time, at least one was denied */

/* Has the thread wanted a CPU for long since the point before? */
static bool is_denied(const struct twi_cpu_log *log, const struct twi_state_cpu *at)
{
	const struct twi_state_cpu *before = &log->points[(log->last - 1) % TWI_STATE_CPUS];

	return log->last > 0 &&
	       (at->run_queue_ns - before->run_queue_ns) * DENIED >= at->at_ns - before->at_ns;
}

/* Does another thread take the place of the one that is followed? */
static bool takes_place(const struct twi_cpu_log *log, bool polls, uint64_t now_ns)
{
	if (log->thread == 0 || (log->polls && !polls))
		return true;
	return now_ns >=
	       log->seen_ns + (polls && !log->polls ? TWI_CPU_LOG_LONG : TWI_CPU_LOG_KEEP);
}

void twi_cpu_log_point(struct twi_cpu_log *log, int thread, bool polls, uint64_t now_ns)
{
	struct twi_cpu_throttled *throttled;
	struct twi_state_cpu *at;
	char tid[16];

	if (log->thread != thread && !takes_place(log, polls, now_ns))
		return;
	if (log->thread != thread)
		*log = (struct twi_cpu_log){ .thread = thread, .polls = polls, .seen_ns = now_ns };
	log->polls &= polls;
	log->next_ns = now_ns + TWI_CPU_LOG_STEP;
	snprintf(tid, sizeof(tid), "%d", thread);
	at = &log->points[log->last % TWI_STATE_CPUS];
	*at = (struct twi_state_cpu){ .at_ns = now_ns };
	if (!twi_cpu_read(tid, &at->on_cpu_ns, &at->run_queue_ns))
		return;
	throttled = &log->throttled[log->last % TWI_STATE_CPUS];
	*throttled = (struct twi_cpu_throttled){ 0 };
	if (is_denied(log, at) || now_ns - log->throttled_ns >= THROTTLED_NS) {
		throttled->known = twi_cgroup_throttled("", &throttled->ns);
		log->throttled_ns = now_ns;
	}
	log->last++;
}

void twi_cpu_log_tell(const struct twi_cpu_log *log, struct twi_rank_state *out)
{
	uint32_t count = log->last < TWI_STATE_CPUS ? log->last : TWI_STATE_CPUS;

	out->cpu_count = count;
	for (uint32_t i = 0; i < count; i++) {
		uint32_t at = (log->last - count + i) % TWI_STATE_CPUS;

		out->cpus[i] = log->points[at];
		if (!log->throttled[at].known || out->throttled_at_ns != 0)
			continue;
		out->throttled_at_ns = log->points[at].at_ns;
		out->throttled_then_ns = log->throttled[at].ns;
	}
}
