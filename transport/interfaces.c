/*
 * interfaces.c - tow_interface_count and tow_interface_info: the kernel's list of addresses,
 * grouped by interface.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <towline/towline.h>

#include "diag/base/cancel.h"
#include "diag/base/error.h"
#include "diag/base/sized.h"
#include "diag/base/words.h"
#include "transport/engine/engine.h"
#include "transport/engine/runtime.h"
#include "transport/nic.h"

/* The address of a row if it counts; NULL: it is of another kind, or not allowed. */
static const struct sockaddr *usable_address(const struct ifaddrs *row, const char *knob)
{
	const struct sockaddr *address = row->ifa_addr;

	if (address == NULL || !twi_words_allow(knob, row->ifa_name))
		return NULL;
	return address->sa_family == AF_INET || address->sa_family == AF_INET6 ? address : NULL;
}

/* The lowest number above `above` of an interface that has a usable address; 0: there is none. */
static unsigned next_interface(const struct ifaddrs *all, const char *knob, unsigned above)
{
	unsigned lowest = 0;

	for (const struct ifaddrs *row = all; row != NULL; row = row->ifa_next) {
		unsigned number =
			usable_address(row, knob) != NULL ? if_nametoindex(row->ifa_name) : 0;

		if (number > above && (lowest == 0 || number < lowest))
			lowest = number;
	}
	return lowest;
}

static void add_address(struct tow_interface_info *info, const struct sockaddr *address)
{
	char *out = info->addresses[info->address_count];
	char scope[IF_NAMESIZE];
	size_t used;

	if (info->address_count == TOW_INTERFACE_ADDRESSES) {
		info->left_out++;
		return;
	}
	info->address_count++;
	if (address->sa_family == AF_INET) {
		inet_ntop(AF_INET, &((const struct sockaddr_in *)(const void *)address)->sin_addr,
			  out, TOW_INTERFACE_TEXT_MAX);
		return;
	}
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)(const void *)address;

	inet_ntop(AF_INET6, &in6->sin6_addr, out, TOW_INTERFACE_TEXT_MAX);
	used = strlen(out);
	if (in6->sin6_scope_id != 0 && if_indextoname(in6->sin6_scope_id, scope) != NULL)
		snprintf(out + used, TOW_INTERFACE_TEXT_MAX - used, "%%%s", scope);
}

static void describe_interface(const struct ifaddrs *all, const char *knob, unsigned number,
			       struct tow_interface_info *info)
{
	const unsigned on = IFF_UP | IFF_RUNNING;

	for (const struct ifaddrs *row = all; row != NULL; row = row->ifa_next) {
		const struct sockaddr *address = usable_address(row, knob);

		if (address == NULL || if_nametoindex(row->ifa_name) != number)
			continue;
		snprintf(info->name, sizeof(info->name), "%s", row->ifa_name);
		info->up = (row->ifa_flags & on) == on;
		info->loopback = (row->ifa_flags & IFF_LOOPBACK) != 0;
		add_address(info, address);
	}
	twi_nic_link(info->name, info);
	twi_nic_place("", info->name, number, info);
}

static int read_interfaces(const char *call, struct ifaddrs **all_out)
{
	if (getifaddrs(all_out) == 0)
		return TOW_OK;
	return twi_error_errno(TOW_ESYSTEM, errno, "%s: getifaddrs", call);
}

TOW_PUBLIC int tow_interface_count(struct tow_runtime *runtime, size_t *count_out)
{
	TWI_UNCANCELED;
	int status = twi_runtime_check(runtime, "tow_interface_count");
	struct ifaddrs *all;
	const char *knob;

	if (count_out == NULL)
		return twi_error(TOW_EINVAL, "tow_interface_count: count_out is NULL");
	*count_out = 0;
	if (status == TOW_OK)
		status = read_interfaces("tow_interface_count", &all);
	if (status < 0)
		return status;
	knob = twi_runtime_engine(runtime)->knobs.interfaces;
	for (unsigned at = next_interface(all, knob, 0); at != 0;
	     at = next_interface(all, knob, at))
		++*count_out;
	freeifaddrs(all);
	return TOW_OK;
}

TOW_PUBLIC int tow_interface_info(struct tow_runtime *runtime, size_t index,
				  struct tow_interface_info *info_out)
{
	TWI_UNCANCELED;
	struct tow_interface_info info = TOW_INTERFACE_INFO_INIT;
	int status = twi_runtime_check(runtime, "tow_interface_info");
	struct ifaddrs *all;
	const char *knob;
	unsigned number;

	if (status == TOW_OK)
		status = twi_sized_check_out(TWI_SIZED_tow_interface_info, "tow_interface_info",
					     info_out);
	if (status == TOW_OK)
		status = read_interfaces("tow_interface_info", &all);
	if (status < 0)
		return status;
	knob = twi_runtime_engine(runtime)->knobs.interfaces;
	number = next_interface(all, knob, 0);
	for (size_t i = 0; i < index && number != 0; i++)
		number = next_interface(all, knob, number);
	if (number != 0)
		describe_interface(all, knob, number, &info);
	freeifaddrs(all);
	if (number == 0)
		return twi_error(TOW_EINVAL,
				 "tow_interface_info: index %zu is past the last interface", index);
	return TWI_SIZED_OUT(tow_interface_info, "tow_interface_info", &info, info_out);
}
