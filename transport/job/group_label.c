/*
 * group_label.c - the public calls on the label of a group. The table is diag/record/label.h.
 */
#include "diag/base/error.h"
#include "diag/record/diag.h"
#include "transport/engine/engine.h"
#include "transport/job/group.h"

TOW_PUBLIC int tow_group_set_label(struct tow_group *group, const char *label)
{
	int status = twi_group_check(group, "tow_group_set_label");

	if (status == TOW_OK && label != NULL)
		status = twi_label_check("tow_group_set_label", label);
	if (status < 0)
		return status;
	return twi_label_set(group->ranks->engine->diag, group->id, label);
}

TOW_PUBLIC int tow_group_label(const struct tow_group *group, char label_out[TOW_GROUP_LABEL_MAX])
{
	int status = twi_group_check(group, "tow_group_label");

	if (status == TOW_OK && label_out == NULL)
		status = twi_error(TOW_EINVAL, "tow_group_label: label_out is NULL");
	if (status < 0)
		return status;
	twi_label_read(group->ranks->engine->diag, group->id, label_out);
	return TOW_OK;
}

void twi_group_label_like(struct tow_group *group, const char *name)
{
	char label[TOW_GROUP_LABEL_MAX];
	struct twi_error_kept kept;

	twi_error_keep(&kept);
	twi_label_from(name, label);
	/* Without memory the group is known by its number. */
	(void)twi_label_set(group->ranks->engine->diag, group->id, label);
	(void)twi_error_settle(&kept, TOW_OK);
}
