/*
 * towdoctor_system.c - checks of what the kernel and a container allow a process: system calls,
 * files, CPU time, clocks.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/common/words.h"
#include "tools/towdoctor/towdoctor.h"

#define CAP_SYS_PTRACE 19

void check_io_uring(struct doctor *doctor, struct finding *out)
{
	int64_t disabled = 0, error = 0, group = -1;
	bool asked;

	SAY(out->wanted, "allowed");
	root_number(doctor, &disabled, "/proc/sys/kernel/io_uring_disabled");
	root_number(doctor, &group, "/proc/sys/kernel/io_uring_group");
	asked = ask_number(doctor, "io_uring_setup", &error);
	SAY(out->found, "kernel.io_uring_disabled is %lld%s%s", (long long)disabled,
	    asked ? error == 0 ? ", and io_uring_setup works" : ", and io_uring_setup fails: " : "",
	    asked && error != 0 ? strerror((int)error) : "");
	if (asked ? error == 0 : disabled == 0)
		return;
	raise_to(out, SEVERITY_WARNING);
	SAY(out->effect, "epoll moves the tcp lane in its place: the pool is not registered for "
			 "zero-copy sends, and each send and receive is a system call of its own. "
			 "Nothing for shm and ofi");
	if (disabled == 1)
		SAY(out->mend,
		    "sysctl -w kernel.io_uring_disabled=0, or let the job's group use it: sysctl "
		    "-w kernel.io_uring_group=GID (now %lld)",
		    (long long)group);
	else if (disabled == 2)
		SAY(out->mend, "sysctl -w kernel.io_uring_disabled=0");
	else
		SAY(out->mend, "a filter forbids it: docker: --security-opt seccomp=FILE, with a "
			       "profile that allows io_uring_setup, io_uring_enter and "
			       "io_uring_register");
}

void check_seccomp(struct doctor *doctor, struct finding *out)
{
	int64_t mode, error = 0;

	SAY(out->wanted, "none, or one that lets io_uring and process_vm_readv through");
	if (!root_value(doctor, "/proc/self/status", "Seccomp", &mode)) {
		not_known(out, "/proc/self/status");
		return;
	}
	SAY(out->found, "%s", mode == 0 ? "none" : mode == 1 ? "strict" : "a filter is installed");
	if (mode == 0)
		return;
	raise_to(out, SEVERITY_NOTE);
	if (ask_number(doctor, "io_uring_setup", &error) && error != 0)
		SAY(out->effect, "io_uring cannot be used (see the check io_uring)");
	else
		SAY(out->effect, "none seen: io_uring works. Each system call takes some 50 ns "
				 "more");
	SAY(out->mend, "docker: --security-opt seccomp=FILE");
}

void check_cma(struct doctor *doctor, struct finding *out)
{
	int64_t scope = 0, error = 0;
	bool asked, yama = root_number(doctor, &scope, "/proc/sys/kernel/yama/ptrace_scope");

	SAY(out->wanted, "allowed between processes of one user (ptrace_scope 0)");
	asked = ask_number(doctor, "process_vm_readv", &error);
	SAY(out->found, "%s", yama ? "ptrace_scope is " : "no Yama");
	if (yama)
		SAY_MORE(out->found, "%lld", (long long)scope);
	if (asked)
		SAY_MORE(out->found, ", and process_vm_readv of a parent %s%s",
			 error == 0 ? "works" : "fails: ", error == 0 ? "" : strerror((int)error));
	if (asked ? error == 0 : scope == 0 || root_capable(doctor, CAP_SYS_PTRACE))
		return;
	raise_to(out, SEVERITY_NOTE);
	SAY(out->effect, "nothing for memory of the pool, which ranks of a host map. Other large "
			 "payloads on the shm lane are staged: one copy more, half the bandwidth");
	SAY(out->mend, scope > 0 ? "sysctl -w kernel.yama.ptrace_scope=0"
				 : "docker: --cap-add=SYS_PTRACE, and one user namespace for the "
				   "ranks of a host");
}

void check_files(struct doctor *doctor, struct finding *out)
{
	int64_t limit;

	SAY(out->wanted, "65536: up to 5 for each peer, and what the program opens");
	if (!root_limit(doctor, "Max open files", &limit)) {
		not_known(out, "/proc/self/limits");
		return;
	}
	if (limit == INT64_MAX)
		SAY(out->found, "unlimited");
	else
		SAY(out->found, "%lld", (long long)limit);
	if (limit >= 16384)
		return;
	raise_to(out, limit < 256    ? SEVERITY_ERROR
		      : limit < 4096 ? SEVERITY_WARNING
				     : SEVERITY_NOTE);
	SAY(out->effect,
	    "no connection to more than about %lld peers: after that connecting fails with "
	    "EMFILE, and accepting waits",
	    (long long)(limit / 5));
	SAY(out->mend, "ulimit -n 65536, and in /etc/security/limits.d/towline.conf: * - nofile "
		       "65536; systemd: LimitNOFILE=65536");
}

/* Returns the CPU quota of the group in hundredths of a CPU; INT64_MAX: none. */
static int64_t quota_of(const struct doctor *doctor, const char *folder, bool v2)
{
	int64_t quota = -1, period = 0;
	char text[64];

	if (v2) {
		if (!root_text(doctor, text, sizeof(text), "%s/cpu.max", folder) ||
		    sscanf(text, "%ld %ld", &quota, &period) != 2)
			return INT64_MAX;
	} else if (!root_number(doctor, &quota, "%s/cpu.cfs_quota_us", folder) ||
		   !root_number(doctor, &period, "%s/cpu.cfs_period_us", folder)) {
		return INT64_MAX;
	}
	return quota <= 0 || period <= 0 || quota > INT64_MAX / 100 ? INT64_MAX
								    : quota * 100 / period;
}

