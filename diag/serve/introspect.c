/*
 * introspect.c - the lists of counters, reasons, statuses and lanes, for tools and other languages.
 */
#include <internal/base.h>
#include <towline/stats.h>

#include "diag/base/error.h"
#include "diag/base/sized.h"
#include "diag/record/counter.h"
#include "diag/record/lane_id.h"

static int past_end(const char *call, size_t index, size_t count)
{
	return twi_error(TOW_EINVAL, "%s: index %zu; there are %zu rows", call, index, count);
}

TOW_PUBLIC int tow_counter_info(size_t index, struct tow_counter_info *row_out)
{
	struct tow_counter_info row = TOW_COUNTER_INFO_INIT;
	const struct twi_counter_info *info;

	if (index >= TWI_C_COUNT)
		return past_end("tow_counter_info", index, TWI_C_COUNT);
	info = twi_counter_describe((enum twi_counter)index);
	row.name = info->name;
	row.unit = info->unit;
	row.help = info->help;
	row.lanes = info->lanes;
	return TWI_SIZED_OUT(tow_counter_info, "tow_counter_info", &row, row_out);
}

TOW_PUBLIC int tow_reason_info(size_t index, struct tow_reason_info *row_out)
{
	struct tow_reason_info row = TOW_REASON_INFO_INIT;
	const struct twi_reason_info *info;

	if (index >= TWI_R_COUNT)
		return past_end("tow_reason_info", index, TWI_R_COUNT);
	info = twi_reason_describe((enum twi_reason)index);
	row.name = info->name;
	row.kind = info->kind;
	row.help = info->help;
	row.cure = info->cure;
	return TWI_SIZED_OUT(tow_reason_info, "tow_reason_info", &row, row_out);
}

static const int statuses[] = {
#define STATUS_VALUE(name, value, text) value,
	TOW_STATUS_MAP(STATUS_VALUE)
#undef STATUS_VALUE
};

TOW_PUBLIC int tow_status_info(size_t index, struct tow_status_info *row_out)
{
	struct tow_status_info row = TOW_STATUS_INFO_INIT;
	size_t count = twi_array_count(statuses);

	if (index >= count)
		return past_end("tow_status_info", index, count);
	row.value = statuses[index];
	row.name = tow_status_name(statuses[index]);
	row.text = tow_status_text(statuses[index]);
	return TWI_SIZED_OUT(tow_status_info, "tow_status_info", &row, row_out);
}

TOW_PUBLIC int tow_lane_info(size_t index, struct tow_lane_info *row_out)
{
	static const char *const reaches[] = {
		[TWI_REACH_PROCESS] = "process",
		[TWI_REACH_HOST] = "host",
		[TWI_REACH_NETWORK] = "network",
	};
	struct tow_lane_info row = TOW_LANE_INFO_INIT;
	const struct twi_lane_info *info;

	if (index >= TWI_LANE_COUNT)
		return past_end("tow_lane_info", index, TWI_LANE_COUNT);
	info = twi_lane_describe((enum twi_lane_id)index);
	row.name = info->name;
	row.reach = reaches[info->reach];
	row.local = info->local;
	row.help = info->help;
	return TWI_SIZED_OUT(tow_lane_info, "tow_lane_info", &row, row_out);
}
