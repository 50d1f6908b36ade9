/*
 * knob.c - has the knob table, reads values in the form that people write, and prints them.
 */
#include "diag/knob/knob.h"
#include "diag/base/sized.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <internal/base.h>

#include "diag/base/ascii.h"
#include "diag/base/error.h"

/* From KNOB_TEXT on, the option is a string. From KNOB_EXHAUST on, it is one of a few words. */
enum knob_type {
	KNOB_BYTES,
	KNOB_NS,
	KNOB_COUNT,
	KNOB_BOOL,
	KNOB_TEXT,
	KNOB_EXHAUST,
	KNOB_ZEROCOPY,
	KNOB_POLLER
};

struct knob {
	const char *name;
	enum knob_type type;
	size_t given_at, at; /* offsets in struct tow_options and struct twi_knobs */
	int64_t def, min, max;
	const char *text_def;
	const char *help;
};

/* Take the default for one column and an empty value for the other, by the default's type. */
#define TEXT_OR_NULL(def) _Generic((def), char * : (def), const char * : (def), default : NULL)
#define INT_OR_ZERO(def)  _Generic((def), char * : 0, const char * : 0, default : (def))

static const struct knob knobs[] = {
#define TWI_KNOB(field, kind, d, lo, hi, text)                                                     \
	{ .name = #field,                                                                          \
	  .type = KNOB_##kind,                                                                     \
	  .given_at = offsetof(struct tow_options, field),                                         \
	  .at = offsetof(struct twi_knobs, field),                                                 \
	  .def = INT_OR_ZERO(d),                                                                   \
	  .min = (lo),                                                                             \
	  .max = (hi),                                                                             \
	  .text_def = TEXT_OR_NULL(d),                                                             \
	  .help = (text) },
#include "diag/knob/knob.def"
#undef TWI_KNOB
};

/* Checks that each row has the type of its field: a string for text, else a 64-bit integer. */
#define IS_TEXT(field)                                                                             \
	_Generic(((struct tow_options *)0)->field, const char * : true, int64_t : false)
