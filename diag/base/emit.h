/*
 * emit.h - text that grows: the JSON and OpenMetrics documents of the stats socket.
 *
 * A writer keeps one string and one bit: whether the next JSON value needs a comma before it. A
 * call cannot fail in the middle. The first failure (no memory, or more than TWI_EMIT_MAX bytes)
 * stays: later calls do nothing, and twi_emit_take reports it. So a function that writes a document
 * needs no error path.
 *
 * JSON: `key` is NULL inside arrays and for the root. The caller must end each object and array
 * that it has begun. The document is valid UTF-8, whatever bytes a string has.
 */
#ifndef TWI_EMIT_H
#define TWI_EMIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TWI_EMIT_MAX (64u << 20)

/* All zero is an empty one. `text` is NUL-terminated unless NULL, and freed with free(). */
struct twi_emit {
	char *text;
	size_t bytes, room;
	bool comma;
	int status; /* of the first failure */
};

void twi_emit_init(struct twi_emit *e);
void twi_emit_fini(struct twi_emit *e);

/* Hands over the text, to be passed to free(). e is empty then. TOW_ENOMEM after a failure. */
int twi_emit_take(struct twi_emit *e, char **text_out);

/* HTML: writes text that is safe between tags or within quotes, whatever bytes it has. */
void twi_emit_html(struct twi_emit *e, const char *text);

/* These two write the text unchanged, however long it is. */
void twi_emit_puts(struct twi_emit *e, const char *text);
void twi_emit_put(struct twi_emit *e, const char *bytes, size_t count);

void twi_emit_number(struct twi_emit *e, uint64_t value);

/* Writes nanoseconds as seconds, exactly. It avoids printf, as /metrics has many of them. */
void twi_emit_seconds(struct twi_emit *e, uint64_t ns);

void twi_emit_object_begin(struct twi_emit *e, const char *key);
void twi_emit_object_end(struct twi_emit *e);
void twi_emit_array_begin(struct twi_emit *e, const char *key);
void twi_emit_array_end(struct twi_emit *e);
void twi_emit_u64(struct twi_emit *e, const char *key, uint64_t value); /* INT64_MAX at most */
void twi_emit_i64(struct twi_emit *e, const char *key, int64_t value);
void twi_emit_f64(struct twi_emit *e, const char *key, double value); /* null unless finite */
void twi_emit_bool(struct twi_emit *e, const char *key, bool value);
void twi_emit_str(struct twi_emit *e, const char *key, const char *value); /* NULL: null */
void twi_emit_json(struct twi_emit *e, const char *key, const char *json); /* a finished value */

/*
 * OpenMetrics. A family is its head, then its samples. kind: "counter", "gauge", "histogram" or
 * "info". The unit is written only where the name ends with it, as the format demands. `labels` is
 * finished text, such as `a="b",c="d"`, or NULL.
 */
void twi_emit_metric_head(struct twi_emit *e, const char *name, const char *kind, const char *unit,
			  const char *help);
void twi_emit_sample_u64(struct twi_emit *e, const char *name, const char *labels, uint64_t value);
void twi_emit_sample_seconds(struct twi_emit *e, const char *name, const char *labels, uint64_t ns);

/*
 * Appends a label to `labels` as the format demands: `name="value"`. The result is valid, whatever
 * bytes the value has. A value that does not fit is cut between two characters.
 */
void twi_emit_label(char *labels, size_t room, const char *name, const char *value);

/* Writes formatted text without commas or quotes; it is cut after 1 KiB. */
void twi_emit_raw(struct twi_emit *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
