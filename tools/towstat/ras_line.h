/*
 * ras_line.h - the lines that a client of NCCL's RAS sends, and what is answered to each.
 *
 *	client protocol N        SERVER PROTOCOL 2
 *	timeout SECONDS          OK                    how long ranks may take to answer
 *	set format text|json     OK
 *	status, verbose status   the report, then the end of the connection
 *	monitor [GROUP,...]      OK, then an event each time that a rank changes
 *	anything else            ERROR: ...
 *
 * In either case, ended by a newline, with or without a carriage return. Pure.
 */
#ifndef TOWSTAT_RAS_LINE_H
#define TOWSTAT_RAS_LINE_H

#include <stdbool.h>
#include <stddef.h>

#define RAS_PORT          28028
#define RAS_PROTOCOL      2
#define RAS_LINE_BYTES    1024 /* of a line; a longer one ends the connection */
#define RAS_TIMEOUT_S     5    /* unless the client says another */
#define RAS_TIMEOUT_MAX_S 86400

enum { RAS_LIFECYCLE = 1, RAS_TRACE = 2 }; /* groups of events */

/* What a client has said so far; ras_session_init. */
struct ras_session {
	long timeout_s; /* 0: none */
	bool json, verbose;
	unsigned events; /* groups; 0: it does not monitor */
};

void ras_session_init(struct ras_session *session);

enum ras_deed { RAS_REPLIES, RAS_REPORTS };

/*
 * A line without its end. RAS_REPLIES: the reply, with its newline, is in reply_out; RAS_REPORTS:
 * it asks for the report.
 */
enum ras_deed ras_line_take(struct ras_session *session, const char *line, char *reply_out,
			    size_t room);

#endif
