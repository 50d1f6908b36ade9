/* capture_job.c - two ranks that are captured. */
#include "capture_job.h"

#include <stdio.h>

void twt_capture_job(const char *folder, const char *job, const char *command,
		     struct twt_command *out)
{
	char line[3000];

	snprintf(line, sizeof(line),
		 "cd %s && rm -f ready.* leave && mkdir -p s && export TOW_STATS_DIR=$PWD/s && "
		 "{ TOW_JOB=%s TOW_LANES=tcp timeout 60 @/tools/towrun/towrun -n 2 --timeout 50 -- "
		 "@/tests/trace_program $PWD >job.log 2>&1 </dev/null & job=$!; } && i=0; "
		 "while [ $i -lt 3000 ] && ! { [ -e ready.0 ] && [ -e ready.1 ]; }; do "
		 "kill -0 $job || break; sleep 0.01; i=$((i + 1)); done; "
		 "%s; status=$?; : >leave; wait $job || { cat job.log; exit 9; }; exit $status",
		 folder, job, command);
	twt_command(line, out);
}
