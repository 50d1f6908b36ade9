/*
 * bootstrap_exchange.c - asks launchers and callers in threads, until a deadline; the concept is in
 * bootstrap_exchange.h.
 */
#include "transport/job/bootstrap_exchange.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <internal/base.h>

#include "diag/base/error.h"
#include "diag/base/fd.h"
#include "diag/base/thread.h"

/*
 * A call of a library or of the caller's function, in a thread. The thread that asks and the one
 * that calls both hold this, and the second to let go frees it. After the deadline the call may
 * still be stuck for any time.
 */
struct question {
	pthread_mutex_t lock;
	int holders;
	int done_fd;
	enum twi_exchange kind;
	enum what { ASK_SIZE, ASK_ADDRESS, ASK_END, ASK_PUT, ASK_GET } what;
	int64_t rank, answer;
	int status;
	char address[TWI_STORE_BYTES];
	char why[TWI_BOOTSTRAP_ERROR];
	struct twi_exchange_caller caller;
	uint64_t timeout_ns; /* ASK_GET */
	size_t value_bytes;
	char value[TWI_EXCHANGE_VALUE];
};

static void drop_question(struct question *question)
{
	bool last;

	pthread_mutex_lock(&question->lock);
	last = --question->holders == 0;
	pthread_mutex_unlock(&question->lock);
	if (!last)
		return;
	pthread_mutex_destroy(&question->lock);
	close(question->done_fd);
	explicit_bzero(question->value, sizeof(question->value)); /* it may hold a key */
	free(question);
}

/* The caller's function may return anything. */
static int judge_answer(const char *call, int status)
{
	if (status == TOW_OK)
		return TOW_OK;
	if (status > 0)
		return twi_error(TOW_EINVAL,
				 "%s of '" TWI_EXCHANGE_KEY "' has returned %d, expected TOW_OK or "
				 "a status below 0",
				 call, status);
	if (strcmp(tow_status_name(status), tow_status_name(INT_MIN)) == 0)
		return twi_error(TOW_ESYSTEM, "%s of '" TWI_EXCHANGE_KEY "' has failed with %d",
				 call, status);
	if (status == TOW_EDEADLINE && strcmp(call, "get") == 0)
		return twi_error(status, "rank 0 has not put '" TWI_EXCHANGE_KEY "' in time");
	return twi_error(status, "%s of '" TWI_EXCHANGE_KEY "' has failed: %s", call,
			 tow_status_name(status));
}

static int ask_caller(struct question *question)
{
	const struct twi_exchange_caller *caller = &question->caller;

	if (question->what == ASK_PUT)
		return judge_answer("put", caller->put(caller->user, TWI_EXCHANGE_KEY,
						       question->value, question->value_bytes));
	question->value_bytes = SIZE_MAX; /* stays so if the function does not set it */
	return judge_answer("get", caller->get(caller->user, TWI_EXCHANGE_KEY, question->value,
					       sizeof(question->value), &question->value_bytes,
					       question->timeout_ns));
}

static void *ask_thread(void *arg)
{
	struct question *question = arg;
	uint64_t one = 1;

	if (question->what == ASK_PUT || question->what == ASK_GET)
		question->status = ask_caller(question);
	else if (question->what == ASK_SIZE)
		question->status = twi_pmix_size(question->rank, &question->answer);
	else if (question->what == ASK_END)
		question->status = twi_pmix_finish();
	else if (question->kind == TWI_EXCHANGE_PMIX)
		question->status = twi_pmix_exchange(question->rank, question->address);
	else
		question->status = twi_pmi2_exchange(question->rank, question->address);
	if (question->status < 0)
		snprintf(question->why, sizeof(question->why), "%s", tow_error_message());
	/*
	 * The kernel orders the writes above before the reads of the thread that reads this
	 * descriptor.
	 */
	while (write(question->done_fd, &one, sizeof(one)) < 0 && errno == EINTR)
		;
	drop_question(question);
	return NULL;
}

static int start_question(struct question *question)
{
	pthread_t thread;
	int err = twi_thread_start(&thread, NULL, 0, ask_thread, question);

	if (err != 0)
		return twi_error_errno(TOW_ESYSTEM, err, "a thread to ask the launcher");
	pthread_detach(thread);
	return TOW_OK;
}

static struct question *make_question(enum what what)
{
	struct question *question = calloc(1, sizeof(*question));

	if (question != NULL)
		question->done_fd = twi_fd_high(eventfd(0, EFD_CLOEXEC));
	if (question == NULL || question->done_fd < 0) {
		free(question);
		twi_error(TOW_ENOMEM, "no memory or descriptor for the exchange");
		return NULL;
	}
	pthread_mutex_init(&question->lock, NULL);
	question->holders = 2;
	question->what = what;
	return question;
}

/*
 * Asks in a thread, and waits for the answer. If not TOW_OK, *question may still be in use.
 * TOW_AGAIN: there is no answer in time.
 */
static int await_answer(struct question *question, const struct twi_until *until)
{
	int status = start_question(question);

	if (status < 0) {
		question->holders = 1;
		return status;
	}
	status = twi_net_wait(question->done_fd, POLLIN, until->deadline_ns, until);
	if (status == TOW_OK && question->status < 0)
		status = twi_error(question->status, "%s", question->why);
	return status;
}

