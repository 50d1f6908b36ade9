/* command.c - runs a command line of the shell and keeps what it prints. */
#include "command.h"

void twt_command(const char *line, struct twt_command *out)
{
	const char *build = getenv("TOW_TEST_BUILD");
	char full[4096];
	size_t used = 1, got = 0;
	FILE *pipe;
	int status;

	full[0] = '(';
	for (; *line != '\0' && used + 512 < sizeof(full); line++) {
		if (line[0] == '@' && line[1] == '/')
			used += (size_t)snprintf(full + used, sizeof(full) - used, "%s",
						 build != NULL ? build : ".");
		else
			full[used++] = *line;
	}
	snprintf(full + used, sizeof(full) - used, "\n) 2>&1");
	pipe = popen(full, "r");
	assert_non_null(pipe);
	got = fread(out->text, 1, sizeof(out->text) - 1, pipe);
	out->text[got] = '\0';
	status = pclose(pipe);
	out->status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int twt_command_count(const struct twt_command *command, const char *words)
{
	const char *at = command->text;
	int count = 0;

	while ((at = strstr(at, words)) != NULL) {
		count++;
		at += strlen(words);
	}
	return count;
}

void twt_command_expect(const struct twt_command *command, int status, const char *words, int count)
{
	if (command->status != status || twt_command_count(command, words) != count)
		fail_msg("status %d, wanted %d with %d times \"%s\":\n%s", command->status, status,
			 count, words, command->text);
}
