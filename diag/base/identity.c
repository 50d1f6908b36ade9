/*
 * identity.c - see identity.h.
 */
#include "diag/base/identity.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "diag/base/cancel.h"
#include "diag/base/hash.h"

#define TEXT        1024u
#define SIGNAL_MASK 0x7fu /* of an exit code, as in wait(2) */

/* Reads the beginning of a file of /proc. 0: it cannot be read. */
static size_t read_text(const char *path, char *out, size_t room)
{
	TWI_UNCANCELED;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return 0;
	n = read(fd, out, room - 1);
	close(fd);
	out[n > 0 ? n : 0] = '\0';
	return n > 0 ? (size_t)n : 0;
}

struct stat_line {
	char state;
	uint64_t start;
	uint64_t exit_code; /* as waitpid(2) reports it; 0 where there is none, or it is hidden */
};

/* `at` is at field `from`; returns where field `to` begins. NULL: there are too few fields. */
static const char *skip_fields(const char *at, unsigned from, unsigned to)
{
	while (from < to && (at = strchr(at, ' ')) != NULL) {
		at++;
		from++;
	}
	return at;
}

/* Reads /proc/PID/stat. The name before the last ')' may have blanks and parentheses itself. */
static bool read_stat(uint64_t pid, struct stat_line *out)
{
	char path[64], text[TEXT];
	const char *at;

	snprintf(path, sizeof(path), "/proc/%llu/stat", (unsigned long long)pid);
	if (read_text(path, text, sizeof(text)) == 0)
		return false;
	at = strrchr(text, ')');
	if (at == NULL || at[1] != ' ')
		return false;
	at += 2;
	*out = (struct stat_line){ .state = *at };
	at = skip_fields(at, 3, 22);
	if (at == NULL)
		return false;
	out->start = strtoull(at, NULL, 10);
	at = skip_fields(at, 22, 52);
	if (at != NULL)
		out->exit_code = strtoull(at, NULL, 10);
	return true;
}

bool twi_identity_time_differs(const struct twi_identity *self, uint64_t pid)
{
	struct stat namespace;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%llu/ns/time", (unsigned long long)pid);
	return self->time_namespace != 0 && stat(path, &namespace) == 0 &&
	       (uint64_t) namespace.st_ino != self->time_namespace;
}

/*
 * Has the number another process now? /proc gives the start by the clock of the reader's time
 * namespace. So a process of another namespace has another start than it has given itself.
 */
static bool is_another(const struct twi_identity *self, const struct twi_identity *other,
		       const struct stat_line *line)
{
	return line->start != other->pid_start && !twi_identity_time_differs(self, other->pid);
}

/* 0: /proc does not tell. Kernels before 5.6 have no time namespaces: all share clock 1. */
static uint64_t time_namespace_of_self(void)
{
	struct stat namespace;

	if (stat("/proc/self/ns/time", &namespace) == 0)
		return (uint64_t) namespace.st_ino;
	return errno == ENOENT && stat("/proc/self/ns/pid", &namespace) == 0 ? 1 : 0;
}

void twi_identity_self(struct twi_identity *out)
{
	char text[TEXT];
	struct stat_line line;
	struct stat namespace;

	*out = (struct twi_identity){ .pid = (uint64_t)getpid() };
	if (read_text("/proc/sys/kernel/random/boot_id", text, sizeof(text)) > 0)
		out->boot = twi_hash_text(text);
	if (stat("/proc/self/ns/pid", &namespace) == 0)
		out->pid_namespace = (uint64_t) namespace.st_ino;
	out->time_namespace = time_namespace_of_self();
	if (read_stat(out->pid, &line))
		out->pid_start = line.start;
}

bool twi_identity_shares_clock(const struct twi_identity *self, const struct twi_identity *other)
{
	return self->boot != 0 && self->boot == other->boot && self->time_namespace != 0 &&
	       self->time_namespace == other->time_namespace;
}

bool twi_identity_is_near(const struct twi_identity *self, const struct twi_identity *other)
{
	return self->boot != 0 && self->boot == other->boot && self->pid_namespace != 0 &&
	       self->pid_namespace == other->pid_namespace && other->pid != 0;
}

static bool is_ended(char state)
{
	return state == 'Z' || state == 'X';
}

/* The kernel knows no such process. That says more than an absent entry of /proc. */
static bool is_nobody(uint64_t pid)
{
	return pid <= INT32_MAX && kill((pid_t)pid, 0) != 0 && errno == ESRCH;
}

enum twi_process twi_identity_look(const struct twi_identity *self,
				   const struct twi_identity *other, char *state_out)
{
	struct stat_line line = { .state = 0 };

	*state_out = 0;
	if (!twi_identity_is_near(self, other) || other->pid_start == 0)
		return TWI_PROCESS_UNKNOWN;
	if (!read_stat(other->pid, &line))
		return is_nobody(other->pid) ? TWI_PROCESS_GONE : TWI_PROCESS_UNKNOWN;
	*state_out = line.state;
	if (is_another(self, other, &line))
		return TWI_PROCESS_GONE;
	if (line.state == 'T' || line.state == 't')
		return TWI_PROCESS_STOPPED;
	return is_ended(line.state) ? TWI_PROCESS_GONE : TWI_PROCESS_RUNS;
}

/*
 * The exit code of a thread that ends by itself has no signal. One that has a signal was killed
 * together with all other threads.
 */
bool twi_identity_was_killed(const struct twi_identity *self, const struct twi_identity *other)
{
	struct stat_line line;

	if (!twi_identity_is_near(self, other) || other->pid_start == 0)
		return false;
	if (!read_stat(other->pid, &line))
		return is_nobody(other->pid);
	return is_another(self, other, &line) ||
	       (is_ended(line.state) && (line.exit_code & SIGNAL_MASK) != 0);
}
