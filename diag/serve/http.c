/*
 * http.c - implements the table of http.h, and errors as JSON.
 */
#include "diag/serve/http.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <towline/status.h>

#include "diag/base/emit.h"
#include "diag/record/registry.h"
#include "diag/serve/plain.h"
#include "diag/serve/render.h"
#include "diag/serve/report.h"
#include "diag/serve/ui/ui.h"

#define TYPE_JSON        "application/json; charset=utf-8"
#define TYPE_HTML        "text/html; charset=utf-8"
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
	if (strcmp(path, TWI_HTTP_UI) == 0)
		return (struct twi_http_route){ TWI_HTTP_PAGE, 200, TYPE_HTML };
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

/* Converts the rendered text to the older format. */
static int make_plain(struct twi_emit *e)
{
	struct twi_emit plain;
	char *text;
	int status = twi_emit_take(e, &text);

	if (status < 0)
		return status;
	twi_emit_init(&plain);
	twi_plain_emit(&plain, text);
	free(text);
	*e = plain;
	return plain.status;
}

void twi_http_answer(struct twi_diag *diag, const char *method, const char *path,
		     const char *accept, struct twi_http_answer *out)
{
	struct twi_http_route route = twi_http_route(method, path);
	struct twi_emit e;
	int status;

	*out = (struct twi_http_answer){ .status = route.status,
					 .content_type = route.content_type };
	if (route.kind == TWI_HTTP_BAD_METHOD) {
		out->allow = TWI_HTTP_ALLOW;
		answer_error(diag, route.status,
			     "only GET and HEAD are served; nothing can be changed here", out);
		return;
	}
	if (route.kind == TWI_HTTP_BAD_PATH) {
		answer_error(diag, route.status, "this is not a path; GET /v1 lists the documents",
			     out);
		return;
	}
	twi_emit_init(&e);
	if (route.kind == TWI_HTTP_PAGE) {
		twi_emit_puts(&e, twi_ui_page);
		out->policy = twi_ui_policy;
		status = e.status;
	} else {
		status = twi_registry_render(diag, path, &e);
	}
	if (status == TOW_OK && route.kind == TWI_HTTP_METRICS && twi_plain_wanted(accept)) {
		out->content_type = TWI_PLAIN_TYPE;
		status = make_plain(&e);
	}
	out->bytes = e.bytes;
	if (status == TOW_OK)
		status = twi_emit_take(&e, &out->text);
	twi_emit_fini(&e);
	if (status < 0)
		out->policy = NULL;
	if (status == TOW_EINVAL)
		answer_error(diag, 404, "no such path", out);
	else if (status < 0)
		answer_error(diag, 500, "no memory for the answer", out);
}

void twi_http_error(unsigned status, const char *what, struct twi_http_answer *out)
{
	*out = (struct twi_http_answer){ .retry = status == 503 || status == 429 };
	answer_error(NULL, status, what, out);
}

/* A whole number up to `most`; -1: it is not one. */
static int64_t whole_seconds(const char *text, uint32_t most)
{
	int64_t seconds = 0;
	unsigned digits = 0;

	for (; text != NULL && text[digits] >= '0' && text[digits] <= '9' && digits < 6; digits++)
		seconds = seconds * 10 + (text[digits] - '0');
	return digits > 0 && text[digits] == '\0' && seconds <= (int64_t)most ? seconds : -1;
}

/* The list of known parameters, for messages. */
static const char *known_params(const struct twi_capture *capture)
{
	return capture->formats != NULL ? "there are two, seconds and format"
					: "there is one, seconds";
}

static void take_seconds(const struct twi_http_param *param, const struct twi_capture *capture,
			 struct twi_http_wish *wish, char *what, size_t room)
{
	if (wish->seconds >= 0) {
		snprintf(what, room, "the parameter seconds is given twice");
		return;
	}
	wish->seconds = whole_seconds(param->value, capture->seconds_max);
	if (wish->seconds < 0)
		snprintf(what, room, "seconds is '%.64s'; it is a whole number from 0 to %u",
			 param->value != NULL ? param->value : "", capture->seconds_max);
}

static void take_format(const struct twi_http_param *param, const struct twi_capture *capture,
			bool *given, struct twi_http_wish *wish, char *what, size_t room)
{
	const struct twi_capture_format *formats = capture->formats;
	const char *value = param->value != NULL ? param->value : "";
	size_t used;

	if (*given) {
		snprintf(what, room, "the parameter format is given twice");
		return;
	}
	*given = true;
	for (unsigned i = 0; formats[i].name != NULL; i++) {
		if (strcmp(formats[i].name, value) == 0) {
			wish->format = i;
			return;
		}
	}
	used = (size_t)snprintf(what, room, "format is '%.64s'; it is one of", value);
	for (unsigned i = 0; formats[i].name != NULL && used < room; i++)
		used += (size_t)snprintf(what + used, room - used, "%s %s", i > 0 ? "," : "",
					 formats[i].name);
	if (capture->formats_elsewhere != NULL && used < room)
		snprintf(what + used, room - used, "; %s", capture->formats_elsewhere);
}

int twi_http_wish(const struct twi_http_query *query, const struct twi_capture *capture,
		  struct twi_http_wish *out, struct twi_http_answer *wrong_out)
{
	bool format_given = false;
	char what[256] = "";

	*out = (struct twi_http_wish){ .seconds = -1 };
	if (query->count > TWI_HTTP_PARAMS)
		snprintf(what, sizeof(what), "more than %d parameters; %s", TWI_HTTP_PARAMS,
			 known_params(capture));
	for (unsigned i = 0; i < query->count && what[0] == '\0'; i++) {
		const struct twi_http_param *param = &query->params[i];

		if (strcmp(param->name, "seconds") == 0)
			take_seconds(param, capture, out, what, sizeof(what));
		else if (capture->formats != NULL && strcmp(param->name, "format") == 0)
			take_format(param, capture, &format_given, out, what, sizeof(what));
		else
			snprintf(what, sizeof(what), "no such parameter: '%.64s'; %s", param->name,
				 known_params(capture));
	}
	if (what[0] == '\0')
		return 0;
	twi_http_error(400, what, wrong_out);
	return -1;
}
