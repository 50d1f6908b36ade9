/*
 * nic.h - what the system knows of a network interface beside its addresses: link and sizes from
 * socket calls, its place in the machine from sysfs.
 *
 * A container, or a program in a network namespace of its own, may see the sysfs of another
 * namespace, whose eth0 is another interface. So sysfs is believed only where it has the
 * interface's number. Its content is checked like any text from outside.
 */
#ifndef TWI_NIC_H
#define TWI_NIC_H

#include <stdint.h>

#include <towline/interface.h>

/*
 * Sets pci_path and numa_node of interface `name`, which has the kernel's `number`. `root` is put
 * before all paths of sysfs: "", or a folder of a test's. Unknown values become "" and -1.
 */
void twi_nic_place(const char *root, const char *name, unsigned number,
		   struct tow_interface_info *out);

/*
 * The length of the start of `path` that names a PCI device. It ends with the last part like
 * "0000:3b:00.1", behind "/sys/devices/". 0: there is none. Pure.
 */
size_t twi_nic_pci_length(const char *path);

/* Sets speed_mbits and mtu_bytes; -1: the kernel does not tell. */
void twi_nic_link(const char *name, struct tow_interface_info *out);

#endif
