/*
 * towstat_bpf.c - replaces this process by towbpf.
 *
 * towbpf is a separate program because of its rights: a file can be given capabilities, and a
 * single command of a file cannot.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tools/towstat/towstat.h"

#ifdef TWI_BPF_OFF
#define MEND "this Towline was " TWI_BPF_OFF
#else
#define MEND "install it from where this towstat comes, or set PATH"
#endif

int run_bpf(int argc, char **argv)
{
	static char all_users[] = "--all-users";
	char folder[PATH_MAX], beside[PATH_MAX + 8];

	/* The option was removed from the arguments, so there is room to put it back. */
	if (finds_all_users()) {
		argv[argc] = all_users;
		argv[argc + 1] = NULL;
	}
	own_folder(folder);
	snprintf(beside, sizeof(beside), "%s/towbpf", folder);
	argv[0] = (char[]){ "towbpf" };
	if (folder[0] != '\0')
		execv(beside, argv);
	if (folder[0] != '\0' && errno != ENOENT) {
		fprintf(stderr, "towstat: %s cannot be run: %s\n", beside, strerror(errno));
		return 1;
	}
	execvp("towbpf", argv);
	if (errno == ENOENT)
		fprintf(stderr, "towstat: there is no towbpf in %s, nor in PATH: " MEND "\n",
			folder);
	else
		fprintf(stderr, "towstat: towbpf in PATH cannot be run: %s\n", strerror(errno));
	return 1;
}
