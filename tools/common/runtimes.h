/*
 * runtimes.h - finds the runtimes of this host: each *.sock in the directories of stats sockets.
 */
#ifndef RUNTIMES_H
#define RUNTIMES_H

#include <stddef.h>
#include <sys/types.h>

#define RUNTIMES_MAX 1024

struct runtime_entry {
	char path[256];
	char name[128]; /* file name without .sock: job.rank */
	int live;       /* 1: yes; 0: its process has ended; -1: unknown */
	uid_t uid;      /* the owner: see trust.h */
};

struct runtime_list {
	size_t count, missed; /* missed: sockets beyond the limit */
	struct runtime_entry *rows;
};

/* From now on, the sockets of other users are found, too (--all-users). */
void find_all_users(void);
int finds_all_users(void);

/*
 * Lists all visible stats sockets of this user, or of all users. It asks no process, so live is -1.
 * Returns -1 without memory.
 */
int find_sockets(struct runtime_list *out);
/* The same, and sets live. */
int find_runtimes(struct runtime_list *out);
void runtime_list_fini(struct runtime_list *list);

/* The parts of a name: job.rank, or job.rank-2 for the second runtime of this rank. */
struct runtime_name {
	char job[128], runtime[16]; /* runtime: "" for the first */
	long long rank;
};
void runtime_name_of(const char *name, struct runtime_name *out);

#endif
