/* test_identity.c - whether a process still runs, judged by its number, its start and its clock. */
#include "twt.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "diag/base/identity.h"

static enum twi_process look(const struct twi_identity *self, const struct twi_identity *other)
{
	char state;

	return twi_identity_look(self, other, &state);
}

static void same_clock(void **state)
{
	struct twi_identity self, other;

	(void)state;
	twi_identity_self(&self);
	other = self;
	assert_true(twi_identity_is_near(&self, &other));
	assert_true(twi_identity_shares_clock(&self, &other));
	assert_int_equal(look(&self, &other), TWI_PROCESS_RUNS);
	assert_false(twi_identity_was_killed(&self, &other));
	other.pid_start++; /* the number was another's */
	assert_int_equal(look(&self, &other), TWI_PROCESS_GONE);
	assert_true(twi_identity_was_killed(&self, &other));
	other.pid_start = 0;
	assert_int_equal(look(&self, &other), TWI_PROCESS_UNKNOWN);
	assert_false(twi_identity_was_killed(&self, &other));
}

/* The reader's time namespace is another one than that of the process: starts differ. */
static void other_clock(void **state)
{
	struct twi_identity self, other;
	int status;
	pid_t pid;

	(void)state;
	twi_identity_self(&self);
	if (self.time_namespace <= 1) {
		printf("left out: this kernel has no time namespaces\n");
		skip();
	}
	other = self;
	self.time_namespace++;
	other.pid_start += 10000000;
	assert_false(twi_identity_shares_clock(&self, &other));
	assert_int_equal(look(&self, &other), TWI_PROCESS_RUNS);
	assert_false(twi_identity_was_killed(&self, &other));
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		for (;;)
			pause();
	other.pid = (uint64_t)pid;
	assert_int_equal(look(&self, &other), TWI_PROCESS_RUNS);
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(look(&self, &other), TWI_PROCESS_GONE);
	assert_true(twi_identity_was_killed(&self, &other));
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(same_clock),
		cmocka_unit_test(other_clock),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
