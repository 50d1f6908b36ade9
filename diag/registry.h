/* registry.h - stand-in until the diag layer is merged. */
#ifndef TWI_REGISTRY_H
#define TWI_REGISTRY_H

#include <stdint.h>

struct twi_diag;
struct twi_emit;

struct twi_source {
	const char *path;
	const char *help;
	void (*snapshot)(void *arg, struct twi_emit *e);
	void *arg;
};

struct twi_gauge {
	const char *name;
	const char *unit;
	const char *help;
	uint64_t (*value)(void *arg);
	void *arg;
};

int twi_registry_add(struct twi_diag *diag, const struct twi_source *source);
void twi_registry_remove(struct twi_diag *diag, const char *path);
int twi_registry_gauge(struct twi_diag *diag, const struct twi_gauge *gauge);
int twi_registry_render(struct twi_diag *diag, const char *path, struct twi_emit *e);

#endif
