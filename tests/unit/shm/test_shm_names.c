/*
 * test_shm_names.c - what is around the rings of the shm lane: descriptors that are mapped or
 * refused, names and their files, strangers at the socket, what /v1/peers says.
 */
#include "shm_pair.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

/* Somebody else's lock of the directory, which goes when the lane has paused so often for it. */
static int lock_fd = -1;
static unsigned pauses, pauses_left;

int usleep(useconds_t us)
{
	struct timespec ts = { .tv_nsec = (long)us * 1000 };

	if (lock_fd < 0)
		return nanosleep(&ts, NULL);
	pauses++;
	if (--pauses_left == 0) {
		close(lock_fd);
		lock_fd = -1;
	}
	return 0;
}

static void test_map(void **state)
{
	int fd = memfd_create("test", MFD_ALLOW_SEALING | MFD_CLOEXEC), plain;
	void *at = NULL;

	(void)state;
	assert_int_equal(ftruncate(fd, 8192), 0);
	assert_int_equal(twi_shm_map(fd, 8192, false, &at), TOW_EPROTOCOL); /* it could shrink */
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
	assert_int_equal(twi_shm_map(fd, 8193, false, &at), TOW_EPROTOCOL);
	assert_int_equal(twi_shm_map(fd, 4096, false, &at), TOW_EPROTOCOL);
	assert_int_equal(twi_shm_map(fd, 8192, false, &at), TOW_OK);
	assert_int_equal(ftruncate(fd, 0), -1);
	munmap(at, 8192);
	close(fd);
	plain = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	assert_int_equal(twi_shm_map(plain, 4096, false, &at), TOW_EPROTOCOL);
	close(plain);
}

/* The other side cannot write our pool through what it was given. */
static void test_read_only(void **state)
{
	const struct twi_extent_table *table =
		(const void *)twi_runtime_engine(twt_shm.runtime[0])->pool;
	int fd = twi_shm_extent_fd(table->extent[0], false);

	(void)state;
	assert_true(fd >= 0);
	assert_ptr_equal(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), MAP_FAILED);
	assert_int_equal(write(fd, "", 1), -1);
	close(fd);
}

static void test_names(void **state)
{
	struct tow_endpoint *one, *two;
	struct tow_runtime *runtime = twt_shm.runtime[0];
	char name[64], path[108], address[TOW_ADDRESS_MAX];
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	struct tow_op *op;
	struct stat st;
	int dead;

	(void)state;
	snprintf(name, sizeof(name), "shm://test.%d", (int)getpid());
	TWT_OK(tow_endpoint_open(runtime, name, &one));
	TWT_OK(tow_endpoint_address(one, address, sizeof(address)));
	assert_string_equal(address, name);
	assert_int_equal(twi_shm_path(twi_runtime_engine(runtime), name + 6, path), TOW_OK);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_int_equal(tow_endpoint_open(runtime, name, &two), TOW_EBUSY);
	TWT_OK(tow_endpoint_close(one));
	assert_int_equal(stat(path, &st), -1);
	TWT_OK(tow_connect_start(twt_shm.endpoint[0], name, NULL, &op));
	assert_int_equal(twt_shm_finish(op, NULL, false), TOW_EREFUSED);
	/* a dead one's file is taken over */
	dead = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	snprintf(at.sun_path, sizeof(at.sun_path), "%s", path);
	assert_int_equal(bind(dead, (struct sockaddr *)&at, sizeof(at)), 0);
	close(dead);
	TWT_OK(tow_endpoint_open(runtime, name, &one));
	TWT_OK(tow_endpoint_close(one));
	assert_int_equal(tow_endpoint_open(runtime, "shm://a/b", &one), TOW_EINVAL);
	assert_int_equal(tow_endpoint_open(runtime, "shm://a b", &one), TOW_EINVAL);
	memset(address, 'x', sizeof(address) - 1);
	address[sizeof(address) - 1] = '\0';
	memcpy(address, "shm://", 6);
	assert_int_equal(tow_endpoint_open(runtime, address, &one), TOW_EINVAL);
}

