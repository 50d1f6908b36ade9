/*
 * dpdk_reply.h - parses requests of DPDK's telemetry, version 2, and makes the replies.
 *
 *	on connecting        {"version":"towline 0.1.0","pid":N,"max_output_len":16384}
 *	/                    {"/":["/","/help","/info","/towline/counters",...]}
 *	/help,/cmd           {"/help":{"/cmd":"what it is"}}
 *	/info                {"/info":{...}}, as the greeting
 *	/towline/NAME        {"/towline/NAME":{"key":value,...}}  the document /v1/NAME
 *	/towline/NAME,N      page N of it, from 0; a page that is not the last has "next_page"
 *	another              {"/another":null}
 *
 * These clients want flat dictionaries. A value's key is its path through the document, with dots:
 * "rpcs.0.p50". The document's own name is left out in front ("counters.sends" is "sends"), and so
 * are buckets of histograms. Each page is one reply of at most max_output_len bytes. It is made of
 * the document as it is when the page is asked for.
 *
 * The caller parses a request, fetches the document at its `path` from the runtime, and makes the
 * reply of that. The functions are pure. For any request and any document the reply is one JSON
 * object.
 */
#ifndef TOWSTAT_DPDK_REPLY_H
#define TOWSTAT_DPDK_REPLY_H

#include <stdbool.h>
#include <stddef.h>

#define DPDK_OUTPUT_MAX    16384
#define DPDK_REQUEST_MAX   1024
#define DPDK_COMMAND_MAX   56 /* longer than any command */
#define DPDK_PREFIX        "/towline/"
#define DPDK_DOCUMENTS_MAX 128
#define DPDK_LIST_PATH     "/v1"

enum dpdk_kind { DPDK_GREETING, DPDK_INFO, DPDK_LIST, DPDK_HELP, DPDK_DOCUMENT, DPDK_UNKNOWN };

struct dpdk_request {
	enum dpdk_kind kind;
	char command[DPDK_COMMAND_MAX];   /* printable ASCII, line ends and tabs; cut at its size */
	char param[DPDK_REQUEST_MAX + 1]; /* what follows the first comma, or empty */
	char path[DPDK_COMMAND_MAX + 8];  /* the runtime's document for the reply; "": none */
};

/* The commands for the documents of a runtime, from its list at DPDK_LIST_PATH. */
struct dpdk_documents {
	size_t count;
	struct {
		char command[DPDK_COMMAND_MAX], help[256];
	} rows[DPDK_DOCUMENTS_MAX];
};

void dpdk_request_parse(const char *bytes, size_t count, struct dpdk_request *out);

/* The request that connecting stands for. */
void dpdk_request_greeting(struct dpdk_request *out);

/*
 * Reads the list of documents. Returns false, with nothing in `out`, when the text is no list.
 * Captures are left out, as they take seconds. So are paths outside /v1/, which are no JSON.
 */
bool dpdk_documents_read(const char *text, size_t bytes, struct dpdk_documents *out);
bool dpdk_documents_have(const struct dpdk_documents *documents, const char *command);

/*
 * Makes the reply to `request` from the runtime's document at its path. text NULL: there is no
 * document. `out` has room for DPDK_OUTPUT_MAX bytes. Returns the bytes written. 0: no reply is
 * possible, such as a greeting without an answer of the runtime.
 */
size_t dpdk_reply(const struct dpdk_request *request, const struct dpdk_documents *documents,
		  const char *text, size_t bytes, char *out);

/*
 * Writes page `page` of a JSON document as `"key":value,...`, and returns its bytes. -1: there is
 * no such page, or the text is no JSON. *more_out: another page follows. `own` is a first key that
 * is left out. A document with blanks between its tokens has no pages; documents of the runtime
 * have no such blanks.
 */
long dpdk_page(const char *json, const char *own, unsigned page, size_t room, char *out,
	       int *more_out);

#endif
