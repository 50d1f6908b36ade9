/*
 * http.h - what a request deserves: a function of its method and path, with no socket in it.
 *
 *	GET or HEAD, a path that a source has    200   JSON or OpenMetrics
 *	GET or HEAD, another path                404   {"error":..., "paths":[...]}
 *	another method                           405   {"error":...}, Allow: GET, HEAD
 *	a path that can be no path               400   {"error":...}
 *	no memory for the answer                 500   {"error":...}
 */
#ifndef TWI_HTTP_H
#define TWI_HTTP_H

#include <stdbool.h>
#include <stddef.h>

struct twi_diag;

#define TWI_HTTP_PATH_MAX 256
#define TWI_HTTP_ALLOW    "GET, HEAD"

enum twi_http_kind { TWI_HTTP_DOCUMENT, TWI_HTTP_METRICS, TWI_HTTP_BAD_METHOD, TWI_HTTP_BAD_PATH };

struct twi_http_route {
	enum twi_http_kind kind;
	unsigned status;          /* 200 still has to be found */
	const char *content_type; /* of the answer when it is found */
};

struct twi_http_answer {
	unsigned status;
	const char *content_type;
	const char *allow; /* NULL unless 405 */
	char *text;        /* to be given to free(); NULL: there was no memory even for an error */
	size_t bytes;
};

struct twi_http_route twi_http_route(const char *method, const char *path);

/* Routes and renders. A HEAD has the text too: who sends it leaves it out. */
void twi_http_answer(struct twi_diag *diag, const char *method, const char *path,
		     struct twi_http_answer *out);

#endif
