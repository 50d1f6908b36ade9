/*
 * towbpf.h - the parts of towbpf: what is loaded, and who has it.
 */
#ifndef TOWBPF_H
#define TOWBPF_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "diag/bpf/abi/share.h"

struct bpf_link;
struct counters_bpf;

/* The programs with their maps, once for each user whose runtimes are served. */
struct loaded {
	uid_t uid;
	struct counters_bpf *skeleton; /* NULL: nothing could be loaded, `why` says why */
	struct bpf_link *links[TWI_BPF_PROGRAMS];
	unsigned programs; /* a bit for each that is attached */
	unsigned next_slot;
	bool used[TWI_BPF_SLOTS];
	char why[TWI_BPF_TEXT_BYTES];
	char reasons[TWI_BPF_REASONS][TWI_BPF_REASON_BYTES];
};

struct load_options {
	bool registration_time;
	bool verbose; /* what libbpf says goes to stderr */
};

/* Loads, attaches, freezes. *out is filled also when it fails, with -1. */
int load(uid_t uid, const struct load_options *options, struct loaded *out);
void unload(struct loaded *loaded);

/* Descriptor of the map, which stays the object's. */
int loaded_map(const struct loaded *loaded, enum twi_bpf_map map);

#define RANKS_MAX 512
#define USERS_MAX 16

/* A runtime's socket that was found. */
struct rank {
	char path[108];
	uint64_t device, inode;
	int fd;   /* -1: it has refused, or cannot be reached */
	int user; /* index into users */
	unsigned slot;
	bool seen;                     /* by the scan that runs */
	uint64_t retry_ms;             /* not before */
	char said[TWI_BPF_TEXT_BYTES]; /* what was printed of it last */
};

struct ranks {
	struct load_options options;
	bool all_users; /* else those of our own user alone: see trust.h */
	struct rank rows[RANKS_MAX];
	int count;
	struct loaded *users[USERS_MAX];
	int user_count;
};

/* The maps of that user, loaded when they are first asked for. -1: there are too many users. */
int ranks_user(struct ranks *ranks, uid_t uid);

/* Looks into the directories, and goes to whoever is new. */
void ranks_scan(struct ranks *ranks, char *const *dirs, int dir_count);

/* Waits at most `ms` for what they say. */
void ranks_wait(struct ranks *ranks, int ms);
void ranks_fini(struct ranks *ranks);

uint64_t now_ms(void);

#endif
