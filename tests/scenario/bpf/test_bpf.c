/*
 * test_bpf.c - with towbpf at work, the kernel's count of copied zero-copy sends is the library's,
 * on loopback and between two network namespaces; and its end is the end of the figures.
 *
 * Needs what towbpf needs. It runs in a network namespace of its own.
 */
#include "pair.h"

#include "command.h"

#include <errno.h>
#include <jansson.h>
#include <liburing.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "diag/bpf/abi/share.h"

#define MESSAGE_BYTES (1u << 20)
#define MESSAGES      64u
#define FEW_MESSAGES  8u /* over a link that loses */
#define WAIT_MS       30000

static unsigned messages; /* of this scene */
static char dir[] = "/tmp/twt-bpf-XXXXXX";

static struct tow_runtime *open_runtime(bool shown, const char *zerocopy)
{
	struct tow_options options = TOW_OPTIONS_INIT;
	struct tow_runtime *runtime;

	options.premap_memory_bytes = 16 << 20;
	options.stats = shown;
	options.stats_dir = dir;
	options.job = "bpf";
	options.zerocopy = zerocopy;
	TWT_OK(tow_runtime_open(&options, &runtime));
	return runtime;
}

/* A figure of a document, by up to two keys; -1 when it is not there. */
static json_int_t figure(struct tow_runtime *runtime, const char *path, const char *outer,
			 const char *inner)
{
	json_t *root, *at;
	json_int_t value;
	char *text;

	TWT_OK(tow_stats_get(runtime, path, &text));
	root = json_loads(text, 0, NULL);
	tow_stats_release(text);
	at = json_object_get(root, outer);
	if (inner != NULL)
		at = json_object_get(at, inner);
	value = json_is_integer(at) ? json_integer_value(at) : -1;
	json_decref(root);
	return value;
}

static bool is_on(struct tow_runtime *runtime)
{
	char *text;
	bool on;

	TWT_OK(tow_stats_get(runtime, "/v1/bpf", &text));
	on = strstr(text, "\"state\":\"on\"") != NULL;
	tow_stats_release(text);
	return on;
}

static void wait_state(struct tow_runtime *runtime, bool on)
{
	for (int ms = 0; is_on(runtime) != on; ms += 10) {
		assert_true(ms < WAIT_MS);
		usleep(10000);
	}
}

static void receive(struct tow_runtime *runtime, const char *where, const char *own)
{
	struct tow_endpoint *endpoint;
	struct tow_peer *peer;
	void *data;

	TWT_OK(tow_endpoint_open(runtime, own, &endpoint));
	peer = twt_connect(endpoint, where);
	TWT_OK(tow_alloc(runtime, MESSAGE_BYTES, 0, &data));
	for (uint64_t i = 0; i < messages; i++) {
		struct tow_op *op;

		TWT_OK(tow_recv_start(peer, data, MESSAGE_BYTES, i, NULL, &op));
		TWT_OK(twt_finish(op, NULL));
	}
	TWT_OK(tow_free(runtime, data));
}

/* The receiver: in a namespace beside ours when there is a link to it. */
static pid_t start_receiver(const char *own, const int ready[2], const int go[2])
{
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		char where[TOW_ADDRESS_MAX];
		struct tow_runtime *runtime;

		alarm(120);
		if (strstr(own, "127.0.0.1") == NULL && unshare(CLONE_NEWNET) != 0)
			_exit(98);
		if (write(ready[1], "x", 1) != 1 ||
		    read(go[0], where, sizeof(where)) != (ssize_t)sizeof(where))
			_exit(99);
		runtime = open_runtime(false, "never");
		receive(runtime, where, own);
		/* The sender compares what TCP says of its socket, which ends with this side's. */
		if (read(go[0], where, 1) != 1)
			_exit(96);
		TWT_OK(tow_runtime_close(runtime));
		exit(0);
	}
	return pid;
}

static pid_t start_helper(void)
{
	const char *build = getenv("TOW_TEST_BUILD");
	pid_t pid;
	char path[512];

	snprintf(path, sizeof(path), "%s/tools/towbpf/towbpf", build != NULL ? build : ".");
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		alarm(120);
		prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that fails leaves none */
		execl(path, "towbpf", "-d", dir, "--seconds", "100", "--registration-time", NULL);
		_exit(97);
	}
	return pid;
}

