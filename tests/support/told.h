/*
 * told.h - a pretended runtime: a stats socket that answers with the documents that a test gives.
 */
#ifndef TWT_TOLD_H
#define TWT_TOLD_H

#include "twt.h"

#include <pthread.h>

#define TWT_TOLD_PATHS 16

struct twt_told {
	int fd;
	pthread_t thread;
	pthread_mutex_t mutex; /* over what it says */
	struct {
		const char *path, *document;
		unsigned asked; /* so often */
	} said[TWT_TOLD_PATHS];
};

/* It listens at `dir`/`name`.sock, and says {} to whatever is asked. */
void twt_told_open(struct twt_told *told, const char *dir, const char *name);
void twt_told_close(struct twt_told *told);

/* From now on it answers with `document`, which is borrowed; NULL: it hangs up. */
void twt_told_say(struct twt_told *told, const char *path, const char *document);

/* How often it was asked for it. */
unsigned twt_told_asked(struct twt_told *told, const char *path);

#endif
