/*
 * ras_line.h - parses the lines of a client of NCCL's RAS, and answers each.
 *
 *	client protocol N        SERVER PROTOCOL 2
 *	timeout SECONDS          OK                    how long ranks may take to answer
 *	set format text|json     OK
 *	status, verbose status   the report, then the end of the connection
 *	monitor [GROUP,...]      OK, then an event each time that a rank changes
 *	anything else            ERROR: ...
 *
 * Upper and lower case are the same. A line ends with a newline, with or without a carriage return
 * before it. Pure.
 */
#ifndef TOWSTAT_RAS_LINE_H
#define TOWSTAT_RAS_LINE_H

#include <stdbool.h>
#include <stddef.h>

#define RAS_PORT          28028
#define RAS_PROTOCOL      2
#define RAS_LINE_BYTES    1024 /* bound of a line; a longer one ends the connection */
#define RAS_TIMEOUT_S     5    /* default timeout of a client */
#define RAS_TIMEOUT_MAX_S 86400

enum { RAS_LIFECYCLE = 1, RAS_TRACE = 2 }; /* groups of events */

/* What a client has set so far. */
struct ras_session {
	long timeout_s; /* 0: no limit */
	bool json, verbose;
	unsigned events; /* groups of events; 0: it does not monitor */
};

void ras_session_init(struct ras_session *session);

enum ras_deed { RAS_REPLIES, RAS_REPORTS };

/*
 * Takes a line without its end. RAS_REPLIES: reply_out has the reply, with its newline.
 * RAS_REPORTS: the client asks for the report.
 */
enum ras_deed ras_line_take(struct ras_session *session, const char *line, char *reply_out,
			    size_t room);

#endif