static void end_child(pid_t pid, int signal)
{
	if (signal != 0)
		kill(pid, signal);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

/* Gives the receiver a way back, or takes it. */
static void way_back(pid_t receiver, bool there)
{
	char line[128];

	snprintf(line, sizeof(line), "nsenter -t %d -n ip route %s blackhole 10.7.8.1",
		 (int)receiver, there ? "del" : "add");
	assert_int_equal(system(line), 0);
}

/* What TCP says of all sockets of this process. */
static uint64_t tcp_bytes_again(void)
{
	uint64_t sum = 0;

	for (int fd = 3; fd < 256; fd++) {
		struct tcp_info info = { 0 };
		socklen_t bytes = sizeof(info);

		if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &bytes) == 0)
			sum += info.tcpi_bytes_retrans;
	}
	return sum;
}

/* Nothing is acknowledged, so sooner or later TCP sends it again, however slow all is here. */
static void wait_sent_again(struct tow_runtime *runtime)
{
	for (int ms = 0; tcp_bytes_again() == 0; ms++) {
		assert_true(ms < WAIT_MS);
		tow_progress(runtime);
		usleep(1000);
	}
}

/* cut: the receiver, who has no way back during the first message; 0: none. */
static void send_all(struct tow_runtime *runtime, struct tow_peer *peer, pid_t cut)
{
	void *data;

	TWT_OK(tow_alloc(runtime, MESSAGE_BYTES, 0, &data));
	memset(data, 1, MESSAGE_BYTES);
	for (uint64_t i = 0; i < messages; i++) {
		struct tow_op *op;

		if (cut != 0 && i == 0)
			way_back(cut, false);
		TWT_OK(tow_send_start(peer, data, MESSAGE_BYTES, i, NULL, &op));
		if (cut != 0 && i == 0) {
			wait_sent_again(runtime);
			way_back(cut, true);
		}
		TWT_OK(twt_finish(op, NULL));
	}
	TWT_OK(tow_free(runtime, data));
}

/* Until every zero-copy send has been reported. */
static void settle(struct tow_runtime *runtime)
{
	for (int ms = 0; figure(runtime, "/v1/latency", "zerocopy_notification_lag", "count") <
			 figure(runtime, "/v1/counters", "counters", "zerocopy_sends");
	     ms += 10) {
		assert_true(ms < WAIT_MS);
		tow_progress(runtime);
		usleep(10000);
	}
}

/* No answer came for a while, and the link's queue is short. */
static void check_losses(struct tow_runtime *runtime)
{
	json_int_t again = figure(runtime, "/v1/bpf", "process", "retransmit_bytes");
	uint64_t tcp = tcp_bytes_again();
	json_int_t drops = figure(runtime, "/v1/bpf", "process", "drops");
	char *text;

	/* The last probes may be on their way. */
	for (int i = 0; i < 100 && (uint64_t)again != tcp; i++) {
		usleep(10000);
		again = figure(runtime, "/v1/bpf", "process", "retransmit_bytes");
		tcp = tcp_bytes_again();
	}
	printf("lossy veth: sent again %lld bytes, TCP says %llu; %lld packets dropped\n",
	       (long long)again, (unsigned long long)tcp, (long long)drops);
	assert_true(again > 0);
	assert_int_equal(again, tcp);
	assert_true(drops > 0);
	TWT_OK(tow_stats_get(runtime, "/v1/bpf", &text));
	assert_non_null(strstr(text, "\"reason\":\"QDISC_DROP\""));
	tow_stats_release(text);
	TWT_OK(tow_stats_get(runtime, "/metrics", &text));
	assert_non_null(strstr(text, "\ntowline_bpf_retransmit_bytes "));
	tow_stats_release(text);
}

