/*
 * numa.h - the memory nodes of an extent: the knob numa, and binding.
 *
 *   ""          the kernel's choice
 *   local       the node of the CPU that the opening thread runs on
 *   interleave  page by page over all nodes that have memory
 *   a number    that node
 *
 * Where the kernel refuses to bind, the knob has no effect, and the pool reports the reason. A node
 * that does not exist is an error in any case. A binding is strict, except interleave: memory that
 * does not fit on its node does not go elsewhere.
 */
#ifndef TWI_NUMA_H
#define TWI_NUMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TWI_NODES_MAX 128 /* nodes that are counted separately */

/* A set of nodes. */
struct twi_nodes {
	uint64_t word[TWI_NODES_MAX / 64];
};

enum twi_numa_mode { TWI_NUMA_ANY, TWI_NUMA_LOCAL, TWI_NUMA_INTERLEAVE, TWI_NUMA_NODE };

struct twi_numa {
	enum twi_numa_mode mode;
	struct twi_nodes nodes; /* the nodes to use; empty for TWI_NUMA_ANY */
};

static inline bool twi_nodes_has(const struct twi_nodes *nodes, uint64_t node)
{
	return node < TWI_NODES_MAX && (nodes->word[node / 64] >> node % 64 & 1) != 0;
}

/* Parses the kernel's form "0-3,8". False, with an empty set: the text is no such list. */
bool twi_nodes_parse(const char *text, struct twi_nodes *out);

/* The nodes that have memory; node 0 where the kernel does not list them. */
void twi_nodes_with_memory(struct twi_nodes *out);

/*
 * Interprets the knob on a machine with the nodes `have`, for a thread on node `here`. The message
 * of TOW_EINVAL names the knob and the nodes that exist.
 */
int twi_numa_choose(const char *knob, const struct twi_nodes *have, unsigned here,
		    struct twi_numa *out);

/* Does the same for this machine and the calling thread. */
int twi_numa_resolve(const char *knob, struct twi_numa *out);

const char *twi_numa_mode_name(enum twi_numa_mode mode);

/*
 * Binds [base, base + bytes), whose pages are all untouched. False: the binding was wanted but has
 * failed; reason and mend say why, and what helps.
 */
bool twi_numa_bind(void *base, uint64_t bytes, const struct twi_numa *numa, char *reason,
		   size_t reason_bytes, char *mend, size_t mend_bytes);

#endif
