/*
 * test_bpf_hand.c - helpers that are none: packets of any bytes and sizes, descriptors that are no
 * such maps, peers that say nothing, leave, or are somebody else. None is believed, nothing leaks,
 * and the next one is heard.
 */
#include "twt.h"

#include <errno.h>
#include <linux/bpf.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <jansson.h>

#include "diag/base/emit.h"
#include "diag/base/error.h"
#include "diag/bpf/abi/share.h"
#include "diag/bpf/bpf.h"
#include "diag/record/diag.h"
#include "diag/serve/render.h"

#define RANDOM_PACKETS 300

static char dir[] = "/tmp/twt-hand-XXXXXX";
static char stats_path[64], path[64];
static struct twi_diag *diag;
static struct twi_bpf *bpf;

static int setup(void **state)
{
	(void)state;
	snprintf(stats_path, sizeof(stats_path), "%s/job.0.sock", dir);
	snprintf(path, sizeof(path), "%s/job.0.bpf", dir);
	assert_int_equal(twi_diag_create(&diag), TOW_OK);
	assert_int_equal(twi_bpf_open(diag, stats_path, &bpf), TOW_OK);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	twi_bpf_close(bpf);
	twi_diag_destroy(diag);
	assert_int_equal(access(path, F_OK), -1); /* its file has gone with it */
	return 0;
}

/* A member of /v1/bpf, in a static place; "": it is null or missing. */
static const char *said(const char *key)
{
	static char out[512];
	struct twi_emit e;
	const char *value;
	json_t *root;
	char *text;

	twi_emit_init(&e);
	assert_int_equal(twi_registry_render(diag, "/v1/bpf", &e), TOW_OK);
	assert_int_equal(twi_emit_take(&e, &text), TOW_OK);
	root = json_loads(text, 0, NULL);
	assert_non_null(root);
	value = json_string_value(json_object_get(root, key));
	snprintf(out, sizeof(out), "%s", value != NULL ? value : "");
	json_decref(root);
	free(text);
	return out;
}

static int go_there(void)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	const struct timeval limit = { .tv_sec = 20 };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0)
		return fd;
	close(fd);
	return -1;
}

static void say_to(int to, const void *data, size_t bytes, const int *fds, unsigned fd_count)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(64 * sizeof(int))] = { 0 };
	struct iovec part = { (void *)(uintptr_t)data, bytes };
	struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };
	struct cmsghdr *head = (struct cmsghdr *)(void *)control;

	if (fd_count > 0) {
		message.msg_control = control;
		message.msg_controllen = CMSG_SPACE(fd_count * sizeof(int));
		head->cmsg_level = SOL_SOCKET;
		head->cmsg_type = SCM_RIGHTS;
		head->cmsg_len = CMSG_LEN(fd_count * sizeof(int));
		memcpy(CMSG_DATA(head), fds, fd_count * sizeof(int));
	}
	assert_int_equal(sendmsg(to, &message, MSG_NOSIGNAL), bytes);
}

/* One packet and what is replied; its status, and its text in *reply. */
static int try(const void *data, size_t bytes, const int *fds, unsigned fd_count,
	       struct twi_bpf_reply *reply)
{
	int fd = go_there();

	assert_true(fd >= 0);
	say_to(fd, data, bytes, fds, fd_count);
	*reply = (struct twi_bpf_reply){ 0 };
	assert_int_equal(recv(fd, reply, sizeof(*reply), 0), sizeof(*reply));
	assert_int_equal(reply->magic, TWI_BPF_MAGIC);
	close(fd);
	return reply->status;
}

static struct twi_bpf_hello good(void)
{
	return (struct twi_bpf_hello){ .magic = TWI_BPF_MAGIC,
				       .version = TWI_BPF_VERSION,
				       .on = 1,
				       .slot = 1,
				       .programs = ~0u };
}

static void expect(struct twi_bpf_hello hello, const int *fds, unsigned fd_count, const char *words)
{
	struct twi_bpf_reply reply;

	assert_int_equal(try(&hello, sizeof(hello), fds, fd_count, &reply), TOW_EINVAL);
	if (strstr(reply.text, words) == NULL)
		fail_msg("'%s' is not in '%s'", words, reply.text);
	assert_string_equal(said("state"), "off");
}

