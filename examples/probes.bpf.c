/* probes.bpf.c - what 08_probes has run at each probe: it adds to a row, and nothing else. */
#include <linux/bpf.h>
#include <linux/ptrace.h>
#include <stdbool.h>

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/usdt.bpf.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

struct row {
	__u64 count, bytes, ns;
};

#define ROWS 32 /* lanes, or reasons */

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 3 * ROWS);
	__type(key, __u32);
	__type(value, struct row);
} rows SEC(".maps");

static int add(__u32 probe, __u32 which, __u64 bytes, __u64 ns)
{
	__u32 key = probe * ROWS + which % ROWS;
	struct row *row = bpf_map_lookup_elem(&rows, &key);

	if (row != NULL) {
		__sync_fetch_and_add(&row->count, 1);
		__sync_fetch_and_add(&row->bytes, bytes);
		__sync_fetch_and_add(&row->ns, ns);
	}
	return 0;
}

SEC("usdt")
int BPF_USDT(rpc_done, int lane, __u64 bytes, __u64 latency_ns)
{
	return add(0, lane, bytes, latency_ns);
}

SEC("usdt")
int BPF_USDT(copy, int reason, __u64 bytes, __u64 ns)
{
	return add(1, reason, bytes, ns);
}

SEC("usdt")
int BPF_USDT(late_registration, int reason, __u64 bytes, __u64 ns)
{
	return add(2, reason, bytes, ns);
}