void check_cpu_quota(struct doctor *doctor, struct finding *out)
{
	char folder[384], stat[416], time[WORDS_BYTES];
	int64_t hundredths, throttled = 0, spent = 0;
	bool v2;

	SAY(out->wanted, "none");
	if (!root_cgroup(doctor, "cpu", folder, sizeof(folder), &v2) ||
	    (hundredths = quota_of(doctor, folder, v2)) == INT64_MAX) {
		SAY(out->found, "none");
		return;
	}
	SAY(stat, "%s/cpu.stat", folder);
	root_value(doctor, stat, "nr_throttled", &throttled);
	if (root_value(doctor, stat, v2 ? "throttled_usec" : "throttled_time", &spent) && v2)
		spent *= 1000;
	words_ns((unsigned long long)spent, time);
	SAY(out->found, "%lld.%02lld CPUs; stopped %lld times so far, for %s together",
	    (long long)hundredths / 100, (long long)hundredths % 100, (long long)throttled, time);
	raise_to(out, throttled > 0 || hundredths < 200 ? SEVERITY_WARNING : SEVERITY_NOTE);
	SAY(out->effect, "when the quota is used up the whole process stands still, for up to 100 "
			 "ms: a waiter that spins uses it up first, and every peer waits with it");
	SAY(out->mend,
	    "give whole CPUs instead (docker: --cpuset-cpus instead of --cpus; Kubernetes: "
	    "cpuManagerPolicy static, limits equal to requests), or spin less: TOW_SPIN_NS=0");
}

void check_cpuset(struct doctor *doctor, struct finding *out)
{
	char text[8192], allowed[256] = "", online[256] = "";
	const char *line;
	long mine, all;

	SAY(out->wanted, "two for each rank: one that computes, one that moves its messages");
	if (!root_text(doctor, text, sizeof(text), "/proc/self/status") ||
	    (line = strstr(text, "Cpus_allowed_list:")) == NULL ||
	    sscanf(line, "Cpus_allowed_list: %255s", allowed) != 1) {
		not_known(out, "/proc/self/status");
		return;
	}
	root_text(doctor, online, sizeof(online), "/sys/devices/system/cpu/online");
	mine = list_count(allowed);
	all = list_count(online);
	SAY(out->found, "%s of %s", allowed, online[0] != '\0' ? online : "?");
	if (mine >= 2)
		return;
	raise_to(out, all > mine ? SEVERITY_WARNING : SEVERITY_NOTE);
	SAY(out->effect, "a waiter that spins takes the CPU from the thread it waits for: a "
			 "message within the host takes 5 us instead of 0.3");
	SAY(out->mend, all > mine ? "taskset, docker: --cpuset-cpus, Slurm: --cpus-per-task=2"
				  : "export TOW_SPIN_NS=0");
}

