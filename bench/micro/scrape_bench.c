/*
 * scrape_bench.c - measures what constant reading of its stats costs a job.
 *
 * Rank 0 sends windows of large messages to rank 1, a process of its own. In every other turn, a
 * third process asks rank 0's stats socket for a document `rate` times a second. Turns go off, on,
 * on, off, so that a drift of the machine falls on both. Each pair of neighbours gives one ratio,
 * and the median of them is the answer. On a machine with no CPU to spare, the reader's own work is
 * in it. The time that the server's threads have worked for a scrape is printed apart.
 */
#include <dirent.h>
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <towline/towline.h>

#include "bench/common/lanes.h"

#define WINDOW    16
#define TURNS_MAX 200
#define SECOND_NS 1000000000ull
#define WAIT_NS   (60 * SECOND_NS)

static struct {
	const char *lane, *path;
	double seconds;
	unsigned pairs, rate;
	uint64_t bytes;
	char address[TOW_ADDRESS_MAX]; /* of the lane */
} options = { "tcp", "/metrics", 2, 7, 200, 1 << 20, "" };

static _Noreturn void die_with(const char *what, const char *why)
{
	fprintf(stderr, "scrape_bench: %s: %s\n", what, why);
	exit(2);
}

/* After a system call that has failed. */
static _Noreturn void die_of(const char *what)
{
	die_with(what, strerror(errno));
}

#define OK(call)                                                                                   \
	do {                                                                                       \
		if ((call) != TOW_OK) /* TOW_COPIED, too */                                        \
			die_with(#call, tow_error_message());                                      \
	} while (0)

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * SECOND_NS + (uint64_t)ts.tv_nsec;
}

/* --- the reader --- */

struct scrapes {
	uint64_t count, bytes, late;
};

static int dial_socket(const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	snprintf(address.sun_path, sizeof(address.sun_path), "%.*s",
		 (int)sizeof(address.sun_path) - 1, path);
	if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0)
		die_of(path);
	return fd;
}

static size_t read_some(int fd, char *out, size_t room)
{
	ssize_t got = recv(fd, out, room, 0);

	if (got < 0)
		die_of("recv");
	if (got == 0)
		die_with("the stats socket", "it has hung up");
	return (size_t)got;
}

/*
 * Reads the head of an answer, in as many pieces as it comes, and what of the body comes with it.
 * Returns the bytes so far. *all_out: the bytes of head and body.
 */
static uint64_t read_head(int fd, char *text, size_t room, uint64_t *all_out)
{
	const char *length, *body = NULL;
	size_t bytes = 0;

	while (body == NULL && bytes < room - 1) {
		bytes += read_some(fd, text + bytes, room - 1 - bytes);
		text[bytes] = '\0';
		body = strstr(text, "\r\n\r\n");
	}
	length = strstr(text, "Content-Length: ");
	if (body == NULL || length == NULL || length > body)
		die_with("the stats socket", "an answer without a length");
	*all_out = (uint64_t)(body + 4 - text) + strtoull(length + 16, NULL, 10);
	return bytes;
}

/* Makes one request on a connection that stays open. Returns the bytes of its answer. */
static uint64_t scrape_once(int fd, const char *request)
{
	static char text[1 << 16];
	uint64_t bytes, all;

	if (send(fd, request, strlen(request), MSG_NOSIGNAL) < 0)
		die_of("send");
	bytes = read_head(fd, text, sizeof(text), &all);
	while (bytes < all)
		bytes += read_some(fd, text, sizeof(text));
	return bytes;
}

/* Reads the document until a byte comes by `in`, then writes its counts to `out`. */
static void read_on(int in, int out, const char *socket_path)
{
	struct scrapes scrapes = { 0 };
	int fd = dial_socket(socket_path);
	uint64_t next = now_ns(), step = SECOND_NS / options.rate;
	char request[256], byte;

	snprintf(request, sizeof(request), "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", options.path);
	while (recv(in, &byte, 1, MSG_DONTWAIT) < 0) {
		struct timespec until;

		scrapes.bytes += scrape_once(fd, request);
		scrapes.count++;
		next += step;
		scrapes.late += now_ns() > next;
		until.tv_sec = (time_t)(next / SECOND_NS);
		until.tv_nsec = (long)(next % SECOND_NS);
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
	}
	close(fd);
	if (write(out, &scrapes, sizeof(scrapes)) != (ssize_t)sizeof(scrapes))
		die_of("write");
}

