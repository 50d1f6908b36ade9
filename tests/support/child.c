/* child.c - see child.h. */
#include "child.h"

#include "twt.h"

#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

int twt_child(unsigned limit_s, int (*run)(const void *arg), const void *arg)
{
	int status;
	pid_t pid;

	fflush(NULL);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		int result;

		alarm(limit_s);
		result = run(arg);
		fflush(NULL);
		_exit(result);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

bool twt_child_plays(const char *name, unsigned limit_s, int (*run)(const void *arg),
		     const void *arg)
{
	int status = twt_child(limit_s, run, arg);

	if (!WIFEXITED(status) ||
	    (WEXITSTATUS(status) != 0 && WEXITSTATUS(status) != TWT_CHILD_ABSENT))
		fail_msg("%s: status %x", name, (unsigned)status);
	return WEXITSTATUS(status) == 0;
}