/* Observed on kernel 6.18; docs/testing.md has the figures. */
void check_autogroup(struct doctor *doctor, struct finding *out)
{
	int64_t on = 0;

	SAY(out->wanted, "off, or a core for each rank");
	if (!root_number(doctor, &on, "/proc/sys/kernel/sched_autogroup_enabled")) {
		SAY(out->found, "this kernel has none");
		return;
	}
	SAY(out->found, "kernel.sched_autogroup_enabled is %lld", (long long)on);
	if (on == 0)
		return;
	raise_to(out, SEVERITY_NOTE);
	SAY(out->effect, "nothing while each rank has a core. Ranks that start in sessions of "
			 "their own, as torchrun's do, are groups; where they share cores, kernel "
			 "6.18 has left some without one for up to 17 s, which peers take for "
			 "their end");
	SAY(out->mend, "sysctl -w kernel.sched_autogroup_enabled=0");
}

void check_governor(struct doctor *doctor, struct finding *out)
{
	static const char folder[] = "/sys/devices/system/cpu";
	struct names names;
	size_t count = 0, slow = 0;
	char word[64], last[64] = "";

	SAY(out->wanted, "performance");
	root_names(doctor, folder, &names);
	for (size_t i = 0; i < names.count; i++) {
		if (!root_text(doctor, word, sizeof(word), "%s/%s/cpufreq/scaling_governor", folder,
			       names.rows[i]))
			continue;
		count++;
		if (strcmp(word, "performance") != 0) {
			slow++;
			SAY(last, "%s", word);
		}
	}
	if (count == 0) {
		SAY(out->found, "this system cannot choose the frequency");
		return;
	}
	if (slow == 0) {
		SAY(out->found, "performance");
		return;
	}
	SAY(out->found, "%s on %zu of %zu CPUs looked at", last, slow, count);
	raise_to(out, strcmp(last, "powersave") == 0 ? SEVERITY_WARNING : SEVERITY_NOTE);
	SAY(out->effect, "a CPU that has slept wakes at a low frequency: the first messages after "
			 "a pause take up to twice as long, and times spread");
	SAY(out->mend, "cpupower frequency-set -g performance");
}

void check_clock(struct doctor *doctor, struct finding *out)
{
	char source[64] = "", others[128] = "";
	int64_t ns = -1;
	bool fast;

	SAY(out->wanted, "tsc, or the hypervisor's own (kvm-clock, hyperv_clocksource_tsc_page), "
			 "read without a system call");
	if (!root_text(doctor, source, sizeof(source),
		       "/sys/devices/system/clocksource/clocksource0/current_clocksource")) {
		not_known(out, "the clock source");
		return;
	}
	root_text(doctor, others, sizeof(others),
		  "/sys/devices/system/clocksource/clocksource0/available_clocksource");
	SAY(out->found, "%s", source);
	if (ask_number(doctor, "clock_ns", &ns))
		SAY_MORE(out->found, ", %lld ns for each reading", (long long)ns);
	fast = strcmp(source, "tsc") == 0 || strcmp(source, "kvm-clock") == 0 ||
	       strcmp(source, "arch_sys_counter") == 0 ||
	       strcmp(source, "hyperv_clocksource_tsc_page") == 0;
	if (fast && ns < 200)
		return;
	raise_to(out, SEVERITY_WARNING);
	SAY(out->effect,
	    "each reading is a system call or slower (%s; 26 ns with tsc), and a "
	    "message needs several: its latency on the shm lane grows manifold",
	    ns > 0 ? "measured above" : "hpet and acpi_pm: 500 to 1500 ns");
	if (strstr(others, "tsc") != NULL)
		SAY(out->mend, "echo tsc > /sys/devices/system/clocksource/clocksource0/"
			       "current_clocksource");
	else
		SAY(out->mend, "boot with tsc=reliable clocksource=tsc where the CPU has an "
			       "invariant one");
}
