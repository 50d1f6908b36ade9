/*
 * emit.h - text that grows: the JSON and OpenMetrics documents of the stats socket.
 *
 * A writer keeps one string and one bit, whether the next JSON value needs a comma before it. It
 * cannot fail in the middle: the first failure (no memory, or more than TWI_EMIT_MAX bytes) sticks,
 * later calls do nothing, and twi_emit_take reports it. So a snapshot function has no error path.
 *
 * JSON: `key` is NULL inside arrays and for the root. What is begun must be ended; that is on the
 * caller. Whatever bytes a string holds, the document is valid UTF-8.
 */
#ifndef TWI_EMIT_H
#define TWI_EMIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TWI_EMIT_MAX (64u << 20)

/* All zero is an empty one. `text` is NUL-terminated unless NULL; free() is its end. */
struct twi_emit {
	char *text;
	size_t bytes, room;
	bool comma;
	int status; /* of the first failure */
};

void twi_emit_init(struct twi_emit *e);
void twi_emit_fini(struct twi_emit *e);

/* Hands the text over, to be given to free(); e is empty then. TOW_ENOMEM after a failure. */
int twi_emit_take(struct twi_emit *e, char **text_out);

/* HTML: text for between tags or within quotes, whatever bytes it holds. */
void twi_emit_html(struct twi_emit *e, const char *text);

/* As it stands, however long. */
void twi_emit_puts(struct twi_emit *e, const char *text);
void twi_emit_put(struct twi_emit *e, const char *bytes, size_t count);

void twi_emit_number(struct twi_emit *e, uint64_t value);

/* Nanoseconds as seconds, exactly, without printf: /metrics is full of them. */
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
void twi_emit_json(struct twi_emit *e, const char *key, const char *json); /* a value, ready */

/*
 * OpenMetrics. A family: its head, then its samples. kind: "counter", "gauge", "histogram", "info".
 * The unit is written only where the name ends with it, as the format demands. `labels` is ready
 * text, `a="b",c="d"`, or NULL.
 */
void twi_emit_metric_head(struct twi_emit *e, const char *name, const char *kind, const char *unit,
			  const char *help);
void twi_emit_sample_u64(struct twi_emit *e, const char *name, const char *labels, uint64_t value);
void twi_emit_sample_seconds(struct twi_emit *e, const char *name, const char *labels, uint64_t ns);

/*
 * A label as the format wants it, `name="value"`, behind what `labels` has. Whatever bytes the
 * value has, the result is valid; a value that does not fit is cut between two characters.
 */
void twi_emit_label(char *labels, size_t room, const char *name, const char *value);

/* As it stands, without commas or quotes; at most 1 KiB a call. */
void twi_emit_raw(struct twi_emit *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
