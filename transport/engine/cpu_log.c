/*
 * cpu_log.c - see cpu_log.h.
 */
#include "transport/engine/cpu_log.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

bool twi_cpu_read(const char *tid, uint64_t *on_cpu_ns, uint64_t *run_queue_ns)
{
	unsigned long long ran, waited;
	char path[64], text[128];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/self/task/%.16s/schedstat", tid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
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

void twi_cpu_log_point(struct twi_cpu_log *log, int thread, uint64_t now_ns)
{
	struct twi_state_cpu *at;
	char tid[16];

	if (log->thread != thread && log->thread != 0 && now_ns < log->seen_ns + TWI_CPU_LOG_KEEP)
		return;
	if (log->thread != thread)
		*log = (struct twi_cpu_log){ .thread = thread, .seen_ns = now_ns };
	log->next_ns = now_ns + TWI_CPU_LOG_STEP;
	snprintf(tid, sizeof(tid), "%d", thread);
	at = &log->points[log->last % TWI_STATE_CPUS];
	*at = (struct twi_state_cpu){ .at_ns = now_ns };
	if (twi_cpu_read(tid, &at->on_cpu_ns, &at->run_queue_ns))
		log->last++;
}

void twi_cpu_log_tell(const struct twi_cpu_log *log, struct twi_rank_state *out)
{
	uint32_t count = log->last < TWI_STATE_CPUS ? log->last : TWI_STATE_CPUS;

	out->cpu_count = count;
	for (uint32_t i = 0; i < count; i++)
		out->cpus[i] = log->points[(log->last - count + i) % TWI_STATE_CPUS];
}
