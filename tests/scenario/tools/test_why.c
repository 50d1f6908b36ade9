/*
 * test_why.c - towstat why: of a real program it names file and line; of what is told to it by a
 * pretended runtime it makes the best, and says what is missing.
 */
#include "twt.h"

#include <fcntl.h>
#include <jansson.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static char dir[64];

static const char *build(void)
{
	const char *path = getenv("TOW_TEST_BUILD");

	return path != NULL ? path : ".";
}

static int setup(void **state)
{
	(void)state;
	snprintf(dir, sizeof(dir), "/tmp/twt-why-XXXXXX");
	if (mkdtemp(dir) == NULL)
		return -1;
	return setenv("TOW_STATS_DIR", dir, 1);
}

static int teardown(void **state)
{
	(void)state;
	return rmdir(dir);
}

/* Runs towstat with `arguments`; its output, both streams, is the caller's to free. */
static char *towstat(const char *arguments, int wanted)
{
	size_t room = 1 << 20, bytes;
	char command[1024], *text = malloc(room);
	FILE *pipe;
	int status;

	assert_non_null(text);
	snprintf(command, sizeof(command), "%s/tools/towstat/towstat %s 2>&1", build(), arguments);
	pipe = popen(command, "r");
	assert_non_null(pipe);
	bytes = fread(text, 1, room - 1, pipe);
	text[bytes] = '\0';
	status = pclose(pipe);
	if (!WIFEXITED(status) || WEXITSTATUS(status) != wanted)
		fail_msg("towstat %s: status %d:\n%s", arguments, status, text);
	return text;
}

static void has(const char *text, const char *words)
{
	if (strstr(text, words) == NULL)
		fail_msg("\"%s\" is not in:\n%s", words, text);
}

static void has_not(const char *text, const char *words)
{
	if (strstr(text, words) != NULL)
		fail_msg("\"%s\" is in:\n%s", words, text);
}

struct program {
	pid_t pid;
	int input; /* its end ends the program */
	int line, tagged_line;
};

static void start(const char *path, const char *mode, struct program *out)
{
	int input[2], output[2], pid = 0;
	FILE *from;

	assert_int_equal(pipe2(input, O_CLOEXEC), 0);
	assert_int_equal(pipe2(output, O_CLOEXEC), 0);
	out->pid = fork();
	assert_true(out->pid >= 0);
	if (out->pid == 0) {
		setenv("LD_LIBRARY_PATH", build(), 1); /* a copy of it lies elsewhere */
		dup2(input[0], 0);
		dup2(output[1], 1);
		execl(path, path, dir, mode, NULL);
		_exit(99);
	}
	close(input[0]);
	close(output[1]);
	out->input = input[1];
	from = fdopen(output[0], "r");
	assert_non_null(from);
	if (fscanf(from, "%d %d %d", &pid, &out->line, &out->tagged_line) != 3)
		fail_msg("%s did not come up", path);
	assert_int_equal(pid, out->pid);
	fclose(from);
}

static void end(const struct program *program)
{
	int status;

	close(program->input);
	assert_int_equal(waitpid(program->pid, &status, 0), program->pid);
	assert_int_equal(status, 0);
}

static void program_path(char *out, size_t bytes)
{
	snprintf(out, bytes, "%s/tests/why_program", build());
}

static bool without_dwarf(const char *text)
{
	return strstr(text, "built without libdw") != NULL;
}

/* The sentences of issue and manual, word by word. */
static void check_sentences(const struct program *program, const char *text)
{
	char words[256];

	has(text, "why.3, process");
	has(text, "Fallback copies:\n");
	has(text, "; post receives before the peer sends; where the pool is full ");
	has(text, "(tag \"late layer\"), or its view found no room in the pool; it waited in a "
		  "buffer of the library");
	has(text, "necessary copies, ");
	has_not(text, "Late registrations");
	if (without_dwarf(text)) {
		has(text, "why_program+0x");
		print_message("without libdw there are no lines to look for\n");
		return;
	}
	has(text, "  7 copies, 56 B, ");
	has(text, "  5 copies, 40 B, ");
	snprintf(words, sizeof(words),
		 ": a small message came before its receive was posted from why_program.c:%d, or",
		 program->line);
	has(text, words);
	snprintf(words, sizeof(words), " from why_program.c:%d (tag \"late layer\"), or",
		 program->tagged_line);
	has(text, words);
	has_not(text, "Why some places have no file:line");
}

