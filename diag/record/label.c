/*
 * label.c - the table of groups' labels. See label.h.
 */
#include "diag/record/label.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <internal/base.h>

#include "diag/base/error.h"
#include "diag/record/diag.h"

void twi_labels_init(struct twi_labels *labels)
{
	pthread_mutex_init(&labels->lock, NULL);
}

void twi_labels_fini(struct twi_labels *labels)
{
	pthread_mutex_destroy(&labels->lock);
	free(labels->rows);
}

static bool is_printable(char byte)
{
	return byte >= 0x20 && byte <= 0x7e;
}

int twi_label_check(const char *call, const char *text)
{
	size_t bytes = strnlen(text, TOW_GROUP_LABEL_MAX);

	if (bytes == 0)
		return twi_error(TOW_EINVAL, "%s: the label is empty; NULL means none", call);
	if (bytes == TOW_GROUP_LABEL_MAX)
		return twi_error(TOW_EINVAL, "%s: the label '%.16s...' is longer than %d bytes",
				 call, text, TOW_GROUP_LABEL_MAX - 1);
	for (size_t i = 0; i < bytes; i++) {
		if (!is_printable(text[i]))
			return twi_error(TOW_EINVAL,
					 "%s: byte %zu of the label is 0x%02x; only printable "
					 "ASCII is legal",
					 call, i, (unsigned char)text[i]);
	}
	return TOW_OK;
}

void twi_label_from(const char *text, char out[TOW_GROUP_LABEL_MAX])
{
	size_t used = 0;

	for (; *text != '\0' && used < TOW_GROUP_LABEL_MAX - 1; text++) {
		if (is_printable(*text))
			out[used++] = *text;
	}
	out[used] = '\0';
}

/* The lock is held in the next three functions. */

static struct twi_label *find_label(struct twi_labels *labels, uint32_t group)
{
	for (uint32_t i = 0; i < labels->count; i++) {
		if (labels->rows[i].group == group)
			return &labels->rows[i];
	}
	return NULL;
}

/* Removes a row. Rows stay in the order in which they came: the first closed one is the oldest. */
static void drop_label(struct twi_labels *labels, struct twi_label *row)
{
	struct twi_label *end = labels->rows + --labels->count;

	labels->closed -= row->closed;
	for (; row < end; row++)
		row[0] = row[1];
}

static struct twi_label *add_label(struct twi_labels *labels, uint32_t group)
{
	if (labels->count == labels->room) {
		uint32_t room = twi_max(labels->room * 2, 16u);
		struct twi_label *rows = realloc(labels->rows, room * sizeof(*rows));

		if (rows == NULL) {
			twi_error(TOW_ENOMEM, "no memory for the label of group %u", group);
			return NULL;
		}
		labels->rows = rows;
		labels->room = room;
	}
	labels->rows[labels->count] = (struct twi_label){ .group = group };
	return &labels->rows[labels->count++];
}

int twi_label_set(struct twi_diag *diag, uint32_t group, const char *text)
{
	struct twi_labels *labels = &diag->labels;
	bool none = text == NULL || text[0] == '\0';
	struct twi_label *row;
	int status = TOW_OK;

	pthread_mutex_lock(&labels->lock);
	row = find_label(labels, group);
	if (row != NULL && (none || row->closed)) {
		drop_label(labels, row);
		row = NULL;
	}
	if (row == NULL && !none) {
		row = add_label(labels, group);
		status = row != NULL ? TOW_OK : TOW_ENOMEM;
	}
	if (row != NULL)
		snprintf(row->text, sizeof(row->text), "%s", text);
	pthread_mutex_unlock(&labels->lock);
	return status;
}

void twi_label_close(struct twi_diag *diag, uint32_t group)
{
	struct twi_labels *labels = &diag->labels;
	struct twi_label *row;

	pthread_mutex_lock(&labels->lock);
	row = find_label(labels, group);
	if (row != NULL && !row->closed) {
		row->closed = true;
		labels->closed++;
	}
	for (row = labels->rows; labels->closed > TWI_LABELS_CLOSED; row++) {
		if (row->closed)
			drop_label(labels, row--);
	}
	pthread_mutex_unlock(&labels->lock);
}

const char *twi_label_read(struct twi_diag *diag, uint32_t group, char out[TOW_GROUP_LABEL_MAX])
{
	const struct twi_label *row;

	out[0] = '\0';
	pthread_mutex_lock(&diag->labels.lock);
	row = find_label(&diag->labels, group);
	if (row != NULL)
		snprintf(out, TOW_GROUP_LABEL_MAX, "%s", row->text);
	pthread_mutex_unlock(&diag->labels.lock);
	return out;
}

const char *twi_label_words(struct twi_diag *diag, uint32_t group, char out[TWI_LABEL_WORDS])
{
	char text[TOW_GROUP_LABEL_MAX];

	if (twi_label_read(diag, group, text)[0] != '\0')
		snprintf(out, TWI_LABEL_WORDS, "group %u \"%s\"", group, text);
	else
		snprintf(out, TWI_LABEL_WORDS, "group %u", group);
	return out;
}
