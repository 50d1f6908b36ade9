/*
 * test_interfaces.c - the interfaces that a plugin is told of, in a network namespace of the test's
 * own, where each is known; and connections that come from the one whose address was chosen.
 */
#include "pair.h"

#include <sched.h>
#include <stdarg.h>
#include <string.h>

#define MANY 10 /* addresses of twi2, of which two have no place */

static struct tow_options small_options(const char *interfaces)
{
	struct tow_options options = TOW_OPTIONS_INIT;

	options.premap_memory_bytes = 4 << 20;
	options.stats = 0;
	options.interfaces = interfaces;
	return options;
}

static struct tow_runtime *open_with(const char *interfaces)
{
	struct tow_options options = small_options(interfaces);
	struct tow_runtime *runtime;

	TWT_OK(tow_runtime_open(&options, &runtime));
	return runtime;
}

static struct tow_interface_info row_of(struct tow_runtime *runtime, size_t index)
{
	struct tow_interface_info info = TOW_INTERFACE_INFO_INIT;

	TWT_OK(tow_interface_info(runtime, index, &info));
	return info;
}

static bool has_address(const struct tow_interface_info *info, const char *address)
{
	for (uint32_t i = 0; i < info->address_count; i++) {
		if (strcmp(info->addresses[i], address) == 0)
			return true;
	}
	return false;
}

/* The kernel tells of a link a while after it has changed. False: not within 20 s. */
static bool comes_to(struct tow_runtime *runtime, const char *name, int up)
{
	for (int i = 0; i < 2000; i++) {
		size_t count;

		TWT_OK(tow_interface_count(runtime, &count));
		for (size_t k = 0; k < count; k++) {
			struct tow_interface_info info = row_of(runtime, k);

			if (strcmp(info.name, name) == 0 && info.up == up)
				return true;
		}
		usleep(10000);
	}
	return false;
}

static bool make_cables(void)
{
	return unshare(CLONE_NEWNET) == 0 &&
	       system("exec 2>/dev/null; ip link set lo up && "
		      "ip link add twi1 type veth peer name twi2 && "
		      "ip link set twi1 mtu 9000 && ip addr add 10.8.1.1/24 dev twi1 && "
		      "ip -6 addr add fe80::71/64 dev twi1 nodad && "
		      "for i in 1 2 3 4 5 6 7 8 9 10; do ip addr add 10.8.2.$i/24 dev twi2 || exit "
		      "1; "
		      "done && ip link set twi1 up && ip link set twi2 up && "
		      "ip link add twi3 type veth peer name twi4 && "
		      "ip addr add 10.8.3.1/24 dev twi3") == 0;
}

static void judge_row(const struct tow_interface_info *info)
{
	assert_string_equal(info->pci_path, "");
	assert_int_equal(info->numa_node, -1);
	if (strcmp(info->name, "lo") == 0) {
		assert_true(has_address(info, "127.0.0.1"));
		assert_int_equal(info->loopback, 1);
		assert_int_equal(info->up, 1);
		assert_int_equal(info->speed_mbits, -1);
		assert_int_equal(info->mtu_bytes, 65536);
	} else if (strcmp(info->name, "twi1") == 0) {
		assert_true(has_address(info, "10.8.1.1"));
		assert_true(has_address(info, "fe80::71%twi1"));
		assert_int_equal(info->loopback, 0);
		assert_int_equal(info->up, 1);
		assert_int_equal(info->speed_mbits, 10000); /* what veth says */
		assert_int_equal(info->mtu_bytes, 9000);
	} else if (strcmp(info->name, "twi2") == 0) {
		assert_int_equal(info->address_count, TOW_INTERFACE_ADDRESSES);
		assert_true(info->left_out >= MANY - TOW_INTERFACE_ADDRESSES);
		assert_int_equal(info->up, 1);
		assert_int_equal(info->mtu_bytes, 1500);
	} else {
		assert_string_equal(info->name, "twi3");
		assert_int_equal(info->address_count, 1);
		assert_int_equal(info->up, 0);
	}
}

