/*
 * device.c - the devices that NCCL sees: network interfaces, chosen by the rules of NCCL's own
 * sockets.
 *
 * NCCL_SOCKET_IFNAME is a comma-separated list of prefixes of names. ^ before the list selects all
 * other names. = before it selects whole names. NCCL_SOCKET_FAMILY is AF_INET or AF_INET6. Without
 * a list, these are tried until one finds an interface: ib; all but docker, lo and virbr; docker;
 * lo; virbr.
 */
#include "plugins/nccl/plugin.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SPEED_MBITS 10000 /* NCCL's value for an interface of unknown speed */

bool twn_name_allowed(const char *list, const char *name)
{
	bool allow = *list != '^', whole;

	list += !allow;
	whole = *list == '=';
	list += whole;
	while (*list != '\0') {
		size_t length = strcspn(list, ",");

		if (length > 0 && strncmp(list, name, length) == 0 &&
		    (!whole || name[length] == '\0'))
			return allow;
		list += length;
		list += *list == ',';
	}
	return !allow;
}

/* Returns 4 or 6; 0: any family. */
static int wanted_family(void)
{
	const char *text = getenv("NCCL_SOCKET_FAMILY");

	if (text == NULL)
		return 0;
	return strcmp(text, "AF_INET6") == 0 ? 6 : strcmp(text, "AF_INET") == 0 ? 4 : 0;
}

/* The address to listen at; a link-local one is the last choice. NULL: there is none. */
static const char *choose_address(const struct tow_interface_info *info, int family)
{
	const char *chosen = NULL;

	for (uint32_t i = 0; i < info->address_count; i++) {
		const char *text = info->addresses[i];

		if (family != 0 && (strchr(text, ':') != NULL) != (family == 6))
			continue;
		if (strncmp(text, "fe80:", 5) != 0)
			return text;
		if (chosen == NULL)
			chosen = text;
	}
	return chosen;
}

static void device_add(const struct tow_interface_info *info, const char *host)
{
	struct twn_device *device = &twn.devices[twn.device_count++];

	memset(device, 0, sizeof(*device));
	snprintf(device->name, sizeof(device->name), "%s", info->name);
	snprintf(device->host, sizeof(device->host), "%s", host);
	snprintf(device->pci_path, sizeof(device->pci_path), "%s", info->pci_path);
	device->speed_mbits = info->speed_mbits > 0 && info->speed_mbits < INT32_MAX
				      ? (int)info->speed_mbits
				      : SPEED_MBITS;
	twn_log(NCCL_LOG_INFO, "device %d is %s at %s, %d Mbit/s%s%s", twn.device_count - 1,
		device->name, device->host, device->speed_mbits,
		*device->pci_path != '\0' ? ", " : "", device->pci_path);
}

static int devices_by_list(struct tow_runtime *runtime, const char *list)
{
	size_t count;
	int status = tow_interface_count(runtime, &count);

	for (size_t i = 0; status == TOW_OK && i < count; i++) {
		struct tow_interface_info info = TOW_INTERFACE_INFO_INIT;
		const char *host;

		status = tow_interface_info(runtime, i, &info);
		if (status < 0 || !info.up || !twn_name_allowed(list, info.name))
			continue;
		host = choose_address(&info, wanted_family());
		if (host != NULL && twn.device_count < TWN_DEVICES_MAX)
			device_add(&info, host);
	}
	return status;
}

enum nccl_result twn_devices_find(struct tow_runtime *runtime)
{
	static const char *const choices[] = { "ib", "^docker,lo,virbr", "docker", "lo", "virbr" };
	const char *list = getenv("NCCL_SOCKET_IFNAME");
	int status = TOW_OK;

	if (list != NULL && *list != '\0')
		status = devices_by_list(runtime, list);
	else
		for (size_t i = 0; i < sizeof(choices) / sizeof(choices[0]); i++)
			if (status == TOW_OK && twn.device_count == 0)
				status = devices_by_list(runtime, choices[i]);
	if (status < 0 && twn.device_count == 0)
		return twn_refuse(status, "no list of interfaces");
	if (twn.device_count == 0) {
		twn_log(NCCL_LOG_WARN,
			"no interface is up that NCCL_SOCKET_IFNAME (%s), "
			"NCCL_SOCKET_FAMILY and TOW_INTERFACES allow",
			list == NULL ? "not set" : list);
		return NCCL_INTERNAL_ERROR;
	}
	return NCCL_SUCCESS;
}

/* Writes the address of the device's endpoint by TOW_NCCL_LANE. False: its value is unknown. */
static bool endpoint_address(const struct twn_device *device, char *out, size_t room)
{
	bool six = strchr(device->host, ':') != NULL;
	const char *left = six ? "[" : "", *right = six ? "]" : "";

	if (strstr(twn.lane, "://") != NULL)
		snprintf(out, room, "%s", twn.lane);
	else if (strcmp(twn.lane, "auto") == 0 || strcmp(twn.lane, "tow") == 0)
		snprintf(out, room, "tow://%s%s%s", left, device->host, right);
	else if (strcmp(twn.lane, "tcp") == 0)
		snprintf(out, room, "tcp://%s%s%s:0", left, device->host, right);
	else if (strcmp(twn.lane, "shm") == 0)
		snprintf(out, room, "shm://*");
	else if (strcmp(twn.lane, "ofi") == 0)
		snprintf(out, room, "ofi://");
	else
		return false;
	return true;
}

enum nccl_result twn_device_open(struct twn_device *device)
{
	char address[TOW_ADDRESS_MAX];
	int status;

	if (device->endpoint != NULL)
		return NCCL_SUCCESS;
	if (!endpoint_address(device, address, sizeof(address))) {
		twn_log(NCCL_LOG_WARN,
			"TOW_NCCL_LANE is \"%.40s\"; it takes auto, tcp, shm, ofi or "
			"an address of an endpoint",
			twn.lane);
		return NCCL_INVALID_USAGE;
	}
	status = tow_endpoint_open(twn.runtime, address, &device->endpoint);
	if (status == TOW_OK)
		status = tow_endpoint_address(device->endpoint, device->address,
					      sizeof(device->address));
	if (status == TOW_OK)
		return NCCL_SUCCESS;
	twn_device_close(device);
	return twn_refuse(status, address);
}

void twn_device_close(struct twn_device *device)
{
	if (device->endpoint != NULL)
		tow_endpoint_close(device->endpoint);
	tow_op_release(device->accept);
	device->endpoint = NULL;
	device->accept = NULL;
}
