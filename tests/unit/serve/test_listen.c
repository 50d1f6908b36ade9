/* test_listen.c - who listens behind a socket file, asked without disturbing who does. */
#include "twt.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "diag/base/error.h"
#include "diag/serve/listen.h"

static char folder[] = "/tmp/towline-listen-XXXXXX";

static void asks_unnoticed(int type)
{
	const struct twi_listen_name name = {
		.dir = folder, .stem = "one", .end = ".sock", .type = type
	};
	struct twi_listen first, second;
	struct sockaddr_un address = { .sun_family = AF_UNIX };

	assert_int_equal(twi_listen_open(&name, &first), TOW_OK);
	memcpy(address.sun_path, first.path, sizeof(address.sun_path));
	assert_false(twi_listen_is_dead(&address));
	assert_int_equal(accept4(first.fd, NULL, NULL, SOCK_NONBLOCK), -1);
	assert_int_equal(errno, EAGAIN);
	/* The living keep the name, the dead do not. */
	assert_int_equal(twi_listen_open(&name, &second), TOW_OK);
	assert_string_not_equal(second.path, first.path);
	assert_int_equal(accept4(first.fd, NULL, NULL, SOCK_NONBLOCK), -1);
	close(second.fd);
	twi_listen_unlink(&second);
	close(first.fd);
	assert_true(twi_listen_is_dead(&address));
	assert_int_equal(twi_listen_open(&name, &second), TOW_OK);
	assert_string_equal(second.path, address.sun_path);
	close(second.fd);
	twi_listen_unlink(&second);
	assert_false(twi_listen_is_dead(&address)); /* nothing is there at all */
}

static void streams(void **state)
{
	(void)state;
	asks_unnoticed(SOCK_STREAM);
}

static void packets(void **state)
{
	(void)state;
	asks_unnoticed(SOCK_SEQPACKET);
}

/* A socket of that name; its descriptor, and no life behind it unless `lives`. */
static int leave(const char *name, bool lives)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	snprintf(at.sun_path, sizeof(at.sun_path), "%s/%s", folder, name);
	assert_int_equal(bind(fd, (const struct sockaddr *)&at, sizeof(at)), 0);
	if (lives)
		assert_int_equal(listen(fd, 1), 0);
	else
		close(fd);
	return fd;
}

static bool is_there(const char *name)
{
	char path[128];
	struct stat st;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	return lstat(path, &st) == 0;
}

/* What jobs that are over have left goes; what else is there stays. */
static void sweeps(void **state)
{
	static const char *const gone[] = { "over.0.sock", "over.1.sock", "over.0.bpf",
					    "over.1-2.sock", "a.b.17.sock" };
	static const char *const kept[] = { "half.0.sock", "half.0.bpf", "shm-12-34.sock",
					    "over.sock", "over.x.sock" };
	struct twi_listen_name name = {
		.dir = folder, .stem = "new.0", .end = ".sock", .type = SOCK_STREAM
	};
	struct twi_listen listener;
	char path[128];
	FILE *file;
	int lives;

	(void)state;
	for (size_t i = 0; i < 5; i++) {
		leave(gone[i], false);
		leave(kept[i], false);
	}
	lives = leave("half.1.sock", true);
	snprintf(path, sizeof(path), "%s/over.2.sock", folder);
	file = fopen(path, "w"); /* no socket */
	assert_non_null(file);
	fclose(file);
	for (int round = 0; round < 2; round++) {
		name.sweep = round == 1;
		assert_int_equal(twi_listen_open(&name, &listener), TOW_OK);
		for (size_t i = 0; i < 5; i++) {
			assert_true(is_there(gone[i]) == (round == 0));
			assert_true(is_there(kept[i]));
		}
		assert_true(is_there("half.1.sock") && is_there("over.2.sock"));
		close(listener.fd);
		twi_listen_unlink(&listener);
	}
	close(lives);
	for (size_t i = 0; i < 5; i++) {
		snprintf(path, sizeof(path), "%s/%s", folder, kept[i]);
		assert_int_equal(unlink(path), 0);
	}
	snprintf(path, sizeof(path), "%s/over.2.sock", folder);
	assert_int_equal(unlink(path), 0);
	snprintf(path, sizeof(path), "%s/half.1.sock", folder);
	assert_int_equal(unlink(path), 0);
}

static int make_folder(void **state)
{
	(void)state;
	return mkdtemp(folder) == NULL ? -1 : 0;
}

static int remove_folder(void **state)
{
	(void)state;
	return rmdir(folder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(streams),
		cmocka_unit_test(packets),
		cmocka_unit_test(sweeps),
	};

	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
