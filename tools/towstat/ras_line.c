/*
 * ras_line.c - see ras_line.h.
 */
#include "tools/towstat/ras_line.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "tools/common/words.h"

#define WORD_BYTES 128 /* of a client's line, when quoted in an answer */

void ras_session_init(struct ras_session *session)
{
	*session = (struct ras_session){ .timeout_s = RAS_TIMEOUT_S };
}

/* The rest behind `head`; NULL: the line begins otherwise. */
static const char *behind_head(const char *line, const char *head)
{
	return strncasecmp(line, head, strlen(head)) == 0 ? line + strlen(head) : NULL;
}

static void refuse_word(char *out, size_t room, const char *what, const char *word)
{
	char clean[WORD_BYTES];

	words_clean(clean, sizeof(clean), word);
	snprintf(out, room, "ERROR: %s: %s\n", what, clean);
}

static void accept_line(char *out, size_t room)
{
	snprintf(out, room, "OK\n");
}

static void take_timeout(struct ras_session *session, const char *word, char *out, size_t room)
{
	char *end;
	long seconds;

	errno = 0;
	seconds = strtol(word, &end, 10);
	if (errno != 0 || end == word || *end != '\0' || seconds < 0 ||
	    seconds > RAS_TIMEOUT_MAX_S) {
		refuse_word(out, room, "a timeout is a number of seconds, 0 for none", word);
		return;
	}
	session->timeout_s = seconds;
	accept_line(out, room);
}

static void take_format(struct ras_session *session, const char *word, char *out, size_t room)
{
	if (strcasecmp(word, "text") != 0 && strcasecmp(word, "json") != 0) {
		refuse_word(out, room, "a format is text or json", word);
		return;
	}
	session->json = strcasecmp(word, "json") == 0;
	accept_line(out, room);
}

/* Takes "", "lifecycle", "trace,lifecycle", "all". */
static void take_events(struct ras_session *session, const char *words, char *out, size_t room)
{
	static const struct {
		const char *name;
		unsigned events;
	} groups[] = { { "lifecycle", RAS_LIFECYCLE },
		       { "trace", RAS_TRACE },
		       { "all", RAS_LIFECYCLE | RAS_TRACE } };
	unsigned events = 0;

	words += strspn(words, " ");
	while (*words != '\0') {
		size_t bytes = strcspn(words, ","), found = 0;

		for (size_t i = 0; i < sizeof(groups) / sizeof(groups[0]); i++) {
			if (bytes != strlen(groups[i].name) ||
			    strncasecmp(words, groups[i].name, bytes) != 0)
				continue;
			events |= groups[i].events;
			found = 1;
		}
		if (found == 0) {
			refuse_word(out, room, "groups of events are lifecycle, trace and all",
				    words);
			return;
		}
		words += bytes + (words[bytes] == ',');
	}
	session->events = events != 0 ? events : RAS_LIFECYCLE;
	accept_line(out, room);
}

enum ras_deed ras_line_take(struct ras_session *session, const char *line, char *reply_out,
			    size_t room)
{
	const char *behind;

	if (strcasecmp(line, "status") == 0 || strcasecmp(line, "verbose status") == 0) {
		session->verbose = strcasecmp(line, "status") != 0;
		return RAS_REPORTS;
	}
	if (behind_head(line, "client protocol ") != NULL)
		snprintf(reply_out, room, "SERVER PROTOCOL %d\n", RAS_PROTOCOL);
	else if ((behind = behind_head(line, "timeout ")) != NULL)
		take_timeout(session, behind, reply_out, room);
	else if ((behind = behind_head(line, "set format ")) != NULL)
		take_format(session, behind, reply_out, room);
	else if (strcasecmp(line, "monitor") == 0)
		take_events(session, "", reply_out, room);
	else if ((behind = behind_head(line, "monitor ")) != NULL)
		take_events(session, behind, reply_out, room);
	else
		refuse_word(reply_out, room, "no such command", line);
	return RAS_REPLIES;
}
