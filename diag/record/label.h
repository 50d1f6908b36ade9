/*
 * label.h - names that people give to groups of ranks, by the number of the group.
 *
 * Messages, documents and traces know a group by its number, and find its name here. One table of a
 * runtime serves all of them. So no data path carries a name: it is read when a person asks, or
 * when something has failed. A closed group keeps its row for a while, because traces name it
 * later. There are at most TWI_LABELS_CLOSED such rows.
 */
#ifndef TWI_LABEL_H
#define TWI_LABEL_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include <towline/group.h>

struct twi_diag;

#define TWI_LABELS_CLOSED 256u
#define TWI_LABEL_WORDS   (TOW_GROUP_LABEL_MAX + 24u) /* a number, and a label in quotes */

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
/* `text` without unprintable bytes, cut if it is too long; "" if nothing is left. */
void twi_label_from(const char *text, char out[TOW_GROUP_LABEL_MAX]);
/* Sets the label of an open group; NULL or "" removes it. TOW_OK or TOW_ENOMEM. */
int twi_label_set(struct twi_diag *diag, uint32_t group, const char *text);
void twi_label_close(struct twi_diag *diag, uint32_t group);
/* Returns `out`, which is "" if there is no label. */
const char *twi_label_read(struct twi_diag *diag, uint32_t group, char out[TOW_GROUP_LABEL_MAX]);
/* Returns `out`: group 3 "dp", or group 3. */
const char *twi_label_words(struct twi_diag *diag, uint32_t group, char out[TWI_LABEL_WORDS]);

#endif
