/*
 * dpdk_reply.h - what a request of DPDK's telemetry, version 2, deserves: functions of bytes.
 *
 *	on connecting        {"version":"towline 0.1.0","pid":N,"max_output_len":16384}
 *	/                    {"/":["/","/help","/info","/towline/counters",...]}
 *	/help,/cmd           {"/help":{"/cmd":"what it is"}}
 *	/info                {"/info":{...}}, as the greeting
 *	/towline/NAME        {"/towline/NAME":{"key":value,...}}  the document /v1/NAME
 *	/towline/NAME,N      page N of it, from 0; a page that is not the last has "next_page"
 *	another              {"/another":null}
 *
 * These clients want flat dictionaries: a value's key is its way through the document, with dots:
 * "rpcs.0.p50". The name of the document itself is left out in front ("counters.sends" is "sends"),
 * and so are histograms' buckets. Each page is one reply of at most max_output_len bytes, and is
 * made of the document of its moment.
 *
 * A request is parsed, then whoever serves it gets the document at `path` from the runtime, and the
 * reply is made of that. Whatever a request or a document holds, the reply is one JSON object.
 */
#ifndef TOWSTAT_DPDK_REPLY_H
#define TOWSTAT_DPDK_REPLY_H

#include <stdbool.h>
#include <stddef.h>

#define DPDK_OUTPUT_MAX    16384
#define DPDK_REQUEST_MAX   1024
#define DPDK_COMMAND_MAX   56 /* a command has fewer characters */
#define DPDK_PREFIX        "/towline/"
#define DPDK_DOCUMENTS_MAX 128
#define DPDK_LIST_PATH     "/v1"

enum dpdk_kind { DPDK_GREETING, DPDK_INFO, DPDK_LIST, DPDK_HELP, DPDK_DOCUMENT, DPDK_UNKNOWN };

struct dpdk_request {
	enum dpdk_kind kind;
	char command[DPDK_COMMAND_MAX];   /* printable ASCII, line ends and tabs; cut at its room */
	char param[DPDK_REQUEST_MAX + 1]; /* what follows the first comma, or empty */
	char path[DPDK_COMMAND_MAX + 8];  /* the runtime's document that it takes; empty: none */
};

/* The commands that the documents of a runtime make, as its list at DPDK_LIST_PATH names them. */
struct dpdk_documents {
	size_t count;
	struct {
		char command[DPDK_COMMAND_MAX], help[256];
	} rows[DPDK_DOCUMENTS_MAX];
};

void dpdk_request_parse(const char *bytes, size_t count, struct dpdk_request *out);

/* The request that is made by connecting. */
void dpdk_request_greeting(struct dpdk_request *out);

/*
 * Takes the list of documents; false, and nothing in `out`, when it is none. Captures, which take
 * their time, are no documents, nor is what is no JSON.
 */
bool dpdk_documents_read(const char *text, size_t bytes, struct dpdk_documents *out);
bool dpdk_documents_have(const struct dpdk_documents *documents, const char *command);

/*
 * The reply to `request`, of what the runtime had at its path: text NULL, nothing. Bytes written to
 * out, which has room for DPDK_OUTPUT_MAX; 0: there can be none, as no process greets.
 */
size_t dpdk_reply(const struct dpdk_request *request, const struct dpdk_documents *documents,
		  const char *text, size_t bytes, char *out);

/*
 * Page `page` of a JSON document as `"key":value,...`; -1: there is no such page, or it is no JSON.
 * *more_out: another follows. `own`: a first key that is left out. A document that has blanks
 * between its tokens has no pages; the runtime's have none.
 */
long dpdk_page(const char *json, const char *own, unsigned page, size_t room, char *out,
	       int *more_out);

#endif
