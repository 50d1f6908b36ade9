/* folder.c - see folder.h. */
#include "diag/base/folder.h"

#include <errno.h>
#include <sys/stat.h>

int twi_folder_make(const char *path)
{
	struct stat st;

	if (mkdir(path, S_IRWXU) != 0)
		return errno == EEXIST ? 0 : errno;
	if (lstat(path, &st) != 0)
		return errno;
	if (S_ISDIR(st.st_mode) && (st.st_mode & S_IRWXU) != S_IRWXU && chmod(path, S_IRWXU) != 0)
		return errno;
	return 0;
}