static void test_described(void **state)
{
	char *text;

	(void)state;
	TWT_OK(tow_stats_get(twt_shm.runtime[0], "/v1/peers", &text));
	assert_non_null(strstr(text, "\"lane\":\"shm\""));
	assert_non_null(strstr(text, "memory_outside_pool"));
	assert_non_null(strstr(text, "ring_area_bytes"));
	tow_stats_release(text);
}

/* Garbage, silence and half a handshake at the socket; the endpoint goes on. */
static void test_strangers(void **state)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	char address[TOW_ADDRESS_MAX], path[108];
	uint64_t random = twt_seed();
	struct tow_result result;
	struct tow_op *connect_op, *accept;
	int fds[100];

	(void)state;
	TWT_OK(tow_endpoint_address(twt_shm.endpoint[1], address, sizeof(address)));
	assert_int_equal(twi_shm_path(twi_runtime_engine(twt_shm.runtime[1]), address + 6, path),
			 TOW_OK);
	snprintf(at.sun_path, sizeof(at.sun_path), "%s", path);
	for (int i = 0; i < 100; i++) {
		uint8_t noise[2000];

		fds[i] = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		for (size_t k = 0; k < sizeof(noise); k++)
			noise[k] = (uint8_t)twt_random(&random);
		if (connect(fds[i], (struct sockaddr *)&at, sizeof(at)) == 0 && i % 3 != 0)
			(void)!send(fds[i], noise, i % 3 == 1 ? 96 : sizeof(noise), MSG_NOSIGNAL);
		twt_shm_settle();
	}
	assert_true(twt_shm_counted(1, TWI_C_handshakes_refused) > 50);
	for (int i = 0; i < 100; i++)
		close(fds[i]);
	twt_shm_settle();
	TWT_OK(tow_accept_start(twt_shm.endpoint[1], NULL, &accept));
	TWT_OK(tow_connect_start(twt_shm.endpoint[0], address, NULL, &connect_op));
	assert_int_equal(twt_shm_finish(connect_op, &result, false), TOW_OK);
	assert_int_equal(twt_shm_finish(accept, &result, false), TOW_OK);
}

/*
 * A process that opens an endpoint waits for the others that do, since a socket that does not
 * listen yet looks dead to them; but not for ever.
 */
static void test_lock(void **state)
{
	struct tow_runtime *runtime = twt_shm.runtime[0];
	struct tow_endpoint *endpoint;
	char address[TOW_ADDRESS_MAX], path[108];

	(void)state;
	TWT_OK(tow_endpoint_address(twt_shm.endpoint[1], address, sizeof(address)));
	TWT_OK(twi_shm_path(twi_runtime_engine(runtime), address + 6, path));
	*strrchr(path, '/') = '\0';
	pauses = 0;
	pauses_left = 300;
	lock_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(flock(lock_fd, LOCK_EX), 0);
	TWT_OK(tow_endpoint_open(runtime, "shm://*", &endpoint));
	assert_int_equal(pauses, 300);
	TWT_OK(tow_endpoint_close(endpoint));

	pauses_left = UINT32_MAX;
	lock_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(flock(lock_fd, LOCK_EX), 0);
	assert_int_equal(tow_endpoint_open(runtime, "shm://*", &endpoint), TOW_EBUSY);
	assert_non_null(strstr(tow_error_message(), path));
	close(lock_fd);
	lock_fd = -1;
	TWT_OK(tow_endpoint_open(runtime, "shm://*", &endpoint));
	TWT_OK(tow_endpoint_close(endpoint));
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, twt_shm_open, twt_shm_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(test_map),       CASE(test_read_only), CASE(test_names),
		CASE(test_described), CASE(test_strangers), CASE(test_lock),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