static void names_the_line(void **state)
{
	struct program program;
	char path[512], arguments[256], *text;

	(void)state;
	program_path(path, sizeof(path));
	start(path, "late", &program);
	text = towstat("why why.3", 0);
	check_sentences(&program, text);
	free(text);
	text = towstat("why why.3 -n 1", 0);
	has(text, without_dwarf(text) ? "places more" : "and 1 place more");
	free(text);
	snprintf(arguments, sizeof(arguments), "why %s/why.3.sock", dir);
	text = towstat(arguments, 0);
	check_sentences(&program, text);
	free(text);
	end(&program);
}

/* The program was deleted while it runs: its pages are still there to be looked at. */
static void names_it_when_deleted(void **state)
{
	struct program program;
	char command[1400], path[512], copy[128], *text;

	(void)state;
	program_path(path, sizeof(path));
	snprintf(copy, sizeof(copy), "%s/why_program", dir);
	snprintf(command, sizeof(command), "cp '%s' '%s'", path, copy);
	assert_int_equal(system(command), 0);
	start(copy, "late", &program);
	assert_int_equal(unlink(copy), 0);
	text = towstat("why why.3", 0);
	if (!without_dwarf(text)) {
		has(text, "  7 copies, 56 B, ");
		snprintf(command, sizeof(command), "why_program.c:%d", program.line);
		has(text, command);
	}
	free(text);
	end(&program);
}

static json_t *site_of(json_t *root, const char *document, size_t at)
{
	json_t *sites = json_object_get(json_object_get(root, document), "sites");

	return json_array_get(sites, at);
}

static void as_json(void **state)
{
	struct program program;
	char path[512], *text;
	json_t *root, *site;

	(void)state;
	program_path(path, sizeof(path));
	start(path, "late", &program);
	text = towstat("why --json why.3", 0);
	root = json_loads(text, 0, NULL);
	assert_non_null(root);
	for (size_t i = 0; (site = site_of(root, "copies", i)) != NULL; i++) {
		assert_true(json_is_integer(json_object_get(site, "module_offset")));
		assert_true(json_is_string(json_object_get(site, "address")));
		assert_int_equal(json_integer_value(json_object_get(site, "bytes_max")), 64);
		if (without_dwarf(text))
			continue;
		assert_true(json_array_size(json_object_get(site, "addresses")) >= 2 ||
			    !json_is_null(json_object_get(site, "tag")));
		has(json_string_value(json_object_get(site, "file")), "why_program.c");
		assert_int_equal(json_integer_value(json_object_get(site, "line")),
				 json_is_null(json_object_get(site, "tag")) ? program.line
									    : program.tagged_line);
		has(json_string_value(json_object_get(site, "text")), "why_program.c:");
	}
	if (!without_dwarf(text))
		assert_null(site_of(root, "copies", 2));
	assert_true(json_is_object(json_object_get(root, "pool")));
	assert_int_equal(json_array_size(json_object_get(root, "no_line")),
			 without_dwarf(text) ? 1 : 0);
	json_decref(root);
	free(text);
	end(&program);
}

static void nothing_to_say(void **state)
{
	struct program program;
	char path[512], *text;

	(void)state;
	program_path(path, sizeof(path));
	start(path, "clean", &program);
	text = towstat("why why.3", 0);
	has(text, "Nothing was found: ");
	has_not(text, "Fallback copies:");
	free(text);
	end(&program);
}

/* What a pretended runtime answers; NULL: 404. */
struct answer {
	const char *path, *body;
};

struct pretender {
	int fd;
	const struct answer *answers;
	pthread_t thread;
	char path[128];
};

