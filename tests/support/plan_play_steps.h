/*
 * plan_play_steps.h - the second half of plan_play.h: what steps do, and who goes on next.
 */
#ifndef TWT_PLAN_PLAY_STEPS_H
#define TWT_PLAN_PLAY_STEPS_H

#include "plan_play.h"

bool twt_play_run(struct twt_play *play);

#endif
