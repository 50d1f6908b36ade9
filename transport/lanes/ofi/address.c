/*
 * address.c - parses and writes the text addresses of the ofi lane. See address.h.
 */
#include "transport/lanes/ofi/address.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "diag/base/error.h"
#include <towline/status.h>

static int bad_address(const char *text, const char *what)
{
	return twi_error(TOW_EINVAL, "address ofi://%.100s: %s", text, what);
}

/* Copies a provider's name from `bytes` at `text`: letters, digits, _, - and ; are allowed. */
static int take_provider(const char *text, size_t bytes, char out[TWI_OFI_PROVIDER_MAX])
{
	if (bytes >= TWI_OFI_PROVIDER_MAX)
		return bad_address(text, "the provider's name is too long");
	for (size_t i = 0; i < bytes; i++) {
		char c = text[i];

		if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
		      c == '_' || c == '-' || c == ';'))
			return bad_address(text,
					   "a provider's name has letters, digits, _, - and ;");
		out[i] = c;
	}
	out[bytes] = '\0';
	return TOW_OK;
}

/* Parses HOST, HOST:PORT, [HOST]:PORT, and an IPv6 address without a port. */
static int take_host(const char *text, const char *host, struct twi_ofi_wish *out)
{
	const char *end = host + strlen(host), *port = NULL, *colon = strrchr(host, ':');
	char *rest;

	if (host[0] == '[') {
		const char *close = strchr(host, ']');

		if (close == NULL || (close[1] != ':' && close[1] != '\0'))
			return bad_address(text, "the host's bracket is not closed");
		host++;
		end = close;
		port = close[1] == ':' ? close + 2 : NULL;
	} else if (colon != NULL && strchr(host, ':') == colon) {
		end = colon;
		port = colon + 1;
	}
	if (end == host || (size_t)(end - host) >= sizeof(out->node))
		return bad_address(text, "the host is missing or too long");
	snprintf(out->node, sizeof(out->node), "%.*s", (int)(end - host), host);
	if (port == NULL)
		return TOW_OK;
	if (port[0] < '0' || port[0] > '9' || strtoul(port, &rest, 10) > 65535 || *rest != '\0')
		return bad_address(text, "the port is not a number from 1 to 65535");
	snprintf(out->service, sizeof(out->service), "%lu", strtoul(port, &rest, 10));
	return TOW_OK;
}

int twi_ofi_address_open(const char *text, const char *knob, struct twi_ofi_wish *out)
{
	const char *at = strchr(text, '@');
	size_t bytes = at != NULL ? (size_t)(at - text) : strlen(text);
	int status;

	*out = (struct twi_ofi_wish){ .provider = "" };
	if (memchr(text, '/', bytes) != NULL)
		return bad_address(text,
				   "that is an address to connect to; open at ofi://PROVIDER");
	status = take_provider(text, bytes, out->provider);
	if (status == TOW_OK && bytes == 0)
		status = take_provider(knob, strlen(knob), out->provider);
	if (status == TOW_OK && at != NULL)
		status = take_host(text, at + 1, out);
	return status;
}

static int digit_value(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

int twi_ofi_address_connect(const char *text, char provider[TWI_OFI_PROVIDER_MAX],
			    struct twi_ofi_name *out)
{
	const char *slash = strchr(text, '/');
	size_t digits;
	int status;

	if (slash == NULL || slash == text)
		return bad_address(text, "it is not of the form ofi://PROVIDER/HEX");
	status = take_provider(text, (size_t)(slash - text), provider);
	if (status < 0)
		return status;
	digits = strlen(slash + 1);
	if (digits == 0 || digits % 2 != 0 || digits / 2 > TWI_OFI_NAME_MAX)
		return bad_address(text, "the part behind the / has a wrong length");
	out->count = (uint8_t)(digits / 2);
	for (size_t i = 0; i < digits; i += 2) {
		int high = digit_value(slash[1 + i]), low = digit_value(slash[2 + i]);

		if (high < 0 || low < 0)
			return bad_address(text,
					   "the part behind the / has digits 0 to 9 and a to f");
		out->bytes[i / 2] = (uint8_t)(high << 4 | low);
	}
	return TOW_OK;
}

int twi_ofi_address_put(const char *provider, const struct twi_ofi_name *name,
			char out[TOW_ADDRESS_MAX])
{
	int n = snprintf(out, TOW_ADDRESS_MAX, "ofi://%s/", provider);

	if (n < 0 || (size_t)n + 2u * name->count >= TOW_ADDRESS_MAX)
		return twi_error(TOW_EINVAL,
				 "libfabric: an address of %s has %u bytes, too long for a text "
				 "address",
				 provider, name->count);
	for (unsigned i = 0; i < name->count; i++)
		snprintf(out + n + 2 * i, TOW_ADDRESS_MAX - (size_t)n - 2 * i, "%02x",
			 name->bytes[i]);
	return TOW_OK;
}
