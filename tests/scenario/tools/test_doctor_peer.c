/*
 * test_doctor_peer.c - towdoctor --peer and --serve over links that limit in a known way, each
 * between two network namespaces: it names what limits, ends by itself, and lets in only who has
 * the job's key. The links are tried at the same time, for they only wait.
 */
#include "command.h"
#include "netlab_judge.h"

#include <jansson.h>

#define LIMIT_NS (30 * NL_SECOND)
#define TRIES    3 /* a busy machine can hold the link itself up, which is then what is found */

struct link_case {
	const char *name, *severity, *words; /* of the direction "there" */
	struct twt_nl_shape shape;
	const char *buffers; /* TOW_SOCKET_BUFFER_BYTES, on both sides */
};

static const struct link_case cases[] = {
	{ "rate",
	  "note",
	  "slowest link",
	  { .bytes_per_second = 12500000, .delay_ns = NL_MS },
	  NULL },
	{ "loss",
	  "warning",
	  "loses packets without being full",
	  { .delay_ns = 10 * NL_MS, .loss_ppm = 20000 },
	  NULL },
	{ "buffers", "warning", "bandwidth x delay", { .delay_ns = 10 * NL_MS }, "65536" },
};
#define CASES (sizeof(cases) / sizeof(cases[0]))

static char folder[] = "/tmp/towdoctor-peer-XXXXXX";

/* Becomes towdoctor; side 1 serves, side 0 measures into a file. */
static int be_side(int side, void *arg)
{
	const struct link_case *row = arg;
	char program[512], output[256];

	snprintf(program, sizeof(program), "%s/tools/towdoctor/towdoctor",
		 getenv("TOW_TEST_BUILD") != NULL ? getenv("TOW_TEST_BUILD") : ".");
	snprintf(output, sizeof(output), "%s/%s.%d", folder, row->name, side);
	setenv("TOW_JOB_KEY", "0123456789abcdef0123456789abcdef", 1);
	/* What a rate of loss bounds is known for reno; the host's own may be another. */
	setenv("TOW_CONGESTION", "reno", 1);
	if (row->buffers != NULL)
		setenv("TOW_SOCKET_BUFFER_BYTES", row->buffers, 1);
	if (freopen(output, "w", stdout) == NULL)
		return 1;
	if (side == 1)
		execl(program, "towdoctor", "--serve", "--once", NULL);
	else
		execl(program, "towdoctor", "--json", "--peer", "10.77.0.2", NULL);
	return 1;
}

static const char *text_of(json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text != NULL ? text : "";
}

static int judge_case(const struct link_case *row, int client_status)
{
	char path[256];
	json_t *document, *there, *measured;
	int wrong = 1;

	snprintf(path, sizeof(path), "%s/%s.0", folder, row->name);
	document = json_load_file(path, 0, NULL);
	there = json_array_get(json_object_get(document, "checks"), 0);
	measured = json_object_get(document, "measured");
	if (there == NULL || strcmp(text_of(there, "severity"), row->severity) != 0 ||
	    strstr(text_of(there, "effect"), row->words) == NULL)
		printf("%s: status %d, %s: %s; %s\n", row->name, client_status,
		       text_of(there, "severity"), text_of(there, "found"),
		       text_of(there, "effect"));
	else if (!WIFEXITED(client_status) ||
		 WEXITSTATUS(client_status) != (strcmp(row->severity, "warning") == 0))
		printf("%s: the status is %d\n", row->name, client_status);
	else if (!json_is_object(json_object_get(measured, "latency_ns")) ||
		 json_integer_value(json_object_get(json_object_get(measured, "latency_ns"),
						    "min")) < (json_int_t)(2 * row->shape.delay_ns))
		printf("%s: the round trip is shorter than the link\n", row->name);
	else
		wrong = 0;
	json_decref(document);
	return wrong;
}

static int try_case(const struct link_case *row, uint64_t seed)
{
	struct twt_nl_world world;
	bool in_time;

	if (!twt_nl_world_open(&world, seed, be_side, (void *)row)) {
		printf("%s: %s\n", row->name, world.reason);
		return 1;
	}
	world.link.shape = row->shape;
	in_time = twt_nl_world_run(&world, LIMIT_NS, NULL, NULL);
	twt_nl_world_close(&world);
	if (!in_time)
		printf("%s: it did not end by itself\n", row->name);
	if (!WIFEXITED(world.status[1]) || WEXITSTATUS(world.status[1]) != 0) {
		printf("%s: the server's status is %d\n", row->name, world.status[1]);
		return 1;
	}
	return in_time ? judge_case(row, world.status[0]) : 1;
}

static void test_what_limits(void **state)
{
	const uint64_t seed = twt_seed();
	pid_t child[CASES];
	int wrong = 0;

	(void)state;
	for (size_t i = 0; i < CASES; i++) {
		fflush(NULL);
		child[i] = fork();
		assert_true(child[i] >= 0);
		if (child[i] == 0) {
			int status = 1;

			for (unsigned try = 0; try < TRIES && status != 0; try++)
				status = try_case(&cases[i], seed + i + CASES * try);
			fflush(NULL);
			_exit(status);
		}
	}
	for (size_t i = 0; i < CASES; i++) {
		int status = -1;

		assert_int_equal(waitpid(child[i], &status, 0), child[i]);
		wrong += status != 0;
	}
	assert_int_equal(wrong, 0);
}

/* Nobody there, a wrong key, a peer that is no doctor: a sentence and an end, never a hang. */
static void test_no_such_peer(void **state)
{
	static struct twt_command command;

	(void)state;
	twt_command("A=$(mktemp); TOW_JOB_KEY=0123456789abcdef @/tools/towdoctor/towdoctor --serve "
		    "0 --seconds 5 "
		    ">$A & S=$!; while [ ! -s $A ] && kill -0 $S; do sleep 0.01; done; "
		    "P=$(sed 's/.*://' $A); rm $A; "
		    "TOW_JOB_KEY=fedcba9876543210 @/tools/towdoctor/towdoctor --peer 127.0.0.1:$P; "
		    "echo status $?; wait $S; echo served $?",
		    &command);
	twt_command_expect(&command, 0, "status 3\n", 1);
	twt_command_expect(&command, 0, "served 0\n", 1);
	twt_command_expect(&command, 0, "another job key", 1);
	twt_command("@/tools/towdoctor/towdoctor --peer nonsense://x", &command);
	twt_command_expect(&command, 3, "towdoctor: ", 1);
}

static int make_folder(void **state)
{
	(void)state;
	return mkdtemp(folder) == NULL ? -1 : 0;
}

static int remove_folder(void **state)
{
	char path[256];

	(void)state;
	for (size_t i = 0; i < CASES; i++) {
		for (int side = 0; side < 2; side++) {
			snprintf(path, sizeof(path), "%s/%s.%d", folder, cases[i].name, side);
			unlink(path);
		}
	}
	return rmdir(folder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_limits),
		cmocka_unit_test(test_no_such_peer),
	};

	if (!twt_nl_possible())
		return 77;
	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
