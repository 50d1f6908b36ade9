/*
 * trace_source.c - serves captures as /v1/trace, in the format that the client asked for, and as
 * traces for users.
 */
#include <stdlib.h>

#include "diag/base/error.h"
#include "diag/record/registry.h"
#include "diag/trace/capture/trace_capture.h"
#include "diag/trace/export/export.h"

#define PATH "/v1/trace"

struct session {
	struct twi_trace_capture *capture; /* NULL: only what the rings hold */
	enum tow_trace_format format;
};

/* In the order of enum tow_trace_format. */
static const struct twi_capture_format formats[] = {
	{ "xspace", "application/octet-stream" },
	{ "json", "application/json" },
	{ NULL, NULL },
};

static int start_session(void *arg, int64_t seconds, void **session_out, uint64_t *wait_ns_out)
{
	struct session *session = calloc(1, sizeof(*session));
	int status = TOW_OK;

	*session_out = session;
	if (session == NULL)
		return twi_error(TOW_ENOMEM, "no memory for a capture of a trace");
	if (seconds < 0)
		seconds = 1;
	if (seconds > 0)
		status = twi_trace_capture_start(arg, &session->capture);
	if (status < 0)
		free(session);
	*wait_ns_out = (uint64_t)seconds * 1000000000u;
	return status;
}

static int choose_format(void *arg, void *session, unsigned format)
{
	struct session *chosen = session;

	(void)arg;
	chosen->format = (enum tow_trace_format)format;
	if (chosen->format == TOW_TRACE_XSPACE && twi_xspace_ready() < 0)
		return twi_error(TOW_ENOTSUP, "format xspace: %s", tow_error_message());
	return TOW_OK;
}

static int finish_session(void *arg, void *ended, char **bytes_out, size_t *count_out)
{
	struct session *session = ended;
	struct twi_trace trace = { 0 };
	int status = TOW_OK;

	if (session->capture != NULL)
		status = twi_trace_capture_finish(session->capture,
						  bytes_out != NULL ? &trace : NULL);
	else if (bytes_out != NULL)
		status = twi_trace_read_all(arg, &trace);
	if (status == TOW_OK && bytes_out != NULL)
		status = twi_trace_encode(&trace, session->format, bytes_out, count_out);
	twi_trace_fini(&trace);
	free(session);
	return status;
}

int twi_trace_capture_take(struct twi_trace_capture *capture, struct tow_trace **out)
{
	struct tow_trace *trace = calloc(1, sizeof(*trace));
	int status = twi_trace_capture_finish(capture, trace != NULL ? &trace->trace : NULL);

	*out = NULL;
	if (trace == NULL)
		return twi_error(TOW_ENOMEM, "no memory for a trace");
	if (status < 0)
		free(trace);
	else
		*out = trace;
	return status;
}

int twi_trace_source_add(struct twi_diag *diag)
{
	const struct twi_capture capture = {
		.path = PATH,
		.help = "what all threads did, ?seconds=N&format=xspace or json (docs/spans.md)",
		.content_type = formats[0].content_type,
		.seconds_max = TWI_TRACE_SECONDS_MAX,
		.start = start_session,
		.finish = finish_session,
		.arg = diag,
		.formats = formats,
		.formats_elsewhere =
			"towtrace convert makes perfetto, chrome and html of an xspace",
		.choose = choose_format,
	};

	return twi_registry_capture(diag, &capture);
}

void twi_trace_source_remove(struct twi_diag *diag)
{
	twi_registry_capture_remove(diag, PATH, diag);
}
