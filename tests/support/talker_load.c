/*
 * talker_load.c - finding talker.so. See talker.h.
 */
#include "talker.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lane_pair.h"

void twt_module_path(const char *name, char *out, size_t room)
{
	const char *build = getenv("TOW_TEST_BUILD");

	snprintf(out, room, "%s/tests/%s.so", build != NULL ? build : ".", name);
}

/* ISO C has no cast from what dlsym returns to a function. */
static bool find_function(void *library, const char *name, void *place)
{
	void *found = dlsym(library, name);

	memcpy(place, &found, sizeof(found));
	return found != NULL;
}

bool twt_talker_load(struct twt_talker *out)
{
	char path[512];
	void *library;

	twt_module_path("talker", path, sizeof(path));
	library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (library != NULL && find_function(library, "talker_talk", &out->talk) &&
	    find_function(library, "talker_open", &out->open) &&
	    find_function(library, "talker_trace", &out->trace))
		return true;
	printf("talker.so: %s\n", dlerror());
	return false;
}

bool twt_talk_on_lanes(const struct twt_talker *talker, const struct tow_options *options)
{
	static const char *const words[] = { "said", "failed", "absent" };

	for (int i = 0; i < TWT_LANE_ROWS; i++) {
		const struct twt_lane_row *row = &twt_lane_rows[i];
		int said =
			talker->talk(row->address[0], row->address[1], row->one_runtime, options);

		printf("%s: %s\n", row->name, words[said]);
		if (said == TWT_FAILED || (said == TWT_NO_LANE && i < TWT_LANE_ROWS_ALWAYS))
			return false;
	}
	return true;
}
