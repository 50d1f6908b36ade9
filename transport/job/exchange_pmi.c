/*
 * exchange_pmi.c - PMI 1, as MPICH's mpiexec and its relatives serve it on a descriptor: a line
 * "cmd=NAME key=value ..." is sent, and a line is the answer.
 *
 * The rank greets, puts, meets at a barrier and gets. It sends the goodbye (cmd=finalize) much
 * later: no request to mpiexec may follow it, and the program may be about to call MPI_Init itself.
 * But a process that ends without it has failed for mpiexec, which then kills the others.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <internal/base.h>

#include "diag/base/error.h"
#include "transport/job/bootstrap_exchange.h"

#define LINE_BYTES 2048
#define KEY        "towline-store"

struct pmi {
	int fd;
	const struct twi_until *until;
	char line[LINE_BYTES]; /* the answer */
};

static int wait_for(const struct pmi *pmi, short events)
{
	int status = twi_net_wait(pmi->fd, events, pmi->until->deadline_ns, pmi->until);

	return status == TOW_AGAIN
		       ? twi_error(TOW_EDEADLINE, "mpiexec did not answer in time on PMI_FD = %d",
				   pmi->fd)
		       : status;
}

static int pmi_broken(const struct pmi *pmi)
{
	return twi_error_errno(TOW_ESYSTEM, errno, "PMI_FD = %d, where mpiexec answers", pmi->fd);
}

static int send_line(const struct pmi *pmi, const char *line)
{
	size_t left = strlen(line);

	while (left > 0) {
		int status = wait_for(pmi, POLLOUT);
		ssize_t sent;

		if (status < 0)
			return status;
		sent = send(pmi->fd, line, left, MSG_NOSIGNAL);
		if (sent < 0 && errno == ENOTSOCK)
			sent = write(pmi->fd, line, left);
		if (sent < 0 && errno != EINTR && errno != EAGAIN)
			return pmi_broken(pmi);
		if (sent > 0) {
			line += sent;
			left -= (size_t)sent;
		}
	}
	return TOW_OK;
}

/* Reads one byte at a time: what follows the line is not for this library. */
static int receive_line(struct pmi *pmi)
{
	size_t used = 0;

	for (;;) {
		int status = wait_for(pmi, POLLIN);
		ssize_t got;

		if (status < 0)
			return status;
		got = read(pmi->fd, pmi->line + used, 1);
		if (got < 0 && (errno == EINTR || errno == EAGAIN))
			continue;
		if (got < 0)
			return pmi_broken(pmi);
		if (got == 0)
			return twi_error(TOW_EPROTOCOL, "mpiexec closed PMI_FD = %d", pmi->fd);
		if (pmi->line[used] == '\n')
			break;
		if (++used == sizeof(pmi->line))
			return twi_error(TOW_EPROTOCOL, "mpiexec answered a line of over %d bytes",
					 LINE_BYTES);
	}
	pmi->line[used] = '\0';
	return TOW_OK;
}

/* Returns the value of `key` in the answer, up to a blank. */
static bool value_of(const struct pmi *pmi, const char *key, char *out, size_t bytes)
{
	size_t length = strlen(key);
	const char *at = pmi->line;

	while (at != NULL) {
		size_t end;

		at += strspn(at, " ");
		end = strcspn(at, " ");
		if (end > length && strncmp(at, key, length) == 0 && at[length] == '=') {
			if (end - length > bytes)
				return false;
			snprintf(out, bytes, "%.*s", (int)(end - length - 1), at + length + 1);
			return true;
		}
		at = strchr(at, ' ');
	}
	return false;
}

/* Sends a command, and checks that the answer is of that kind and no failure. */
static int pmi_ask(struct pmi *pmi, const char *line, const char *answer)
{
	char text[64];
	int status = send_line(pmi, line);

	if (status == TOW_OK)
		status = receive_line(pmi);
	if (status < 0)
		return status;
	if (!value_of(pmi, "cmd", text, sizeof(text)) || strcmp(text, answer) != 0 ||
	    (value_of(pmi, "rc", text, sizeof(text)) && strcmp(text, "0") != 0))
		return twi_error(TOW_EPROTOCOL, "mpiexec answered '%.128s' to '%.*s', expected %s",
				 pmi->line, (int)strcspn(line, "\n"), line, answer);
	return TOW_OK;
}

static int pmi_put(struct pmi *pmi, const char *space, const char *address)
{
	char line[LINE_BYTES];

	snprintf(line, sizeof(line), "cmd=put kvsname=%s key=" KEY " value=%s\n", space, address);
	return pmi_ask(pmi, line, "put_result");
}

static int pmi_get(struct pmi *pmi, const char *space, char address[TWI_STORE_BYTES])
{
	char line[LINE_BYTES];
	int status;

	snprintf(line, sizeof(line), "cmd=get kvsname=%s key=" KEY "\n", space);
	status = pmi_ask(pmi, line, "get_result");
	if (status == TOW_OK && !value_of(pmi, "value", address, TWI_STORE_BYTES))
		status = twi_error(TOW_EPROTOCOL, "mpiexec answered '%.128s', expected a value",
				   pmi->line);
	return status;
}

int twi_pmi_exchange(int fd, bool first, char address[TWI_STORE_BYTES],
		     const struct twi_until *until)
{
	struct pmi pmi = { .fd = fd, .until = until };
	char space[512];
	int status = pmi_ask(&pmi, "cmd=init pmi_version=1 pmi_subversion=1\n", "response_to_init");

	if (status == TOW_OK)
		status = pmi_ask(&pmi, "cmd=get_my_kvsname\n", "my_kvsname");
	if (status == TOW_OK && !value_of(&pmi, "kvsname", space, sizeof(space)))
		status = twi_error(TOW_EPROTOCOL, "mpiexec answered '%.128s', expected kvsname",
				   pmi.line);
	if (status == TOW_OK && first)
		status = pmi_put(&pmi, space, address);
	if (status == TOW_OK)
		status = pmi_ask(&pmi, "cmd=barrier_in\n", "barrier_out");
	if (status == TOW_OK && !first)
		status = pmi_get(&pmi, space, address);
	return status;
}

/* If the program has sent it already, no answer comes, which is no fault. */
void twi_pmi_finish(int fd, const struct twi_until *until)
{
	struct pmi pmi = { .fd = fd, .until = until };

	pmi_ask(&pmi, "cmd=finalize\n", "finalize_ack");
}
