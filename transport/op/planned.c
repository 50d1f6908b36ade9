/*
 * planned.c - public calls that are declared and not built yet. Each is refused by name, so that no
 * caller takes it for a working one (docs/abi.md has the list).
 */
#include <towline/remote.h>

#include <internal/base.h>

#include "diag/base/error.h"

static int refuse_planned(const char *what)
{
	return twi_error(TOW_ENOTSUP, "%s is declared, and not built in this version (docs/abi.md)",
			 what);
}

TOW_PUBLIC int tow_mem_export(struct tow_runtime *runtime, void *memory, uint64_t bytes,
			      uint32_t access, struct tow_remote_memory *remote_out)
{
	(void)runtime, (void)memory, (void)bytes, (void)access, (void)remote_out;
	return refuse_planned("tow_mem_export");
}

TOW_PUBLIC int tow_mem_unexport(struct tow_runtime *runtime, const struct tow_remote_memory *remote)
{
	(void)runtime, (void)remote;
	return refuse_planned("tow_mem_unexport");
}

TOW_PUBLIC int tow_read_start(struct tow_peer *peer, void *data, uint64_t bytes,
			      const struct tow_remote_memory *remote, uint64_t offset,
			      const struct tow_op_options *options, struct tow_op **op_out)
{
	(void)peer, (void)data, (void)bytes, (void)remote, (void)offset, (void)options;
	if (op_out != NULL)
		*op_out = NULL;
	return refuse_planned("tow_read_start");
}

TOW_PUBLIC int tow_write_start(struct tow_peer *peer, const void *data, uint64_t bytes,
			       const struct tow_remote_memory *remote, uint64_t offset,
			       const struct tow_op_options *options, struct tow_op **op_out)
{
	(void)peer, (void)data, (void)bytes, (void)remote, (void)offset, (void)options;
	if (op_out != NULL)
		*op_out = NULL;
	return refuse_planned("tow_write_start");
}
