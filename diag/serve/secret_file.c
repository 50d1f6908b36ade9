/* secret_file.c - see secret_file.h. */
#include "diag/serve/secret_file.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "diag/base/error.h"

int twi_secret_file_judge(int fd, const char *knob, const char *path)
{
	struct stat st;

	if (fstat(fd, &st) != 0)
		return twi_error_errno(TOW_ESYSTEM, errno, "%s %s: fstat", knob, path);
	if (!S_ISREG(st.st_mode))
		return twi_error(TOW_EPERM, "%s %s is no regular file", knob, path);
	if (st.st_uid != geteuid() && st.st_uid != 0)
		return twi_error(TOW_EPERM,
				 "%s %s belongs to user %u, neither to this process's user %u nor "
				 "to root",
				 knob, path, (unsigned)st.st_uid, (unsigned)geteuid());
	if ((st.st_mode & 077) != 0)
		return twi_error(TOW_EPERM,
				 "%s %s has mode %04o, so others may use it: chmod 600 %s", knob,
				 path, (unsigned)st.st_mode & 07777, path);
	return TOW_OK;
}
