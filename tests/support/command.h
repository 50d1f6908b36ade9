/*
 * command.h - runs a command line of the shell and keeps what it prints, both streams.
 *
 * "@/" in it stands for the build folder: twt_command("@/tools/towrun/towrun -n 2 true", ...).
 */
#ifndef TWT_COMMAND_H
#define TWT_COMMAND_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "twt.h"

#define TWT_COMMAND_BYTES (1 << 16)

struct twt_command {
	int status; /* as the shell says it: 128 and the signal when it was killed */
	char text[TWT_COMMAND_BYTES];
};

void twt_command(const char *line, struct twt_command *out);

/* How often `words` stand in what it printed. */
int twt_command_count(const struct twt_command *command, const char *words);

/* It ended with that status, and printed those words that often; else the test has failed. */
void twt_command_expect(const struct twt_command *command, int status, const char *words,
			int count);

#endif
