/*
 * map.c - see map.h.
 *
 * BPF_OBJ_GET_INFO_BY_FD also answers for programs and links, with records that could pass for a
 * map's. So the descriptor must first do what only a map does. A look-up of an impossible key ends
 * with ENOENT in an array and with EBADF in a storage map; another object answers EINVAL.
 */
#include "diag/bpf/map.h"

#include <errno.h>
#include <linux/bpf.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <internal/base.h>

#include "diag/base/error.h"

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif

/* The maps as the programs declare them. */
static const struct shape {
	const char *name;
	uint32_t type, flags, max_entries, value_size;
} shapes[TWI_BPF_MAPS] = {
	[TWI_BPF_MAP_COUNTERS] = { "counters", BPF_MAP_TYPE_ARRAY, BPF_F_MMAPABLE, TWI_BPF_SLOTS,
				   sizeof(struct twi_bpf_slot) },
	[TWI_BPF_MAP_SOCKETS] = { "sockets", BPF_MAP_TYPE_SK_STORAGE, BPF_F_NO_PREALLOC, 0,
				  sizeof(struct twi_bpf_owner) },
	[TWI_BPF_MAP_TASKS] = { "tasks", BPF_MAP_TYPE_TASK_STORAGE, BPF_F_NO_PREALLOC, 0,
				sizeof(struct twi_bpf_owner) },
};

static int bpf_call(int command, union bpf_attr *attr)
{
	return (int)syscall(SYS_bpf, command, attr, sizeof(*attr));
}

/* Returns 0 or an errno value. */
static int map_element(int command, int fd, const void *key, void *value)
{
	union bpf_attr attr = { .map_fd = (uint32_t)fd };

	attr.key = (uint64_t)(uintptr_t)key;
	attr.value = (uint64_t)(uintptr_t)value;
	return bpf_call(command, &attr) == 0 ? 0 : errno;
}

/* Is it a map of this kind? Judged by what only such a map does. */
static int judge_kind(const struct shape *shape, int fd)
{
	/* As a key: past the end of an array, and not a descriptor, which storage maps need. */
	const uint32_t nowhere = UINT32_MAX;
	/* Larger than any value whose size has passed the check in judge_map. */
	struct twi_bpf_slot room;
	int err = map_element(BPF_MAP_LOOKUP_ELEM, fd, &nowhere, &room);
	int wanted = shape->type == BPF_MAP_TYPE_ARRAY ? ENOENT : EBADF;

	if (err == wanted)
		return TOW_OK;
	return twi_error_errno(TOW_EINVAL, err,
			       "the descriptor for the %s is another kind of "
			       "map",
			       shape->name);
}

static int judge_map(const struct shape *shape, int fd)
{
	struct bpf_map_info info = { 0 };
	union bpf_attr attr = { 0 };

	attr.info.bpf_fd = (uint32_t)fd;
	attr.info.info_len = sizeof(info);
	attr.info.info = (uint64_t)(uintptr_t)&info;
	if (bpf_call(BPF_OBJ_GET_INFO_BY_FD, &attr) != 0)
		return twi_error_errno(TOW_EINVAL, errno, "the descriptor for the %s is not a map",
				       shape->name);
	if (info.type != shape->type || info.key_size != sizeof(uint32_t) ||
	    info.value_size != shape->value_size || info.map_flags != shape->flags ||
	    info.max_entries != shape->max_entries)
		return twi_error(TOW_EINVAL,
				 "map for the %s has type %u, key %u, value %u, entries %u, flags "
				 "0x%x; wanted %u, 4, %u, %u, 0x%x: library and towbpf are not of "
				 "one version",
				 shape->name, info.type, info.key_size, info.value_size,
				 info.max_entries, info.map_flags, shape->type, shape->value_size,
				 shape->max_entries, shape->flags);
	return judge_kind(shape, fd);
}

/* Is it frozen? A map that can be written from outside could be mapped for writing. */
static int judge_frozen(int fd, size_t bytes)
{
	void *writable = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (writable == MAP_FAILED)
		return errno == EPERM || errno == EACCES
			       ? TOW_OK
			       : twi_error_errno(TOW_EINVAL, errno, "map for the counters");
	munmap(writable, bytes);
	return twi_error(TOW_EINVAL, "the map for the counters is not frozen");
}

static int map_counters(struct twi_bpf_maps *maps)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	size_t bytes = twi_align_up(sizeof(struct twi_bpf_slot) * TWI_BPF_SLOTS, page);
	int fd = maps->fds[TWI_BPF_MAP_COUNTERS], status = judge_frozen(fd, bytes);
	void *at;

	if (status < 0)
		return status;
	at = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0);
	if (at == MAP_FAILED)
		return twi_error_errno(TOW_ESYSTEM, errno, "mmap of the counters");
	maps->slots = at;
	maps->mapped_bytes = bytes;
	return TOW_OK;
}

int twi_bpf_maps_take(const int fds[TWI_BPF_MAPS], struct twi_bpf_maps *out)
{
	int status = TOW_OK;

	*out = (struct twi_bpf_maps){ 0 };
	for (unsigned i = 0; i < TWI_BPF_MAPS; i++)
		out->fds[i] = fds[i];
	for (unsigned i = 0; i < TWI_BPF_MAPS && status == TOW_OK; i++) {
		status = judge_map(&shapes[i], fds[i]);
		if (status == TOW_OK && i == TWI_BPF_MAP_COUNTERS)
			status = map_counters(out);
	}
	if (status < 0)
		twi_bpf_maps_give(out);
	return status;
}

void twi_bpf_maps_give(struct twi_bpf_maps *maps)
{
	if (maps->slots != NULL)
		munmap((void *)(uintptr_t)maps->slots, maps->mapped_bytes);
	maps->slots = NULL;
	for (unsigned i = 0; i < TWI_BPF_MAPS; i++) {
		if (maps->fds[i] >= 0)
			close(maps->fds[i]);
		maps->fds[i] = -1;
	}
}

static int enrol_fd(int map, uint32_t slot, int fd, const char *what)
{
	struct twi_bpf_owner owner = { .slot = slot };
	int err = map_element(BPF_MAP_UPDATE_ELEM, map, &fd, &owner);

	if (err == 0)
		return TOW_OK;
	return twi_error_errno(TOW_ESYSTEM, err, "%s could not be enrolled%s", what,
			       err == EPERM ? " (does a seccomp filter refuse bpf()?)" : "");
}

int twi_bpf_enrol_process(const struct twi_bpf_maps *maps, uint32_t slot)
{
	int fd = (int)syscall(SYS_pidfd_open, getpid(), 0), status;

	if (fd < 0)
		return twi_error_errno(TOW_ESYSTEM, errno, "pidfd_open of this process");
	status = enrol_fd(maps->fds[TWI_BPF_MAP_TASKS], slot, fd, "the process");
	close(fd);
	return status;
}

int twi_bpf_enrol_socket(const struct twi_bpf_maps *maps, uint32_t slot, int fd)
{
	return enrol_fd(maps->fds[TWI_BPF_MAP_SOCKETS], slot, fd, "a socket");
}
