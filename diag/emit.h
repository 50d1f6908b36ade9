/* emit.h - stand-in until the diag layer is merged. */
#ifndef TWI_EMIT_H
#define TWI_EMIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct twi_emit {
	char *text;
	size_t bytes, room;
	bool comma;
	int status;
};

void twi_emit_object_begin(struct twi_emit *e, const char *key);
void twi_emit_object_end(struct twi_emit *e);
void twi_emit_array_begin(struct twi_emit *e, const char *key);
void twi_emit_array_end(struct twi_emit *e);
void twi_emit_u64(struct twi_emit *e, const char *key, uint64_t value);
void twi_emit_bool(struct twi_emit *e, const char *key, bool value);
void twi_emit_str(struct twi_emit *e, const char *key, const char *value);

#endif
