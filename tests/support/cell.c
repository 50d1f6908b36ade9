/* cell.c - what a cell of the conformance suite is. */
#include "cell.h"

#include <dirent.h>

const struct twt_lane twt_lanes[] = {
#define TWT_LANE(text, here, there, one, pair_one)                                                 \
	{ .name = text, .address = { here, there }, .one_runtime = one },
#define TWT_VARIANT(text, here, there, driven_by, keyed)                                           \
	{ .name = text, .address = { here, there }, .poller = driven_by, .encrypted = keyed },
#include "lanes.def"
#undef TWT_LANE
#undef TWT_VARIANT
};

const char *const twt_memories[] = { "pool", "registered", "plain", "unreadable" };

const char *const twt_drivings[] = { "wait",     "test",       "progress",   "tow_fd",
				     "callback", "own-thread", "40-threads", "queue" };

uint64_t twt_cell_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static bool twt_read_line(const char *folder, const char *thread, const char *name, char out[128])
{
	char path[300];
	FILE *file;
	bool good;

	snprintf(path, sizeof(path), "%s/%s/%s", folder, thread, name);
	file = fopen(path, "r");
	if (file == NULL)
		return false;
	good = fgets(out, 128, file) != NULL;
	fclose(file);
	out[good ? strcspn(out, "\n") : 0] = '\0';
	return good;
}

void twt_keep_threads(struct twt_cell_shared *shared)
{
	static const char folder[] = "/proc/self/task";
	DIR *threads = opendir(folder);
	const struct dirent *entry;
	size_t at = 0, room = sizeof(shared->threads);

	while (threads != NULL && at < room && (entry = readdir(threads)) != NULL) {
		char name[128], times[128];
		unsigned long long ran_ns, denied_ns;

		if (entry->d_name[0] == '.' ||
		    !twt_read_line(folder, entry->d_name, "comm", name) ||
		    !twt_read_line(folder, entry->d_name, "schedstat", times) ||
		    sscanf(times, "%llu %llu", &ran_ns, &denied_ns) != 2)
			continue;
		at += (size_t)snprintf(shared->threads + at, room - at,
				       "    thread %s, %s: it ran for %.1f s, and had no core for "
				       "%.1f s\n",
				       entry->d_name, name, (double)ran_ns / 1e9,
				       (double)denied_ns / 1e9);
	}
	if (threads != NULL)
		closedir(threads);
}

bool twt_by_itself(const struct twt_cell *cell)
{
	return cell->driving == TWT_CALLBACK || cell->driving == TWT_OWN_THREAD ||
	       cell->driving == TWT_QUEUE;
}

void twt_idle(struct twt_end *end)
{
	if (twt_by_itself(end->cell)) {
		usleep(200);
		return;
	}
	if (end->cell->driving == TWT_FD) {
		struct pollfd wait = { .fd = end->fd, .events = POLLIN };

		poll(&wait, 1, 1);
	} else {
		usleep(20);
	}
	if (tow_progress(end->runtime) < 0)
		twt_wrong(end->cell, "tow_progress: %s", tow_error_message());
}

void twt_meet(struct twt_end *end)
{
	struct twt_end *other = &end->cell->ends[1 - end->which];
	unsigned turn = atomic_fetch_add(&end->met, 1) + 1;
	uint64_t until = twt_cell_now() + 2 * TWT_CELL_NS;

	while (atomic_load(&other->met) < turn) {
		if (twt_cell_now() > until)
			twt_wrong(end->cell, "end %d waits for the other in vain, after: %.120s",
				  end->which, twt_last(end));
		twt_idle(end);
	}
}