static void compare(struct tow_runtime *runtime, bool zerocopy, const char *name)
{
	json_int_t kernel = figure(runtime, "/v1/bpf", "process", "zerocopy_copied_bytes");
	json_int_t own = figure(runtime, "/v1/bpf", "library_zerocopy_copied_bytes", NULL);
	json_int_t again = figure(runtime, "/v1/bpf", "process", "retransmit_bytes");

	printf("%s: the kernel copied %lld bytes, the library counts %lld, sent again %lld\n", name,
	       (long long)kernel, (long long)own, (long long)again);
	if (!zerocopy) {
		assert_int_equal(kernel, 0);
		assert_int_equal(own, 0);
		return;
	}
	assert_true(own >= (json_int_t)MESSAGES * MESSAGE_BYTES * 9 / 10);
	/* What is sent again is copied again, which no notification tells. */
	assert_true(kernel >= own - own / 100);
	assert_true(kernel - again <= own + own / 100);
}

/* Memory registered late is seen, with its size. */
static void check_registration(struct tow_runtime *runtime)
{
	json_int_t before = figure(runtime, "/v1/bpf", "process", "registration_bytes"), after;
	void *memory =
		mmap(NULL, 4 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t handle;

	assert_ptr_not_equal(memory, MAP_FAILED);
	TWT_OK(tow_mem_register(runtime, memory, 4 << 20, &handle));
	after = figure(runtime, "/v1/bpf", "process", "registration_bytes");
	assert_true(after - before >= 4 << 20);
	assert_true(figure(runtime, "/v1/bpf", "process", "registration_ns") > 0);
	TWT_OK(tow_mem_deregister(runtime, handle));
	munmap(memory, 4 << 20);
}

/* A ring that is none of the library's: what it overflows, punts and registers is seen too. */
static void check_other_ring(struct tow_runtime *runtime)
{
	static char memory[2][8192];
	const struct iovec vecs[2] = { { memory[0], 8192 }, { memory[1], 4096 } };
	static const char *const names[] = { "cq_overflows", "worker_punts", "registrations",
					     "registration_bytes" };
	static const json_int_t least[] = { 12, 3, 1, 12288 };
	json_int_t before[4];
	struct io_uring ring;

	for (int i = 0; i < 4; i++)
		before[i] = figure(runtime, "/v1/bpf", "process", names[i]);
	assert_int_equal(io_uring_queue_init(4, &ring, 0), 0);
	assert_int_equal(io_uring_register_buffers(&ring, vecs, 2), 0);
	/* Twenty completions for a queue of eight, that nobody takes out. */
	for (int i = 0; i < 20; i++) {
		struct io_uring_sqe *sqe = io_uring_get_sqe(&ring);

		io_uring_prep_nop(sqe);
		if (i < 3)
			sqe->flags |= IOSQE_ASYNC;
		assert_int_equal(io_uring_submit(&ring), 1);
	}
	for (int i = 0; i < 4; i++) {
		for (int ms = 0;
		     figure(runtime, "/v1/bpf", "process", names[i]) - before[i] < least[i];
		     ms += 10) {
			assert_true(ms < WAIT_MS);
			usleep(10000);
		}
	}
	io_uring_queue_exit(&ring);
}

/* A second helper is told so, before it says anything. */
static void second_helper(void)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	const struct timeval limit = { .tv_sec = 10 };
	struct twi_bpf_reply reply = { 0 };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	snprintf(address.sun_path, sizeof(address.sun_path), "%s/bpf.0.bpf", dir);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(recv(fd, &reply, sizeof(reply), 0), sizeof(reply));
	assert_int_equal(reply.status, TOW_EBUSY);
	assert_non_null(strstr(reply.text, "another towbpf"));
	close(fd);
}

struct scene {
	const char *name, *own, *other, *zerocopy;
	bool lossy, late; /* late: connected when the helper is there already */
};

/* A link to the receiver's namespace. */
static void make_link(pid_t receiver, bool lossy)
{
	char line[512];

	/* The one before goes with its namespace, some time after that. */
	snprintf(line, sizeof(line),
		 "{ ! ip link show twb0 >/dev/null 2>&1 || ip link del twb0; }; "
		 "ip link add twb0 type veth peer name twb1 netns %d && "
		 "ip addr add 10.7.8.1/24 dev twb0 && ip link set twb0 up && "
		 "nsenter -t %d -n sh -c 'ip addr add 10.7.8.2/24 dev twb1 && "
		 "ip link set twb1 up && ip link set lo up'",
		 (int)receiver, (int)receiver);
	assert_int_equal(system(line), 0);
	if (lossy)
		/* Packets that the short queue has room for, or it would take nothing at all. */
		assert_int_equal(system("ip link set twb0 gso_max_size 16384 && tc qdisc add dev "
					"twb0 root tbf rate 1gbit burst 64kb limit 64kb"),
				 0);
}

