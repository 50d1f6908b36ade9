/*
 * log.c - a bounded log: read through /v1/info, and shown by log_out.c. See diag.h.
 */
#include "diag/record/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "diag/base/words.h"

struct twi_log *twi_log_create(void)
{
	struct twi_log *log = calloc(1, sizeof(*log));

	if (log == NULL)
		return NULL;
	pthread_mutex_init(&log->lock, NULL);
	twi_log_out_init(&log->out);
	return log;
}

void twi_log_destroy(struct twi_log *log)
{
	if (log == NULL)
		return;
	twi_log_out_fini(&log->out);
	pthread_mutex_destroy(&log->lock);
	free(log);
}

int twi_log_open(struct twi_diag *diag, const char *where, tow_log_callback callback, void *user)
{
	return twi_log_out_open(&diag->log->out, where, callback, user);
}

void twi_log_rank(struct twi_diag *diag, int64_t rank)
{
	atomic_store_explicit(&diag->log->out.rank, rank, memory_order_relaxed);
}

bool twi_log_is_thread(struct twi_diag *diag)
{
	struct twi_log_out *out = &diag->log->out;
	bool mine;

	pthread_mutex_lock(&out->lock);
	mine = out->running && pthread_equal(out->thread, pthread_self());
	pthread_mutex_unlock(&out->lock);
	return mine;
}

void twi_diag_log_level(struct twi_diag *diag, int level)
{
	atomic_store_explicit(&diag->log_level, level, memory_order_relaxed);
}

void twi_log(struct twi_diag *diag, int level, const char *fmt, ...)
{
	struct twi_log *log = diag->log;
	char text[TWI_LOG_BYTES], clean[TWI_LOG_BYTES];
	uint64_t now = twi_now_ns();
	va_list args;
	unsigned at;

	if (level > atomic_load_explicit(&diag->log_level, memory_order_relaxed))
		return;
	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	twi_words_clean(clean, sizeof(clean), text);
	pthread_mutex_lock(&log->lock);
	at = (unsigned)(log->count++ % TWI_LOG_LINES);
	log->lines[at].ns = now;
	log->lines[at].level = level;
	memcpy(log->lines[at].text, clean, sizeof(clean));
	pthread_mutex_unlock(&log->lock);
	twi_log_out_put(&log->out, level, clean, now);
}

void twi_log_read(struct twi_diag *diag,
		  void (*line)(void *arg, uint64_t ns, int level, const char *text), void *arg)
{
	struct twi_log *log = diag->log;
	uint64_t first;

	pthread_mutex_lock(&log->lock);
	first = log->count > TWI_LOG_LINES ? log->count - TWI_LOG_LINES : 0;
	for (uint64_t i = first; i < log->count; i++) {
		unsigned at = (unsigned)(i % TWI_LOG_LINES);

		line(arg, log->lines[at].ns, log->lines[at].level, log->lines[at].text);
	}
	pthread_mutex_unlock(&log->lock);
}
