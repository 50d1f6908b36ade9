/*
 * grads_workload.c - the list of tensors that a job exchanges in one step.
 *
 * The format is that of bench/workloads/README.md: a header, then name, shape, dtype and bytes,
 * separated by tabs. Only name and bytes matter here. A malformed line is an error with its number:
 * a list that is silently shorter would make a figure that is silently better.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "grads.h"

#define TENSORS_MAX  100000
#define BYTES_MAX    (UINT64_C(1) << 40)
#define PAGE         UINT64_C(4096)
#define HEADROOM_MIN (UINT64_C(32) << 20)

static int parse_line(char *line, struct grads_tensor *tensor)
{
	char *save = NULL, *end, *fields[4];
	unsigned long long bytes;

	for (int i = 0; i < 4; i++) {
		fields[i] = strtok_r(i == 0 ? line : NULL, "\t\n", &save);
		if (fields[i] == NULL)
			return -1;
	}
	errno = 0;
	bytes = strtoull(fields[3], &end, 10);
	if (errno != 0 || *end != '\0' || bytes == 0 || bytes > BYTES_MAX)
		return -1;
	tensor->bytes = bytes;
	snprintf(tensor->name, sizeof(tensor->name), "%s", fields[0]);
	return 0;
}

static int append(struct grads_workload *work, const struct grads_tensor *tensor)
{
	/* Grows when the count is a power of two: there are hundreds of tensors, not millions. */
	if ((work->count & (work->count - 1)) == 0) {
		uint64_t room = work->count == 0 ? 1 : work->count * 2;
		void *grown = realloc(work->tensors, room * sizeof(*tensor));

		if (grown == NULL || work->count == TENSORS_MAX) {
			free(grown != NULL ? grown : work->tensors);
			work->tensors = NULL;
			return -1;
		}
		work->tensors = grown;
	}
	work->tensors[work->count++] = *tensor;
	work->bytes += tensor->bytes;
	return 0;
}

static int load_lines(FILE *file, const char *path, uint64_t limit, struct grads_workload *work)
{
	struct grads_tensor tensor;
	char line[512];

	for (unsigned int number = 1; fgets(line, sizeof(line), file) != NULL; number++) {
		if (number == 1)
			continue;
		if (limit != 0 && work->count == limit)
			break;
		if (parse_line(line, &tensor) != 0) {
			fprintf(stderr, "tow-grads: %s:%u: not name, shape, dtype, bytes\n", path,
				number);
			return GRADS_FAILED;
		}
		if (append(work, &tensor) != 0) {
			fprintf(stderr, "tow-grads: %s: too many tensors for memory\n", path);
			return GRADS_FAILED;
		}
	}
	if (ferror(file) || work->count == 0) {
		fprintf(stderr, "tow-grads: %s: no tensors\n", path);
		return GRADS_FAILED;
	}
	return 0;
}

int grads_workload_load(const char *path, uint64_t limit, struct grads_workload *work_out)
{
	FILE *file = fopen(path, "r");
	int rc;

	*work_out = (struct grads_workload){ NULL, 0, 0 };
	if (file == NULL) {
		fprintf(stderr, "tow-grads: %s: %s\n", path, strerror(errno));
		return GRADS_FAILED;
	}
	rc = load_lines(file, path, limit, work_out);
	fclose(file);
	if (rc != 0)
		grads_workload_free(work_out);
	return rc;
}

void grads_workload_free(struct grads_workload *work)
{
	free(work->tensors);
	*work = (struct grads_workload){ NULL, 0, 0 };
}

/* Whole pages for each buffer, and a sixteenth for what the library and its arena need. */
uint64_t grads_workload_premap(const struct grads_workload *work)
{
	uint64_t need = 0, headroom;

	for (uint64_t i = 0; i < work->count; i++)
		need += 2 * ((work->tensors[i].bytes + PAGE - 1) & ~(PAGE - 1));
	headroom = need / 16;
	if (headroom < HEADROOM_MIN)
		headroom = HEADROOM_MIN;
	return (need + headroom + (UINT64_C(2) << 20) - 1) & ~((UINT64_C(2) << 20) - 1);
}