static struct tow_peer *meet(struct tow_runtime *runtime, const char *own, int to)
{
	struct tow_endpoint *endpoint;
	char where[TOW_ADDRESS_MAX];

	TWT_OK(tow_endpoint_open(runtime, own, &endpoint));
	TWT_OK(tow_endpoint_address(endpoint, where, sizeof(where)));
	assert_int_equal(write(to, where, sizeof(where)), sizeof(where));
	return twt_accept(endpoint);
}

static void run(const struct scene *scene)
{
	struct tow_runtime *runtime;
	int ready[2], go[2];
	pid_t receiver, helper;
	struct tow_peer *peer = NULL;
	json_int_t last;
	char byte;

	assert_int_equal(pipe(ready), 0);
	assert_int_equal(pipe(go), 0);
	messages = scene->lossy ? FEW_MESSAGES : MESSAGES;
	receiver = start_receiver(scene->other, ready, go);
	assert_int_equal(read(ready[0], &byte, 1), 1);
	/* After the fork, which would leave it half a copy. */
	runtime = open_runtime(true, scene->zerocopy);
	assert_false(is_on(runtime));
	if (strcmp(scene->own, scene->other) != 0)
		make_link(receiver, scene->lossy);
	if (!scene->late)
		peer = meet(runtime, scene->own, go[1]);
	helper = start_helper();
	wait_state(runtime, true);
	if (scene->late)
		peer = meet(runtime, scene->own, go[1]);
	assert_true(figure(runtime, "/v1/bpf", "sockets_enrolled", NULL) > 0);
	assert_int_equal(figure(runtime, "/v1/bpf", "sockets_not_enrolled", NULL), 0);
	second_helper();
	send_all(runtime, peer, scene->lossy ? receiver : 0);
	settle(runtime);
	compare(runtime, strcmp(scene->zerocopy, "always") == 0, scene->name);
	if (scene->lossy)
		check_losses(runtime);
	check_registration(runtime);
	check_other_ring(runtime);
	last = figure(runtime, "/v1/bpf", "process", "zerocopy_copied_bytes");
	end_child(helper, SIGKILL);
	wait_state(runtime, false);
	assert_int_equal(figure(runtime, "/v1/bpf", "process", "zerocopy_copied_bytes"), last);
	assert_int_equal(write(go[1], "x", 1), 1);
	end_child(receiver, 0);
	TWT_OK(tow_runtime_close(runtime));
	for (int i = 0; i < 2; i++) {
		close(ready[i]);
		close(go[i]);
	}
}

#define LOOPBACK "tcp://127.0.0.1:0"
#define HERE     "tcp://10.7.8.1:0"
#define THERE    "tcp://10.7.8.2:0"

static void loopback(void **state)
{
	(void)state;
	run(&(struct scene){ "loopback", LOOPBACK, LOOPBACK, "always", false, false });
}

static void veth(void **state)
{
	(void)state;
	run(&(struct scene){ "veth", HERE, THERE, "always", false, true });
}

static void lossy(void **state)
{
	(void)state;
	run(&(struct scene){ "plain sends", HERE, THERE, "never", true, false });
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(loopback),
		cmocka_unit_test(veth),
		cmocka_unit_test(lossy),
	};
	static struct twt_command command;
	int failed;

	twt_command("@/tools/towbpf/towbpf --check", &command);
	if (command.status != 0) {
		printf("skipped: %s\n",
		       command.status == 127 ? "there is no towbpf" : command.text);
		return 77;
	}
	if (unshare(CLONE_NEWNET) != 0 || system("ip link set lo up") != 0) {
		printf("skipped: no network namespace: %s\n", strerror(errno));
		return 77;
	}
	if (mkdtemp(dir) == NULL)
		return 1;
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	rmdir(dir);
	return failed;
}
