/*
 * http.h - what a request deserves: a function of its method, path and query, with no socket in it.
 *
 *	GET or HEAD, a path that a source has    200   JSON or OpenMetrics
 *	/metrics, Accept: text/plain             200   Prometheus' text format (plain.h)
 *	GET or HEAD, /ui                         200   the live page (ui/ui.h), with its policy
 *	GET or HEAD, another path                404   {"error":..., "paths":[...]}
 *	another method                           405   {"error":...}, Allow: GET, HEAD
 *	a path that can be no path               400   {"error":...}
 *	no memory for the answer                 500   {"error":...}
 *	a capture's path, seconds=0..its most    200   its bytes, when they are there
 *	and, where it has formats, format=one    200   its bytes in that format
 *	a capture's path, another query          400   {"error":...} that names the parameter
 *	a format that this build cannot write    501   {"error":...}
 *	too many captures at once                503   {"error":...}, Retry-After
 *	over TCP, no token, or a wrong one       401   {"error":...}, WWW-Authenticate
 *	over TCP, after too many wrong ones      429   {"error":...}, Retry-After
 *
 * Documents have no parameters, and one that is given is ignored.
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
#define TWI_HTTP_PARAMS   8 /* of a query; one that has more is refused */
#define TWI_HTTP_RETRY_S  2 /* when a capture may be tried again */

enum twi_http_kind {
	TWI_HTTP_DOCUMENT,
	TWI_HTTP_METRICS,
	TWI_HTTP_PAGE,
	TWI_HTTP_BAD_METHOD,
	TWI_HTTP_BAD_PATH,
};

struct twi_http_route {
	enum twi_http_kind kind;
	unsigned status;          /* 200 still has to be found */
	const char *content_type; /* of the answer when it is found */
};

struct twi_http_answer {
	unsigned status;
	const char *content_type;
	const char *allow; /* NULL unless 405 */
	bool retry;        /* 503, 429: Retry-After is TWI_HTTP_RETRY_S */
	char *text;        /* to be given to free(); NULL: there was no memory even for an error */
	size_t bytes;
	const char *policy; /* NULL but of a page: Content-Security-Policy, and no referrer */
};

struct twi_http_route twi_http_route(const char *method, const char *path);

/*
 * Routes and renders. accept: the header of that name, or NULL; /metrics goes by it (plain.h). A
 * HEAD has the text too: who sends it leaves it out.
 */
void twi_http_answer(struct twi_diag *diag, const char *method, const char *path,
		     const char *accept, struct twi_http_answer *out);

/* One parameter of a query, as it stands in the request. value NULL: there is no "=". */
struct twi_http_param {
	const char *name, *value;
};

struct twi_http_query {
	unsigned count; /* may be more than there is room for: those behind are not kept */
	struct twi_http_param params[TWI_HTTP_PARAMS];
};

/* What the query of a capture asks for. */
struct twi_http_wish {
	int64_t seconds; /* -1: not said */
	unsigned format; /* its place among the capture's */
};

/*
 * The query of a capture: seconds=0..its most, and format=one of its formats if it has any; both
 * may be left out. 0, or -1 with the answer that says what is wrong.
 */
int twi_http_wish(const struct twi_http_query *query, const struct twi_capture *capture,
		  struct twi_http_wish *out, struct twi_http_answer *wrong_out);

/* An error as JSON, for a status that twi_http_answer does not know of: 400, 500, 503. */
void twi_http_error(unsigned status, const char *what, struct twi_http_answer *out);

#endif
