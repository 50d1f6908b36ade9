/*
 * coll_foreign.c - prints the groups of other libraries in /v1/coll as tables: their collectives by
 * kind, and the waits of their messages by peer.
 */
#include <jansson.h>
#include <stdio.h>

#include "tools/common/words.h"
#include "tools/towstat/towstat.h"

#define TEXT_BYTES 64

static unsigned long long foreign_number(json_t *object, const char *key)
{
	return (unsigned long long)json_number_value(json_object_get(object, key));
}

static const char *foreign_text(json_t *object, const char *key, char out[TEXT_BYTES])
{
	const char *text = json_string_value(json_object_get(object, key));

	words_clean(out, TEXT_BYTES, text != NULL ? text : "?");
	return out;
}

/* A time, or "-" while it is not known. */
static const char *foreign_time(json_t *object, const char *key, char out[WORDS_BYTES])
{
	if (json_is_number(json_object_get(object, key)))
		words_ns(foreign_number(object, key), out);
	else
		snprintf(out, WORDS_BYTES, "-");
	return out;
}

static void print_foreign_kinds(json_t *kinds)
{
	char text[TEXT_BYTES], a[WORDS_BYTES], b[WORDS_BYTES], c[WORDS_BYTES], d[WORDS_BYTES];
	json_t *kind;
	size_t i;

	if (json_array_size(kinds) == 0)
		return;
	printf("  %-14s %8s %10s %9s %9s %9s\n", "KIND", "CALLS", "BYTES", "QUEUED", "MEAN",
	       "LONGEST");
	json_array_foreach(kinds, i, kind)
	{
		json_t *latency = json_object_get(kind, "latency_ns");

		words_bytes(foreign_number(kind, "bytes"), a);
		printf("  %-14s %8llu %10s %9s %9s %9s\n", foreign_text(kind, "kind", text),
		       foreign_number(kind, "calls"), a, foreign_time(kind, "queue_mean_ns", b),
		       foreign_time(latency, "mean", c), foreign_time(latency, "max", d));
	}
}

/* The mean time of one message of a peer. */
static const char *mean_of(json_t *peer, const char *key, char out[WORDS_BYTES])
{
	unsigned long long count = foreign_number(peer, "messages");

	words_ns(count > 0 ? foreign_number(peer, key) / count : 0, out);
	return out;
}

static void print_foreign_peers(json_t *peers)
{
	char a[WORDS_BYTES], b[WORDS_BYTES], c[WORDS_BYTES], d[WORDS_BYTES];
	json_t *peer;
	size_t i;

	if (json_array_size(peers) == 0)
		return;
	printf("  %-8s %6s %10s %10s %9s %9s %9s\n", "MESSAGES", "RANK", "COUNT", "BYTES",
	       "ON DEVICE", "ON PEER", "ON WIRE");
	json_array_foreach(peers, i, peer)
	{
		words_bytes(foreign_number(peer, "bytes"), a);
		printf("  %-8s %6llu %10llu %10s %9s %9s %9s\n",
		       json_is_true(json_object_get(peer, "sends")) ? "to" : "from",
		       foreign_number(peer, "peer"), foreign_number(peer, "messages"), a,
		       mean_of(peer, "device_ns", b), mean_of(peer, "peer_ns", c),
		       mean_of(peer, "wire_ns", d));
	}
}

void print_foreign_groups(json_t *document)
{
	char text[TEXT_BYTES];
	json_t *group;
	size_t i;

	json_array_foreach(json_object_get(document, "foreign_groups"), i, group)
	{
		printf("communicator %s: rank %llu of %llu, %llu started, %llu in flight\n",
		       foreign_text(group, "name", text), foreign_number(group, "rank"),
		       foreign_number(group, "size"), foreign_number(group, "started"),
		       foreign_number(group, "in_flight"));
		print_foreign_kinds(json_object_get(group, "kinds"));
		print_foreign_peers(json_object_get(group, "peers"));
	}
}