/* Waits for the path of a socket. Then each byte starts and the next one stops the reading. */
static void read_pages(int pipe_fd)
{
	char path[128];

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (recv(pipe_fd, path, sizeof(path), 0) <= 0)
		_exit(0);
	for (;;) {
		char byte;

		if (recv(pipe_fd, &byte, 1, 0) <= 0)
			_exit(0);
		read_on(pipe_fd, pipe_fd, path);
	}
}

/* --- the ranks --- */

static void finish_op(struct tow_op *op, struct tow_result *out)
{
	OK(tow_op_wait(op, WAIT_NS));
	if (out != NULL) {
		out->size = sizeof(*out);
		OK(tow_op_result(op, out));
	}
	OK(tow_op_release(op));
}

static struct tow_runtime *open_runtime(bool stats, const char *dir)
{
	struct tow_options knobs = TOW_OPTIONS_INIT;
	struct tow_runtime *runtime;

	knobs.premap_memory_bytes = 64 << 20;
	knobs.stats = stats;
	knobs.stats_dir = dir;
	OK(tow_runtime_open(&knobs, &runtime));
	return runtime;
}

static void follow_lead(int fd, const char *dir)
{
	struct tow_runtime *runtime = open_runtime(false, dir);
	struct tow_op *ops[WINDOW], *op;
	struct tow_endpoint *endpoint;
	struct tow_result result;
	char address[TOW_ADDRESS_MAX];
	void *memory, *word;
	uint64_t go = 1;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	OK(tow_endpoint_open(runtime, options.address, &endpoint));
	OK(tow_endpoint_address(endpoint, address, sizeof(address)));
	OK(tow_alloc(runtime, WINDOW * options.bytes, 64, &memory));
	OK(tow_alloc(runtime, 64, 64, &word));
	if (write(fd, address, sizeof(address)) < 0)
		die_of("write");
	OK(tow_accept_start(endpoint, NULL, &op));
	finish_op(op, &result);
	while (go != 0) {
		for (unsigned i = 0; i < WINDOW; i++)
			OK(tow_recv_start(result.peer, (char *)memory + i * options.bytes,
					  options.bytes, 1, NULL, &ops[i]));
		OK(tow_recv_start(result.peer, word, 8, 2, NULL, &op));
		finish_op(op, NULL);
		memcpy(&go, word, 8);
		for (unsigned i = 0; i < WINDOW && go != 0; i++)
			finish_op(ops[i], NULL);
		if (go == 0)
			break;
		OK(tow_send_start(result.peer, word, 8, 3, NULL, &op));
		finish_op(op, NULL);
	}
	OK(tow_runtime_close(runtime)); /* removes the socket of the shm lane */
	_exit(0);
}

struct lead {
	struct tow_runtime *runtime;
	struct tow_peer *peer;
	void *memory, *word;
};

static void send_window(struct lead *lead, uint64_t go)
{
	struct tow_op *ops[WINDOW], *op;

	memcpy(lead->word, &go, 8);
	OK(tow_send_start(lead->peer, lead->word, 8, 2, NULL, &op));
	finish_op(op, NULL);
	if (go == 0)
		return;
	for (unsigned i = 0; i < WINDOW; i++)
		OK(tow_send_start(lead->peer, (char *)lead->memory + i * options.bytes,
				  options.bytes, 1, NULL, &ops[i]));
	for (unsigned i = 0; i < WINDOW; i++)
		finish_op(ops[i], NULL);
	OK(tow_recv_start(lead->peer, lead->word, 8, 3, NULL, &op));
	finish_op(op, NULL);
}

