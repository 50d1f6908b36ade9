/* listening.c - see listening.h. */
#include "listening.h"

#include "twt.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

#define FDS_MAX 1024

void twt_listening_find(struct twt_listening *out)
{
	unsigned count = 0;

	for (int fd = 0; fd < FDS_MAX; fd++) {
		socklen_t bytes = sizeof(int);
		struct stat st;
		int listens = 0;

		if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &bytes) != 0 || !listens ||
		    fstat(fd, &st) != 0)
			continue;
		assert_in_range(count, 0, TWT_LISTENING_MAX - 1);
		atomic_store(&out->inodes[count++], st.st_ino);
	}
}

/* Has this process it, too? Forked processes share those that their parent had. */
static bool is_shared(uint64_t inode)
{
	struct stat st;

	for (int fd = 0; fd < FDS_MAX; fd++)
		if (fstat(fd, &st) == 0 && S_ISSOCK(st.st_mode) && st.st_ino == inode)
			return true;
	return false;
}

static bool is_listed(const char *path, uint64_t inode)
{
	char line[512], wanted[32];
	FILE *file = fopen(path, "re");
	bool found = false;

	snprintf(wanted, sizeof(wanted), "%" PRIu64, inode);
	while (file != NULL && !found && fgets(line, sizeof(line), file) != NULL) {
		char *rest = line, *word;

		while (!found && (word = strsep(&rest, " \n")) != NULL)
			found = strcmp(word, wanted) == 0;
	}
	if (file != NULL)
		fclose(file);
	return found;
}

bool twt_listening_held(const struct twt_listening *sockets)
{
	static const char *const lists[] = { "/proc/net/tcp", "/proc/net/tcp6", "/proc/net/unix" };

	for (unsigned i = 0; i < TWT_LISTENING_MAX; i++) {
		uint64_t inode = atomic_load(&sockets->inodes[i]);

		if (inode == 0 || is_shared(inode))
			continue;
		for (size_t k = 0; k < sizeof(lists) / sizeof(lists[0]); k++)
			if (is_listed(lists[k], inode))
				return true;
	}
	return false;
}
