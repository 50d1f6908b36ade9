/*
 * share.h - the interface of the programs in the kernel, of towbpf that loads them, and of the
 * library that reads them.
 *
 *	towbpf ---- hello, 3 descriptors ----> <dir>/<job>.<rank>.bpf, the library's
 *	       <--- reply ------------------
 *	       ==== the connection stays open: the figures end when it ends ====
 *
 *	counters   array, mapped, frozen: one struct twi_bpf_slot for each process, slot 0 the host
 *	sockets    SK_STORAGE: the library adds its sockets, each with its slot
 *	tasks      TASK_STORAGE: the library adds its process (its first thread)
 *
 * Each message is one packet (SOCK_SEQPACKET) of the size below, in the host's byte order. No part
 * of the library is in this file, as the kernel's programs are built from it, too.
 */
#ifndef TWI_BPF_SHARE_H
#define TWI_BPF_SHARE_H

#define TWI_BPF_MAGIC   0x46504254u /* "TBPF" */
#define TWI_BPF_VERSION 1

#define TWI_BPF_SLOTS        256
#define TWI_BPF_REASONS      192 /* the kernel's drop reasons; higher ones count as the last */
#define TWI_BPF_REASON_BYTES 40
#define TWI_BPF_TEXT_BYTES   256

enum twi_bpf_counter {
#define TWI_BPF_COUNTER(name, unit, program, help) TWI_BPF_##name,
#include "bpf_counter.def"
#undef TWI_BPF_COUNTER
	TWI_BPF_COUNTERS
};

enum twi_bpf_program {
#define TWI_BPF_PROGRAM(name, tracepoint, help) TWI_BPF_PROGRAM_##name,
#include "bpf_program.def"
#undef TWI_BPF_PROGRAM
	TWI_BPF_PROGRAMS
};

struct twi_bpf_slot {
	unsigned long long counters[TWI_BPF_COUNTERS];
	unsigned long long drops[TWI_BPF_REASONS];
};

/* The value in the maps sockets and tasks. */
struct twi_bpf_owner {
	unsigned int slot;
};

enum twi_bpf_map { TWI_BPF_MAP_COUNTERS, TWI_BPF_MAP_SOCKETS, TWI_BPF_MAP_TASKS, TWI_BPF_MAPS };

struct twi_bpf_hello {
	unsigned int magic, version;
	unsigned int on;       /* 0: no program can be loaded; no descriptors follow, see `why` */
	unsigned int slot;     /* 1 to TWI_BPF_SLOTS - 1 */
	unsigned int programs; /* a bit for each attached program */
	unsigned int pad;
	char why[TWI_BPF_TEXT_BYTES]; /* why it is off, or what is missing; "" otherwise */
	char reasons[TWI_BPF_REASONS][TWI_BPF_REASON_BYTES]; /* names; "" where a reason has none */
};

struct twi_bpf_reply {
	unsigned int magic;
	int status;           /* enum tow_status */
	unsigned int sockets; /* how many are enrolled */
	char text[TWI_BPF_TEXT_BYTES];
};

#endif
