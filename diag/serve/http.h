/*
 * http.h - answers a request: a function of its method, path and query, without a socket.
 *
 *	GET or HEAD, a path that a source has    200   JSON or OpenMetrics
 *	/metrics, Accept: text/plain             200   Prometheus' text format (plain.h)
 *	GET or HEAD, /ui                         200   the live page (ui/ui.h), with its policy
 *	GET or HEAD, another path                404   {"error":..., "paths":[...]}
 *	another method                           405   {"error":...}, Allow: GET, HEAD
 *	an invalid path                          400   {"error":...}
 *	no memory for the answer                 500   {"error":...}
 *	a capture's path, seconds=0..its most    200   its bytes, when the capture has ended
 *	and, where it has formats, format=one    200   its bytes in that format
 *	a capture's path, another query          400   {"error":...} that names the parameter
 *	a format that this build cannot write    501   {"error":...}
 *	too many captures at once                503   {"error":...}, Retry-After
 *	over TCP, no token, or a wrong one       401   {"error":...}, WWW-Authenticate
 *	over TCP, after too many wrong ones      429   {"error":...}, Retry-After
 *
 * Documents have no parameters. If a request gives some, they are ignored.
 */
#ifndef TWI_HTTP_H
#define TWI_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct twi_capture;
struct twi_diag;

#define TWI_HTTP_PATH_MAX 256
#define TWI_HTTP_UI       "/ui"
#define TWI_HTTP_ALLOW    "GET, HEAD"
#define TWI_HTTP_PARAMS   8 /* of a query; a query with more is refused */
#define TWI_HTTP_RETRY_S  2 /* until a capture may be tried again */

enum twi_http_kind {
	TWI_HTTP_DOCUMENT,
	TWI_HTTP_METRICS,
	TWI_HTTP_PAGE,
	TWI_HTTP_BAD_METHOD,
	TWI_HTTP_BAD_PATH,
};

struct twi_http_route {
	enum twi_http_kind kind;
	unsigned status;          /* 200: only if the document is found */
	const char *content_type; /* of the document, if it is found */
};

struct twi_http_answer {
	unsigned status;
	const char *content_type;
	const char *allow; /* NULL unless the status is 405 */
	bool retry;        /* 503, 429: Retry-After is TWI_HTTP_RETRY_S */
	char *text;        /* for free(); NULL: there was no memory even for an error */
	size_t bytes;
	const char *policy; /* only a page has it: Content-Security-Policy, and no referrer */
};

struct twi_http_route twi_http_route(const char *method, const char *path);

/*
 * Routes the request and renders its document. accept: that header, or NULL; it chooses the format
 * of /metrics (plain.h). A HEAD gets the text, too; the caller does not send it.
 */
void twi_http_answer(struct twi_diag *diag, const char *method, const char *path,
		     const char *accept, struct twi_http_answer *out);

/* One parameter of a query, unchanged from the request. value NULL: it has no "=". */
struct twi_http_param {
	const char *name, *value;
};

struct twi_http_query {
	unsigned count; /* can exceed the room: further ones are counted only */
	struct twi_http_param params[TWI_HTTP_PARAMS];
};

/* The values in the query of a capture. */
struct twi_http_wish {
	int64_t seconds; /* -1: not given */
	unsigned format; /* index among the capture's formats */
};

/*
 * Reads the query of a capture: seconds=0..its most, and format=one of its formats if it has any.
 * Both are optional. Returns 0, or -1 with an answer that names the error.
 */
int twi_http_wish(const struct twi_http_query *query, const struct twi_capture *capture,
		  struct twi_http_wish *out, struct twi_http_answer *wrong_out);

/* Makes an error as JSON for a request that does not reach twi_http_answer. */
void twi_http_error(unsigned status, const char *what, struct twi_http_answer *out);

#endif
