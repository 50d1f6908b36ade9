/*
 * log.c - a bounded log that is read through /v1/info and never printed. See diag.h.
 */
#include "diag/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "diag/words.h"

struct twi_log *twi_log_create(void)
{
	struct twi_log *log = calloc(1, sizeof(*log));

	if (log != NULL)
		pthread_mutex_init(&log->lock, NULL);
	return log;
}

void twi_log_destroy(struct twi_log *log)
{
	if (log == NULL)
		return;
	pthread_mutex_destroy(&log->lock);
	free(log);
}

void twi_diag_log_level(struct twi_diag *diag, int level)
{
	atomic_store_explicit(&diag->log_level, level, memory_order_relaxed);
}

void twi_log(struct twi_diag *diag, int level, const char *fmt, ...)
{
	struct twi_log *log = diag->log;
	char text[TWI_LOG_BYTES];
	va_list args;
	unsigned at;

	if (level > atomic_load_explicit(&diag->log_level, memory_order_relaxed))
		return;
	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	pthread_mutex_lock(&log->lock);
	at = (unsigned)(log->count++ % TWI_LOG_LINES);
	log->lines[at].ns = twi_now_ns();
	log->lines[at].level = level;
	twi_words_clean(log->lines[at].text, TWI_LOG_BYTES, text);
	pthread_mutex_unlock(&log->lock);
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
