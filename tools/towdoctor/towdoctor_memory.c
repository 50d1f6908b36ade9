/*
 * towdoctor_memory.c - checks of memory: what may be locked, how much is free, on which pages and
 * nodes. The size of the pool is that of the job's knob premap_memory_bytes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/common/words.h"
#include "tools/towdoctor/towdoctor.h"

#define CAP_IPC_LOCK 14
#define MIB          ((int64_t)1 << 20)
/* Memory of a rank beside its pool: rings, tables, and the program's own allocations. */
#define BESIDE_POOL (64 * MIB)

static const char *bytes_or_none(int64_t bytes, char out[WORDS_BYTES])
{
	if (bytes == INT64_MAX)
		snprintf(out, WORDS_BYTES, "unlimited");
	else
		words_bytes((unsigned long long)bytes, out);
	return out;
}

/* Finds a key in the probe's answer: "pages=base locked=1 registered=1 ns_per_gib=..." */
static bool pool_answer(const struct doctor *doctor, const char *key, char *out, size_t size)
{
	char text[FOUND_BYTES], wanted[NAME_BYTES];
	const char *at;

	if (!doctor->probe || !ask(doctor, "library.pool", text, sizeof(text)))
		return false;
	snprintf(wanted, sizeof(wanted), "%s=", key);
	at = strstr(text, wanted);
	if (at == NULL)
		return false;
	at += strlen(wanted);
	say(out, size, "%.*s", (int)strcspn(at, " "), at);
	return true;
}

void check_memlock(struct doctor *doctor, struct finding *out)
{
	const int64_t wanted = (int64_t)doctor->pool_bytes + BESIDE_POOL;
	char found[WORDS_BYTES], pool[WORDS_BYTES];
	int64_t limit;

	words_bytes(doctor->pool_bytes, pool);
	SAY(out->wanted, "unlimited, at least the pool (%s) and 64 MiB", pool);
	if (!root_limit(doctor, "Max locked memory", &limit)) {
		not_known(out, "/proc/self/limits");
		return;
	}
	SAY(out->found, "%s", bytes_or_none(limit, found));
	if (root_capable(doctor, CAP_IPC_LOCK)) {
		SAY_MORE(out->found, ", and CAP_IPC_LOCK, for which no limit counts");
		return;
	}
	if (limit >= wanted)
		return;
	raise_to(out, SEVERITY_WARNING);
	SAY(out->effect,
	    "the pool is neither locked nor registered: zero-copy sends are copied by the kernel "
	    "(reason pool_unpinned), its pages can be swapped out, and strict_premap=1 fails");
	SAY(out->mend,
	    "echo '* - memlock unlimited' > /etc/security/limits.d/towline.conf, and log in anew; "
	    "systemd: LimitMEMLOCK=infinity; docker: --ulimit memlock=-1");
}

/* Finds the tightest limit of the group and its ancestors; used_out and path_out belong to it. */
static bool tightest_limit(const struct doctor *doctor, const char *folder, bool v2,
			   int64_t *limit_out, int64_t *used_out, char *path_out, size_t path_size)
{
	char at[384];
	bool any = false;

	SAY(at, "%s", folder);
	*limit_out = INT64_MAX;
	for (;;) {
		int64_t limit, used = 0;
		char *slash;

		if (root_number(doctor, &limit, "%s/%s", at,
				v2 ? "memory.max" : "memory.limit_in_bytes")) {
			any = true;
			root_number(doctor, &used, "%s/%s", at,
				    v2 ? "memory.current" : "memory.usage_in_bytes");
			if (limit < *limit_out) {
				*limit_out = limit;
				*used_out = used;
				say(path_out, path_size, "%s", at);
			}
		}
		slash = strrchr(at, '/');
		if (slash == NULL || strcmp(at, "/sys/fs/cgroup") == 0)
			return any;
		*slash = '\0';
	}
}

