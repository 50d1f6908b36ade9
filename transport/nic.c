/* nic.c - reads sysfs, and asks the kernel by ioctl. See nic.h. */
#include "transport/nic.h"

#include <ctype.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "diag/base/fd.h"

#define DEVICES    "/sys/devices/"
#define NODES_MOST 65535

/* Reads a number, which must be all of a file except for the end of its line. */
static bool read_number(const char *path, long *out)
{
	char text[32], *end;
	ssize_t got;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

	if (fd < 0)
		return false;
	got = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (got <= 0 || (size_t)got >= sizeof(text) - 1)
		return false;
	text[got] = '\0';
	if (!isdigit((unsigned char)text[0]) && text[0] != '-')
		return false;
	*out = strtol(text, &end, 10);
	return end != text && (*end == '\0' || (*end == '\n' && end[1] == '\0'));
}

/* Is it like "0000:3b:00.1", with `letters` letters? */
static bool is_pci_address(const char *part, size_t letters)
{
	static const char form[] = "hhhh:hh:hh.d";

	if (letters != sizeof(form) - 1)
		return false;
	for (size_t i = 0; i < letters; i++) {
		unsigned char c = (unsigned char)part[i];

		if (form[i] == 'h'   ? !isxdigit(c)
		    : form[i] == 'd' ? c < '0' || c > '7'
				     : c != form[i])
			return false;
	}
	return true;
}

size_t twi_nic_pci_length(const char *path)
{
	size_t at = strlen(DEVICES), found = 0;

	if (strncmp(path, DEVICES, at) != 0)
		return 0;
	while (path[at] != '\0') {
		size_t letters = strcspn(path + at, "/");

		if (is_pci_address(path + at, letters))
			found = at + letters;
		at += letters + (path[at + letters] == '/');
	}
	return found;
}

/* The device behind the interface, as a path below /sys; "" where there is none. */
static void find_device(const char *root, const char *name, char out[PATH_MAX])
{
	char path[PATH_MAX], base[PATH_MAX], real[PATH_MAX];
	size_t skipped;

	out[0] = '\0';
	if (realpath(root[0] != '\0' ? root : "/", base) == NULL)
		return;
	skipped = strcmp(base, "/") == 0 ? 0 : strlen(base);
	if (snprintf(path, sizeof(path), "%s/sys/class/net/%s/device", root, name) >=
		    (int)sizeof(path) ||
	    realpath(path, real) == NULL || strncmp(real, base, skipped) != 0)
		return;
	snprintf(out, PATH_MAX, "%s", real + skipped);
}

void twi_nic_place(const char *root, const char *name, unsigned number,
		   struct tow_interface_info *out)
{
	char path[PATH_MAX + 128], device[PATH_MAX];
	size_t letters;
	long value;

	out->pci_path[0] = '\0';
	out->numa_node = -1;
	/* The kernel allows no other names; one that could lead elsewhere is not followed. */
	if (name[0] == '\0' || name[0] == '.' || strchr(name, '/') != NULL)
		return;
	snprintf(path, sizeof(path), "%s/sys/class/net/%s/ifindex", root, name);
	if (!read_number(path, &value) || value != (long)number)
		return;
	find_device(root, name, device);
	letters = twi_nic_pci_length(device);
	if (letters == 0 || letters >= sizeof(out->pci_path))
		return;
	snprintf(out->pci_path, sizeof(out->pci_path), "%.*s", (int)letters, device);
	snprintf(path, sizeof(path), "%s%s/numa_node", root, out->pci_path);
	if (read_number(path, &value) && value >= 0 && value <= NODES_MOST)
		out->numa_node = (int32_t)value;
}

void twi_nic_link(const char *name, struct tow_interface_info *out)
{
	struct ethtool_cmd command = { .cmd = ETHTOOL_GSET };
	struct ifreq request = { .ifr_flags = 0 };
	int fd = twi_fd_high(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
	uint32_t speed;

	out->speed_mbits = -1;
	out->mtu_bytes = -1;
	if (fd < 0)
		return;
	snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", name);
	if (ioctl(fd, SIOCGIFMTU, &request) == 0 && request.ifr_mtu > 0)
		out->mtu_bytes = request.ifr_mtu;
	request.ifr_data = (char *)&command;
	if (ioctl(fd, SIOCETHTOOL, &request) == 0) {
		speed = (uint32_t)command.speed_hi << 16 | command.speed;
		/* Drivers say 0, 0xffff or 0xffffffff where there is no link. */
		if (speed != 0 && speed != UINT16_MAX && speed <= INT32_MAX)
			out->speed_mbits = speed;
	}
	close(fd);
}
