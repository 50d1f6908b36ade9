/* tcp_stranger.c - see tcp_stranger.h. */
#include "twt.h"

#include "tcp_stranger.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "transport/security/auth.h"

int twt_stranger_connect(const char *address)
{
	struct sockaddr_in in = { .sin_family = AF_INET };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	in.sin_port = htons((uint16_t)atoi(strrchr(address, ':') + 1));
	in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_true(fd >= 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&in, sizeof(in)), 0);
	return fd;
}

void twt_stranger_say(int fd, const void *data, size_t bytes)
{
	assert_int_equal(send(fd, data, bytes, MSG_NOSIGNAL), (ssize_t)bytes);
}

static void say_proofs(int fd, struct twi_auth *auth)
{
	uint8_t out[TWI_AUTH_OUT_MAX];
	size_t n;

	while ((n = twi_auth_out(auth, out)) > 0)
		twt_stranger_say(fd, out, n);
}

void twt_stranger_prove(int fd, struct tow_runtime *runtime)
{
	struct twi_job_key none = { 0 };
	struct twi_auth auth;
	int status = TOW_AGAIN;
	uint8_t in[512];
	size_t used;

	memset(&auth, 0, sizeof(auth));
	twi_auth_start(&auth, &none, true, "tcp");
	for (int i = 0; i < 5000 && status == TOW_AGAIN; i++) {
		ssize_t got;

		say_proofs(fd, &auth);
		tow_progress(runtime);
		got = recv(fd, in, sizeof(in), MSG_DONTWAIT);
		if (got > 0)
			status = twi_auth_in(&auth, in, (size_t)got, &used);
		usleep(1000);
	}
	assert_int_equal(status, TOW_OK);
	say_proofs(fd, &auth);
}

bool twt_stranger_ended(int fd, struct tow_runtime *runtime)
{
	uint8_t in[512];
	ssize_t n = -1;

	for (int i = 0; i < 5000; i++) {
		tow_progress(runtime);
		n = recv(fd, in, sizeof(in), MSG_DONTWAIT);
		if (n == 0 || (n < 0 && errno == ECONNRESET))
			return true;
		usleep(1000);
	}
	return false;
}
