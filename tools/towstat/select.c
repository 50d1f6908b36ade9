/*
 * select.c - see select.h.
 */
#include "tools/towstat/select.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PART_BYTES 128
#define STARS_MAX  4 /* of [*] in one path */

struct selection {
	const char *whole;
	char *error;
	size_t error_size;
	unsigned stars;
};

static json_t *fail_at(const struct selection *sel, const char *what, const char *at)
{
	snprintf(sel->error, sel->error_size, "%s, at \"%.60s\" of \"%.100s\"", what, at,
		 sel->whole);
	return NULL;
}

static json_t *walk_value(struct selection *sel, json_t *value, const char *at);

static json_t *walk_all(struct selection *sel, json_t *value, const char *at, const char *rest)
{
	json_t *all, *element, *found;
	size_t i;

	if (!json_is_array(value))
		return fail_at(sel, "this is not an array", at);
	if (++sel->stars > STARS_MAX)
		return fail_at(sel, "too many [*]", at);
	all = json_array();
	if (all == NULL)
		return fail_at(sel, "no memory", at);
	json_array_foreach(value, i, element)
	{
		found = walk_value(sel, element, rest);
		if (found != NULL)
			json_array_append_new(all, found);
	}
	sel->stars--;
	return all;
}

static bool has_value(json_t *element, const char *key, const char *wanted)
{
	json_t *value = json_object_get(element, key);
	char text[32];

	if (json_is_string(value))
		return strcmp(json_string_value(value), wanted) == 0;
	if (!json_is_integer(value))
		return false;
	snprintf(text, sizeof(text), "%lld", (long long)json_integer_value(value));
	return strcmp(text, wanted) == 0;
}

static json_t *find_element(json_t *array, char *part)
{
	char *equals = strchr(part, '='), *end;
	json_t *element;
	long long index;
	size_t i;

	if (equals != NULL) {
		*equals = '\0';
		json_array_foreach(array, i, element)
		{
			if (has_value(element, part, equals + 1))
				return element;
		}
		return NULL;
	}
	errno = 0;
	index = strtoll(part, &end, 10);
	if (errno != 0 || end == part || *end != '\0')
		return NULL;
	if (index < 0)
		index += (long long)json_array_size(array);
	return index >= 0 ? json_array_get(array, (size_t)index) : NULL;
}

static json_t *walk_index(struct selection *sel, json_t *value, const char *at)
{
	const char *end = strchr(at, ']');
	size_t bytes = end != NULL ? (size_t)(end - at) - 1 : 0;
	char part[PART_BYTES];
	json_t *found;

	if (bytes == 0 || bytes >= sizeof(part))
		return fail_at(sel, "wanted [NUMBER], [KEY=VALUE] or [*]", at);
	memcpy(part, at + 1, bytes);
	part[bytes] = '\0';
	if (strcmp(part, "*") == 0)
		return walk_all(sel, value, at, end + 1);
	if (!json_is_array(value))
		return fail_at(sel, "this is not an array", at);
	found = find_element(value, part);
	if (found == NULL)
		return fail_at(sel, "there is no such element", at);
	return walk_value(sel, found, end + 1);
}

static json_t *walk_member(struct selection *sel, json_t *value, const char *at)
{
	size_t bytes = strcspn(at, ".[");
	char part[PART_BYTES];
	json_t *found;

	if (bytes == 0 || bytes >= sizeof(part))
		return fail_at(sel, "wanted a member's name", at);
	memcpy(part, at, bytes);
	part[bytes] = '\0';
	found = json_object_get(value, part);
	if (found == NULL)
		return fail_at(sel, "there is no such member", at);
	return walk_value(sel, found, at + bytes);
}

/* The recursion is as deep as the path, which is bounded. */
static json_t *walk_value(struct selection *sel, json_t *value, const char *at)
{
	if (*at == '\0')
		return json_incref(value);
	if (*at == '[')
		return walk_index(sel, value, at);
	if (*at == '.')
		at++;
	return walk_member(sel, value, at);
}

json_t *select_path(const json_t *root, const char *path, char *error_out, size_t error_size)
{
	struct selection sel = { path, error_out, error_size, 0 };

	if (strlen(path) >= 512)
		return fail_at(&sel, "too long a path", path);
	return walk_value(&sel, (json_t *)root, path);
}