static void *answer(void *arg)
{
	const struct pretender *pretender = arg;
	int fd;

	while ((fd = accept4(pretender->fd, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
		char request[1024] = "", path[256] = "";
		const char *body = NULL;

		if (recv(fd, request, sizeof(request) - 1, 0) > 0)
			sscanf(request, "GET %255s", path);
		for (const struct answer *at = pretender->answers; at->path != NULL; at++) {
			if (strcmp(at->path, path) == 0)
				body = at->body;
		}
		dprintf(fd, "HTTP/1.1 %s\r\nContent-Length: %zu\r\n\r\n%s",
			body != NULL ? "200 OK" : "404 Not Found", body != NULL ? strlen(body) : 0,
			body != NULL ? body : "");
		close(fd);
	}
	return NULL;
}

static void pretend(struct pretender *pretender, const struct answer *answers)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };

	snprintf(pretender->path, sizeof(pretender->path), "%s/feigned.0.sock", dir);
	strcpy(address.sun_path, pretender->path);
	pretender->answers = answers;
	pretender->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(pretender->fd, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(pretender->fd, 16), 0);
	assert_int_equal(pthread_create(&pretender->thread, NULL, answer, pretender), 0);
}

static void pretend_end(struct pretender *pretender)
{
	shutdown(pretender->fd, SHUT_RDWR);
	pthread_join(pretender->thread, NULL);
	close(pretender->fd);
	assert_int_equal(unlink(pretender->path), 0);
}

static char wild_copies[4096];

static const struct answer wild_answers[] = {
	{ "/v1/info", "{\"job\":\"j\\u001b[31m\",\"rank\":0,\"pid\":0}" },
	{ "/v1/copies", wild_copies },
	{ "/v1/registrations", "{\"total\":{\"count\":1},\"sites\":[{\"text\":\"a late one\"}]}" },
	{ "/v1/pool", "{\"exhausted\":3,\"asked_bytes\":100,\"extents\":[],"
		      "\"recommended_premap_memory_bytes\":200,"
		      "\"process\":{\"pinned_by_others_bytes\":3145728}}" },
	{ NULL, NULL },
};

/* Sites that cannot be found, each for a reason of its own. */
static void write_wild_copies(void)
{
	static const struct {
		const char *name, *members;
	} sites[] = {
		{ "gone", "\"module\":null" },
		{ "absent+0x40", "\"module\":\"/nowhere/lib.so\",\"build_id\":\"00ff\"" },
		{ "noid+0x40", "\"module\":\"/bin/sh\"" },
		{ "other+0x40", "\"module\":\"/bin/sh\",\"build_id\":\"00ff\"" },
		{ "pipe+0x40", "\"module\":\"/dev/zero\",\"build_id\":\"00ff\"" },
	};
	FILE *to = fmemopen(wild_copies, sizeof(wild_copies), "w");

	assert_non_null(to);
	fprintf(to, "{\"total\":{\"count\":9},\"sites_known\":7,\"sites\":[");
	for (size_t i = 0; i < sizeof(sites) / sizeof(sites[0]); i++)
		fprintf(to,
			"{\"address\":\"0x99\",\"tag\":null,\"module_offset\":64,\"place\":\"%s\","
			"\"text\":\"sentence from %s; cure\",\"text_parts\":[\"sentence\","
			"\"; cure\"],%s},",
			sites[i].name, sites[i].name, sites[i].members);
	fprintf(to, "{\"text\":\"no \\u001b[2J place\"},17]}");
	assert_int_equal(fclose(to), 0);
}