void check_cgroup_memory(struct doctor *doctor, struct finding *out)
{
	const int64_t pool = (int64_t)doctor->pool_bytes;
	char folder[384], path[384] = "", limit_text[WORDS_BYTES], used_text[WORDS_BYTES];
	char needed[WORDS_BYTES];
	int64_t limit, used = 0;
	bool v2;

	words_bytes((unsigned long long)(pool + BESIDE_POOL), needed);
	SAY(out->wanted, "room for the pool and what is beside it (%s), for each rank", needed);
	/* The root group has no such file, which also means no limit. */
	if (!root_cgroup(doctor, "memory", folder, sizeof(folder), &v2) ||
	    !tightest_limit(doctor, folder, v2, &limit, &used, path, sizeof(path)) ||
	    limit > INT64_MAX / 2) {
		SAY(out->found, "no limit");
		return;
	}
	SAY(out->found, "%s (%s in use)", bytes_or_none(limit, limit_text),
	    bytes_or_none(used, used_text));
	SAY(out->mend,
	    v2 ? "echo %lld > %s/memory.max (docker: --memory, Kubernetes: limits.memory)"
	       : "echo %lld > %s/memory.limit_in_bytes (docker: --memory, Kubernetes: "
		 "limits.memory)",
	    (long long)(used + 4 * pool + BESIDE_POOL), path);
	if (limit - used < pool + BESIDE_POOL) {
		raise_to(out, SEVERITY_ERROR);
		SAY(out->effect, "a pool of this size does not open: there is no room for it, and "
				 "faulting it in would have the process killed");
	} else if (limit - used < 4 * pool) {
		raise_to(out, SEVERITY_NOTE);
		SAY(out->effect, "room for one pool, not for what it may grow to "
				 "(premap_limit_bytes, four times its size), nor for four ranks");
	} else {
		out->mend[0] = '\0';
	}
}

void check_free_memory(struct doctor *doctor, struct finding *out)
{
	const int64_t pool = (int64_t)doctor->pool_bytes;
	char text[WORDS_BYTES], needed[WORDS_BYTES];
	int64_t available;

	words_bytes((unsigned long long)(pool + BESIDE_POOL), needed);
	SAY(out->wanted, "%s for each rank", needed);
	if (!root_value(doctor, "/proc/meminfo", "MemAvailable", &available)) {
		not_known(out, "/proc/meminfo");
		return;
	}
	available *= 1024;
	SAY(out->found, "%s", bytes_or_none(available, text));
	if (available >= pool + BESIDE_POOL)
		return;
	raise_to(out, SEVERITY_ERROR);
	SAY(out->effect, "a pool of this size does not open (TOW_ENOMEM)");
	SAY(out->mend, "export TOW_PREMAP_MEMORY_BYTES=%lldMiB, or end what holds the memory",
	    (long long)((available - BESIDE_POOL) / 2 > MIB ? (available - BESIDE_POOL) / 2 / MIB
							    : 1));
}

/* Reads the chosen value of a setting: the word in brackets. */
static bool chosen_word(const struct doctor *doctor, const char *path, char *out, size_t size)
{
	char text[256], *open, *end;

	if (!root_text(doctor, text, sizeof(text), "%s", path))
		return false;
	open = strchr(text, '[');
	end = open != NULL ? strchr(open, ']') : NULL;
	if (end == NULL)
		return false;
	say(out, size, "%.*s", (int)(end - open - 1), open + 1);
	return true;
}

static bool shmem_thp_allowed(const struct doctor *doctor, char *word, size_t size)
{
	return chosen_word(doctor, "/sys/kernel/mm/transparent_hugepage/shmem_enabled", word,
			   size) &&
	       strcmp(word, "never") != 0 && strcmp(word, "deny") != 0;
}

static void say_cost_of_base_pages(const struct doctor *doctor, struct finding *out)
{
	char pages[32], ns[32], time[WORDS_BYTES];

	SAY(out->effect, "the pool lies on 4 KiB pages: opening it takes about eight times as long "
			 "as on huge pages, registering it ten times, and a late registration of "
			 "1 MiB 16 us instead of 3");
	if (pool_answer(doctor, "pages", pages, sizeof(pages)) &&
	    pool_answer(doctor, "ns_per_gib", ns, sizeof(ns))) {
		words_ns(strtoull(ns, NULL, 10), time);
		SAY_MORE(out->effect, " (measured here on %s pages: %s to fault in each GiB)",
			 pages, time);
	}
}

