/*
 * counters.bpf.c - the programs, all on BTF tracepoints. See abi/share.h for the maps.
 *
 * An event belongs to a socket that the library has enrolled, or to the process that runs. The
 * process must have enrolled itself and belong to the user for whom this object is loaded. Without
 * the second condition, a descriptor of the task map could enrol any process. The programs get no
 * PID from outside, so PID namespaces do not matter.
 *
 * Every event of other processes ends after one or two look-ups. Slot 0, with the host's own
 * figures, is only for rare events.
 */
#include "core.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* The loader sets it. */
const volatile __u32 owner_uid = 0;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, TWI_BPF_SLOTS);
	__type(key, __u32);
	__type(value, struct twi_bpf_slot);
} tow_counters SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct twi_bpf_owner);
} tow_sockets SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct twi_bpf_owner);
} tow_tasks SEC(".maps");

/* When a thread entered a registration, by thread. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, __u64);
	__type(value, __u64);
} tow_entered SEC(".maps");

/* Since 6.2. They are weak: without them, only the program that needs them is not loaded. */
extern struct task_struct *bpf_task_from_pid(__s32 pid) __ksym __weak;
extern void bpf_task_release(struct task_struct *task) __ksym __weak;
extern void *bpf_rdonly_cast(void *memory, __u32 type) __ksym __weak;

static __always_inline struct twi_bpf_slot *slot_at(__u32 slot)
{
	return bpf_map_lookup_elem(&tow_counters, &slot);
}

static __always_inline void add_counter(struct twi_bpf_slot *slot, enum twi_bpf_counter counter,
					__u64 n)
{
	__sync_fetch_and_add(&slot->counters[counter], n);
}

static __always_inline struct twi_bpf_slot *slot_of_socket(struct sock *sk)
{
	struct twi_bpf_owner *owner;

	if (sk == NULL)
		return NULL;
	owner = bpf_sk_storage_get(&tow_sockets, sk, NULL, 0);
	return owner != NULL ? slot_at(owner->slot) : NULL;
}

static __always_inline struct twi_bpf_slot *slot_of_leader(struct task_struct *leader)
{
	struct twi_bpf_owner *owner = bpf_task_storage_get(&tow_tasks, leader, NULL, 0);

	if (owner == NULL || leader->cred->euid.val != owner_uid)
		return NULL;
	return slot_at(owner->slot);
}

/* Workers of io-wq are threads of the process, too. */
static __always_inline struct twi_bpf_slot *slot_of_current(void)
{
	struct task_struct *task = bpf_get_current_task_btf();

	return slot_of_leader(task->group_leader);
}

#define ZEROCOPY_ENABLE 1 /* SKBFL_ZEROCOPY_ENABLE */

/*
 * The process whose io_uring zero-copy send a packet belongs to; 0: none. Other zero-copy packets
 * (MSG_ZEROCOPY) have another kind of uarg, which does not show its kind. So from 6.13 on, the task
 * that is found must point back to the same tctx.
 */
static __always_inline int zerocopy_owner(const struct skb_shared_info *info)
{
	struct io_uring_task *tctx = NULL, *back = NULL;
	struct task_struct *task = NULL;
	const char *request = NULL;
	void *uarg = NULL;
	int tgid = 0;

	bpf_core_read(&uarg, sizeof(uarg), &info->destructor_arg);
	if (uarg == NULL)
		return 0;
	request = (const char *)uarg - bpf_core_field_offset(struct io_notif_data, uarg);
	if (bpf_core_field_exists(struct io_kiocb___task, task)) {
		const struct io_kiocb___task *old = (const void *)request;

		bpf_core_read(&task, sizeof(task), &old->task);
		if (task == NULL || bpf_core_read(&tgid, sizeof(tgid), &task->tgid) != 0)
			return 0;
		return tgid;
	}
	bpf_core_read(&tctx, sizeof(tctx), &((const struct io_kiocb *)(const void *)request)->tctx);
	if (tctx == NULL || bpf_core_read(&task, sizeof(task), &tctx->task) != 0 || task == NULL)
		return 0;
	bpf_core_read(&back, sizeof(back), &task->io_uring);
	if (back != tctx || bpf_core_read(&tgid, sizeof(tgid), &task->tgid) != 0)
		return 0;
	return tgid;
}

