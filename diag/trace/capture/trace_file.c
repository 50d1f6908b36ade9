/* trace_file.c - see trace_file.h. */
#include "diag/trace/capture/trace_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "diag/base/error.h"
#include "diag/base/fd.h"
#include "diag/trace/export/export.h"

void twi_trace_session_at(const char *prefix, uint64_t unix_s, char out[TWI_TRACE_SESSION])
{
	time_t at = (time_t)unix_s;
	char stamp[32] = "";
	struct tm when;

	if (gmtime_r(&at, &when) != NULL)
		strftime(stamp, sizeof(stamp), "%Y_%m_%d_%H_%M_%S", &when);
	snprintf(out, TWI_TRACE_SESSION, "%.12s%s", prefix, stamp);
}

static int make_dirs(char *path)
{
	for (char *at = path + 1; *at != '\0'; at++) {
		if (*at != '/')
			continue;
		*at = '\0';
		if (mkdir(path, 0777) != 0 && errno != EEXIST)
			return twi_error_errno(TOW_ESYSTEM, errno, "mkdir '%s'", path);
		*at = '/';
	}
	return TOW_OK;
}

static int write_bytes(const char *path, const char *bytes, size_t count)
{
	int fd =
		twi_fd_high(open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666));
	size_t done = 0;

	if (fd < 0)
		return twi_error_errno(TOW_ESYSTEM, errno, "open '%s'", path);
	while (done < count) {
		ssize_t wrote = write(fd, bytes + done, count - done);

		if (wrote < 0 && errno != EINTR) {
			int err = errno;

			close(fd);
			unlink(path);
			return twi_error_errno(TOW_ESYSTEM, err, "write '%s'", path);
		}
		done += wrote > 0 ? (size_t)wrote : 0;
	}
	return close(fd) == 0 ? TOW_OK : twi_error_errno(TOW_ESYSTEM, errno, "close '%s'", path);
}

static int is_there(const char *path)
{
	return twi_error(TOW_EBUSY, "'%s' is there already", path);
}

/* Without links, test and rename are two steps, and another file could come between them. */
static int give_name(const char *part, const char *path)
{
	int status = TOW_OK;

	if (link(part, path) == 0) {
		unlink(part);
		return TOW_OK;
	}
	if (errno == EEXIST || access(path, F_OK) == 0)
		status = is_there(path);
	else if (rename(part, path) != 0)
		status = twi_error_errno(TOW_ESYSTEM, errno, "rename '%s'", path);
	if (status < 0)
		unlink(part);
	return status;
}

int twi_trace_file_write(const struct twi_trace *trace, const char *dir, const char *session,
			 char path_out[TWI_TRACE_PATH], size_t *bytes_out)
{
	const struct twi_trace_rank *rank = &trace->ranks[0];
	char part[TWI_TRACE_PATH + 20], *bytes;
	int status;

	*bytes_out = 0;
	snprintf(path_out, TWI_TRACE_PATH, "%.300s/plugins/profile/%.48s/%.255s-%lld.xplane.pb",
		 dir[0] != '\0' ? dir : ".", session, rank->host, (long long)rank->rank);
	if (access(path_out, F_OK) == 0)
		return is_there(path_out);
	status = twi_export_xspace(trace, &bytes, bytes_out);
	if (status < 0)
		return status;
	snprintf(part, sizeof(part), "%s.%ld", path_out, (long)getpid());
	status = make_dirs(path_out);
	if (status == TOW_OK)
		status = write_bytes(part, bytes, *bytes_out);
	free(bytes);
	return status == TOW_OK ? give_name(part, path_out) : status;
}
