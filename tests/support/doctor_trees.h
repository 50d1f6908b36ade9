/*
 * doctor_trees.h - hosts that are made up of files, for towdoctor --root: one on which all is well.
 * doctor_hosts.h and doctor_nets.h have what is different where something is not.
 */
#ifndef TWT_DOCTOR_TREES_H
#define TWT_DOCTOR_TREES_H

#include <stddef.h>

#define DT_FILES 4

struct dt_file {
	const char *path, *text; /* text NULL: the file is not there */
};

struct dt_case {
	const char *check, *severity;
	const char *words; /* that stand in one of found, effect, mend */
	struct dt_file files[DT_FILES];
};

#define DT_NODE   "/sys/devices/system/node/node"
#define DT_CPU    "/sys/devices/system/cpu/"
#define DT_IPV4   "/proc/sys/net/ipv4/"
#define DT_CORE   "/proc/sys/net/core/"
#define DT_NET    "/sys/class/net/"
#define DT_THP    "/sys/kernel/mm/transparent_hugepage/"
#define DT_HUGE   "/sys/kernel/mm/hugepages/hugepages-2048kB/"
#define DT_CLOCK  "/sys/devices/system/clocksource/clocksource0/"
#define DT_GROUP  "/sys/fs/cgroup/job/"
#define DT_ANSWER "/towdoctor.answers"

#define DT_ROUTES     "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\n"
#define DT_LIMITS     "Limit                     Soft Limit           Hard Limit           Units\n"
#define DT_LOCK(soft) "Max locked memory         " soft "            unlimited            bytes\n"
#define DT_OPEN(soft) "Max open files            " soft "            1048576              files\n"
#define DT_STATUS(caps, cpus, filter)                                                              \
	"Name:\ttowdoctor\nCapEff:\t" caps "\nSeccomp:\t" filter "\nCpus_allowed_list:\t" cpus "\n"
#define DT_ANSWERS(uring, readv, clock, tso, gro, pool)                                            \
	"io_uring_setup " uring "\nprocess_vm_readv " readv "\nclock_ns " clock                    \
	"\nethtool.eth0.tso " tso "\nethtool.eth0.gso 1\nethtool.eth0.gro " gro                    \
	"\nlibrary.pool " pool "\nlibrary.ofi uses ofi://efa/00\n"                                 \
	"library.gpu cuda:0 H100\n"                                                                \
	"loopback.tcp p50_ns=20000 p99_ns=30000 there=3000000000 back=3000000000\n"                \
	"loopback.shm p50_ns=2000 p99_ns=3000 there=9000000000 back=9000000000\n"
#define DT_POOL "pages=thp locked=1 registered=1 ns_per_gib=50000000"
#define DT_CAPS "0000000000000000"

