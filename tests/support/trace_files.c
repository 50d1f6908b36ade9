/* trace_files.c - see trace_files.h. */
#include "twt.h"

#include <string.h>
#include <unistd.h>

#include <towline/status.h>

#include "tools/trace/formats.h"
#include "trace_files.h"

#define SUFFIX ".xplane.pb"

static bool is_whole(const char *name)
{
	size_t length = strlen(name);

	return length > sizeof(SUFFIX) && strcmp(name + length - (sizeof(SUFFIX) - 1), SUFFIX) == 0;
}

static size_t files_of(const char *profile, const char *session, size_t count,
		       struct twt_trace_file out[TWT_TRACE_FILES])
{
	char folder[700];
	struct dirent *entry;
	DIR *dir;

	snprintf(folder, sizeof(folder), "%.500s/%.100s", profile, session);
	dir = opendir(folder);
	while (dir != NULL && count < TWT_TRACE_FILES && (entry = readdir(dir)) != NULL) {
		struct twt_trace_file *file = &out[count];

		if (!is_whole(entry->d_name))
			continue;
		snprintf(file->session, sizeof(file->session), "%.60s", session);
		snprintf(file->name, sizeof(file->name), "%s", entry->d_name);
		snprintf(file->path, sizeof(file->path), "%s/%s", folder, entry->d_name);
		count++;
	}
	if (dir != NULL)
		closedir(dir);
	return count;
}

size_t twt_trace_files(const char *dir, struct twt_trace_file out[TWT_TRACE_FILES])
{
	struct dirent *entry;
	char profile[512];
	size_t count = 0;
	DIR *sessions;

	snprintf(profile, sizeof(profile), "%.450s/plugins/profile", dir);
	sessions = opendir(profile);
	while (sessions != NULL && (entry = readdir(sessions)) != NULL) {
		if (entry->d_name[0] != '.')
			count = files_of(profile, entry->d_name, count, out);
	}
	if (sessions != NULL)
		closedir(sessions);
	return count;
}

size_t twt_trace_files_await(const char *dir, size_t count,
			     struct twt_trace_file out[TWT_TRACE_FILES])
{
	size_t there = 0;

	for (int turn = 0; turn < 6000; turn++) {
		there = twt_trace_files(dir, out);
		if (there >= count)
			break;
		usleep(10000);
	}
	return there;
}

void twt_trace_file_read(const struct twt_trace_file *file, struct twi_trace *out)
{
	FILE *stream = fopen(file->path, "rb");
	size_t count, room = 64u << 20;
	char *bytes = malloc(room);

	assert_non_null(stream);
	assert_non_null(bytes);
	count = fread(bytes, 1, room, stream);
	fclose(stream);
	assert_true(count > 0 && count < room);
	assert_int_equal(twi_import_xspace(bytes, count, out), TOW_OK);
	assert_int_equal(out->rank_count, 1);
	free(bytes);
}

size_t twt_trace_spans_of(const struct twi_trace *trace, enum twi_span_kind kind,
			  const struct twi_span **out, size_t room)
{
	const struct twi_trace_rank *rank = &trace->ranks[0];
	size_t count = 0;

	for (size_t t = 0; t < rank->thread_count; t++) {
		for (size_t i = 0; i < rank->threads[t].span_count; i++) {
			const struct twi_span *span = &rank->threads[t].spans[i];

			if (span->kind != kind)
				continue;
			if (count < room)
				out[count] = span;
			count++;
		}
	}
	return count;
}

void twt_trace_files_remove(const char *dir)
{
	char line[600];

	snprintf(line, sizeof(line), "rm -r '%.500s'", dir);
	assert_int_equal(system(line), 0);
}
