/*
 * test_group_require.c - the knob `require` in a job: connections of a group and collectives go by
 * the lanes that meet it alone, memory of the host included; where none does, a rank that connects
 * is told each lane and why not, and nothing hangs.
 */
#include "coll_job.h"

#include <jansson.h>
#include <stdatomic.h>
#include <sys/mman.h>

#define RANKS 3

/* Ranks that have heard why they were refused: in memory that the test's processes share. */
static _Atomic unsigned *refused;

static void must_say(const struct twt_job *job, const char *text, const char *part)
{
	if (strstr(text, part) != NULL)
		return;
	fprintf(stderr, "rank %d: '%s' does not say '%s'\n", job->rank, text, part);
	_exit(1);
}

static json_t *document_of(struct twt_job *job, const char *path)
{
	json_t *document;
	char *text;

	twt_must(tow_stats_get(job->runtime, path, &text) == TOW_OK);
	document = json_loads(text, 0, NULL);
	tow_stats_release(text);
	twt_must(document != NULL);
	return document;
}

/* All connections are of this lane, and so is what a collective does: not in the host's memory. */
static void play_met(struct twt_job *job, const void *plan)
{
	const char *lane = plan;
	json_t *document, *row;
	size_t i;

	twt_job_sum(job, job->group, 1000);
	document = document_of(job, "/v1/peers");
	twt_must(json_array_size(json_object_get(document, "peers")) >= 1);
	json_array_foreach(json_object_get(document, "peers"), i, row)
	{
		must_say(job, json_string_value(json_object_get(row, "lane")), lane);
		must_say(
			job,
			json_string_value(json_object_get(json_object_get(row, "path"), "require")),
			lane);
	}
	json_decref(document);
	document = document_of(job, "/v1/coll");
	row = json_array_get(json_object_get(document, "groups"), 0);
	twt_must(row != NULL);
	twt_must(json_is_true(json_object_get(row, "shares_memory")) == (strcmp(lane, "shm") == 0));
	json_decref(document);
}

static void test_met(void **state)
{
	(void)state;
	setenv("TOW_REQUIRE", "lane:tcp", 1);
	twt_job_run("tow://127.0.0.1", RANKS, 0, play_met, "tcp", NULL);
	setenv("TOW_REQUIRE", "lane:shm", 1);
	twt_job_run("tow://127.0.0.1", RANKS, 0, play_met, "shm", NULL);
	unsetenv("TOW_REQUIRE");
}

/* No lane of this host meets it. */
static void play_refused(struct twt_job *job, const void *plan)
{
	struct tow_peer *peer = NULL;
	int other = job->rank == 0 ? 1 : 0, status;

	(void)plan;
	status = tow_group_connect(job->group, (uint32_t)other, TWT_JOB_WAIT_NS, &peer);
	if (status != TOW_EREFUSED) {
		fprintf(stderr, "rank %d: %s: %s\n", job->rank, tow_status_name(status),
			tow_error_message());
		_exit(1);
	}
	must_say(job, tow_error_message(), "shm: require=iface:ib0: it goes over no interface");
	must_say(job, tow_error_message(), "tcp: require=iface:ib0: it goes over lo");
	/* No barrier can be made; and whoever is gone refuses in another way. */
	atomic_fetch_add(refused, 1);
	for (unsigned i = 0; i < 3000 && atomic_load(refused) < 2; i++)
		usleep(10000);
}

static void test_refused(void **state)
{
	(void)state;
	refused = mmap(NULL, sizeof(*refused), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		       -1, 0);
	assert_ptr_not_equal(refused, MAP_FAILED);
	setenv("TOW_REQUIRE", "iface:ib0", 1);
	twt_job_run("tow://127.0.0.1", 2, 0, play_refused, NULL, NULL);
	unsetenv("TOW_REQUIRE");
	munmap(refused, sizeof(*refused));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_met),
		cmocka_unit_test(test_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
