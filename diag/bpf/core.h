/*
 * core.h - declares the few kernel types that the programs read. The loader fills in the running
 * kernel's offsets (CO-RE), so members that we do not need are left out. A name with ___ stands for
 * the name before it.
 *
 * There is no vmlinux.h: it would need the build machine's kernel and make the object ten times as
 * large.
 */
#ifndef TWI_BPF_CORE_H
#define TWI_BPF_CORE_H
#ifdef __bpf__ /* other compilers skip it, as a build without libbpf lacks the headers */

#include <linux/bpf.h>
#include <linux/types.h>

#include <stdbool.h>
#include <stddef.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "abi/share.h"

#define RELOCATED __attribute__((preserve_access_index))

typedef struct {
	__u32 val;
} RELOCATED kuid_t;

struct cred {
	kuid_t euid;
} RELOCATED;

struct io_uring_task;

struct task_struct {
	int tgid;
	struct task_struct *group_leader;
	const struct cred *cred;
	struct io_uring_task *io_uring;
} RELOCATED;

/* `end` is an offset from `head`, as on all 64-bit kernels. */
struct sk_buff {
	struct sock *sk;
	unsigned int len, data_len;
	unsigned int end;
	unsigned char *head;
} RELOCATED;

struct skb_shared_info {
	__u8 flags;
	void *destructor_arg;
} RELOCATED;

struct ubuf_info {
	void *ops; /* never read: only its address counts */
} RELOCATED;

struct io_notif_data {
	struct ubuf_info uarg;
} RELOCATED;

struct io_uring_task {
	struct task_struct *task; /* since 6.13 */
} RELOCATED;

struct io_kiocb {
	struct io_uring_task *tctx;
} RELOCATED;

/* Before 6.13. */
struct io_kiocb___task {
	struct task_struct *task;
} RELOCATED;

#if defined(__TARGET_ARCH_x86)
struct pt_regs___x86 {
	unsigned long di, si, dx, r10, orig_ax;
} RELOCATED;
#elif defined(__TARGET_ARCH_arm64)
struct pt_regs___arm64 {
	unsigned long long regs[31];
	unsigned long long orig_x0;
} RELOCATED;
#endif

#endif
#endif
