/*
 * label.h - names that people give to groups of ranks, by the group's number.
 *
 * Messages, documents and traces know a group by its number; here they find what to call it. One
 * table of a runtime serves all of them, so that nothing on a data path carries a name: it is read
 * when a person asks, or when something has failed. A group that was closed keeps its row for a
 * while, since traces tell of it later; of such rows there are at most TWI_LABELS_CLOSED.
 */
#ifndef TWI_LABEL_H
#define TWI_LABEL_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include <towline/group.h>

struct twi_diag;

#define TWI_LABELS_CLOSED 256u
#define TWI_LABEL_WORDS   (TOW_GROUP_LABEL_MAX + 24u) /* of a number, and a label in quotes */

struct twi_label {
	uint32_t group;
	bool closed;
	char text[TOW_GROUP_LABEL_MAX];
};

struct twi_labels {
	pthread_mutex_t lock;
	uint32_t count, room, closed;
	struct twi_label *rows;
};

void twi_labels_init(struct twi_labels *labels);
void twi_labels_fini(struct twi_labels *labels);

/* TOW_OK, or TOW_EINVAL naming `call`: a label is printable ASCII of 1 to 47 bytes. */
int twi_label_check(const char *call, const char *text);
/* `text` without what is not printable, cut where it is too long: "" where nothing is left. */
void twi_label_from(const char *text, char out[TOW_GROUP_LABEL_MAX]);
/* The label of a group that is open; NULL or "": it has none. TOW_OK or TOW_ENOMEM. */
int twi_label_set(struct twi_diag *diag, uint32_t group, const char *text);
void twi_label_close(struct twi_diag *diag, uint32_t group);
/* Gives `out`, which is "" where there is no label. */
const char *twi_label_read(struct twi_diag *diag, uint32_t group, char out[TOW_GROUP_LABEL_MAX]);
/* Gives `out`: group 3 "dp", or group 3. */
const char *twi_label_words(struct twi_diag *diag, uint32_t group, char out[TWI_LABEL_WORDS]);

#endif
