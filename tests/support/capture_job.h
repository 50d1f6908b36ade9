/*
 * capture_job.h - two ranks of trace_program under towrun, which stay while a shell command asks
 * them.
 */
#ifndef TWT_CAPTURE_JOB_H
#define TWT_CAPTURE_JOB_H

#include "command.h"

/*
 * Runs `command` in `folder` when both ranks have done their steps; their stats sockets are
 * s/\*.sock there, as $TOW_STATS_DIR, too. The job's name is `job`. Its status is the command's, 9
 * when the job itself failed.
 */
void twt_capture_job(const char *folder, const char *job, const char *command,
		     struct twt_command *out);

#endif
