/*
 * test_store_stopped.c - the process of the job's store has no CPU for longer than a stranger may
 * take to prove itself: who was about to is not sent away for that.
 */
#include "twt.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <towline/status.h>

#include "transport/job/bootstrap.h"
#include "transport/job/store_client.h"
#include "transport/job/store_server.h"

static struct twi_job_key key; /* none */
static char addresses[TWI_STORE_BYTES];
static uint64_t asked; /* what the store counts: requests of `ask` */

static struct twi_until seconds(double count)
{
	return (struct twi_until){ twi_net_now() + (uint64_t)(count * 1e9), -1, NULL };
}

static struct twi_store_server *serve(uint32_t world)
{
	const struct twi_store_serve how = {
		.address = TWI_NET_LOOPBACK, .world_size = world, .job = "job", .key = &key
	};
	const struct twi_until until = seconds(10);
	struct twi_store_server *server;

	assert_int_equal(twi_store_server_start(&how, &until, &server), TOW_OK);
	return server;
}

static int plain_connection(void)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	at.sin_port = htons((uint16_t)atoi(strrchr(addresses, ':') + 1));
	assert_int_equal(connect(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	return fd;
}

/* What the process of a store says and hears: it writes its port, and ends when it is told to. */
static void serve_apart(int in, int out)
{
	struct twi_store_server *server;
	uint16_t port;
	char word;

	prctl(PR_SET_PDEATHSIG, SIGKILL); /* where an assertion fails over there */
	server = serve(2);
	port = twi_store_server_port(server);
	if (write(out, &port, sizeof(port)) != sizeof(port) || read(in, &word, 1) != 1)
		_exit(1);
	twi_store_server_stop(server, 0);
	_exit(0);
}

/* The other side has closed it. What it has said is thrown away. */
static bool is_closed(int fd)
{
	char bytes[512];
	ssize_t got;

	do
		got = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT);
	while (got > 0);
	return got == 0 || errno != EAGAIN;
}

/* So often the store answers: each time its thread has looked at all connections once more. */
static void ask(struct twi_store_client *client, unsigned times)
{
	const struct twi_until until = seconds(60);

	for (unsigned i = 0; i < times; i++) {
		const uint64_t before = asked;

		assert_int_equal(twi_store_add(client, "n", 1, &asked, &until), TOW_OK);
		assert_int_equal(asked, before + 1);
	}
}

/*
 * A stranger greets the store while its process stands still, for longer than a stranger may take.
 * *ran_ns_out: for how long at most the process can have run since it had the stranger.
 */
static int greet_stopped(struct twi_store_client *client, pid_t pid, uint64_t *ran_ns_out)
{
	const char hello[] = "TOWAUTH"; /* how a greeting begins (docs/security.md) */
	uint64_t begun_ns = twi_net_now(), stopped_ns, woken_ns;
	int fd = plain_connection();

	ask(client, 2); /* behind the second answer the store has accepted it */
	assert_int_equal(kill(pid, SIGSTOP), 0);
	stopped_ns = twi_net_now();
	assert_int_equal(send(fd, hello, sizeof(hello), MSG_NOSIGNAL), sizeof(hello));
	usleep(TWI_STORE_STRANGER_NS / 1000 + 100000);
	woken_ns = twi_net_now();
	assert_int_equal(kill(pid, SIGCONT), 0);
	ask(client, 3);
	*ran_ns_out = twi_net_now() - woken_ns + (stopped_ns - begun_ns);
	return fd;
}

/* Who was about to prove itself is not sent away for that; who goes on to say nothing is. */
static void look_at_strangers(struct twi_store_client *client, pid_t pid)
{
	const uint64_t last_ns = twi_net_now() + 60000000000ull;
	uint64_t ran_ns;
	int fd = greet_stopped(client, pid, &ran_ns);

	while (is_closed(fd)) {
		/* The stop itself counts as a second; the rest was this machine's. */
		assert_true(ran_ns + 1000000000 >= TWI_STORE_STRANGER_NS);
		assert_true(twi_net_now() < last_ns);
		close(fd);
		fd = greet_stopped(client, pid, &ran_ns);
	}
	while (!is_closed(fd)) {
		assert_true(twi_net_now() < last_ns);
		usleep(20000);
	}
	close(fd);
	ask(client, 1);
}

static void stopped(void **state)
{
	const struct twi_until until = seconds(60);
	const struct twi_store_join how_to_join = {
		.addresses = addresses, .job = "job", .world_size = 2, .instance = 100, .key = &key
	};
	struct twi_store_client *client;
	int to[2], from[2], how;
	uint16_t port;
	pid_t pid;

	(void)state;
	assert_int_equal(pipe2(to, O_CLOEXEC) | pipe2(from, O_CLOEXEC), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		serve_apart(to[0], from[1]);
	close(to[0]); /* so that one that dies is noticed */
	close(from[1]);
	assert_int_equal(read(from[0], &port, sizeof(port)), sizeof(port));
	twi_host_port_put("127.0.0.1", port, addresses, sizeof(addresses));
	assert_int_equal(twi_store_client_open(&how_to_join, &until, &client), TOW_OK);
	look_at_strangers(client, pid);
	twi_store_client_close(client, 0);
	assert_int_equal(write(to[1], "x", 1), 1);
	assert_int_equal(waitpid(pid, &how, 0), pid);
	assert_int_equal(how, 0);
	close(to[1]);
	close(from[0]);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(stopped) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
