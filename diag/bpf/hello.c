/*
 * hello.c - see hello.h. Every length comes from outside and is checked.
 */
#include "diag/bpf/hello.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <internal/base.h>

#include "diag/base/error.h"
#include "diag/base/fd.h"

/* Room for all descriptors of a packet. The kernel closes any others (MSG_CTRUNC). */
#define FDS_ROOM 16

static unsigned collect_fds(struct msghdr *message, int *fds)
{
	unsigned count = 0;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c != NULL; c = CMSG_NXTHDR(message, c)) {
		size_t bytes = c->cmsg_len - CMSG_LEN(0);

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t i = 0; i + sizeof(int) <= bytes; i += sizeof(int)) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + i, sizeof(fd));
			fd = twi_fd_high(fd);
			if (count < FDS_ROOM)
				fds[count++] = fd;
			else
				close(fd);
		}
	}
	return count;
}

static int judge_hello(struct twi_bpf_hello *hello, ssize_t bytes, int flags, unsigned fds)
{
	if (bytes == 0)
		return twi_error(TOW_ECLOSED, "the helper has gone without a hello");
	if ((size_t)bytes != sizeof(*hello) || (flags & (MSG_TRUNC | MSG_CTRUNC)) != 0 ||
	    hello->magic != TWI_BPF_MAGIC)
		return twi_error(TOW_EINVAL, "the first bytes are not a hello of towbpf");
	if (hello->version != TWI_BPF_VERSION)
		return twi_error(TOW_EINVAL, "towbpf speaks version %u, this library %d",
				 hello->version, TWI_BPF_VERSION);
	if (fds != (hello->on != 0 ? TWI_BPF_MAPS : 0))
		return twi_error(TOW_EINVAL, "%u descriptors came with the hello; wanted %d", fds,
				 hello->on != 0 ? TWI_BPF_MAPS : 0);
	if (hello->on != 0 && (hello->slot == 0 || hello->slot >= TWI_BPF_SLOTS))
		return twi_error(TOW_EINVAL, "slot %u is not from 1 to %d", hello->slot,
				 TWI_BPF_SLOTS - 1);
	hello->why[sizeof(hello->why) - 1] = '\0';
	for (unsigned i = 0; i < TWI_BPF_REASONS; i++)
		hello->reasons[i][TWI_BPF_REASON_BYTES - 1] = '\0';
	return TOW_OK;
}

int twi_bpf_hello_receive(int fd, struct twi_bpf_hello *out, int fds_out[TWI_BPF_MAPS])
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(FDS_ROOM * sizeof(int))];
	struct iovec part = { out, sizeof(*out) };
	struct msghdr message = { .msg_iov = &part,
				  .msg_iovlen = 1,
				  .msg_control = control,
				  .msg_controllen = sizeof(control) };
	int fds[FDS_ROOM], status;
	unsigned count;
	ssize_t bytes;

	for (unsigned i = 0; i < TWI_BPF_MAPS; i++)
		fds_out[i] = -1;
	*out = (struct twi_bpf_hello){ 0 };
	bytes = recvmsg(fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	if (bytes < 0)
		return twi_error_errno(TOW_ESYSTEM, errno, "recvmsg from a helper");
	count = collect_fds(&message, fds);
	status = judge_hello(out, bytes, message.msg_flags, count);
	for (unsigned i = 0; i < count; i++) {
		if (status == TOW_OK && i < TWI_BPF_MAPS)
			fds_out[i] = fds[i];
		else
			close(fds[i]);
	}
	return status;
}
