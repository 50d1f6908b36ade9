/* size_read.c - reads a job's file; whatever does not belong there ends the program. */
#include "size_job.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINE_ROOM 256

struct size_reader {
	struct size_job *job;
	struct size_thread *thread;
	const char *path;
	uint32_t line;
	bool body;
};

static _Noreturn void refuse_line(const struct size_reader *reader, const char *why)
{
	char what[160];

	snprintf(what, sizeof(what), "%.120s:%u", reader->path, reader->line);
	size_fail(what, why);
}

static int numbers_of(char letter)
{
#define SIZE_NUMBERS(have, name, count, what)                                                      \
	if (letter == (have))                                                                      \
		return count;
	SIZE_ACTS_MAP(SIZE_NUMBERS)
#undef SIZE_NUMBERS
	return -1;
}

/* Which of an act's numbers are slots, as bits. */
static unsigned slots_of(char letter)
{
	switch (letter) {
	case 'a':
	case 'f':
	case 'p':
	case 'q':
	case 'v':
		return 1;
	case 'x':
	case 'c':
		return 3;
	case 'r':
		return 6;
	default:
		return 0;
	}
}

static void read_act(struct size_reader *reader, const char *text)
{
	struct size_thread *thread = reader->thread;
	struct size_act act = { .letter = text[0] };
	int wanted = numbers_of(text[0]);
	char rest;
	int got;

	if (thread == NULL || wanted < 0)
		refuse_line(reader, "is nothing that a thread does");
	got = sscanf(text + 1, " %lu %lu %lu %lu", &act.number[0], &act.number[1], &act.number[2],
		     &act.number[3]);
	if ((got < 0 ? 0 : got) != wanted || sscanf(text + 1, " %*u %*u %*u %*u %c", &rest) == 1)
		refuse_line(reader, "has too few numbers, or too many");
	for (unsigned i = 0; i < 4; i++)
		if ((slots_of(act.letter) >> i & 1) && act.number[i] >= reader->job->slots)
			refuse_line(reader, "has a slot that there is not");
	if (thread->count == SIZE_ACTS)
		refuse_line(reader, "is more than a thread can do");
	thread->act[thread->count++] = act;
	if (!reader->body)
		thread->setup = thread->count;
}

static void read_thread(struct size_reader *reader, uint32_t index)
{
	struct size_job *job = reader->job;

	if (index != job->threads || index >= SIZE_THREADS)
		refuse_line(reader, "threads are not numbered from 0 to 7");
	reader->thread = &job->thread[job->threads++];
	reader->body = false;
	*reader->thread = (struct size_thread){ .job = job, .index = index };
	reader->thread->act = calloc(SIZE_ACTS, sizeof(struct size_act));
	if (reader->thread->act == NULL)
		size_fail(reader->path, "there is no memory for it");
}

void size_read(struct size_job *job, const char *path)
{
	struct size_reader reader = { .job = job, .path = path };
	FILE *file = fopen(path, "re");
	char line[LINE_ROOM];
	uint32_t number;

	if (file == NULL)
		size_fail(path, "cannot be opened");
	while (fgets(line, sizeof(line), file) != NULL) {
		reader.line++;
		if (sscanf(line, "slots %u", &number) == 1 && number <= SIZE_SLOTS)
			job->slots = number;
		else if (sscanf(line, "thread %u", &number) == 1)
			read_thread(&reader, number);
		else if (strcmp(line, "setup\n") == 0)
			reader.body = false;
		else if (strcmp(line, "body\n") == 0)
			reader.body = true;
		else
			read_act(&reader, line);
	}
	fclose(file);
	if (job->threads == 0)
		size_fail(path, "has no thread");
}