static void list_all(void)
{
	struct tow_runtime *runtime = open_with(NULL);
	struct tow_interface_info info = TOW_INTERFACE_INFO_INIT;
	size_t count;

	TWT_OK(tow_interface_count(runtime, &count));
	assert_int_equal(count, 4);
	assert_true(comes_to(runtime, "twi1", 1) && comes_to(runtime, "twi2", 1));
	for (size_t i = 0; i < count; i++) {
		info = row_of(runtime, i);
		judge_row(&info);
		for (size_t j = 0; j < i; j++)
			assert_string_not_equal(row_of(runtime, j).name, info.name);
	}
	assert_int_equal(tow_interface_info(runtime, count, &info), TOW_EINVAL);
	assert_int_equal(tow_interface_info(runtime, SIZE_MAX, &info), TOW_EINVAL);
	assert_int_equal(tow_interface_info(runtime, 0, NULL), TOW_EINVAL);
	assert_int_equal(tow_interface_info(NULL, 0, &info), TOW_EINVAL);
	assert_int_equal(tow_interface_count(runtime, NULL), TOW_EINVAL);
	assert_int_equal(tow_interface_count(NULL, &count), TOW_EINVAL);
	TWT_OK(tow_runtime_close(runtime));
	assert_int_equal(tow_interface_count(runtime, &count), TOW_ECLOSED);
	assert_int_equal(count, 0);
}

static void list_allowed(const char *knob, size_t wanted, const char *first)
{
	struct tow_runtime *runtime = open_with(knob);
	size_t count;

	TWT_OK(tow_interface_count(runtime, &count));
	assert_int_equal(count, wanted);
	assert_string_equal(row_of(runtime, 0).name, first);
	TWT_OK(tow_runtime_close(runtime));
}

/* What comes and goes is seen. */
static void follow_changes(void)
{
	struct tow_runtime *runtime = open_with("^lo");
	size_t count;

	TWT_OK(tow_interface_count(runtime, &count));
	assert_int_equal(count, 3);
	assert_int_equal(system("ip link del twi3"), 0);
	TWT_OK(tow_interface_count(runtime, &count));
	assert_int_equal(count, 2);
	assert_int_equal(system("ip link set twi2 down"), 0);
	/* Both ends of the cable. */
	assert_true(comes_to(runtime, "twi2", 0) && comes_to(runtime, "twi1", 0));
	TWT_OK(tow_runtime_close(runtime));
}

/* An endpoint at a row's address is dialed from, and the other side sees that address. */
static void come_from_there(void)
{
	struct tow_runtime *near = open_with(NULL), *far = open_with(NULL);
	struct tow_endpoint *from, *to;
	char address[TOW_ADDRESS_MAX];
	struct tow_op *accept, *connect;
	char *text;

	for (size_t i = 0; i < 3; i++) {
		struct tow_interface_info info = row_of(near, i);

		snprintf(address, sizeof(address), "tcp://%s:0", info.addresses[0]);
		TWT_OK(tow_endpoint_open(near, address, &from));
		TWT_OK(tow_endpoint_open(far, "tcp://10.8.2.9:0", &to));
		TWT_OK(tow_endpoint_address(to, address, sizeof(address)));
		TWT_OK(tow_accept_start(to, NULL, &accept));
		TWT_OK(tow_connect_start(from, address, NULL, &connect));
		TWT_OK(twt_finish(connect, NULL));
		TWT_OK(twt_finish(accept, NULL));
		TWT_OK(tow_stats_get(far, "/v1/peers", &text));
		snprintf(address, sizeof(address), "tcp://%s:", info.addresses[0]);
		/* Loopback does not reach another interface's address: the kernel chooses there. */
		if (!info.loopback)
			assert_non_null(strstr(text, address));
		tow_stats_release(text);
		TWT_OK(tow_endpoint_close(from));
		TWT_OK(tow_endpoint_close(to));
	}
	TWT_OK(tow_runtime_close(near));
	TWT_OK(tow_runtime_close(far));
}

static void test_namespace(void **state)
{
	(void)state;
	list_all();
	list_allowed("twi1", 1, "twi1");
	list_allowed("^lo,twi1", 2, "twi2");
	come_from_there();
	follow_changes();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_namespace),
	};

	if (!make_cables()) {
		printf("no network namespace with interfaces of our own can be made here\n");
		return 77;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
