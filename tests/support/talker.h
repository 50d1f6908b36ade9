/*
 * talker.h - talker.so, a library linked to libtowline.so as a plugin of a runtime is, and finding
 * its functions by dlopen and dlsym. The program that does so knows nothing of Towline's inside.
 */
#ifndef TWT_TALKER_H
#define TWT_TALKER_H

#include <stdbool.h>
#include <stddef.h>

#include <towline/towline.h>

/* What talker_talk returns. */
enum twt_talked { TWT_SAID, TWT_FAILED, TWT_NO_LANE };

/* Messages of 8 bytes and of 256 KiB between two endpoints; it prints what goes wrong. */
typedef int twt_talk(const char *left, const char *right, bool one_runtime,
		     const struct tow_options *options);

/* Opens a runtime and closes it. The status, and what the library has said of it. */
typedef int twt_talker_open(const struct tow_options *options, char *message_out, size_t room);

/* Takes a trace of nothing, and writes it. The status, and what the library has said of it. */
typedef int twt_talker_trace(const struct tow_options *options, enum tow_trace_format format,
			     char *message_out, size_t room);

#define TWT_TALKER __attribute__((visibility("default")))
TWT_TALKER twt_talk talker_talk;
TWT_TALKER twt_talker_open talker_open;
TWT_TALKER twt_talker_trace talker_trace;

struct twt_talker {
	twt_talk *talk;
	twt_talker_open *open;
	twt_talker_trace *trace;
};

/* The path of a module that the build has made for tests. */
void twt_module_path(const char *name, char *out, size_t room);

/* False after saying why the loader does not load it. */
bool twt_talker_load(struct twt_talker *out);

/* On each lane. False where one fails, or where one is absent that every build has. */
bool twt_talk_on_lanes(const struct twt_talker *talker, const struct tow_options *options);

#endif
