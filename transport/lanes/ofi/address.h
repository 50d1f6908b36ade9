/*
 * address.h - parses and writes the text addresses of the ofi lane.
 *
 *	to open:     ofi://                           the knob ofi_provider, else the best provider
 *	             ofi://PROVIDER                   ofi://tcp;ofi_rxm, ofi://shm
 *	             ofi://PROVIDER@HOST[:PORT]       at that address of this host
 *	to connect:  ofi://PROVIDER/HEX               HEX: what fi_getname gave, two digits a byte
 *
 * The address that an endpoint reports (tow_endpoint_address) has the last form. An IPv6 HOST
 * stands in brackets when a port follows.
 */
#ifndef TWI_OFI_ADDRESS_H
#define TWI_OFI_ADDRESS_H

#include <stddef.h>
#include <stdint.h>

#include <towline/endpoint.h>

#include "transport/lanes/ofi/fabric.h"

struct twi_ofi_name {
	uint8_t bytes[TWI_OFI_NAME_MAX];
	uint8_t count;
};

/* `text` is the part after "ofi://". Both return TOW_OK, or TOW_EINVAL with its message. */
int twi_ofi_address_open(const char *text, const char *knob, struct twi_ofi_wish *out);
int twi_ofi_address_connect(const char *text, char provider[TWI_OFI_PROVIDER_MAX],
			    struct twi_ofi_name *out);

/* Returns TOW_OK, or TOW_EINVAL if the address does not fit. */
int twi_ofi_address_put(const char *provider, const struct twi_ofi_name *name,
			char out[TOW_ADDRESS_MAX]);

#endif
