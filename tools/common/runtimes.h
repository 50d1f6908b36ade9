/*
 * runtimes.h - the runtimes of this host: every *.sock in the directories where they can be.
 */
#ifndef RUNTIMES_H
#define RUNTIMES_H

#include <stddef.h>
#include <sys/types.h>

#define RUNTIMES_MAX 1024

struct runtime_entry {
	char path[256];
	char name[128]; /* the file's name without .sock: job.rank */
	int live;       /* 1, 0: its process has ended, -1: cannot be known */
	uid_t uid;      /* whose it is: see trust.h */
};

struct runtime_list {
	size_t count, missed; /* missed: there was no room for more */
	struct runtime_entry *rows;
};

/* From now on also the sockets of other users (--all-users). */
void find_all_users(void);
int finds_all_users(void);

/*
 * All stats sockets of this user, or of all users, that can be seen; nobody is asked, so live is
 * -1. Returns -1 without memory.
 */
int find_sockets(struct runtime_list *out);
/* The same, and who lives. */
int find_runtimes(struct runtime_list *out);
void runtime_list_fini(struct runtime_list *list);

/* What a name says: job.rank, or job.rank-2 for the second runtime that has this rank. */
struct runtime_name {
	char job[128], runtime[16]; /* runtime: "" for the first */
	long long rank;
};
void runtime_name_of(const char *name, struct runtime_name *out);

#endif