static void nobody(void **state)
{
	struct twi_emit e;

	(void)state;
	assert_string_equal(said("state"), "off");
	assert_string_not_equal(said("why"), "");
	twi_emit_init(&e);
	assert_int_equal(twi_registry_render(diag, "/v1/info", &e), TOW_OK);
	assert_non_null(strstr(e.text, "\"bpf\":{\"state\":\"off\",\"why\":\""));
	twi_emit_fini(&e);
	twi_bpf_socket_add(NULL, 3);
	twi_bpf_socket_remove(bpf, 5); /* never came */
	twi_bpf_socket_add(bpf, -1);
	twi_bpf_socket_add(bpf, 1 << 30);
	twi_bpf_socket_add(bpf, 5000);
	twi_bpf_socket_remove(bpf, 5000);
}

static void bad_words(void **state)
{
	struct twi_bpf_hello hello = good();
	struct twi_bpf_reply reply;
	char long_one[sizeof(hello) + 1] = { 0 };

	(void)state;
	assert_int_equal(try("x", 1, NULL, 0, &reply), TOW_EINVAL);
	memcpy(long_one, &hello, sizeof(hello));
	assert_int_equal(try(long_one, sizeof(long_one), NULL, 0, &reply), TOW_EINVAL);
	assert_int_equal(try(&hello, sizeof(hello) - 1, NULL, 0, &reply), TOW_EINVAL);
	hello.magic++;
	expect(hello, NULL, 0, "not a hello");
	hello = good();
	hello.version++;
	expect(hello, NULL, 0, "version 2");
	expect(good(), NULL, 0, "0 descriptors");
}

static void bad_descriptors(void **state)
{
	struct twi_bpf_hello hello = good();
	int fds[64], own = eventfd(0, EFD_CLOEXEC);

	(void)state;
	for (unsigned i = 0; i < 64; i++)
		fds[i] = own;
	expect(good(), fds, 3, "is not a map");
	expect(good(), fds, 1, "1 descriptors");
	expect(good(), fds, 4, "4 descriptors");
	expect(good(), fds, 16, "16 descriptors");
	expect(good(), fds, 64, "not a hello"); /* cut off by the kernel */
	hello.slot = 0;
	expect(hello, fds, 3, "slot 0");
	hello.slot = TWI_BPF_SLOTS;
	expect(hello, fds, 3, "slot 256");
	hello.on = 0;
	expect(hello, fds, 3, "3 descriptors");
	close(own);
}

static int make_map(unsigned type, unsigned value, unsigned entries, unsigned flags)
{
	union bpf_attr attr = { .map_type = type,
				.key_size = 4,
				.value_size = value,
				.max_entries = entries,
				.map_flags = flags };

	return (int)syscall(SYS_bpf, BPF_MAP_CREATE, &attr, sizeof(attr));
}

static int make_program(void)
{
	const struct bpf_insn body[] = {
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0 },
		{ .code = BPF_JMP | BPF_EXIT },
	};
	union bpf_attr attr = { .prog_type = BPF_PROG_TYPE_SOCKET_FILTER, .insn_cnt = 2 };

	attr.insns = (uint64_t)(uintptr_t)body;
	attr.license = (uint64_t)(uintptr_t) "GPL";
	return (int)syscall(SYS_bpf, BPF_PROG_LOAD, &attr, sizeof(attr));
}

/* Maps, but not the right ones. */
static void bad_maps(void **state)
{
	const unsigned bytes = sizeof(struct twi_bpf_slot);
	const struct {
		unsigned type, value, entries, flags;
		const char *words;
	} rows[] = {
		{ BPF_MAP_TYPE_HASH, bytes, TWI_BPF_SLOTS, 0, "not of one version" },
		{ BPF_MAP_TYPE_ARRAY, bytes, TWI_BPF_SLOTS, 0, "flags 0x0" },
		{ BPF_MAP_TYPE_ARRAY, bytes, TWI_BPF_SLOTS - 1, BPF_F_MMAPABLE, "entries 255" },
		{ BPF_MAP_TYPE_ARRAY, bytes - 8, TWI_BPF_SLOTS, BPF_F_MMAPABLE, "value" },
		{ BPF_MAP_TYPE_ARRAY, bytes, TWI_BPF_SLOTS, BPF_F_MMAPABLE, "not frozen" },
	};
	union bpf_attr freeze = { 0 };
	int fds[3], program;

	(void)state;
	fds[0] = make_map(rows[0].type, rows[0].value, rows[0].entries, rows[0].flags);
	if (fds[0] < 0) {
		printf("no maps can be made here: %s\n", strerror(errno));
		skip();
	}
	close(fds[0]);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		fds[0] = make_map(rows[i].type, rows[i].value, rows[i].entries, rows[i].flags);
		fds[1] = fds[2] = fds[0];
		expect(good(), fds, 3, rows[i].words);
		close(fds[0]);
	}
	/* Frozen it is right, and the next one is not. */
	fds[0] = make_map(BPF_MAP_TYPE_ARRAY, bytes, TWI_BPF_SLOTS, BPF_F_MMAPABLE);
	freeze.map_fd = (uint32_t)fds[0];
	assert_int_equal(syscall(SYS_bpf, BPF_MAP_FREEZE, &freeze, sizeof(freeze)), 0);
	fds[1] = fds[2] = fds[0];
	expect(good(), fds, 3, "map for the sockets has");
	close(fds[0]);
	program = make_program();
	assert_true(program >= 0);
	fds[0] = fds[1] = fds[2] = program;
	expect(good(), fds, 3, "map for the counters has");
	close(program);
}

