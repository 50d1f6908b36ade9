/*
 * cgroup.h - what the kernel says of this process's control groups, of version 1 or 2.
 */
#ifndef TWI_CGROUP_H
#define TWI_CGROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The path of a process in the hierarchy that `controller` is in ("": version 2), of `text`, which
 * /proc/PID/cgroup has. False: there is none, or it has no room.
 */
bool twi_cgroup_path(const char *text, const char *controller, char *out, size_t room);

/*
 * For how long this process's groups have been held off the CPUs so far because their quota was
 * used up: its own and those above it together, as far as they can be seen here, each CPU counted
 * by itself. `root` stands before the paths of files ("" but in tests). False: the kernel does not
 * say.
 */
bool twi_cgroup_throttled(const char *root, uint64_t *ns_out);

#endif