void check_hugepages(struct doctor *doctor, struct finding *out)
{
	const char *folder = "/sys/kernel/mm/hugepages/hugepages-2048kB";
	const int64_t needed = ((int64_t)doctor->pool_bytes + 2 * MIB - 1) / (2 * MIB);
	int64_t free_pages, total = 0;
	char word[32] = "";

	SAY(out->wanted,
	    "%lld free pages of 2 MiB for each rank, or transparent ones in shared "
	    "memory",
	    (long long)needed);
	if (!root_number(doctor, &free_pages, "%s/free_hugepages", folder)) {
		SAY(out->found, "no pages of 2 MiB on this kernel");
		raise_to(out, SEVERITY_NOTE);
		return;
	}
	root_number(doctor, &total, "%s/nr_hugepages", folder);
	SAY(out->found, "%lld of %lld reserved pages are free", (long long)free_pages,
	    (long long)total);
	if (free_pages >= needed)
		return;
	SAY(out->mend, "sysctl -w vm.nr_hugepages=%lld", (long long)(total - free_pages + needed));
	if (shmem_thp_allowed(doctor, word, sizeof(word))) {
		raise_to(out, SEVERITY_NOTE);
		SAY(out->effect,
		    "little: the pool takes transparent huge pages (shmem_enabled is "
		    "%s), as long as memory is not in pieces",
		    word);
		return;
	}
	if (word[0] != '\0') {
		raise_to(out, SEVERITY_NOTE);
		SAY(out->effect, "see the check shmem_thp, whose line reserves no memory");
		return;
	}
	raise_to(out, SEVERITY_WARNING);
	say_cost_of_base_pages(doctor, out);
}

void check_shmem_thp(struct doctor *doctor, struct finding *out)
{
	const int64_t needed = ((int64_t)doctor->pool_bytes + 2 * MIB - 1) / (2 * MIB);
	char word[32];
	int64_t free_pages = 0;

	SAY(out->wanted, "advise, within_size or always");
	if (!chosen_word(doctor, "/sys/kernel/mm/transparent_hugepage/shmem_enabled", word,
			 sizeof(word))) {
		not_known(out, "/sys/kernel/mm/transparent_hugepage/shmem_enabled");
		return;
	}
	SAY(out->found, "%s", word);
	if (shmem_thp_allowed(doctor, word, sizeof(word)))
		return;
	SAY(out->mend, "echo advise > /sys/kernel/mm/transparent_hugepage/shmem_enabled");
	root_number(doctor, &free_pages,
		    "/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages");
	if (free_pages >= needed) {
		raise_to(out, SEVERITY_NOTE);
		SAY(out->effect, "nothing while enough huge pages are reserved");
		return;
	}
	raise_to(out, SEVERITY_WARNING);
	say_cost_of_base_pages(doctor, out);
}

void check_thp(struct doctor *doctor, struct finding *out)
{
	char word[32], defrag[32] = "";

	SAY(out->wanted, "madvise or always");
	if (!chosen_word(doctor, "/sys/kernel/mm/transparent_hugepage/enabled", word,
			 sizeof(word))) {
		not_known(out, "/sys/kernel/mm/transparent_hugepage/enabled");
		return;
	}
	chosen_word(doctor, "/sys/kernel/mm/transparent_hugepage/defrag", defrag, sizeof(defrag));
	SAY(out->found, "%s%s%s", word, defrag[0] != '\0' ? ", defrag " : "", defrag);
	if (strcmp(word, "never") != 0)
		return;
	raise_to(out, SEVERITY_NOTE);
	SAY(out->effect, "memory of the program's own that is sent (not of the pool) lies on 4 KiB "
			 "pages: its late registrations take about five times as long");
	SAY(out->mend, "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled");
}

/* Counts the nodes with CPUs on which this process may run. first: the first of these nodes. */
static size_t nodes_used(const struct doctor *doctor, size_t *nodes_out, char *first, size_t size)
{
	char allowed[256] = "", text[8192], cpus[256];
	size_t used = 0;
	struct names names;
	const char *line;

	*nodes_out = 0;
	if (root_text(doctor, text, sizeof(text), "/proc/self/status") &&
	    (line = strstr(text, "Cpus_allowed_list:")) != NULL)
		sscanf(line, "Cpus_allowed_list: %255s", allowed);
	root_names(doctor, "/sys/devices/system/node", &names);
	for (size_t i = 0; i < names.count; i++) {
		long cpu;

		if (strncmp(names.rows[i], "node", 4) != 0 ||
		    !root_text(doctor, cpus, sizeof(cpus), "/sys/devices/system/node/%s/cpulist",
			       names.rows[i]))
			continue;
		(*nodes_out)++;
		for (cpu = 0; cpu < 4096; cpu++) {
			if (list_holds(cpus, cpu) && list_holds(allowed, cpu))
				break;
		}
		if (cpu == 4096)
			continue;
		if (used++ == 0)
			say(first, size, "%s", names.rows[i] + 4);
	}
	return used;
}

