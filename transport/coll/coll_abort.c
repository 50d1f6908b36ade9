/*
 * coll_abort.c - tow_group_abort: a rank ends all that is in flight in a group, at all its ranks.
 *
 * An abort breaks the group (coll_fail.c) with a status of its own. Control messages carry this
 * status, so ranks pass an abort on like a failure. An abort also ends barriers and waits in the
 * store, which a broken group leaves alone. It reaches groups that are broken already, too: its
 * text replaces theirs.
 */
#include <stdio.h>

#include "diag/base/cancel.h"
#include "diag/base/error.h"
#include "diag/record/diag.h"
#include "transport/coll/coll.h"
#include "transport/engine/engine.h"
#include "transport/job/group.h"

#define REASON_BYTES 250

void twi_coll_group_abort(struct twi_coll_group *coll)
{
	char why[TWI_COLL_WHY];
	uint64_t seq = coll->series.finished + 1;

	twi_assert_held(coll->engine);
	if (coll->aborted)
		return;
	coll->aborted = true;
	snprintf(why, sizeof(why), "%.*s", (int)sizeof(why) - 1, tow_error_message());
	if (coll->state != TWI_COLL_BROKEN) {
		twi_coll_break(coll, seq, TOW_EABORTED, true);
	} else {
		snprintf(coll->why, sizeof(coll->why), "%s", why);
		coll->series.broken = TOW_EABORTED;
		twi_coll_tell_broken(coll, coll->series.broken_seq, TOW_EABORTED);
	}
	twi_error(TOW_EABORTED, "%s", why);
	twi_group_abort(coll->group);
}

TOW_PUBLIC int tow_group_abort(struct tow_group *group, const char *reason)
{
	TWI_UNCANCELED;
	int status = twi_group_check(group, "tow_group_abort");
	char label[TOW_GROUP_LABEL_MAX];
	struct twi_coll_group *coll;
	struct twi_error_kept kept;
	bool quote;

	if (status < 0)
		return status;
	twi_error_keep(&kept);
	twi_group_enter(group->ranks->engine);
	status = twi_coll_of(group, &coll);
	if (status == TOW_OK) {
		twi_label_read(coll->engine->diag, group->id, label);
		quote = label[0] != '\0';
		twi_error(TOW_EABORTED, "rank %u has aborted the group%s%s%s%s%.*s", group->rank,
			  quote ? " \"" : "", label, quote ? "\"" : "", reason == NULL ? "" : ": ",
			  REASON_BYTES, reason == NULL ? "" : reason);
		twi_coll_group_abort(coll);
	}
	twi_engine_leave(group->ranks->engine);
	return twi_error_settle(&kept, status);
}
