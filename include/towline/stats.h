/*
 * stats.h - what happened, as text: the same documents that the stats socket serves.
 *
 * The stats socket is HTTP/1.1 on a unix socket, <stats_dir>/<job>.<rank>.sock:
 *   curl --unix-socket SOCK http://towline/metrics
 * Paths: /metrics (OpenMetrics) and /v1/info /v1/counters /v1/latency /v1/pool /v1/peers (JSON).
 */
#ifndef TOWLINE_STATS_H
#define TOWLINE_STATS_H

#include <stddef.h>

#include <towline/runtime.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * The document at `path` ("/v1/pool", "/metrics", ...), as the stats socket would serve it.
 * Ownership: *text_out is the caller's, to be given to tow_stats_release; NUL-terminated.
 * Copies: no payload. Blocks: never for long; takes only the locks of the control path. Threads:
 * any. Returns: TOW_OK; TOW_EINVAL for an unknown path; TOW_ENOMEM; TOW_EFORKED.
 */
int tow_stats_get(struct tow_runtime *runtime, const char *path, char **text_out);

/*
 * Frees a text of tow_stats_get. NULL is legal.
 * Ownership: takes the text. Copies: none. Blocks: never. Threads: any.
 */
void tow_stats_release(char *text);

/*
 * The path of this runtime's stats socket, "" when it has none.
 * Ownership: the runtime's, until tow_runtime_close. Copies: none. Blocks: never. Threads: any.
 */
const char *tow_stats_socket(struct tow_runtime *runtime);

/*
 * The directory where runtimes of this user put their stats sockets when the knob stats_dir is not
 * set: $XDG_RUNTIME_DIR/towline, else /run/towline for root, else /tmp/towline-<uid>. Ownership:
 * path_out is the caller's, of path_size bytes. Copies: none. Blocks: never. Threads: any. Returns:
 * TOW_OK; TOW_EINVAL when it does not fit.
 */
int tow_stats_dir(char *path_out, size_t path_size);

#ifdef __cplusplus
}
#endif
#endif