/* A helper that can load nothing says why; whatever its text holds, the documents stay whole. */
static void only_a_reason(void **state)
{
	struct twi_bpf_hello hello = good();
	struct twi_bpf_reply reply;

	(void)state;
	hello.on = 0;
	snprintf(hello.why, sizeof(hello.why), "no CAP_BPF");
	assert_int_equal(try(&hello, sizeof(hello), NULL, 0, &reply), TOW_OK);
	assert_string_equal(said("state"), "off");
	assert_string_equal(said("why"), "no CAP_BPF");
	memset(hello.why, 0xff, sizeof(hello.why)); /* not even an end */
	assert_int_equal(try(&hello, sizeof(hello), NULL, 0, &reply), TOW_OK);
	assert_string_not_equal(said("why"), "");
}

/* Who says nothing costs the next one a second; those who are gone nothing. */
static void silent_ones(void **state)
{
	struct twi_bpf_hello hello = good();
	struct twi_bpf_reply reply;
	int silent = go_there(), gone;
	char byte;

	(void)state;
	for (int i = 0; i < 20; i++) {
		gone = go_there();
		if (gone < 0)
			continue;
		if (i % 2 == 0)
			say_to(gone, &hello, sizeof(hello), NULL, 0);
		close(gone);
	}
	assert_int_equal(recv(silent, &byte, 1, 0), 0); /* hung up */
	close(silent);
	hello.on = 0;
	assert_int_equal(try(&hello, sizeof(hello), NULL, 0, &reply), TOW_OK);
}

static void somebody_else(void **state)
{
	pid_t pid;
	int how;

	(void)state;
	if (geteuid() != 0)
		skip();
	chmod(dir, 0755);
	chmod(path, 0777);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		char byte;
		int fd;

		if (setresuid(65534, 65534, 65534) != 0)
			_exit(2);
		fd = go_there();
		_exit(fd >= 0 && recv(fd, &byte, 1, 0) == 0 ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &how, 0), pid);
	assert_int_equal(how, 0);
	assert_int_equal(twi_counter_sum(diag, TWI_C_stats_refused), 1);
}

/* Any change of a good one, with any descriptors. */
static void random_ones(void **state)
{
	uint64_t random = twt_seed();
	int own = eventfd(0, EFD_CLOEXEC);

	(void)state;
	for (int n = 0; n < RANDOM_PACKETS; n++) {
		struct twi_bpf_hello hello = good();
		struct twi_bpf_reply reply;
		size_t bytes = sizeof(hello);
		int fds[5] = { own, own, own, own, own };

		if (twt_random_below(&random, 4) == 0)
			bytes = 1 + twt_random_below(&random, sizeof(hello));
		for (unsigned i = twt_random_below(&random, 6); i > 0; i--)
			((uint8_t *)&hello)[twt_random_below(&random,
							     i % 2 == 0 ? sizeof(hello) : 24)] =
				(uint8_t)twt_random_below(&random, 256);
		if (try(&hello, bytes, fds, (unsigned)twt_random_below(&random, 6), &reply) ==
		    TOW_OK)
			assert_int_equal(hello.on, 0);
		assert_string_equal(said("state"), "off");
	}
	close(own);
}

int main(void)
{
#define ROW(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		ROW(nobody),        ROW(bad_words),   ROW(bad_maps),      ROW(bad_descriptors),
		ROW(only_a_reason), ROW(silent_ones), ROW(somebody_else), ROW(random_ones),
	};
	int failed, before, after;

	if (mkdtemp(dir) == NULL)
		return 1;
	before = twt_fd_count();
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	after = twt_fd_count();
	if (after != before)
		printf("%d descriptors before, %d after\n", before, after);
	rmdir(dir);
	return failed != 0 || after != before;
}
