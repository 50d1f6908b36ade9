/*
 * share.h - what the programs in the kernel, towbpf that loads them, and the library that reads
 * them agree on.
 *
 *	towbpf ---- hello, 3 descriptors ----> <dir>/<job>.<rank>.bpf, the library's
 *	       <--- reply ------------------
 *	       ==== the connection stays: its end is the end of the figures ====
 *
 *	counters   array, mapped, frozen: one struct twi_bpf_slot for each process, slot 0 the host
 *	sockets    SK_STORAGE: the library puts its sockets in, each with its slot
 *	tasks      TASK_STORAGE: the library puts its process in (its first thread)
 *
 * Both messages are one packet (SOCK_SEQPACKET) of the sizes below, in the host's byte order. No
 * part of the library is in here: the kernel's programs are built from it too.
 */
#ifndef TWI_BPF_SHARE_H
#define TWI_BPF_SHARE_H

#define TWI_BPF_MAGIC   0x46504254u /* "TBPF" */
#define TWI_BPF_VERSION 1

#define TWI_BPF_SLOTS        256
#define TWI_BPF_REASONS      192 /* of the kernel's drop reasons; higher ones count as the last */
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

/* The value of sockets and tasks. */
struct twi_bpf_owner {
	unsigned int slot;
};

enum twi_bpf_map { TWI_BPF_MAP_COUNTERS, TWI_BPF_MAP_SOCKETS, TWI_BPF_MAP_TASKS, TWI_BPF_MAPS };

struct twi_bpf_hello {
	unsigned int magic, version;
	unsigned int on;       /* 0: nothing can be loaded; no descriptors come, `why` says why */
	unsigned int slot;     /* 1 to TWI_BPF_SLOTS - 1 */
	unsigned int programs; /* a bit for each that is attached */
	unsigned int pad;
	char why[TWI_BPF_TEXT_BYTES]; /* why it is off, or what is missing; "" otherwise */
	char reasons[TWI_BPF_REASONS][TWI_BPF_REASON_BYTES]; /* names; "" where there is none */
};

struct twi_bpf_reply {
	unsigned int magic;
	int status;           /* enum tow_status */
	unsigned int sockets; /* enrolled */
	char text[TWI_BPF_TEXT_BYTES];
};

#endif
