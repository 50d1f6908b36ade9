/*
 * fd.h - keeps the library's descriptors away from 0, 1 and 2.
 *
 * A program that was started without a standard output, or has closed it, still prints. The kernel
 * gives the lowest free number to whatever is opened next. A descriptor of the library there would
 * take what is printed: the memory of the pool, or a connection. A program that redirects its
 * output (dup2) would close it.
 *
 * Every call that makes a descriptor is wrapped: fd = twi_fd_high(socket(...)). Not wrapped are
 * those whose descriptor is closed before the function returns.
 */
#ifndef TWI_FD_H
#define TWI_FD_H

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include <internal/base.h>

#define TWI_FD_LEAST 3

/*
 * Takes a new descriptor and returns it, or a copy above 2 in its place. -1 (errno): the call that
 * made it has failed, or there is no higher number.
 */
static inline int twi_fd_high(int fd)
{
	int high, err;

	if (twi_likely(fd < 0 || fd >= TWI_FD_LEAST))
		return fd;
	high = fcntl(fd, F_DUPFD_CLOEXEC, TWI_FD_LEAST);
	err = errno == EINVAL ? EMFILE : errno; /* the limit may be 3 or less */
	close(fd);
	errno = err;
	return high;
}

/*
 * The status of a call that has made no descriptor, with its errno value. TOW_EBUSY: the process or
 * the system has none left, which the message says; else TOW_ESYSTEM.
 */
int twi_fd_error(int err, const char *what);

/*
 * Opens /dev/null at those of 0, 1 and 2 that are closed, for good: libfabric and libmicrohttpd
 * make descriptors of their own, which cannot be moved.
 */
static inline void twi_fd_fill(void)
{
	for (int low = 0; low < TWI_FD_LEAST; low++) {
		int fd = fcntl(low, F_GETFD) < 0 ? open("/dev/null", O_RDWR | O_CLOEXEC) : -1;

		if (fd >= TWI_FD_LEAST)
			close(fd); /* another thread was here first */
	}
}

#endif