/* A received packet that still points to the sender's pages. It is copied right after this. */
SEC("tp_btf/netif_receive_skb")
int BPF_PROG(zerocopy, struct sk_buff *skb)
{
	const struct skb_shared_info *info;
	struct task_struct *task;
	struct twi_bpf_slot *slot;
	__u32 bytes = skb->data_len;
	int tgid;

	if (bytes == 0)
		return 0;
	/* Read directly: this runs for every packet of the host, and a helper call costs time. */
	info = bpf_rdonly_cast(skb->head + skb->end,
			       bpf_core_type_id_kernel(struct skb_shared_info));
	if ((info->flags & ZEROCOPY_ENABLE) == 0)
		return 0;
	slot = slot_at(0);
	if (slot != NULL) {
		add_counter(slot, TWI_BPF_zerocopy_copies, 1);
		add_counter(slot, TWI_BPF_zerocopy_copied_bytes, bytes);
	}
	tgid = zerocopy_owner(info);
	if (tgid <= 0)
		return 0;
	task = bpf_task_from_pid(tgid);
	if (task == NULL)
		return 0;
	slot = slot_of_leader(task);
	bpf_task_release(task);
	if (slot != NULL) {
		add_counter(slot, TWI_BPF_zerocopy_copies, 1);
		add_counter(slot, TWI_BPF_zerocopy_copied_bytes, bytes);
	}
	return 0;
}

SEC("tp_btf/tcp_retransmit_skb")
int BPF_PROG(retransmit, struct sock *sk, struct sk_buff *skb)
{
	struct twi_bpf_slot *host = slot_at(0), *slot = slot_of_socket(sk);

	if (host != NULL) {
		add_counter(host, TWI_BPF_retransmits, 1);
		add_counter(host, TWI_BPF_retransmit_bytes, skb->len);
	}
	if (slot != NULL) {
		add_counter(slot, TWI_BPF_retransmits, 1);
		add_counter(slot, TWI_BPF_retransmit_bytes, skb->len);
	}
	return 0;
}

static __always_inline void count_drop(struct twi_bpf_slot *slot, __u32 reason)
{
	__u64 index = reason;

	if (slot == NULL)
		return;
	if (index >= TWI_BPF_REASONS)
		index = TWI_BPF_REASONS - 1;
	barrier_var(index); /* else the compiler checks one copy of it and uses another */
	if (index >= TWI_BPF_REASONS)
		return;
	add_counter(slot, TWI_BPF_drops, 1);
	__sync_fetch_and_add(&slot->drops[index], 1);
}

SEC("tp_btf/kfree_skb")
int BPF_PROG(drop, struct sk_buff *skb, void *location, __u32 reason, struct sock *to)
{
	struct twi_bpf_slot *slot = slot_of_socket(skb->sk);

	count_drop(slot_at(0), reason);
	count_drop(slot != NULL ? slot : slot_of_socket(to), reason);
	return 0;
}

/* Kernels before 6.11 do not say for which socket a packet was. */
SEC("tp_btf/kfree_skb")
int BPF_PROG(drop_old, struct sk_buff *skb, void *location, __u32 reason)
{
	count_drop(slot_at(0), reason);
	count_drop(slot_of_socket(skb->sk), reason);
	return 0;
}

SEC("tp_btf/io_uring_cqe_overflow")
int overflow(void *ctx)
{
	struct twi_bpf_slot *slot = slot_of_current();

	if (slot != NULL)
		add_counter(slot, TWI_BPF_cq_overflows, 1);
	return 0;
}

SEC("tp_btf/io_uring_queue_async_work")
int punt(void *ctx)
{
	struct twi_bpf_slot *slot = slot_of_current();

	if (slot != NULL)
		add_counter(slot, TWI_BPF_worker_punts, 1);
	return 0;
}

