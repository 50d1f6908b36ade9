/*
 * rule.c - see rule.h.
 */
#include "transport/wire/rule.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "diag/base/error.h"

#define CLOSED " closed the connection"

_Static_assert(TWI_FAULT_COUNT <= 32, "the numbers of frame faults are rules, too");

const char *twi_rule_text(unsigned rule)
{
	switch (rule) {
#define RULE_TEXT(number, name, text)                                                              \
	case number:                                                                               \
		return text;
		TWI_RULE_MAP(RULE_TEXT)
#undef RULE_TEXT
	default:
		return rule > TWI_FAULT_NONE && rule < TWI_FAULT_COUNT
			       ? twi_frame_fault_text((enum twi_frame_fault)rule)
			       : "this version does not know the rule";
	}
}

int twi_rule_add(unsigned rule)
{
	return twi_error(TOW_EPROTOCOL, "%.300s (it broke rule %u of the protocol: %s)",
			 tow_error_message(), rule, twi_rule_text(rule));
}

int twi_rule_error(const char *address, unsigned rule, const char *format, ...)
{
	char detail[200];
	va_list args;

	va_start(args, format);
	vsnprintf(detail, sizeof(detail), format, args);
	va_end(args);
	twi_error(TOW_EPROTOCOL, "peer %s %s", address, detail);
	return twi_rule_add(rule);
}

bool twi_rule_is_goodbye(const char *why)
{
	return strstr(why, CLOSED) != NULL;
}

int twi_rule_bye_error(const char *address, const char *rank, int value)
{
	unsigned rule = value < 0 ? 0 : twi_rule_of_bye((uint64_t)value);

	if (value < 0)
		return twi_error(TOW_EPEER, "peer %s%s has gone without a goodbye", address, rank);
	if (rule == 0)
		return twi_error(TOW_EPEER, "peer %s%s" CLOSED, address, rank);
	return twi_error(
		TOW_EPEER,
		"peer %s%s ended the connection: it says that this side broke rule %u of the "
		"protocol: %s",
		address, rank, rule, twi_rule_text(rule));
}