static void makes_the_best(void **state)
{
	struct pretender pretender;
	char *text;

	(void)state;
	write_wild_copies();
	pretend(&pretender, wild_answers);
	text = towstat("why feigned.0", 0);
	has(text, "  sentence from gone; cure\n");
	has(text, "  sentence from absent+0x40; cure\n");
	has(text, "  sentence from noid+0x40; cure\n");
	has(text, "  sentence from other+0x40; cure\n");
	has(text, "  sentence from pipe+0x40; cure\n");
	has(text, "  no ?[2J place\n"); /* what a terminal would obey is not printed */
	has_not(text, "\033");
	has(text, "Late registrations:\n  a late one\n");
	has(text, "3 allocations found no room");
	has(text, "premap_memory_bytes=100");
	has(text, "at least 200");
	has(text, "has pinned 3 MiB, which");
	has(text, "no loaded module has the address 0x99");
	if (!without_dwarf(text)) {
		has(text, "/nowhere/lib.so cannot be read");
		has(text, "/bin/sh has no build-id");
		has(text, "/bin/sh was built anew");
		has(text, "/dev/zero cannot be read");
	}
	free(text);
	json_decref(json_loads(text = towstat("why --json feigned.0", 0), 0, NULL));
	free(text);
	pretend_end(&pretender);
}

/* Of a real document the untagged sites, which are of one line, with other costs. */
static char *make_dear(const char *document)
{
	json_t *root = json_loads(document, 0, NULL), *sites = json_object_get(root, "sites");
	char *text;

	for (size_t i = 0; i < json_array_size(sites);) {
		json_t *site = json_array_get(sites, i);

		if (!json_is_null(json_object_get(site, "tag"))) {
			json_array_remove(sites, i);
			continue;
		}
		json_object_set_new(site, "count", json_integer(i == 0 ? 1000 : i == 1 ? 204 : 0));
		json_object_set_new(site, "bytes", json_integer(i == 0 ? 3328599654 : 0));
		json_object_set_new(site, "ns",
				    json_integer(i == 0   ? 300000000
						 : i == 1 ? 110000000
							  : 0));
		i++;
	}
	text = json_dumps(root, 0);
	assert_non_null(text);
	json_decref(root);
	return text;
}

/* What several addresses of a line cost is told as one, in the runtime's own words. */
static void adds_up_a_line(void **state)
{
	struct answer answers[] = { { "/v1/info", "{\"job\":\"feigned\",\"rank\":0}" },
				    { "/v1/copies", NULL },
				    { "/v1/registrations", "{}" },
				    { "/v1/pool", "{}" },
				    { NULL, NULL } };
	struct pretender pretender;
	struct program program;
	char path[512], words[128], *text, *dear;

	(void)state;
	program_path(path, sizeof(path));
	start(path, "late", &program);
	text = towstat("get /v1/copies why.3", 0);
	answers[1].body = dear = make_dear(text);
	free(text);
	end(&program);
	pretend(&pretender, answers);
	text = towstat("why feigned.0", 0);
	if (!without_dwarf(text)) {
		snprintf(words, sizeof(words),
			 "\n  1,204 copies, 3.1 GiB, 410 ms: a small message came before its "
			 "receive was posted from why_program.c:%d,",
			 program.line);
		has(text, words);
	}
	free(text);
	pretend_end(&pretender);
	free(dear);
}

static void refuses(void **state)
{
	static const struct answer old[] = { { "/v1/info", "{}" }, { NULL, NULL } };
	static const struct answer wrong[] = { { "/v1/info", "17" },
					       { "/v1/copies", "{" },
					       { NULL, NULL } };
	struct pretender pretender;
	char *text;

	(void)state;
	pretend(&pretender, old); /* a runtime that has no such document yet */
	text = towstat("why feigned.0", 1);
	has(text, "/v1/copies answers 404");
	free(text);
	pretend_end(&pretender);
	pretend(&pretender, wrong);
	text = towstat("why feigned.0", 1);
	has(text, "no JSON");
	free(text);
	pretend_end(&pretender);
	text = towstat("why nobody.9", 1);
	has(text, "nobody.9");
	free(text);
	text = towstat("why /nowhere/x.sock", 1);
	has(text, "no such socket");
	free(text);
	free(towstat("why a b", 2));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(names_the_line), TEST(names_it_when_deleted), TEST(as_json),
		TEST(nothing_to_say), TEST(makes_the_best),        TEST(adds_up_a_line),
		TEST(refuses),
	};

	signal(SIGPIPE, SIG_IGN); /* towstat looks who lives, and hangs up */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
