/*
 * planned.c - public calls whose shape is decided and that are not built yet: each is refused by
 * name, so that nobody takes one for working (docs/abi.md has the list).
 */
#include <towline/queue.h>
#include <towline/remote.h>

#include "diag/base/error.h"
#include "transport/op/op_options.h"

static int refuse_planned(const char *what)
{
	return twi_error(TOW_ENOTSUP, "%s is declared, and not built in this version (docs/abi.md)",
			 what);
}

int twi_op_options_adapt(const char *call, uint64_t allowed,
			 const struct tow_op_options **options_io, struct tow_op_options *known)
{
	int status = TWI_SIZED_IN(tow_op_options, call, *options_io, known);
	const struct tow_op_options *options = *options_io;

	if (status < 0)
		return status;
	if ((options->flags & ~(TOW_OP_AT_ONCE | TOW_OP_TRUNCATE | TOW_OP_LEND)) != 0)
		return twi_error(TOW_EINVAL, "%s: options->flags has unknown bits, %#llx", call,
				 (unsigned long long)options->flags);
	if ((options->flags & TOW_OP_TRUNCATE & ~allowed) != 0)
		return twi_error(TOW_EINVAL,
				 "%s: TOW_OP_TRUNCATE in options->flags is for receives alone",
				 call);
	if ((options->flags & TOW_OP_LEND & ~allowed) != 0)
		return twi_error(TOW_EINVAL,
				 "%s: TOW_OP_LEND in options->flags is for sends, replies and "
				 "pieces of a stream alone",
				 call);
	if (options->result != NULL &&
	    twi_sized_check_out(TWI_SIZED_tow_result, call, options->result) < 0)
		return TOW_EINVAL;
	if (options->channel != NULL && (allowed & TWI_OP_ALLOW_CHANNEL) == 0)
		return twi_error(TOW_EINVAL,
				 "%s: options->channel is for messages of one peer alone", call);
	return options->queue != NULL ? refuse_planned("options->queue") : TOW_OK;
}

TOW_PUBLIC int tow_queue_open(struct tow_runtime *runtime, uint32_t room,
			      struct tow_queue **queue_out)
{
	(void)runtime, (void)room;
	if (queue_out != NULL)
		*queue_out = NULL;
	return refuse_planned("tow_queue_open");
}

TOW_PUBLIC int tow_queue_fd(struct tow_queue *queue, int *fd_out)
{
	(void)queue, (void)fd_out;
	return refuse_planned("tow_queue_fd");
}

TOW_PUBLIC int tow_queue_take(struct tow_queue *queue, struct tow_result *results_out, size_t room,
			      size_t *count_out)
{
	(void)queue, (void)results_out, (void)room;
	if (count_out != NULL)
		*count_out = 0;
	return refuse_planned("tow_queue_take");
}

TOW_PUBLIC int tow_queue_close(struct tow_queue *queue)
{
	(void)queue;
	return refuse_planned("tow_queue_close");
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
