/* test_nic.c - the place of an interface, in a sysfs that is a folder of the test's. */
#include "twt.h"

#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "transport/nic.h"

#define BELOW  "/devices/pci0000:00/0000:00:03.0/0000:3b:00.1" /* sysfs */
#define DEVICE "/sys" BELOW

static char root[64];

static void run(const char *form, ...)
{
	char command[1024];
	va_list args;
	int used = snprintf(command, sizeof(command), "cd %s && ", root);

	va_start(args, form);
	vsnprintf(command + used, sizeof(command) - (size_t)used, form, args);
	va_end(args);
	assert_int_equal(system(command), 0);
}

static void place(const char *name, struct tow_interface_info *out)
{
	memset(out, 'x', sizeof(*out));
	twi_nic_place(root, name, 7, out);
}

static void check_place(const char *name, const char *path, int node)
{
	struct tow_interface_info info;

	place(name, &info);
	assert_string_equal(info.pci_path, path);
	assert_int_equal(info.numa_node, node);
}

static int setup(void **state)
{
	(void)state;
	snprintf(root, sizeof(root), "/tmp/twt-nic-XXXXXX");
	assert_non_null(mkdtemp(root));
	run("mkdir -p sys/class/net .%s/virtio2/net/eth7 && echo 1 > .%s/numa_node", DEVICE,
	    DEVICE);
	run("ln -s ../..%s/virtio2/net/eth7 sys/class/net/eth7 && cd .%s/virtio2 && "
	    "ln -s ../../../virtio2 net/eth7/device && echo 7 > net/eth7/ifindex",
	    BELOW, DEVICE);
	check_place("eth7", DEVICE, 1); /* before a test breaks it */
	return 0;
}

static int teardown(void **state)
{
	char command[128];

	(void)state;
	snprintf(command, sizeof(command), "rm -r %s", root);
	return system(command);
}

/* The same name with another number is an interface of another network namespace. */
static void test_other_number(void **state)
{
	static const char *const bad[] = {
		"8",  "",    "-7",  "7x",         "7 7",
		" 7", "07x", "0x7", "4294967303", "77777777777777777777777777"
	};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		run("echo '%s' > .%s/virtio2/net/eth7/ifindex", bad[i], DEVICE);
		check_place("eth7", "", -1);
	}
}

static void test_bad_node(void **state)
{
	static const char *const bad[] = {
		"-1", "", "one", "1,2", "65536", "-2147483649", "1\n1", "99999999999999999999"
	};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		run("printf -- '%s\\n' > .%s/numa_node", bad[i], DEVICE);
		check_place("eth7", DEVICE, -1);
	}
	run("rm .%s/numa_node", DEVICE);
	check_place("eth7", DEVICE, -1);
	/* A file that nobody writes to does not make it wait. */
	run("mkfifo .%s/numa_node", DEVICE);
	check_place("eth7", DEVICE, -1);
}

/* Links that lead nowhere, round and round, out of sysfs, or to what is no PCI device. */
static void test_bad_links(void **state)
{
	static const char *const bad[] = { "nowhere", "device", "/etc", "/",
					   "../../../../../../../virtual" };

	(void)state;
	run("mkdir -p sys/devices/virtual");
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		run("ln -sfn %s .%s/virtio2/net/eth7/device", bad[i], DEVICE);
		check_place("eth7", "", -1);
	}
	run("rm .%s/virtio2/net/eth7/device", DEVICE);
	check_place("eth7", "", -1);
}

/* Names that the kernel would not allow. */
static void test_bad_names(void **state)
{
	static const char *const bad[] = { "",      ".",   "..", "../net/eth7", "eth7/../eth7",
					   "eth7/", "eth8" };

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		check_place(bad[i], "", -1);
}

static void test_pci_length(void **state)
{
	static const struct {
		const char *path;
		size_t length;
	} rows[] = {
		{ "", 0 },
		{ "/", 0 },
		{ "/sys/devices", 0 },
		{ "/sys/devices/", 0 },
		{ "/sys/devices/virtual/net/lo", 0 },
		{ "/sys/devices/pci0000:00/0000:00:03.0", 36 },
		{ "/sys/devices/pci0000:00/0000:00:03.0/", 36 },
		{ "/sys/devices/pci0000:00/0000:00:03.0/virtio0", 36 },
		{ "/sys/devices/pci0000:00/0000:00:03.8", 0 },
		{ "/sys/devices/pci0000:00/000:000:03.0", 0 },
		{ "/sys/devices/pci0000:00/0000:00:03.00", 0 },
		{ "/sys/devices/pci0000:00/0000:0g:03.0", 0 },
		{ "/sys/devices/pci0000:00/0000-00-03.0", 0 },
		{ "/sys/devices//0000:00:03.0//", 26 },
		{ "/etc/pci0000:00/0000:00:03.0", 0 },
		{ "sys/devices/pci0000:00/0000:00:03.0", 0 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		assert_int_equal(twi_nic_pci_length(rows[i].path), rows[i].length);
}

/* A path for which there is no room is none, not half of one. */
static void test_long_path(void **state)
{
	char parts[400] = "";

	(void)state;
	for (int i = 0; i < 30; i++)
		strcat(parts, "/0000:00:00.0");
	run("mkdir -p sys/devices/pci%s && ln -sfn %s/sys/devices/pci%s "
	    ".%s/virtio2/net/eth7/device",
	    parts, root, parts, DEVICE);
	check_place("eth7", "", -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_other_number, setup, teardown),
		cmocka_unit_test_setup_teardown(test_bad_node, setup, teardown),
		cmocka_unit_test_setup_teardown(test_bad_links, setup, teardown),
		cmocka_unit_test_setup_teardown(test_bad_names, setup, teardown),
		cmocka_unit_test(test_pci_length),
		cmocka_unit_test_setup_teardown(test_long_path, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
