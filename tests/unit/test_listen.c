/* test_listen.c - who listens behind a socket file, asked without disturbing who does. */
#include "twt.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "diag/error.h"
#include "diag/listen.h"

static char folder[] = "/tmp/towline-listen-XXXXXX";

static void asks_unnoticed(int type)
{
	const struct twi_listen_name name = { folder, "one", ".sock", type, false };
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
	};

	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
