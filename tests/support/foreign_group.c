/* foreign_group.c - a group of another library. */
#include "foreign_group.h"

#include "pair.h"

int twt_fg_runtime(struct tow_runtime **out)
{
	struct tow_options options = TOW_OPTIONS_INIT;

	options.premap_memory_bytes = 4 << 20;
	options.job = "foreign";
	options.rank = 5;
	return tow_runtime_open(&options, out);
}

struct tow_foreign_group *twt_fg_open(struct tow_runtime *runtime, const char *name, uint64_t id,
				      uint32_t rank, uint32_t ranks)
{
	struct tow_foreign_options options = TOW_FOREIGN_OPTIONS_INIT;
	struct tow_foreign_group *group;

	options.name = name;
	options.id = id;
	options.rank = rank;
	options.ranks = ranks;
	TWT_OK(tow_foreign_open(runtime, &options, &group));
	return group;
}

struct tow_foreign_coll twt_fg_all_reduce(uint64_t bytes, uint64_t start_ns)
{
	struct tow_foreign_coll coll = TOW_FOREIGN_COLL_INIT;

	coll.kind = TOW_FOREIGN_ALL_REDUCE;
	coll.type = TOW_F32;
	coll.reduce = TOW_SUM;
	coll.bytes = bytes;
	coll.start_ns = start_ns;
	coll.plan = "ring/simple";
	return coll;
}

struct tow_foreign_message twt_fg_sent(uint32_t peer, uint64_t ms)
{
	struct tow_foreign_message message = TOW_FOREIGN_MESSAGE_INIT;

	message.peer = peer;
	message.sends = 1;
	message.bytes = 1000;
	message.end_ns = tow_foreign_clock();
	message.start_ns = message.end_ns - ms * FG_MS;
	message.wire_ns = ms * FG_MS;
	return message;
}