#define TWI_KNOB(field, kind, d, lo, hi, text)                                                     \
	_Static_assert(IS_TEXT(field) == (KNOB_##kind >= KNOB_TEXT), "type of " #field);           \
	_Static_assert((lo) >= 0 && (KNOB_##kind != KNOB_COUNT || (hi) <= UINT32_MAX),             \
		       "range of " #field);
#include "diag/knob/knob.def"
#undef TWI_KNOB
_Static_assert(sizeof(struct tow_options) ==
		       sizeof(size_t) + twi_array_count(knobs) * 8 + 4 * sizeof(void *),
	       "every field of struct tow_options but the two callbacks is a row of knob.def");

struct suffix {
	const char *name;
	int64_t factor;
};

static const struct suffix byte_suffixes[] = {
	{ "", 1 },
	{ "B", 1 },
	{ "K", 1ll << 10 },
	{ "KiB", 1ll << 10 },
	{ "KB", 1000 },
	{ "M", 1ll << 20 },
	{ "MiB", 1ll << 20 },
	{ "MB", 1000000 },
	{ "G", 1ll << 30 },
	{ "GiB", 1ll << 30 },
	{ "GB", 1000000000 },
	{ "T", 1ll << 40 },
	{ "TiB", 1ll << 40 },
};
static const struct suffix time_suffixes[] = {
	{ "", 1 },         { "ns", 1 },         { "us", 1000 },
	{ "ms", 1000000 }, { "s", 1000000000 }, { "min", 60000000000 },
};
static const struct suffix count_suffixes[] = { { "", 1 }, { "k", 1000 }, { "Ki", 1 << 10 } };

static bool scale_value(double value, const char *suffix, const struct suffix *table, size_t count,
			int64_t *out)
{
	for (size_t i = 0; i < count; i++) {
		double scaled = value * (double)table[i].factor;

		if (!twi_ascii_same(suffix, table[i].name))
			continue;
		if (!(scaled >= -9e18 && scaled <= 9e18))
			return false;
		*out = (int64_t)scaled;
		return true;
	}
	return false;
}

static bool parse_bool(const char *text, int64_t *out)
{
	static const char *const words[] = { "0", "1", "false", "true", "no", "yes", "off", "on" };

	for (size_t i = 0; i < twi_array_count(words); i++) {
		if (twi_ascii_same(text, words[i])) {
			*out = (int64_t)(i % 2);
			return true;
		}
	}
	return false;
}

static bool parse_value(const struct knob *knob, const char *text, int64_t *out)
{
	char *end;
	double value;

	if (knob->type == KNOB_BOOL)
		return parse_bool(text, out);
	/* strtod accepts more than numbers (nan, inf, hex). A number here begins with a digit. */
	if (!isdigit((unsigned char)text[0]) || text[1] == 'x' || text[1] == 'X')
		return false;
	errno = 0;
	value = twi_ascii_number(text, &end);
	if (errno != 0)
		return false;
	while (*end == ' ')
		end++;
	switch (knob->type) {
	case KNOB_BYTES:
		return scale_value(value, end, byte_suffixes, twi_array_count(byte_suffixes), out);
	case KNOB_NS:
		return scale_value(value, end, time_suffixes, twi_array_count(time_suffixes), out);
	default:
		return scale_value(value, end, count_suffixes, twi_array_count(count_suffixes),
				   out);
	}
}

bool twi_knob_parse(size_t index, const char *text, int64_t *value_out)
{
	return index < twi_array_count(knobs) && parse_value(&knobs[index], text, value_out);
}

/* The words of a knob in the order of its enum, and their count; NULL: the knob takes any text. */
static const char *const *knob_words(const struct knob *knob, unsigned *count_out)
{
#define WORD(id, word) word,
	static const char *const exhaust[] = { TWI_EXHAUST_MAP(WORD) };
	static const char *const zerocopy[] = { TWI_ZEROCOPY_MAP(WORD) };
	static const char *const poller[] = { TWI_POLLER_MAP(WORD) };
#undef WORD

	switch (knob->type) {
	case KNOB_EXHAUST:
		*count_out = TWI_EXHAUST_COUNT;
		return exhaust;
	case KNOB_ZEROCOPY:
		*count_out = TWI_ZEROCOPY_COUNT;
		return zerocopy;
	case KNOB_POLLER:
		*count_out = TWI_POLLER_COUNT;
		return poller;
	default:
		*count_out = 0;
		return NULL;
	}
}

const char *twi_knob_text(const struct twi_knobs *values, size_t index)
{
	const struct knob *knob = &knobs[index];
	const void *at = (const char *)values + knob->at;
	unsigned count;
	const char *const *words = knob_words(knob, &count);

	if (words != NULL)
		return words[*(const unsigned *)at];
	return knob->type == KNOB_TEXT ? *(const char *const *)at : NULL;
}

int64_t twi_knob_number(const struct twi_knobs *values, size_t index)
{
	const void *at = (const char *)values + knobs[index].at;

	switch (knobs[index].type) {
	case KNOB_BYTES:
	case KNOB_NS:
		return (int64_t) * (const uint64_t *)at;
	case KNOB_COUNT:
		return *(const uint32_t *)at;
	default:
		twi_assert(knobs[index].type == KNOB_BOOL);
		return *(const bool *)at;
	}
}

const char **twi_knob_string(struct twi_knobs *values, size_t index)
{
	if (knobs[index].type != KNOB_TEXT)
		return NULL;
	return (const char **)(void *)((char *)values + knobs[index].at);
}

/* Writes a value in the form that a user would write. */
static void format_value(const struct knob *knob, int64_t value, char *out, size_t bytes)
{
	static const struct suffix units[] = {
		{ "TiB", 1ll << 40 }, { "GiB", 1ll << 30 }, { "MiB", 1ll << 20 }, { "KiB", 1 << 10 }
	};
	static const struct suffix times[] = { { "s", 1000000000 },
					       { "ms", 1000000 },
					       { "us", 1000 } };
	const struct suffix *table = knob->type == KNOB_BYTES ? units : times;
	size_t count = knob->type == KNOB_BYTES ? twi_array_count(units)
		       : knob->type == KNOB_NS  ? twi_array_count(times)
						: 0;

	for (size_t i = 0; i < count; i++) {
		if (value != 0 && value % table[i].factor == 0) {
			snprintf(out, bytes, "%lld%s", (long long)(value / table[i].factor),
				 table[i].name);
			return;
		}
	}
	snprintf(out, bytes, "%lld%s", (long long)value,
		 knob->type == KNOB_NS && value != 0 ? "ns" : "");
}

static void env_name(const struct knob *knob, char out[64])
{
	snprintf(out, 64, "TOW_%s", knob->name);
	twi_ascii_raise(out);
}

static int out_of_range(const struct knob *knob, const char *from, const char *value)
{
	char min[32], max[32];

	if (knob->type == KNOB_BOOL)
		return twi_error(TOW_EINVAL, "%s=%.64s (%s) is not valid: it is 0 or 1", knob->name,
				 value, from);
	format_value(knob, knob->min, min, sizeof(min));
	format_value(knob, knob->max, max, sizeof(max));
	return twi_error(TOW_EINVAL, "%s=%.64s (%s) is not valid: it is a number from %s to %s",
			 knob->name, value, from, min, max);
}

/*
 * A setuid program, or one with capabilities, has more rights than the user who started it. Such a
 * program must not use this user's environment, as knobs may name folders that it would write to.
 */
static const char *from_env(const char *name)
{
	return secure_getenv(name);
}

static void set_number(const struct knob *knob, int64_t value, void *out)
{
	switch (knob->type) {
	case KNOB_BYTES:
	case KNOB_NS:
		*(uint64_t *)out = (uint64_t)value;
		break;
	case KNOB_COUNT:
		*(uint32_t *)out = (uint32_t)value;
		break;
	default:
		twi_assert(knob->type == KNOB_BOOL);
		*(bool *)out = value != 0;
	}
}

static int resolve_number(const struct knob *knob, int64_t given, void *out)
{
	char env[64], text[32];
	const char *value;
	int64_t number;

	if (given != -1) {
		snprintf(text, sizeof(text), "%lld", (long long)given);
		if (given < knob->min || given > knob->max)
			return out_of_range(knob, "option", text);
		set_number(knob, given, out);
		return TOW_OK;
	}
	env_name(knob, env);
	value = from_env(env);
	if (value == NULL || value[0] == '\0') {
		set_number(knob, knob->def, out);
		return TOW_OK;
	}
	if (!parse_value(knob, value, &number) || number < knob->min || number > knob->max)
		return out_of_range(knob, env, value);
	set_number(knob, number, out);
	return TOW_OK;
}

static int resolve_word(const struct knob *knob, const char *from, const char *value, void *out)
{
	unsigned count;
	const char *const *words = knob_words(knob, &count);
	char all[64];
	size_t used = 0;

	for (unsigned i = 0; i < count; i++) {
		if (strcmp(value, words[i]) == 0) {
			*(unsigned *)out = i;
			return TOW_OK;
		}
		used += (size_t)snprintf(all + used, sizeof(all) - used, "%s%s", i > 0 ? ", " : "",
					 words[i]);
	}
	return twi_error(TOW_EINVAL, "%s=%.64s (%s) is not valid: it is one of %s", knob->name,
			 value, from, all);
}

static int resolve_text(const struct knob *knob, const char *given, void *out)
{
	const char *from = "option", *value = given;
	char env[64];

	if (value == NULL) {
		env_name(knob, env);
		from = env;
		value = from_env(env);
	}
	if (value == NULL || value[0] == '\0')
		value = knob->text_def;
	if (knob->type != KNOB_TEXT)
		return resolve_word(knob, from, value, out);
	if (strlen(value) > (size_t)knob->max &&
	    (strcmp(knob->name, "job_key") == 0 || strcmp(knob->name, "stats_token") == 0))
		return twi_error(TOW_EINVAL, "%s (%s) is not valid: it has %zu bytes, at most %lld",
				 knob->name, from, strlen(value), (long long)knob->max);
	if (strlen(value) > (size_t)knob->max)
		return twi_error(TOW_EINVAL, "%s=%.64s... (%s) is not valid: at most %lld bytes",
				 knob->name, value, from, (long long)knob->max);
	if (strcmp(knob->name, "job") == 0 &&
	    (value[0] == '.' ||
	     value[strspn(value, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				 "0123456789-_.")] != '\0'))
		return twi_error(TOW_EINVAL,
				 "%s=%.64s (%s) is not valid: letters, digits, - _ . (not first)",
				 knob->name, value, from);
	*(const char **)out = value;
	return TOW_OK;
}

TOW_PUBLIC int tow_options_init(struct tow_options *options_out, size_t size)
{
	static const struct tow_options unset = TOW_OPTIONS_INIT;

	if (options_out == NULL)
		return twi_error(TOW_EINVAL, "tow_options_init: options_out is NULL");
	options_out->size = size;
	return TWI_SIZED_OUT(tow_options, "tow_options_init", &unset, options_out);
}

int twi_knob_resolve(const struct tow_options *in, struct twi_knobs *out)
{
	static const struct tow_options unset = TOW_OPTIONS_INIT;
	struct tow_options given;
	int status = TWI_SIZED_IN(tow_options, "tow_runtime_open", in, &given);

	given = status < 0 || in == NULL ? unset : *in;
	*out = (struct twi_knobs){ .premap_progress = given.premap_progress,
				   .premap_progress_user = given.premap_progress_user,
				   .log_callback = given.log_callback,
				   .log_user = given.log_user };
	for (size_t i = 0; i < twi_array_count(knobs) && status == TOW_OK; i++) {
		const struct knob *knob = &knobs[i];
		void *to = (char *)out + knob->at;
		const void *from = (const char *)&given + knob->given_at;

		if (knob->type >= KNOB_TEXT)
			status = resolve_text(knob, *(const char *const *)from, to);
		else
			status = resolve_number(knob, *(const int64_t *)from, to);
	}
	return status;
}

int twi_knob_keep(struct twi_knobs *values, char **texts_out)
{
	size_t room = 1, used = 0;
	char *texts;

	for (size_t i = 0; i < twi_array_count(knobs); i++) {
		const char **member = twi_knob_string(values, i);

		room += member != NULL ? strlen(*member) + 1 : 0;
	}
	texts = malloc(room);
	*texts_out = texts;
	if (texts == NULL)
		return twi_error(TOW_ENOMEM, "no memory for a runtime");
	for (size_t i = 0; i < twi_array_count(knobs); i++) {
		const char **member = twi_knob_string(values, i);

		if (member == NULL)
			continue;
		snprintf(texts + used, room - used, "%s", *member);
		*member = texts + used;
		used += strlen(*member) + 1;
	}
	return TOW_OK;
}

static bool is_given(const struct knob *knob, const struct tow_options *in)
{
	const void *given = (const char *)in + knob->given_at;

	if (knob->type >= KNOB_TEXT)
		return *(const char *const *)given != NULL;
	return *(const int64_t *)given != -1;
}

/* Writes the value for a message, without secrets. */
static void tell_value(const struct twi_knobs *values, size_t index, char *out, size_t bytes)
{
	const char *text = twi_knob_text(values, index);

	if (text != NULL && strcmp(knobs[index].name, "stats_token") == 0)
		snprintf(out, bytes, "(secret)");
	else if (text != NULL)
		snprintf(out, bytes, "\"%.64s\"", text);
	else
		format_value(&knobs[index], twi_knob_number(values, index), out, bytes);
}

static bool same_value(const struct twi_knobs *one, const struct twi_knobs *two, size_t index)
{
	const char *text = twi_knob_text(one, index);

	if (text != NULL)
		return strcmp(text, twi_knob_text(two, index)) == 0;
	return twi_knob_number(one, index) == twi_knob_number(two, index);
}

int twi_knob_agree(const char *call, const struct tow_options *in, const struct twi_knobs *asked,
		   const struct twi_knobs *have)
{
	char wanted[80], there[80];

	for (size_t i = 0; i < twi_array_count(knobs); i++) {
		const char *name = knobs[i].name;

		if (!is_given(&knobs[i], in) || strcmp(name, "job_key") == 0 ||
		    strcmp(name, "job_key_file") == 0 || same_value(asked, have, i))
			continue;
		tell_value(asked, i, wanted, sizeof(wanted));
		tell_value(have, i, there, sizeof(there));
		return twi_error(TOW_EINVAL,
				 "%s: %s is %s in this call, but %s in the runtime that "
				 "is open",
				 call, name, wanted, there);
	}
	if (in->log_callback != NULL &&
	    (in->log_callback != have->log_callback || in->log_user != have->log_user))
		return twi_error(TOW_EINVAL,
				 "%s: log_callback differs from that of the runtime that "
				 "is open",
				 call);
	return TOW_OK;
}

/* The table in printed form, made once. */
static struct printed {
	char env[64], def[32], min[32], max[32];
} printed[twi_array_count(knobs)];

__attribute__((constructor)) static void print_knobs(void)
{
	for (size_t i = 0; i < twi_array_count(knobs); i++) {
		const struct knob *knob = &knobs[i];

		env_name(knob, printed[i].env);
		if (knob->type >= KNOB_TEXT)
			continue;
		format_value(knob, knob->def, printed[i].def, sizeof(printed[i].def));
		format_value(knob, knob->min, printed[i].min, sizeof(printed[i].min));
		format_value(knob, knob->max, printed[i].max, sizeof(printed[i].max));
	}
}

TOW_PUBLIC size_t tow_knob_count(void)
{
	return twi_array_count(knobs);
}

TOW_PUBLIC int tow_knob_info(size_t index, struct tow_knob_info *knob_out)
{
	static const char *const units[] = { "bytes", "ns", "count", "bool", "text" };
	struct tow_knob_info info = { .size = sizeof(info) };
	const struct knob *knob;

	if (index >= twi_array_count(knobs))
		return twi_error(TOW_EINVAL, "tow_knob_info: index %zu; there are %zu knobs", index,
				 twi_array_count(knobs));
	knob = &knobs[index];
	info.name = knob->name;
	info.env = printed[index].env;
	info.unit = units[twi_min(knob->type, KNOB_TEXT)];
	info.def = knob->type >= KNOB_TEXT ? knob->text_def : printed[index].def;
	info.min = printed[index].min;
	info.max = printed[index].max;
	info.help = knob->help;
	return TWI_SIZED_OUT(tow_knob_info, "tow_knob_info", &info, knob_out);
}
