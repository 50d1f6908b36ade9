/* lab_seccomp.c - a kernel that registers no memory, as where no more of it may be pinned. */
#include "lab.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

/* Operations of io_uring_register that pin memory (linux/io_uring.h, which may be older). */
#define REGISTER_BUFFERS  0u
#define REGISTER_BUFFERS2 15u
#define UPDATE_BUFFERS    16u

#define WORD(of)             BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, of))
#define SAME(value, yes, no) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (value), (yes), (no))

bool lab_refuse_registration(void)
{
	struct sock_filter filter[] = {
		WORD(nr),
		SAME(SYS_io_uring_register, 0, 5),
		WORD(args[1]),
		SAME(REGISTER_BUFFERS, 2, 0),
		SAME(REGISTER_BUFFERS2, 1, 0),
		SAME(UPDATE_BUFFERS, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOMEM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { sizeof(filter) / sizeof(filter[0]), filter };

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
	       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}