void check_numa(struct doctor *doctor, struct finding *out)
{
	char first[NAME_BYTES] = "", nic[256] = "", nic_node[32] = "";
	struct interfaces interfaces;
	size_t nodes, used = nodes_used(doctor, &nodes, first, sizeof(first));
	const char *knob = getenv("TOW_NUMA");

	SAY(out->wanted, "one node, or the process bound to the node of its network card");
	if (nodes <= 1) {
		SAY(out->found, "one node");
		return;
	}
	used_interfaces(doctor, &interfaces);
	for (size_t i = 0; i < interfaces.count; i++) {
		int64_t node;

		if (root_number(doctor, &node, "/sys/class/net/%s/device/numa_node",
				interfaces.rows[i].name) &&
		    node >= 0) {
			SAY(nic_node, "%lld", (long long)node);
			SAY_MORE(nic, ", %s at node %s", interfaces.rows[i].name, nic_node);
		}
	}
	SAY(out->found, "%zu nodes, this process may run on %zu of them%s", nodes, used, nic);
	if (used <= 1 && (nic[0] == '\0' || strcmp(nic_node, first) == 0))
		return;
	if (knob != NULL && knob[0] != '\0')
		return;
	raise_to(out, SEVERITY_WARNING);
	SAY(out->effect, used <= 1 ? "the CPUs of this process are at another node than the card: "
				     "each packet crosses the link between the nodes"
				   : "the pool lies where the opening thread happens to run; from "
				     "the other node memory has about half the bandwidth");
	SAY(out->mend, "numactl --cpunodebind=%s ...; export TOW_NUMA=local",
	    nic_node[0] != '\0' ? nic_node : first);
}

void check_dev_shm(struct doctor *doctor, struct finding *out)
{
	char text[8192], words[WORDS_BYTES];
	const char *line, *size;
	long long kib;

	SAY(out->wanted, "64 MiB for each rank that uses libfabric's shm; our shm lane needs none");
	if (!root_text(doctor, text, sizeof(text), "/proc/self/mounts") ||
	    (line = strstr(text, " /dev/shm ")) == NULL) {
		SAY(out->found, "not mounted");
		raise_to(out, SEVERITY_NOTE);
		SAY(out->effect, "libfabric's shm and other libraries' shared memory do not work; "
				 "our shm lane does");
		SAY(out->mend, "mount -t tmpfs tmpfs /dev/shm; docker: --shm-size=1g");
		return;
	}
	size = strstr(line, "size=");
	if (size == NULL || size > line + strcspn(line, "\n")) {
		SAY(out->found, "half of memory");
		return;
	}
	kib = strtoll(size + strlen("size="), NULL, 10);
	words_bytes((unsigned long long)kib << 10, words);
	SAY(out->found, "%s", words);
	if (kib >= 128 << 10)
		return;
	raise_to(out, SEVERITY_NOTE);
	SAY(out->effect, "nothing for our lanes; libfabric's shm and other libraries of the job "
			 "end with a bus error when it is full");
	SAY(out->mend, "docker: --shm-size=1g; mount -o remount,size=1g /dev/shm");
}

void check_pool(struct doctor *doctor, struct finding *out)
{
	char answer[FOUND_BYTES], pages[32] = "?", locked[8] = "?", registered[8] = "?", ns[32];
	char time[WORDS_BYTES] = "?";

	SAY(out->wanted, "locked and registered");
	if (!doctor->probe || !ask(doctor, "library.pool", answer, sizeof(answer))) {
		not_known(out, "opening a runtime");
		return;
	}
	if (strncmp(answer, "failed: ", 8) == 0) {
		SAY(out->found, "%s", answer + 8);
		raise_to(out, SEVERITY_ERROR);
		SAY(out->effect, "no runtime opens here");
		SAY(out->mend, "do what the message says; the checks io_uring, memlock and "
			       "cgroup_memory say more");
		return;
	}
	pool_answer(doctor, "pages", pages, sizeof(pages));
	pool_answer(doctor, "locked", locked, sizeof(locked));
	pool_answer(doctor, "registered", registered, sizeof(registered));
	if (pool_answer(doctor, "ns_per_gib", ns, sizeof(ns)))
		words_ns(strtoull(ns, NULL, 10), time);
	SAY(out->found, "64 MiB on %s pages, %s, %s; %s to fault in each GiB", pages,
	    locked[0] == '1' ? "locked" : "not locked",
	    registered[0] == '1' ? "registered" : "not registered", time);
	if (locked[0] == '1' && registered[0] == '1')
		return;
	raise_to(out, SEVERITY_WARNING);
	SAY(out->effect, "zero-copy sends are copied by the kernel, and pages can be swapped out");
	SAY(out->mend, "see the check memlock");
}
