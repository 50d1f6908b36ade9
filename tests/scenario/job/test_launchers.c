/*
 * test_launchers.c - jobs under other people's launchers, where they are installed: Open MPI's
 * mpirun (its own variables, and PMIx alone) and MPICH's mpiexec (PMI). Neither is needed to build.
 */
#include "twt.h"

#include "command.h"

static struct twt_command command;
static int ran;

static bool there(const char *program)
{
	char line[128];

	snprintf(line, sizeof(line), "command -v %s", program);
	twt_command(line, &command);
	ran += command.status == 0;
	return command.status == 0;
}

#define OPENMPI                                                                                    \
	"OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 timeout 60 mpirun.openmpi "     \
	"--oversubscribe "

static void openmpi(void **state)
{
	(void)state;
	if (!there("mpirun.openmpi"))
		skip();
	twt_command(OPENMPI "-n 3 @/tests/group_program all", &command);
	twt_command_expect(&command, 0, "all well", 3);
	twt_command(OPENMPI "-n 2 @/tests/group_program who", &command);
	twt_command_expect(&command, 0, "openmpi 1/2 local 1/2 job towline/openmpi-", 1);
}

/* Without its own variables what it serves is PMIx. */
static void pmix(void **state)
{
	(void)state;
	if (!there("mpirun.openmpi"))
		skip();
	for (int n = 1; n <= 3; n += 2) {
		char line[512];

		snprintf(line, sizeof(line),
			 OPENMPI "-n %d env -u OMPI_COMM_WORLD_RANK -u OMPI_COMM_WORLD_SIZE "
				 "@/tests/group_program all",
			 n);
		twt_command(line, &command);
		twt_command_expect(&command, 0, "all well", n);
	}
}

static void mpich(void **state)
{
	(void)state;
	if (!there("mpiexec.hydra"))
		skip();
	twt_command("timeout 60 mpiexec.hydra -n 3 @/tests/group_program all", &command);
	twt_command_expect(&command, 0, "all well", 3);
	twt_command("timeout 60 mpiexec.hydra -n 2 @/tests/group_program who", &command);
	twt_command_expect(&command, 0, "pmi 1/2 local 1/2 job towline", 1);
	/* A descriptor that nobody answers on. */
	twt_command("PMI_RANK=1 PMI_SIZE=2 PMI_FD=99 timeout 60 @/tests/group_program open",
		    &command);
	twt_command_expect(&command, 0, "TOW_ESYSTEM: pmi: PMI_FD = 99", 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(openmpi),
		cmocka_unit_test(pmix),
		cmocka_unit_test(mpich),
	};
	int failed = cmocka_run_group_tests(tests, NULL, NULL);

	if (failed == 0 && ran == 0) {
		printf("skipped: neither mpirun.openmpi nor mpiexec.hydra is installed\n");
		return 77;
	}
	return failed;
}
