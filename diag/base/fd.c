/* fd.c - see fd.h. */
#include "diag/base/fd.h"

#include <sys/resource.h>

#include "diag/base/error.h"

int twi_fd_error(int err, const char *what)
{
	struct rlimit limit = { 0 };

	if (err != EMFILE)
		return twi_error_errno(err == ENFILE ? TOW_EBUSY : TOW_ESYSTEM, err,
				       "no descriptor for %s", what);
	getrlimit(RLIMIT_NOFILE, &limit);
	return twi_error_errno(TOW_EBUSY, err,
			       "no descriptor is left for %s: this process may have %llu; raise "
			       "`ulimit -n`",
			       what, (unsigned long long)limit.rlim_cur);
}