/* From linux/io_uring.h; they are the same on every kernel. */
#define REGISTER_BUFFERS        0
#define REGISTER_BUFFERS2       15
#define REGISTER_BUFFERS_UPDATE 16
#define IOVECS_MAX              1024

struct vec {
	__u64 base, bytes;
};

struct rsrc_register {
	__u32 count, flags;
	__u64 resv2, data, tags;
};

struct rsrc_update {
	__u32 offset, resv;
	__u64 data, tags;
	__u32 count, resv2;
};

/* The third and fourth argument of the current system call; false: unknown on this processor. */
static __always_inline bool syscall_arguments(__u64 *third, __u64 *fourth)
{
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(bpf_get_current_task_btf());

#if defined(__TARGET_ARCH_x86)
	struct pt_regs___x86 *r = (void *)regs;

	return bpf_core_read(third, 8, &r->dx) == 0 && bpf_core_read(fourth, 8, &r->r10) == 0;
#elif defined(__TARGET_ARCH_arm64)
	struct pt_regs___arm64 *r = (void *)regs;

	return bpf_core_read(third, 8, &r->regs[2]) == 0 &&
	       bpf_core_read(fourth, 8, &r->regs[3]) == 0;
#else
	return false;
#endif
}

/* The sum of the bytes of this registration's vectors, of at most IOVECS_MAX. */
static __always_inline __u64 registered_bytes(unsigned int opcode)
{
	struct rsrc_register whole = {};
	struct rsrc_update update = {};
	__u64 at = 0, count = 0, sum = 0;

	if (!syscall_arguments(&at, &count))
		return 0;
	if (opcode == REGISTER_BUFFERS2) {
		if (bpf_probe_read_user(&whole, sizeof(whole), (void *)at) != 0)
			return 0;
		at = whole.data;
		count = whole.count;
	} else if (opcode == REGISTER_BUFFERS_UPDATE) {
		if (bpf_probe_read_user(&update, sizeof(update), (void *)at) != 0)
			return 0;
		at = update.data;
		count = update.count;
	}
	for (__u32 i = 0; i < IOVECS_MAX; i++) {
		struct vec vec = {};

		if (i >= count ||
		    bpf_probe_read_user(&vec, sizeof(vec), (void *)(at + i * sizeof(vec))) != 0)
			break;
		sum += vec.base != 0 ? vec.bytes : 0; /* no base: the slot becomes empty */
	}
	return sum;
}

SEC("tp_btf/io_uring_register")
int BPF_PROG(registration, void *ring, unsigned int opcode, unsigned int files,
	     unsigned int buffers, long result)
{
	struct twi_bpf_slot *slot;
	__u64 *start, id;

	if (opcode != REGISTER_BUFFERS && opcode != REGISTER_BUFFERS2 &&
	    opcode != REGISTER_BUFFERS_UPDATE)
		return 0;
	slot = slot_of_current();
	if (slot == NULL)
		return 0;
	id = bpf_get_current_pid_tgid();
	start = bpf_map_lookup_elem(&tow_entered, &id);
	if (start != NULL) {
		add_counter(slot, TWI_BPF_registration_ns, bpf_ktime_get_ns() - *start);
		bpf_map_delete_elem(&tow_entered, &id);
	}
	if (result < 0) {
		add_counter(slot, TWI_BPF_registration_failures, 1);
		return 0;
	}
	add_counter(slot, TWI_BPF_registrations, 1);
	add_counter(slot, TWI_BPF_registration_bytes, registered_bytes(opcode));
	return 0;
}

#define NR_IO_URING_REGISTER 427 /* on every processor */

/* It runs at every system call of the machine, so it is loaded only on demand. */
SEC("tp_btf/sys_enter")
int BPF_PROG(registration_time, struct pt_regs *regs, long number)
{
	__u64 id, now;

	if (number != NR_IO_URING_REGISTER || slot_of_current() == NULL)
		return 0;
	id = bpf_get_current_pid_tgid();
	now = bpf_ktime_get_ns();
	bpf_map_update_elem(&tow_entered, &id, &now, BPF_ANY);
	return 0;
}