static void lead_open(struct lead *lead, const char *dir, int address_fd)
{
	struct tow_endpoint *endpoint;
	struct tow_result result;
	struct tow_op *op;
	char address[TOW_ADDRESS_MAX];

	if (read(address_fd, address, sizeof(address)) != (ssize_t)sizeof(address))
		die_with("rank 1", "it has sent no address");
	lead->runtime = open_runtime(true, dir);
	OK(tow_endpoint_open(lead->runtime, options.address, &endpoint));
	OK(tow_connect_start(endpoint, address, NULL, &op));
	finish_op(op, &result);
	lead->peer = result.peer;
	OK(tow_alloc(lead->runtime, WINDOW * options.bytes, 64, &lead->memory));
	OK(tow_alloc(lead->runtime, 64, 64, &lead->word));
	memset(lead->memory, 1, WINDOW * options.bytes);
}

/* Returns the bytes per second of one turn. */
static double time_turn(struct lead *lead, int reader_fd, bool scraped, struct scrapes *scrapes)
{
	uint64_t start, end, until, windows = 0;
	struct scrapes one;

	if (scraped && send(reader_fd, "g", 1, MSG_NOSIGNAL) != 1)
		die_with("the reader", "it has gone");
	start = now_ns();
	until = start + (uint64_t)(options.seconds * 1e9);
	do {
		send_window(lead, 1);
		windows++;
		end = now_ns();
	} while (end < until);
	if (scraped) {
		if (send(reader_fd, "s", 1, MSG_NOSIGNAL) != 1 ||
		    recv(reader_fd, &one, sizeof(one), 0) != (ssize_t)sizeof(one))
			die_with("the reader", "it has gone");
		scrapes->count += one.count;
		scrapes->bytes += one.bytes;
		scrapes->late += one.late;
	}
	return (double)(windows * WINDOW * options.bytes) / ((double)(end - start) / 1e9);
}

/* CPU time of this process's threads that serve the stats, from the scheduler. */
static uint64_t server_ns(void)
{
	DIR *tasks = opendir("/proc/self/task");
	const struct dirent *entry;
	uint64_t sum = 0;

	while (tasks != NULL && (entry = readdir(tasks)) != NULL) {
		unsigned long long ns = 0;
		char path[320], name[32] = "";
		FILE *file;

		snprintf(path, sizeof(path), "/proc/self/task/%s/comm", entry->d_name);
		file = fopen(path, "re");
		if (file == NULL)
			continue;
		if (fgets(name, sizeof(name), file) == NULL)
			name[0] = '\0';
		fclose(file);
		snprintf(path, sizeof(path), "/proc/self/task/%s/schedstat", entry->d_name);
		file = strncmp(name, "MHD", 3) == 0 ? fopen(path, "re") : NULL;
		if (file == NULL)
			continue;
		if (fscanf(file, "%llu", &ns) == 1)
			sum += ns;
		fclose(file);
	}
	if (tasks != NULL)
		closedir(tasks);
	return sum;
}

