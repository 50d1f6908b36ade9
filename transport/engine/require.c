/* require.c - parses the knob `require`, and checks connections against it. See require.h. */
#include "transport/engine/require.h"

#include <ifaddrs.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <internal/base.h>
#include <towline/status.h>

#include "diag/base/error.h"
#include "transport/lanes/lane.h"

#define NAMES_BYTES 128u

enum require_word {
#define REQUIRE_ENUM(id, word, named) REQUIRE_##id,
	TWI_REQUIRE_MAP(REQUIRE_ENUM)
#undef REQUIRE_ENUM
		REQUIRE_COUNT
};

static const struct {
	const char *word;
	bool named;
} words[] = {
#define REQUIRE_ROW(id, word, named) { word, named },
	TWI_REQUIRE_MAP(REQUIRE_ROW)
#undef REQUIRE_ROW
};

/* One word of the knob. */
struct demand {
	enum require_word word;   /* REQUIRE_COUNT: it is no known word */
	const char *text, *names; /* names: what stands behind the colon */
	size_t bytes, name_bytes;
};

/* Takes the next word from *at. False: there is none. */
static bool next_demand(const char **at, struct demand *out)
{
	const char *colon;

	if (**at == '\0')
		return false;
	*out = (struct demand){ .word = REQUIRE_COUNT, .text = *at, .bytes = strcspn(*at, ",") };
	*at += out->bytes + ((*at)[out->bytes] == ',');
	colon = memchr(out->text, ':', out->bytes);
	if (colon != NULL) {
		out->names = colon + 1;
		out->name_bytes = out->bytes - (size_t)(out->names - out->text);
	}
	for (int i = 0; i < REQUIRE_COUNT; i++) {
		size_t length = colon != NULL ? (size_t)(colon - out->text) : out->bytes;

		if (strlen(words[i].word) == length &&
		    strncmp(words[i].word, out->text, length) == 0 &&
		    words[i].named == (out->name_bytes > 0) && words[i].named == (colon != NULL))
			out->word = (enum require_word)i;
	}
	return true;
}

/* Takes the next of names with | between them. False: there is none. */
static bool next_name(const char **at, size_t *left, char *out, size_t room)
{
	size_t bytes = 0;

	if (*left == 0)
		return false;
	while (bytes < *left && (*at)[bytes] != '|')
		bytes++;
	snprintf(out, room, "%.*s", (int)twi_min(bytes, room - 1), *at);
	bytes += bytes < *left;
	*at += bytes;
	*left -= bytes;
	return true;
}

static bool names_it(const struct demand *demand, const char *name)
{
	const char *at = demand->names;
	size_t left = demand->name_bytes;
	char one[TWI_IFACE_BYTES];

	while (name[0] != '\0' && next_name(&at, &left, one, sizeof(one))) {
		if (strcmp(one, name) == 0)
			return true;
	}
	return false;
}

static bool is_lane(const char *name)
{
	for (unsigned i = 0; i < TWI_LANE_COUNT; i++) {
		if (strcmp(twi_lane_name((enum twi_lane_id)i), name) == 0)
			return true;
	}
	return false;
}

/* "zero_copy, lane:NAME, ..." */
static void list_words(char out[NAMES_BYTES])
{
	size_t fill = 0;

	for (int i = 0; i < REQUIRE_COUNT && fill < NAMES_BYTES; i++)
		fill += (size_t)snprintf(out + fill, NAMES_BYTES - fill, "%s%s%s",
					 i > 0 ? ", " : "", words[i].word,
					 words[i].named ? ":NAME" : "");
}

static void list_lanes(char out[NAMES_BYTES])
{
	size_t fill = 0;

	for (unsigned i = 0; i < TWI_LANE_COUNT && fill < NAMES_BYTES; i++)
		fill += (size_t)snprintf(out + fill, NAMES_BYTES - fill, "%s%s", i > 0 ? ", " : "",
					 twi_lane_name((enum twi_lane_id)i));
}

static int check_lanes(const char *knob, const struct demand *demand)
{
	const char *at = demand->names;
	size_t left = demand->name_bytes;
	char one[TWI_IFACE_BYTES], known[NAMES_BYTES];

	while (next_name(&at, &left, one, sizeof(one))) {
		if (is_lane(one))
			continue;
		list_lanes(known);
		return twi_error(TOW_EINVAL, "require = '%s': '%.*s': '%s' is none of %s", knob,
				 (int)demand->bytes, demand->text, one, known);
	}
	return TOW_OK;
}

int twi_require_check(const char *knob)
{
	const char *at = knob;
	struct demand demand;
	int status = TOW_OK;

	while (status == TOW_OK && next_demand(&at, &demand)) {
		char known[NAMES_BYTES];

		if (demand.word == REQUIRE_LANE)
			status = check_lanes(knob, &demand);
		if (demand.word != REQUIRE_COUNT)
			continue;
		list_words(known);
		status = twi_error(TOW_EINVAL,
				   "require = '%s': '%.*s' is none of %s (names may stand with | "
				   "between them)",
				   knob, (int)demand.bytes, demand.text, known);
	}
	return status;
}