/* A host on which every check is content. */
static const struct dt_file dt_good[] = {
	{ "/proc/self/limits", DT_LIMITS DT_OPEN("65536") DT_LOCK("unlimited") },
	{ "/proc/self/status", DT_STATUS(DT_CAPS, "0-3", "0") },
	{ "/proc/self/cgroup", "0::/job\n" },
	{ "/proc/self/mounts", "tmpfs /dev/shm tmpfs rw,size=8388608k 0 0\n" },
	{ "/proc/meminfo", "MemTotal:       16000000 kB\nMemAvailable:   12000000 kB\n" },
	{ "/proc/net/netstat", "TcpExt: SyncookiesSent ListenOverflows\nTcpExt: 0 0\n" },
	{ "/proc/net/softnet_stat", "00000010 00000000 00000000\n00000020 00000000 00000000\n" },
	{ "/proc/net/sockstat", "sockets: used 100\nTCP: inuse 4 orphan 0 tw 10 alloc 5 mem 1\n" },
	{ "/proc/net/route", DT_ROUTES "eth0\t00000000\t0100000A\t0003\t0\t0\t0\t00000000\n"
				       "eth0\t0000000A\t00000000\t0001\t0\t0\t0\t00FFFFFF\n" },
	{ "/proc/sys/kernel/io_uring_disabled", "0\n" },
	{ "/proc/sys/kernel/yama/ptrace_scope", "0\n" },
	{ "/proc/sys/kernel/hostname", "rank7\n" },
	{ "/etc/hosts", "127.0.0.1 localhost\n10.0.0.7 rank7.cluster rank7 # us\n" },
	{ DT_GROUP "memory.max", "max\n" },
	{ DT_GROUP "memory.current", "1000000\n" },
	{ DT_GROUP "cpu.max", "max 100000\n" },
	{ "/sys/fs/cgroup/cgroup.controllers", "cpu memory\n" },
	{ DT_HUGE "nr_hugepages", "512\n" },
	{ DT_HUGE "free_hugepages", "512\n" },
	{ DT_THP "shmem_enabled", "always within_size [advise] never deny force\n" },
	{ DT_THP "enabled", "always [madvise] never\n" },
	{ DT_THP "defrag", "always defer [madvise] never\n" },
	{ DT_NODE "0/cpulist", "0-3\n" },
	{ DT_CPU "online", "0-3\n" },
	{ DT_CPU "cpu0/cpufreq/scaling_governor", "performance\n" },
	{ DT_CPU "cpu1/cpufreq/scaling_governor", "performance\n" },
	{ DT_CLOCK "current_clocksource", "tsc\n" },
	{ DT_CLOCK "available_clocksource", "tsc hpet acpi_pm\n" },
	{ DT_IPV4 "tcp_rmem", "4096\t131072\t33554432\n" },
	{ DT_IPV4 "tcp_wmem", "4096\t16384\t16777216\n" },
	{ DT_CORE "rmem_max", "16777216\n" },
	{ DT_CORE "wmem_max", "16777216\n" },
	{ DT_CORE "somaxconn", "4096\n" },
	{ DT_CORE "netdev_max_backlog", "1000\n" },
	{ DT_IPV4 "tcp_congestion_control", "cubic\n" },
	{ DT_IPV4 "tcp_available_congestion_control", "reno cubic bbr\n" },
	{ DT_IPV4 "tcp_window_scaling", "1\n" },
	{ DT_IPV4 "tcp_timestamps", "1\n" },
	{ DT_IPV4 "tcp_sack", "1\n" },
	{ DT_IPV4 "tcp_slow_start_after_idle", "0\n" },
	{ DT_IPV4 "tcp_mtu_probing", "1\n" },
	{ DT_IPV4 "ip_local_port_range", "32768\t60999\n" },
	{ DT_NET "lo/flags", "0x9\n" },
	{ DT_NET "lo/operstate", "unknown\n" },
	{ DT_NET "lo/mtu", "65536\n" },
	{ DT_NET "eth0/flags", "0x1003\n" },
	{ DT_NET "eth0/operstate", "up\n" },
	{ DT_NET "eth0/mtu", "9000\n" },
	{ DT_NET "eth0/speed", "100000\n" },
	{ DT_NET "eth0/device/numa_node", "0\n" },
	{ "/sys/class/infiniband/efa_0/node_type", "1\n" },
	{ "/sys/bus/pci/devices/0000:01:00.0/vendor", "0x10de\n" },
	{ "/sys/bus/pci/devices/0000:01:00.0/class", "0x030200\n" },
	{ "/proc/driver/nvidia/version", "NVRM\n" },
	{ DT_ANSWER, DT_ANSWERS("0", "0", "25", "1", "1", DT_POOL) },
};
#define DT_GOOD (sizeof(dt_good) / sizeof(dt_good[0]))

#define DT_ETH1(name, speed)                                                                       \
	{ DT_NET name "/flags", "0x1003\n" }, { DT_NET name "/operstate", "up\n" },                \
	{                                                                                          \
		DT_NET name "/speed", speed                                                        \
	}

#endif
