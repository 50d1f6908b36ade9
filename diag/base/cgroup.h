/*
 * cgroup.h - what the kernel reports of this process's control groups, of version 1 or 2.
 */
#ifndef TWI_CGROUP_H
#define TWI_CGROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Finds the path of a process in the hierarchy that has `controller` ("": version 2). `text` is the
 * content of /proc/PID/cgroup. False: there is no such path, or it does not fit into `room`.
 */
bool twi_cgroup_path(const char *text, const char *controller, char *out, size_t room);

/*
 * Gives the time for which the kernel has kept this process's groups off the CPUs so far, because
 * their quota was used up. The time is the sum over its own group and all groups above it that are
 * visible here. Each CPU counts by itself. `root` stands before the paths of files; only tests set
 * it. False: the kernel does not report the time.
 */
bool twi_cgroup_throttled(const char *root, uint64_t *ns_out);

#endif
