/*
 * 08_probes.c - looks into a running process that uses Towline, through the library's USDT probes:
 * how many RPCs, copies and late registrations there are, without its stats socket or its help.
 *
 *	08_probes PID [FILE]	FILE: what has the probes, else libtowline.so of that process
 *
 * Counts until its standard input ends (Ctrl-D). Needs CAP_SYS_ADMIN, as uprobes do.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <towline/towline.h>

#include <probes.skel.h>

#define ROWS 32

static const char *const probes[] = { "rpc_done", "copy", "late_registration" };

struct row {
	unsigned long long count, bytes, ns;
};

/* libbpf's words are for those who write programs. */
static int print_nothing(enum libbpf_print_level level, const char *format, va_list args)
{
	(void)level, (void)format, (void)args;
	return 0;
}

/* The file that the process has mapped as libtowline.so, seen from here. */
static int find_library(int pid, char *out, size_t size)
{
	char maps[64], line[4096];
	FILE *file;

	snprintf(maps, sizeof(maps), "/proc/%d/maps", pid);
	file = fopen(maps, "r");
	out[0] = '\0';
	while (file != NULL && out[0] == '\0' && fgets(line, sizeof(line), file) != NULL) {
		char *path = strchr(line, '/');

		if (path == NULL || strstr(path, "/libtowline.so") == NULL)
			continue;
		path[strcspn(path, "\n")] = '\0';
		snprintf(out, size, "/proc/%d/root%s", pid, path);
	}
	if (file != NULL)
		fclose(file);
	return out[0] != '\0' ? 0 : -1;
}

static void print_row(int probe, __u32 which, const struct row *row)
{
	struct tow_reason_info reason = { .size = sizeof(reason) };
	char name[64];

	snprintf(name, sizeof(name), "lane %u", which);
	if (probe > 0 && tow_reason_info(which, &reason) == TOW_OK)
		snprintf(name, sizeof(name), "%s", reason.name);
	printf("%-18s %-20s %10llu %14llu bytes %10llu ns each\n", probes[probe], name, row->count,
	       row->bytes, row->ns / row->count);
}

int main(int argc, char **argv)
{
	int pid = argc > 1 ? atoi(argv[1]) : 0, status = 1;
	struct probes_bpf *skeleton;
	char file[4200];

	if (pid <= 0) {
		fprintf(stderr, "usage: 08_probes PID [FILE]\n");
		return 2;
	}
	snprintf(file, sizeof(file), "%s", argc > 2 ? argv[2] : "");
	if (argc <= 2 && find_library(pid, file, sizeof(file)) != 0) {
		fprintf(stderr, "08_probes: process %d has no libtowline.so\n", pid);
		return 1;
	}
	libbpf_set_print(print_nothing);
	skeleton = probes_bpf__open_and_load();
	if (skeleton == NULL) {
		fprintf(stderr, "08_probes: cannot load: %s\n", strerror(errno));
		return 1;
	}
	skeleton->links.rpc_done = bpf_program__attach_usdt(skeleton->progs.rpc_done, pid, file,
							    "towline", probes[0], NULL);
	skeleton->links.copy = bpf_program__attach_usdt(skeleton->progs.copy, pid, file, "towline",
							probes[1], NULL);
	skeleton->links.late_registration = bpf_program__attach_usdt(
		skeleton->progs.late_registration, pid, file, "towline", probes[2], NULL);
	if (skeleton->links.rpc_done != NULL && skeleton->links.copy != NULL &&
	    skeleton->links.late_registration != NULL) {
		printf("attached\n");
		fflush(stdout);
		while (getchar() != EOF)
			;
		for (__u32 key = 0; key < 3 * ROWS; key++) {
			struct row row = { 0 };

			bpf_map_lookup_elem(bpf_map__fd(skeleton->maps.rows), &key, &row);
			if (row.count > 0)
				print_row((int)(key / ROWS), key % ROWS, &row);
		}
		status = 0;
	} else {
		fprintf(stderr, "08_probes: cannot attach: %s\n", strerror(errno));
	}
	probes_bpf__destroy(skeleton);
	return status;
}