static int ask_library(const struct twi_bootstrap *bootstrap, const char *mine, enum what what,
		       const struct twi_until *until, struct question *out)
{
	struct question *question = make_question(what);
	int status;

	if (question == NULL)
		return TOW_ENOMEM;
	question->kind = bootstrap->exchange;
	question->rank = bootstrap->rank;
	snprintf(question->address, sizeof(question->address), "%s", mine == NULL ? "" : mine);
	status = await_answer(question, until);
	if (status == TOW_AGAIN) {
		status = twi_error(TOW_EDEADLINE, "%s did not answer in time",
				   twi_launcher_name(bootstrap->launcher));
	} else if (status == TOW_OK) {
		out->answer = question->answer;
		snprintf(out->address, sizeof(out->address), "%s", question->address);
	}
	drop_question(question);
	return status;
}

int twi_exchange_size(struct twi_bootstrap *bootstrap, const struct twi_until *until)
{
	struct question answer;
	int status;

	if (bootstrap->world_size > 0)
		return TOW_OK;
	bootstrap->pmix = true;
	status = ask_library(bootstrap, NULL, ASK_SIZE, until, &answer);
	if (status < 0)
		return status;
	bootstrap->world_size = answer.answer;
	if (bootstrap->world_size < 1 || bootstrap->world_size > TWI_WORLD_MAX ||
	    bootstrap->rank >= bootstrap->world_size)
		return twi_error(TOW_EINVAL,
				 "pmix says rank %lld of %lld, expected a rank below at most %d",
				 (long long)bootstrap->rank, (long long)bootstrap->world_size,
				 TWI_WORLD_MAX);
	if (bootstrap->world_size == 1)
		bootstrap->exchange = TWI_EXCHANGE_NONE;
	return TOW_OK;
}

int twi_exchange(struct twi_bootstrap *bootstrap, const char *mine, const struct twi_until *until)
{
	struct question answer;
	int status;

	bootstrap->pmix |= bootstrap->exchange == TWI_EXCHANGE_PMIX;
	if (bootstrap->exchange != TWI_EXCHANGE_PMI) {
		status = ask_library(bootstrap, mine, ASK_ADDRESS, until, &answer);
		if (status == TOW_OK)
			snprintf(bootstrap->store, sizeof(bootstrap->store), "%s", answer.address);
		/* The server of srun --mpi=pmi2 understands PMI 1, too. */
		if (status != TOW_ENOTSUP || bootstrap->exchange != TWI_EXCHANGE_PMI2)
			return status;
	}
	if (mine != NULL)
		snprintf(bootstrap->store, sizeof(bootstrap->store), "%s", mine);
	/*
	 * This is a copy of the descriptor, as MPI_Finalize of the program may close the original.
	 */
	bootstrap->pmi_fd = fcntl(atoi(bootstrap->pmi), F_DUPFD_CLOEXEC, 3);
	if (bootstrap->pmi_fd < 0)
		return twi_error_errno(TOW_ESYSTEM, errno, "pmi: PMI_FD = %s", bootstrap->pmi);
	return twi_pmi_exchange(bootstrap->pmi_fd, mine != NULL, bootstrap->store, until);
}

void twi_exchange_done(struct twi_bootstrap *bootstrap, const struct twi_until *until)
{
	struct question answer;

	if (bootstrap->pmix)
		ask_library(bootstrap, NULL, ASK_END, until, &answer);
	if (bootstrap->pmi_fd >= 0) {
		twi_pmi_finish(bootstrap->pmi_fd, until);
		close(bootstrap->pmi_fd);
		bootstrap->pmi_fd = -1;
	}
	bootstrap->pmix = false;
}

/* --- the caller's exchange --- */

/*
 * The caller's function is to give up that long before the deadline, as it knows more of the
 * reason.
 */
#define MARGIN_NS (500ull * 1000000)

static int never_returned(const char *call)
{
	return twi_error(TOW_EDEADLINE,
			 "%s of '" TWI_EXCHANGE_KEY
			 "' has not returned in time; its thread is abandoned",
			 call);
}

int twi_exchange_put(const struct twi_exchange_caller *caller, const struct twi_exchange_note *note,
		     const struct twi_until *until)
{
	struct question *question = make_question(ASK_PUT);
	int status;

	if (question == NULL)
		return TOW_ENOMEM;
	question->caller = *caller;
	question->value_bytes = twi_exchange_note_put(note, question->value);
	status = await_answer(question, until);
	if (status == TOW_AGAIN)
		status = never_returned("put");
	drop_question(question);
	return status;
}

int twi_exchange_get(const struct twi_exchange_caller *caller, struct twi_exchange_note *note,
		     const struct twi_until *until)
{
	struct question *question = make_question(ASK_GET);
	uint64_t now = twi_net_now();
	uint64_t left = until->deadline_ns > now ? until->deadline_ns - now : 0;
	int status;

	if (question == NULL)
		return TOW_ENOMEM;
	question->caller = *caller;
	question->timeout_ns = until->deadline_ns == UINT64_MAX
				       ? TOW_FOREVER
				       : left - twi_min(left / 8, MARGIN_NS);
	status = await_answer(question, until);
	if (status == TOW_AGAIN)
		status = never_returned("get");
	if (status == TOW_OK && question->value_bytes == SIZE_MAX)
		status = twi_error(TOW_EINVAL, "get of '" TWI_EXCHANGE_KEY "' has returned TOW_OK "
					       "without *bytes_out");
	else if (status == TOW_OK)
		status = twi_exchange_note_take(question->value, question->value_bytes, note);
	drop_question(question);
	return status;
}
