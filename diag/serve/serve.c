/*
 * serve.c - opens the servers by the knobs, and reports their addresses in /v1/info.
 */
#include "diag/serve/serve.h"

#include "diag/base/emit.h"
#include "diag/base/error.h"
#include "diag/record/diag.h"
#include "diag/record/registry.h"
#include "diag/serve/mhd.h"
#include "diag/serve/socket.h"

static void describe_servers(void *arg, struct twi_emit *e)
{
	const struct twi_serve *serve = arg;

	twi_emit_object_begin(e, "stats");
	twi_emit_str(e, "socket", twi_socket_path(serve->socket));
	twi_emit_str(e, "listen", twi_socket_address(serve->socket));
	twi_emit_object_end(e);
}

/*
 * Statistics are not worth a failed job. If no default directory can be used, the runtime opens
 * without a socket and logs that. A directory that the user has named must be usable.
 */
static int open_socket(struct twi_diag *diag, const struct twi_knobs *knobs, struct twi_serve *out)
{
	int status = twi_socket_open(diag, knobs->stats_dir, knobs->job, knobs->rank, &out->socket);

	if ((status != TOW_EPERM && status != TOW_ESYSTEM) || knobs->stats_dir[0] != '\0' ||
	    knobs->stats_listen[0] != '\0')
		return status;
	twi_log(diag, 2, "no stats socket: %.200s", tow_error_message());
	return TOW_OK;
}

static int open_all(struct twi_diag *diag, const struct twi_knobs *knobs, struct twi_serve *out)
{
	int status = TOW_OK;

	if (knobs->stats && twi_mhd_load() < 0) {
		/* A plugin that fails for this would be replaced by another network's. */
		twi_log(diag, 2, "no stats are served: %.300s", tow_error_message());
		return TOW_OK;
	}
	if (knobs->stats)
		status = open_socket(diag, knobs, out);
	else if (knobs->stats_listen[0] != '\0')
		status = twi_error(TOW_EINVAL, "stats_listen is set, and stats is 0");
	if (status == TOW_OK && knobs->stats_listen[0] != '\0')
		status = twi_socket_listen(out->socket, knobs->stats_listen, knobs->stats_token,
					   knobs->stats_token_file);
	return status;
}

int twi_serve_open(struct twi_diag *diag, const struct twi_knobs *knobs, struct twi_serve *out)
{
	const struct twi_source source = { "/v1/info", "where these documents are served",
					   describe_servers, out };
	int status;

	*out = (struct twi_serve){ .diag = diag };
	status = open_all(diag, knobs, out);
	if (status == TOW_OK)
		status = twi_registry_add(diag, &source);
	if (status < 0)
		twi_serve_close(out);
	return status;
}

void twi_serve_close(struct twi_serve *serve)
{
	if (serve->diag == NULL)
		return;
	twi_registry_remove(serve->diag, "/v1/info", serve);
	twi_socket_close(serve->socket);
	*serve = (struct twi_serve){ 0 };
}
