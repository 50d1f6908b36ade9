/*
 * no_library.c - preloaded, it hides from dlopen each library whose name begins with a word of
 * TWT_HIDDEN, as if this machine did not have it: the loader is asked for one that cannot be there.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HIDER __attribute__((visibility("default")))

HIDER void *dlopen(const char *file, int mode);

static int is_hidden(const char *file)
{
	const char *word = getenv("TWT_HIDDEN");

	while (word != NULL && *word != '\0') {
		size_t letters = strcspn(word, " ");

		if (letters > 0 && strncmp(file, word, letters) == 0)
			return 1;
		word += letters + strspn(word + letters, " ");
	}
	return 0;
}

void *dlopen(const char *file, int mode)
{
	union {
		void *found;
		void *(*call)(const char *, int);
	} real = { .found = dlsym(RTLD_NEXT, "dlopen") };
	char other[256];

	if (file == NULL || !is_hidden(file))
		return real.call(file, mode);
	snprintf(other, sizeof(other), "/nonexistent/%s", file);
	return real.call(other, mode);
}
