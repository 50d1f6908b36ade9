/*
 * towbpf.h - the parts of towbpf: the loaded programs, and the runtimes that use them.
 */
#ifndef TOWBPF_H
#define TOWBPF_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "diag/bpf/abi/share.h"

struct bpf_link;
struct counters_bpf;

/* The programs with their maps, once for each user with served runtimes. */
struct loaded {
	uid_t uid;
	struct counters_bpf *skeleton; /* NULL: nothing is loaded; `why` has the reason */
	struct bpf_link *links[TWI_BPF_PROGRAMS];
	unsigned programs; /* one bit for each attached program */
	unsigned next_slot;
	bool used[TWI_BPF_SLOTS];
	char why[TWI_BPF_TEXT_BYTES];
	char reasons[TWI_BPF_REASONS][TWI_BPF_REASON_BYTES];
};

struct load_options {
	bool registration_time;
	bool verbose; /* print messages of libbpf to stderr */
};

/* Loads and attaches the programs, and freezes the map. *out is valid after a failure (-1), too. */
int load(uid_t uid, const struct load_options *options, struct loaded *out);
void unload(struct loaded *loaded);

/* Returns the descriptor of a map, which `loaded` owns. */
int loaded_map(const struct loaded *loaded, enum twi_bpf_map map);

#define RANKS_MAX 512
#define USERS_MAX 16

/* A socket of a runtime. */
struct rank {
	char path[108];
	uint64_t device, inode;
	int fd;   /* -1: refused or unreachable */
	int user; /* index into users */
	unsigned slot;
	bool seen;                     /* by the current scan */
	uint64_t retry_ms;             /* no retry before */
	char said[TWI_BPF_TEXT_BYTES]; /* last message about it */
};

struct ranks {
	struct load_options options;
	bool all_users; /* else only those of this user: see trust.h */
	struct rank rows[RANKS_MAX];
	int count;
	struct loaded *users[USERS_MAX];
	int user_count;
};

/* Returns the index of a user, and loads the user's maps at the first call. -1: too many users. */
int ranks_user(struct ranks *ranks, uid_t uid);

/* Searches the directories, and connects to new runtimes. */
void ranks_scan(struct ranks *ranks, char *const *dirs, int dir_count);

/* Waits at most `ms` for replies of runtimes, and handles them. */
void ranks_wait(struct ranks *ranks, int ms);
void ranks_fini(struct ranks *ranks);

uint64_t now_ms(void);

#endif
