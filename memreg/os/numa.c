/*
 * numa.c - the knob numa and its system call; numa.h has the concept.
 */
#include "memreg/os/numa.h"

#include <errno.h>
#include <linux/mempolicy.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "diag/base/error.h"
#include "memreg/os/procfs.h"
#include <internal/base.h>

#define HAS_MEMORY "/sys/devices/system/node/has_memory"

static void add_node(struct twi_nodes *nodes, uint64_t node)
{
	if (node < TWI_NODES_MAX)
		nodes->word[node / 64] |= 1ull << node % 64;
}

static bool parse_nodes(const char *text, struct twi_nodes *out)
{
	while (*text) {
		uint64_t first, last;

		if (!twi_proc_decimal(&text, &first))
			return false;
		last = first;
		if (*text == '-') {
			text++;
			if (!twi_proc_decimal(&text, &last) || last < first)
				return false;
		}
		for (uint64_t node = first; node <= twi_min(last, (uint64_t)TWI_NODES_MAX); node++)
			add_node(out, node);
		if (*text == ',' && text[1])
			text++;
		else if (*text == '\n' && !text[1])
			text++;
		else if (*text)
			return false;
	}
	return true;
}

bool twi_nodes_parse(const char *text, struct twi_nodes *out)
{
	bool parsed;

	*out = (struct twi_nodes){ 0 };
	parsed = parse_nodes(text, out);
	if (!parsed)
		*out = (struct twi_nodes){ 0 };
	return parsed;
}

void twi_nodes_with_memory(struct twi_nodes *out)
{
	char text[512];

	twi_proc_read(HAS_MEMORY, text, sizeof(text));
	if (!text[0] || !twi_nodes_parse(text, out))
		*out = (struct twi_nodes){ { 1 } };
}

/* Lists nodes as "0,1,2" for messages, as many as fit. */
static void list_nodes(const struct twi_nodes *nodes, char *text, size_t room)
{
	size_t n = 0;

	text[0] = '\0';
	for (unsigned node = 0; node < TWI_NODES_MAX && n + 8 < room; node++)
		if (twi_nodes_has(nodes, node))
			n += (size_t)snprintf(text + n, room - n, "%s%u", n ? "," : "", node);
}

int twi_numa_choose(const char *knob, const struct twi_nodes *have, unsigned here,
		    struct twi_numa *out)
{
	const char *end = knob;
	char there[128];
	uint64_t node;

	*out = (struct twi_numa){ .mode = TWI_NUMA_ANY };
	if (knob == NULL || !*knob)
		return TOW_OK;
	if (strcmp(knob, "interleave") == 0) {
		*out = (struct twi_numa){ .mode = TWI_NUMA_INTERLEAVE, .nodes = *have };
		return TOW_OK;
	}
	if (strcmp(knob, "local") == 0) {
		out->mode = TWI_NUMA_LOCAL;
		add_node(&out->nodes, here);
		return TOW_OK;
	}
	list_nodes(have, there, sizeof(there));
	if (!twi_proc_decimal(&end, &node) || *end)
		return twi_error(TOW_EINVAL,
				 "numa = \"%.32s\" is none of: \"\", local, interleave, a node's "
				 "number (nodes with memory here: %s)",
				 knob, there);
	if (!twi_nodes_has(have, node))
		return twi_error(TOW_EINVAL,
				 "numa = %.32s: there is no such memory node; nodes with memory "
				 "here: %s",
				 knob, there);
	out->mode = TWI_NUMA_NODE;
	add_node(&out->nodes, node);
	return TOW_OK;
}

int twi_numa_resolve(const char *knob, struct twi_numa *out)
{
	struct twi_nodes have;
	unsigned cpu, here = 0;

	twi_nodes_with_memory(&have);
	if (getcpu(&cpu, &here))
		here = 0;
	return twi_numa_choose(knob, &have, here, out);
}

const char *twi_numa_mode_name(enum twi_numa_mode mode)
{
	static const char *const names[] = { "any", "local", "interleave", "node" };

	return names[mode];
}

bool twi_numa_bind(void *base, uint64_t bytes, const struct twi_numa *numa, char *reason,
		   size_t reason_bytes, char *mend, size_t mend_bytes)
{
	int policy = numa->mode == TWI_NUMA_INTERLEAVE ? MPOL_INTERLEAVE : MPOL_BIND;
	unsigned long mask[TWI_NODES_MAX / 64];
	int err;

	if (numa->mode == TWI_NUMA_ANY)
		return true;
	for (unsigned i = 0; i < twi_array_count(mask); i++)
		mask[i] = numa->nodes.word[i];
	/* The kernel uses one bit less than the number that it gets. */
	if (syscall(SYS_mbind, base, bytes, policy, mask, TWI_NODES_MAX + 1, 0) == 0)
		return true;
	err = errno;
	snprintf(reason, reason_bytes, "numa: not bound (mbind: %s)", strerrorname_np(err));
	if (err == EPERM)
		snprintf(mend, mend_bytes,
			 "allow mbind in the container's seccomp profile  # --cap-add=SYS_NICE");
	else if (err == ENOSYS)
		snprintf(mend, mend_bytes, "a kernel with CONFIG_NUMA");
	else
		snprintf(mend, mend_bytes, "numa=  # the kernel's choice");
	return false;
}
