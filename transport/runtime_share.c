/*
 * runtime_share.c - tow_runtime_share: one runtime, a count of its users, and the options that it
 * was opened with. See runtime_share.h.
 *
 * The lock is held while the runtime is opened, so that users that come meanwhile wait for it. It
 * is not held while the last user closes it: a user that comes then gets a new one.
 */
#include "transport/runtime_share.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <towline/runtime.h>

#include "diag/base/cancel.h"
#include "diag/base/error.h"
#include "diag/base/sized.h"
#include "diag/knob/knob.h"
#include "transport/engine/engine.h"
#include "transport/engine/runtime.h"

static struct {
	struct tow_runtime *runtime; /* NULL: none */
	unsigned holders;
	struct twi_knobs knobs; /* as resolved, before they are fitted to the machine */
	char *texts;            /* strings that text knobs point to */
	struct twi_job_key key;
} shared;

/* Callbacks that run while the runtime is being opened get an error, and do not wait for ever. */
static pthread_mutex_t lock = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/*
 * A child has nothing of what is shared, and the lock's owner may be no thread of its own. No fork
 * handler takes the lock: while it is held, the locks of all parts of a runtime are taken.
 */
static void renew_in_child(void)
{
	const pthread_mutex_t fresh = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;

	memset(&shared, 0, sizeof(shared));
	lock = fresh;
}

static void init_once(void)
{
	pthread_atfork(NULL, NULL, renew_in_child);
}

/* Forgets the shared runtime. The lock is held, here and below. */
static void forget_shared(void)
{
	twi_job_key_wipe(&shared.key);
	free(shared.texts);
	memset(&shared, 0, sizeof(shared));
}

/* Resolves options, with strings of their own, and the secret as a key. */
static int resolve_options(const struct tow_options *options, struct twi_knobs *knobs,
			   char **texts_out, struct twi_job_key *key)
{
	int status = twi_knob_resolve(options, knobs);

	*texts_out = NULL;
	if (status == TOW_OK)
		status = twi_knob_keep(knobs, texts_out);
	if (status == TOW_OK)
		status = twi_job_key_load(knobs, key);
	if (*texts_out != NULL)
		twi_job_key_mask(*texts_out + (knobs->job_key - *texts_out));
	return status;
}

static int open_shared(const struct tow_options *options)
{
	int status = resolve_options(options, &shared.knobs, &shared.texts, &shared.key);

	if (status == TOW_OK)
		status = tow_runtime_open(options, &shared.runtime);
	return status;
}

/* Can a user that wants these options have the runtime that is there? */
static int join_shared(const struct tow_options *options)
{
	struct twi_job_key key = { .set = false };
	struct twi_knobs asked;
	char *texts;
	int status;

	if (options == NULL)
		return TOW_OK;
	status = resolve_options(options, &asked, &texts, &key);
	if (status == TOW_OK)
		status = twi_knob_agree("tow_runtime_share", options, &asked, &shared.knobs);
	if (status == TOW_OK && (options->job_key != NULL || options->job_key_file != NULL) &&
	    (key.set != shared.key.set ||
	     memcmp(key.bytes, shared.key.bytes, sizeof(key.bytes)) != 0))
		status = twi_error(TOW_EINVAL,
				   "tow_runtime_share: %s is another key than the one that the "
				   "runtime was opened with",
				   options->job_key != NULL ? "job_key" : "job_key_file");
	twi_job_key_wipe(&key);
	free(texts);
	return status;
}

/* The lock is taken here. */
static int share_runtime(const struct tow_options *options, struct tow_runtime **runtime_out)
{
	int status;

	pthread_once(&once, init_once);
	if (pthread_mutex_lock(&lock) == EDEADLK)
		return twi_error(TOW_EBUSY, "tow_runtime_share in a callback of the runtime "
					    "that is being opened");
	if (shared.runtime == NULL) {
		status = open_shared(options);
		if (status < 0)
			forget_shared();
	} else {
		status = join_shared(options);
	}
	if (status == TOW_OK) {
		shared.holders++;
		*runtime_out = shared.runtime;
	}
	pthread_mutex_unlock(&lock);
	return status;
}

TOW_PUBLIC int tow_runtime_share(const struct tow_options *options,
				 struct tow_runtime **runtime_out)
{
	TWI_UNCANCELED;
	struct twi_error_kept kept;
	struct tow_options known; /* for options of another size */
	int status;

	if (runtime_out == NULL)
		return twi_error(TOW_EINVAL, "tow_runtime_share: runtime_out is NULL");
	*runtime_out = NULL;
	twi_error_keep(&kept);
	status = TWI_SIZED_IN(tow_options, "tow_runtime_share", options, &known);
	if (status == TOW_OK)
		status = share_runtime(options, runtime_out);
	return twi_error_settle(&kept, status);
}

bool twi_share_leave(struct tow_runtime *runtime)
{
	bool others = false;

	if (pthread_mutex_lock(&lock) != 0)
		return false; /* this thread is opening the shared one, and closes another */
	if (shared.runtime == runtime) {
		others = --shared.holders > 0;
		if (!others)
			forget_shared();
	}
	pthread_mutex_unlock(&lock);
	return others;
}