bool twi_require_names_iface(const char *knob)
{
	struct demand demand;

	while (next_demand(&knob, &demand)) {
		if (demand.word == REQUIRE_IFACE)
			return true;
	}
	return false;
}

__attribute__((format(printf, 3, 4))) static bool
refuse_word(char *why, const struct demand *demand, const char *fmt, ...)
{
	int fill =
		snprintf(why, TWI_REQUIRE_WHY,
			 "require=%.*s: ", (int)twi_min(demand->bytes, (size_t)80), demand->text);
	va_list args;

	va_start(args, fmt);
	vsnprintf(why + fill, TWI_REQUIRE_WHY - (size_t)fill, fmt, args);
	va_end(args);
	return false;
}

static bool is_met(const struct demand *demand, const struct twi_way *way, char *why)
{
	switch (demand->word) {
	case REQUIRE_LANE:
		return names_it(demand, twi_lane_name(way->lane)) ||
		       refuse_word(why, demand, "this is lane %s", twi_lane_name(way->lane));
	case REQUIRE_IFACE:
		if (names_it(demand, way->iface) || names_it(demand, way->also))
			return true;
		if (way->iface[0] == '\0')
			return refuse_word(why, demand, "no interface is known to carry it");
		return refuse_word(why, demand, "it goes over %s%s%s", way->iface,
				   way->also[0] != '\0' ? " of " : "", way->also);
	case REQUIRE_ZERO_COPY:
		return way->copied == NULL || refuse_word(why, demand, "%s", way->copied);
	case REQUIRE_ENCRYPTED:
		return way->encrypted || refuse_word(why, demand, "it is not encrypted");
	case REQUIRE_COUNT:
		break; /* refused when the runtime opened */
	}
	return true;
}

bool twi_require_meets(const char *knob, const struct twi_way *way, char why[TWI_REQUIRE_WHY])
{
	struct demand demand;

	while (next_demand(&knob, &demand)) {
		if (!is_met(&demand, way, why))
			return false;
	}
	return true;
}

/* Can a connection of the lane meet the word, whatever its handshake shows? */
static bool can_meet(const struct demand *demand, const struct twi_lane_ops *ops, char *why)
{
	const struct twi_lane_info *info = twi_lane_describe(ops->id);

	switch (demand->word) {
	case REQUIRE_LANE:
		return names_it(demand, info->name) ||
		       refuse_word(why, demand, "this is lane %s", info->name);
	case REQUIRE_IFACE:
		return info->reach == TWI_REACH_NETWORK ||
		       refuse_word(why, demand, "it goes over no interface");
	case REQUIRE_ENCRYPTED:
		return ops->encrypts || refuse_word(why, demand, "it does not encrypt");
	case REQUIRE_ZERO_COPY:
		return info->reach != TWI_REACH_PROCESS ||
		       refuse_word(why, demand, TWI_REQUIRE_LOOP);
	case REQUIRE_COUNT:
		break;
	}
	return true;
}

bool twi_require_lane(const char *knob, const struct twi_lane_ops *ops, char why[TWI_REQUIRE_WHY])
{
	struct demand demand;

	while (next_demand(&knob, &demand)) {
		if (!can_meet(&demand, ops, why))
			return false;
	}
	return true;
}

bool twi_require_said(const char *message)
{
	return strstr(message, "require=") != NULL || strstr(message, "knob require") != NULL;
}

/* Are the hosts' addresses the same? Ports and scopes do not matter. */
static bool same_address(const struct sockaddr *a, const struct sockaddr *b)
{
	const struct sockaddr_in *a4 = (const void *)a, *b4 = (const void *)b;
	const struct sockaddr_in6 *a6 = (const void *)a, *b6 = (const void *)b;

	if (a->sa_family != b->sa_family)
		return false;
	if (a->sa_family == AF_INET)
		return a4->sin_addr.s_addr == b4->sin_addr.s_addr;
	return a->sa_family == AF_INET6 &&
	       memcmp(&a6->sin6_addr, &b6->sin6_addr, sizeof(a6->sin6_addr)) == 0;
}

void twi_iface_of(const struct sockaddr *address, char out[TWI_IFACE_BYTES])
{
	struct ifaddrs *all = NULL;

	out[0] = '\0';
	if (getifaddrs(&all) != 0)
		return;
	for (const struct ifaddrs *at = all; at != NULL && out[0] == '\0'; at = at->ifa_next) {
		if (at->ifa_addr != NULL && same_address(at->ifa_addr, address))
			snprintf(out, TWI_IFACE_BYTES, "%s", at->ifa_name);
	}
	freeifaddrs(all);
}
