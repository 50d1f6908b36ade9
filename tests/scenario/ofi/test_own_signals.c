/*
 * test_own_signals.c - with the real libfabric, and whatever stands behind it on this host: the
 * program's signal actions are what they were after every step from the open of a runtime to its
 * close, and tow:// loads libfabric only where something asks for it.
 */
#include "twt.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <towline/towline.h>

#include "transport/lanes/ofi/fabric.h"

#define SKIPPED 77
#define POOL    (64 << 20)
#define SECOND  1000000000ull

static volatile sig_atomic_t handled;

static void mine(int sig)
{
	handled = sig;
}

static void mine_detailed(int sig, siginfo_t *info, void *context)
{
	(void)info, (void)context;
	handled = sig;
}

static struct sigaction action_of(int sig, int turn)
{
	struct sigaction action = { .sa_handler = SIG_DFL };

	sigemptyset(&action.sa_mask);
	if ((sig + turn) % 4 == 1)
		action.sa_handler = SIG_IGN;
	if ((sig + turn) % 4 == 2)
		action.sa_handler = mine;
	if ((sig + turn) % 4 == 3) {
		action.sa_sigaction = mine_detailed;
		action.sa_flags = SA_SIGINFO;
	}
	return action;
}

static int can_be_set(int sig)
{
	return sig != SIGKILL && sig != SIGSTOP && (sig < 32 || sig > 33);
}

static void set_all(int turn)
{
	for (int sig = 1; sig < NSIG; sig++) {
		struct sigaction action = action_of(sig, turn);

		if (can_be_set(sig))
			sigaction(sig, &action, NULL);
	}
}

/* 0: all are the program's. */
static int compare(int turn, const char *after)
{
	struct sigaction now;
	int wrong = 0;

	for (int sig = 1; sig < NSIG; sig++) {
		struct sigaction wanted = action_of(sig, turn);

		if (!can_be_set(sig) || sigaction(sig, NULL, &now) != 0)
			continue;
		if (now.sa_handler == wanted.sa_handler &&
		    (now.sa_flags & SA_SIGINFO) == (wanted.sa_flags & SA_SIGINFO))
			continue;
		printf("after %s: signal %d is not the program's any more\n", after, sig);
		wrong++;
	}
	return wrong;
}

/* A message from one endpoint to another, so that all that opens itself late is open. */
static int talk(struct tow_runtime *runtime, const char *text)
{
	struct tow_endpoint *here, *there;
	char address[TOW_ADDRESS_MAX];
	struct tow_op *accept, *dial;
	int status = tow_endpoint_open(runtime, text, &here);

	if (status < 0)
		return status;
	if (tow_endpoint_open(runtime, text, &there) < 0 ||
	    tow_endpoint_address(there, address, sizeof(address)) < 0 ||
	    tow_accept_start(there, NULL, &accept) < 0 ||
	    tow_connect_start(here, address, NULL, &dial) < 0)
		return TOW_ESYSTEM;
	status = tow_op_wait(dial, 20 * SECOND);
	tow_op_wait(accept, 20 * SECOND);
	tow_op_release(dial);
	tow_op_release(accept);
	return status;
}

/* 0; SKIPPED: no such provider here. */
static int keep(const char *address)
{
	struct tow_options options = TOW_OPTIONS_INIT;
	struct tow_runtime *runtime;
	int status, wrong;

	/* Signals that the kernel sends by itself meanwhile, as SIGCHLD, do no harm here. */
	set_all(0);
	options.premap_memory_bytes = POOL;
	options.stats = 0;
	if (tow_runtime_open(&options, &runtime) < 0)
		return printf("%s\n", tow_error_message()), 1;
	wrong = compare(0, "tow_runtime_open");
	for (int turn = 0; turn < 4; turn++) {
		set_all(turn);
		status = talk(runtime, address);
		if (status == TOW_ENOTSUP)
			return printf("%s: %s\n", address, tow_error_message()), SKIPPED;
		if (status < 0)
			return printf("%s: %s\n", address, tow_error_message()), 2;
		wrong += compare(turn, address);
	}
	if (tow_runtime_close(runtime) < 0)
		return 3;
	wrong += compare(3, "tow_runtime_close");
	/* SIGTERM is 15: with turn 3 it has the handler, as a checkpoint before the end has. */
	raise(SIGTERM);
	return wrong == 0 && handled == SIGTERM ? 0 : 4;
}

static int run(int (*work)(const char *), const char *arg)
{
	int status;
	pid_t child;

	fflush(stdout);
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		status = work(arg);
		fflush(stdout);
		_exit(status);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void one(const char *address)
{
	int result = run(keep, address);

	if (result == SKIPPED)
		skip();
	assert_int_equal(result, 0);
}

static void over_sockets(void **state)
{
	(void)state;
	one("ofi://tcp");
}

/* libfabric's shm installs handlers when an endpoint is opened. */
static void over_shared_memory(void **state)
{
	(void)state;
	one("ofi://shm");
}

static void by_all_lanes(void **state)
{
	(void)state;
	one("tow://127.0.0.1");
}

static void by_all_lanes_asked(void **state)
{
	(void)state;
	setenv("TOW_LANES", "tcp,ofi", 1);
	one("tow://127.0.0.1");
	unsetenv("TOW_LANES");
}

static int loads(const char *lanes)
{
	struct tow_options options = TOW_OPTIONS_INIT;
	struct tow_runtime *runtime;

	options.premap_memory_bytes = POOL;
	options.stats = 0;
	options.lanes = lanes;
	if (tow_runtime_open(&options, &runtime) < 0 || talk(runtime, "tow://127.0.0.1") < 0)
		return 100;
	return twt_map_count("libfabric.so") > 0;
}

static void loaded_where_asked_for(void **state)
{
	(void)state;
	if (!twi_ofi_device_there("/dev"))
		assert_int_equal(run(loads, NULL), 0);
	assert_int_equal(run(loads, "tcp"), 0);
#ifdef TWI_HAVE_OFI
	assert_int_equal(run(loads, "tcp,ofi"), 1);
#endif
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(over_sockets),           cmocka_unit_test(over_shared_memory),
		cmocka_unit_test(by_all_lanes),           cmocka_unit_test(by_all_lanes_asked),
		cmocka_unit_test(loaded_where_asked_for),
	};

#ifdef TWT_TSAN
	printf("TSan keeps actions that the kernel has refused: no test of ours\n");
	return SKIPPED;
#endif
	unsetenv("TOW_LANES");
	unsetenv("TOW_OFI_PROVIDER");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
