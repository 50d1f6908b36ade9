/*
 * interface.h - the network interfaces of this host, for who chooses one: a runtime's plugin
 * reports them as its devices, and opens an endpoint at an address of the one that it wants.
 *
 * A connection from an endpoint that listens at one address comes from that address. The interfaces
 * of an endpoint at all addresses are chosen by the knob `interfaces`.
 */
#ifndef TOWLINE_INTERFACE_H
#define TOWLINE_INTERFACE_H

#include <stddef.h>
#include <stdint.h>

#include <towline/runtime.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TOW_INTERFACE_NAME_MAX  16  /* with the NUL */
#define TOW_INTERFACE_TEXT_MAX  64  /* of an address, with the NUL */
#define TOW_INTERFACE_ADDRESSES 8   /* of one interface that are told */
#define TOW_INTERFACE_PATH_MAX  256 /* with the NUL */

/* What is known of an interface. */
struct tow_interface_info {
	size_t size; /* sizeof(struct tow_interface_info) of the caller */
	char name[TOW_INTERFACE_NAME_MAX];
	/* As hosts in endpoint addresses, without brackets: "10.1.2.3", "fe80::1%eth0". */
	char addresses[TOW_INTERFACE_ADDRESSES][TOW_INTERFACE_TEXT_MAX];
	uint32_t address_count; /* of them that are set */
	uint32_t left_out;      /* addresses for which there was no room */
	int64_t speed_mbits;    /* Mbit/s; -1: not known, or there is no link */
	/* Of the PCI device in sysfs, "/sys/devices/pci0000:00/0000:00:05.0"; "": it is none. */
	char pci_path[TOW_INTERFACE_PATH_MAX];
	int32_t numa_node; /* of that device; -1: not known */
	int32_t mtu_bytes; /* -1: not known */
	int32_t up;        /* 1: it is switched on, and has a link; 0 */
	int32_t loopback;  /* 1, 0 */
};

/* The initial value of struct tow_interface_info. */
#define TOW_INTERFACE_INFO_INIT                                                                    \
	{                                                                                          \
		TOW_MEMBER(size, sizeof(struct tow_interface_info)), TOW_MEMBER(name, { 0 }),      \
			TOW_MEMBER(addresses, { { 0 } }), TOW_MEMBER(address_count, 0),            \
			TOW_MEMBER(left_out, 0), TOW_MEMBER(speed_mbits, 0),                       \
			TOW_MEMBER(pci_path, { 0 }), TOW_MEMBER(numa_node, 0),                     \
			TOW_MEMBER(mtu_bytes, 0), TOW_MEMBER(up, 0), TOW_MEMBER(loopback, 0)       \
	}

/*
 * The number of interfaces that the runtime may use: those that have an IP address, and that the
 * knob `interfaces` allows. Those that are down count, too.
 * Ownership: none passes.
 * Copies: none.
 * Blocks: never; it asks the kernel.
 * Threads: any.
 * Returns: TOW_OK; TOW_EINVAL for NULL; TOW_ESYSTEM; TOW_ECLOSED; TOW_EFORKED. *count_out is 0
 * after a failure.
 */
int tow_interface_count(struct tow_runtime *runtime, size_t *count_out);

/*
 * Row `index` of the list of interfaces, in the order of the kernel's numbers. The kernel is asked
 * anew: where one comes or goes between two calls those behind it move, so who keeps a row keeps
 * its name.
 * Ownership: *info_out is the caller's, its size set by the caller; all texts lie in it.
 * Copies: none.
 * Blocks: never; it asks the kernel, and reads files of sysfs.
 * Threads: any.
 * Returns: TOW_OK; TOW_EINVAL for an index past the end, NULL, or a size that no header has;
 * TOW_ESYSTEM; TOW_ECLOSED; TOW_EFORKED.
 */
int tow_interface_info(struct tow_runtime *runtime, size_t index,
		       struct tow_interface_info *info_out);

#ifdef __cplusplus
}
#endif
#endif