static int compare_values(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median_of(double *values, unsigned count)
{
	qsort(values, count, sizeof(*values), compare_values);
	return count % 2 != 0 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

static void measure_lead(struct lead *lead, int reader_fd)
{
	double off[TURNS_MAX], on[TURNS_MAX], ratios[TURNS_MAX];
	struct scrapes scrapes = { 0 };
	uint64_t worked = server_ns();
	double middle;

	time_turn(lead, reader_fd, false, &scrapes); /* warm */
	for (unsigned i = 0; i < options.pairs; i++) {
		for (unsigned j = 0; j < 2; j++) {
			bool scraped = (i + j) % 2 != 0;
			double rate = time_turn(lead, reader_fd, scraped, &scrapes);

			*(scraped ? &on[i] : &off[i]) = rate;
		}
		ratios[i] = on[i] / off[i];
	}
	if (scrapes.count == 0)
		die_with("the reader", "it has read nothing");
	worked = server_ns() - worked;
	middle = median_of(ratios, options.pairs); /* it has sorted them */
	printf("lane %s, %llu bytes, %u pairs of %.3g s, %s %u times a second\n", options.lane,
	       (unsigned long long)options.bytes, options.pairs, options.seconds, options.path,
	       options.rate);
	printf("scrapes        %llu, of %llu bytes, late %llu\n", (unsigned long long)scrapes.count,
	       (unsigned long long)(scrapes.bytes / scrapes.count),
	       (unsigned long long)scrapes.late);
	printf("server's CPU    %.1f us for each\n", (double)worked / 1e3 / (double)scrapes.count);
	printf("ratio          %.4f median, %.4f to %.4f\n", middle, ratios[0],
	       ratios[options.pairs - 1]);
	printf("without        %.3f GB/s median\n", median_of(off, options.pairs) / 1e9);
	printf("with           %.3f GB/s median\n", median_of(on, options.pairs) / 1e9);
}

static void run_bench(void)
{
	char dir[] = "/tmp/scrape-bench-XXXXXX", path[128] = "";
	struct lead lead = { 0 };
	int reader_fds[2], address_fds[2];
	pid_t children[2];

	if (mkdtemp(dir) == NULL || pipe(address_fds) != 0 ||
	    socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, reader_fds) != 0)
		die_of("setting up");
	fflush(stdout);
	children[0] = fork();
	if (children[0] == 0) {
		close(reader_fds[0]); /* so that the reader sees the end of its socket */
		read_pages(reader_fds[1]);
	}
	children[1] = fork();
	if (children[1] == 0) {
		close(reader_fds[0]);
		close(reader_fds[1]); /* so that rank 0 sees the end of the reader */
		follow_lead(address_fds[1], dir);
	}
	close(reader_fds[1]);
	lead_open(&lead, dir, address_fds[0]);
	snprintf(path, sizeof(path), "%s", tow_stats_socket(lead.runtime));
	if (send(reader_fds[0], path, sizeof(path), 0) < 0)
		die_of("send");
	measure_lead(&lead, reader_fds[0]);
	send_window(&lead, 0);
	waitpid(children[1], NULL, 0);
	close(reader_fds[0]);
	waitpid(children[0], NULL, 0);
	OK(tow_runtime_close(lead.runtime));
	rmdir(dir);
}

static void usage_exit(void)
{
	puts("usage: scrape_bench [--lane LANE] [--bytes N] [--pairs N] [--seconds S] [--rate N]\n"
	     "                    [--path PATH] [--quick]\n"
	     "Throughput while the stats are read `rate` times a second, against without.");
}

int main(int argc, char **argv)
{
	static const struct option longs[] = { { "lane", required_argument, NULL, 'l' },
					       { "bytes", required_argument, NULL, 'b' },
					       { "pairs", required_argument, NULL, 'p' },
					       { "seconds", required_argument, NULL, 's' },
					       { "rate", required_argument, NULL, 'r' },
					       { "path", required_argument, NULL, 'd' },
					       { "quick", no_argument, NULL, 'q' },
					       { "help", no_argument, NULL, 'h' },
					       { NULL, 0, NULL, 0 } };
	int option;

	while ((option = getopt_long(argc, argv, "h", longs, NULL)) >= 0) {
		if (option == 'l')
			options.lane = optarg;
		else if (option == 'b')
			options.bytes = strtoull(optarg, NULL, 10);
		else if (option == 'p')
			options.pairs = (unsigned)strtoul(optarg, NULL, 10);
		else if (option == 's')
			options.seconds = strtod(optarg, NULL);
		else if (option == 'r')
			options.rate = (unsigned)strtoul(optarg, NULL, 10);
		else if (option == 'd')
			options.path = optarg;
		else if (option == 'q')
			options.pairs = 2, options.seconds = 0.05;
		else
			return usage_exit(), option == 'h' ? 0 : 2;
	}
	if (!bench_lane_address(options.lane, options.address))
		return usage_exit(), 2;
	if (options.pairs == 0 || options.pairs > TURNS_MAX || options.rate == 0 ||
	    options.rate > 100000 || options.bytes == 0 || options.bytes > 2 << 20 ||
	    !(options.seconds > 0 && options.seconds <= 60))
		return usage_exit(), 2;
	run_bench();
	return 0;
}
