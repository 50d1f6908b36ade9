/*
 * http.c - the table of http.h, and the errors as JSON.
 */
#include "diag/http.h"

#include <string.h>

#include <towline/status.h>

#include "diag/emit.h"
#include "diag/registry.h"
#include "diag/report.h"

#define TYPE_JSON        "application/json; charset=utf-8"
#define TYPE_OPENMETRICS "application/openmetrics-text; version=1.0.0; charset=utf-8"

static bool good_path(const char *path)
{
	size_t bytes = strnlen(path, TWI_HTTP_PATH_MAX + 1);

	if (path[0] != '/' || bytes > TWI_HTTP_PATH_MAX)
		return false;
	for (size_t i = 0; i < bytes; i++) {
		if ((unsigned char)path[i] < 0x20 || (unsigned char)path[i] == 0x7f)
			return false;
	}
	return true;
}

struct twi_http_route twi_http_route(const char *method, const char *path)
{
	if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0)
		return (struct twi_http_route){ TWI_HTTP_BAD_METHOD, 405, TYPE_JSON };
	if (!good_path(path))
		return (struct twi_http_route){ TWI_HTTP_BAD_PATH, 400, TYPE_JSON };
	if (strcmp(path, TWI_METRICS_PATH) == 0)
		return (struct twi_http_route){ TWI_HTTP_METRICS, 200, TYPE_OPENMETRICS };
	return (struct twi_http_route){ TWI_HTTP_DOCUMENT, 200, TYPE_JSON };
}

static void answer_error(struct twi_diag *diag, unsigned status, const char *what,
			 struct twi_http_answer *out)
{
	struct twi_emit e;

	twi_emit_init(&e);
	twi_emit_object_begin(&e, NULL);
	twi_emit_str(&e, "error", what);
	if (status == 404)
		twi_registry_paths(diag, &e);
	twi_emit_object_end(&e);
	twi_emit_raw(&e, "\n");
	out->status = status;
	out->content_type = TYPE_JSON;
	out->bytes = e.bytes;
	if (twi_emit_take(&e, &out->text) < 0)
		out->bytes = 0;
}

void twi_http_answer(struct twi_diag *diag, const char *method, const char *path,
		     struct twi_http_answer *out)
{
	struct twi_http_route route = twi_http_route(method, path);
	struct twi_emit e;
	int status;

	*out = (struct twi_http_answer){ route.status, route.content_type, NULL, NULL, 0 };
	if (route.kind == TWI_HTTP_BAD_METHOD) {
		out->allow = TWI_HTTP_ALLOW;
		answer_error(diag, route.status, "only GET and HEAD; nothing can be changed here",
			     out);
		return;
	}
	if (route.kind == TWI_HTTP_BAD_PATH) {
		answer_error(diag, route.status, "this is no path; GET /v1 lists them", out);
		return;
	}
	twi_emit_init(&e);
	status = twi_registry_render(diag, path, &e);
	out->bytes = e.bytes;
	if (status == TOW_OK)
		status = twi_emit_take(&e, &out->text);
	twi_emit_fini(&e);
	if (status == TOW_EINVAL)
		answer_error(diag, 404, "no such path", out);
	else if (status < 0)
		answer_error(diag, 500, "no memory for the answer", out);
}
