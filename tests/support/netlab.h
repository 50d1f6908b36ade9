/*
 * netlab.h - two processes, each in a network namespace of its own, and a cable between them that
 * this process is (netlab_link.h). Needs no root where the system gives users namespaces.
 *
 *	child 0: namespace,               parent:                  child 1: namespace,
 *	tun 10.77.0.1          <------>   twt_nl_link   <------>   tun 10.77.0.2
 *
 * The namespaces and devices go when the children do. Everything is bounded: twt_nl_world_run ends
 * the children by pid when its time is over. A system that permits none of it makes the test end
 * with 77 and the reason.
 */
#ifndef TWT_NETLAB_H
#define TWT_NETLAB_H

#include "netlab_link.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#define NL_ADDRESS "10.77.0.%d" /* 1: of side 0, 2: of side 1 */

struct twt_nl_world {
	struct twt_nl_link link;
	pid_t child[2]; /* 0: it has ended */
	int status[2];  /* what waitpid said */
	uint64_t start_ns;
	char reason[128]; /* why there is no such world here */
};

typedef int (*twt_nl_side)(int side, void *arg);
/* Called between packets; changes the shape, stops processes. */
typedef void (*twt_nl_script)(struct twt_nl_world *world, uint64_t elapsed_ns, void *arg);

/* Opens the world and starts both sides; false: world->reason says why it cannot be. */
bool twt_nl_world_open(struct twt_nl_world *world, uint64_t seed, twt_nl_side run, void *arg);

/* Carries packets until both sides have ended; false: limit_ns passed first; they were ended. */
bool twt_nl_world_run(struct twt_nl_world *world, uint64_t limit_ns, twt_nl_script script,
		      void *arg);

void twt_nl_world_close(struct twt_nl_world *world);

#endif
