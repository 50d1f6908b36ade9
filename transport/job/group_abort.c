/*
 * group_abort.c - ends the barriers and waits of an aborted group (coll/coll_abort.c). No call on
 * it begins any more.
 *
 * Calls that wait in the store poll a descriptor of the group beside their socket. It becomes
 * readable when the group is aborted, and stays so. The first of these calls makes it.
 */
#include <errno.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <internal/base.h>

#include "diag/base/error.h"
#include "diag/base/fd.h"
#include "transport/engine/engine.h"
#include "transport/job/group_barrier.h"
#include "transport/job/group_message.h"

static void signal_waits(const struct tow_group *group)
{
	uint64_t one = 1;

	while (group->abort_fd >= 0 && write(group->abort_fd, &one, sizeof(one)) < 0 &&
	       errno == EINTR)
		;
}

void twi_group_abort(struct tow_group *group)
{
	twi_assert_held(group->ranks->engine);
	if (group->aborted)
		return;
	group->aborted = true;
	snprintf(group->abort_why, sizeof(group->abort_why), "%.*s",
		 (int)sizeof(group->abort_why) - 1, tow_error_message());
	signal_waits(group);
	twi_group_messages_abort(group, TOW_EABORTED);
	twi_barrier_log_abort(group->barriers, TOW_EABORTED);
}

static int aborted_status(const struct tow_group *group)
{
	return group->aborted ? twi_error(TOW_EABORTED, "%s", group->abort_why) : TOW_OK;
}

int twi_group_check_aborted(struct tow_group *group)
{
	int status;

	twi_group_enter(group->ranks->engine);
	status = aborted_status(group);
	twi_engine_leave(group->ranks->engine);
	return status;
}

int twi_group_wait_begin(struct tow_group *group, struct twi_until *until)
{
	int status;

	twi_group_enter(group->ranks->engine);
	status = aborted_status(group);
	if (status == TOW_OK && group->abort_fd < 0)
		group->abort_fd = twi_fd_high(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	if (status == TOW_OK && group->abort_fd < 0)
		status = twi_error_errno(TOW_ESYSTEM, errno, "a descriptor to wait in the store");
	until->cancel_fd = group->abort_fd;
	until->engine = group->ranks->engine;
	twi_engine_leave(group->ranks->engine);
	return status;
}

int twi_group_wait_end(struct tow_group *group, int status)
{
	int aborted = status == TOW_ECANCELED ? twi_group_check_aborted(group) : TOW_OK;

	return aborted < 0 ? aborted : status;
}

void twi_group_abort_free(struct tow_group *group)
{
	if (group->abort_fd >= 0)
		close(group->abort_fd);
	group->abort_fd = -1;
}
