/*
 * introspect.c - the lists of counters, reasons and statuses, for tools and other languages.
 */
#include <internal/base.h>
#include <towline/stats.h>

#include "diag/counter.h"
#include "diag/error.h"

static int bad(const char *call, size_t index, size_t count)
{
	if (index >= count)
		return twi_error(TOW_EINVAL, "%s: index %zu; there are %zu rows", call, index,
				 count);
	return twi_error(TOW_EINVAL, "%s: the row is NULL or its size is not set", call);
}

TOW_PUBLIC int tow_counter_info(size_t index, struct tow_counter_row *row_out)
{
	const struct twi_counter_info *info;

	if (index >= TWI_C_COUNT || row_out == NULL || row_out->size < sizeof(*row_out))
		return bad("tow_counter_info", index, TWI_C_COUNT);
	info = twi_counter_describe((enum twi_counter)index);
	row_out->name = info->name;
	row_out->unit = info->unit;
	row_out->help = info->help;
	return TOW_OK;
}

TOW_PUBLIC int tow_reason_info(size_t index, struct tow_reason_row *row_out)
{
	const struct twi_reason_info *info;

	if (index >= TWI_R_COUNT || row_out == NULL || row_out->size < sizeof(*row_out))
		return bad("tow_reason_info", index, TWI_R_COUNT);
	info = twi_reason_describe((enum twi_reason)index);
	row_out->name = info->name;
	row_out->kind = info->kind;
	row_out->help = info->help;
	row_out->cure = info->cure;
	return TOW_OK;
}

static const int statuses[] = {
#define STATUS_VALUE(name, value, text) value,
	TOW_STATUS_MAP(STATUS_VALUE)
#undef STATUS_VALUE
};

TOW_PUBLIC int tow_status_info(size_t index, struct tow_status_row *row_out)
{
	size_t count = twi_array_count(statuses);

	if (index >= count || row_out == NULL || row_out->size < sizeof(*row_out))
		return bad("tow_status_info", index, count);
	row_out->value = statuses[index];
	row_out->name = tow_status_name(statuses[index]);
	row_out->text = tow_status_text(statuses[index]);
	return TOW_OK;
}
