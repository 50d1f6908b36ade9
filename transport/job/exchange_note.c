/*
 * exchange_note.c - the value that rank 0 puts into the caller's exchange. Pure.
 *
 *	towline 1
 *	job NAME                  of the knob and the launcher
 *	restarts N
 *	store HOST:PORT,...
 *	key HEX                   "-": the key that every rank has configured
 *
 * or, when rank 0 has failed,
 *
 *	towline 1
 *	failed STATUS
 *	TEXT
 *
 * Other programs may have put something there, so all of it is hostile. A wrong number of lines, a
 * byte that cannot be printed, another version or another job is an error that says so.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <internal/base.h>

#include "diag/base/error.h"
#include "transport/job/bootstrap_exchange.h"

#define VERSION "1"

_Static_assert(TWI_JOB_BYTES <= TWI_BOOTSTRAP_ERROR, "clean_line has room for a job's name");

/*
 * Copies a text as one line, of bytes that the other ranks accept. The message of a failure may
 * quote anything, and a launcher's number of the job may be anything.
 */
static void clean_line(const char *text, char out[TWI_BOOTSTRAP_ERROR])
{
	size_t i;

	for (i = 0; text[i] != '\0' && i < TWI_BOOTSTRAP_ERROR - 1; i++)
		out[i] = text[i] >= ' ' && text[i] <= '~' ? text[i] : '?';
	out[i] = '\0';
}

size_t twi_exchange_note_put(const struct twi_exchange_note *note, char out[TWI_EXCHANGE_VALUE])
{
	char hex[2 * TWI_JOB_KEY_BYTES + 1] = "-";
	char line[TWI_BOOTSTRAP_ERROR];
	int length;

	clean_line(note->failed < 0 ? note->why : note->job, line);
	for (unsigned i = 0; note->key.set && i < TWI_JOB_KEY_BYTES; i++)
		snprintf(hex + 2 * (size_t)i, 3, "%02x", note->key.bytes[i]);
	if (note->failed < 0)
		length = snprintf(out, TWI_EXCHANGE_VALUE, "towline " VERSION "\nfailed %d\n%s\n",
				  note->failed, line);
	else
		length = snprintf(out, TWI_EXCHANGE_VALUE,
				  "towline " VERSION "\njob %s\nrestarts %u\nstore %s\nkey %s\n",
				  line, note->restarts, note->store, hex);
	/* A key must not stay on the stack, where later code could read it. */
	explicit_bzero(hex, sizeof(hex));
	twi_assert(length > 0 && (size_t)length < TWI_EXCHANGE_VALUE);
	return (size_t)length;
}

/* Takes the next line, which begins with `word`. *rest_out is what follows. */
static int take_line(char **at, const char *word, const char **rest_out)
{
	char *line = *at, *end = strchr(line, '\n');
	size_t length = strlen(word);

	if (end == NULL || strncmp(line, word, length) != 0)
		return twi_error(TOW_EPROTOCOL,
				 "the exchange holds '%.40s' where a line '%s...' was expected",
				 line, word);
	*end = '\0';
	*at = end + 1;
	*rest_out = line + length;
	return TOW_OK;
}

static bool take_number(const char *text, long least, long most, long *out)
{
	char *end;

	*out = strtol(text, &end, 10);
	return *text != '\0' && *end == '\0' && *out >= least && *out <= most;
}

static bool take_key(const char *text, struct twi_job_key *out)
{
	static const char digits[] = "0123456789abcdef";

	*out = (struct twi_job_key){ 0 };
	if (strcmp(text, "-") == 0)
		return true;
	if (strlen(text) != 2 * TWI_JOB_KEY_BYTES || strspn(text, digits) != 2 * TWI_JOB_KEY_BYTES)
		return false;
	for (unsigned i = 0; i < TWI_JOB_KEY_BYTES; i++)
		out->bytes[i] = (uint8_t)((strchr(digits, text[2 * i]) - digits) << 4 |
					  (strchr(digits, text[2 * i + 1]) - digits));
	out->set = true;
	return true;
}

static int take_failure(char *at, const char *status)
{
	const char *why = "";
	long number;

	if (!take_number(status, -1000, -1, &number))
		return twi_error(TOW_EPROTOCOL, "the exchange holds a failure of status '%.16s'",
				 status);
	if (take_line(&at, "", &why) < 0 || *at != '\0')
		return twi_error(TOW_EPROTOCOL, "the exchange holds a failure without its text");
	return twi_error((int)number, "%.480s", why);
}

/* Parses the lines behind the job's. */
static int take_address(char *at, const char *job, struct twi_exchange_note *note)
{
	const char *restarts = "", *store = "", *key = "";
	char mine[TWI_BOOTSTRAP_ERROR];
	int status = TOW_OK;
	long number;

	clean_line(note->job, mine);
	if (strcmp(job, mine) != 0)
		return twi_error(TOW_EMISMATCH,
				 "the exchange holds the address of job '%.64s', this is job "
				 "'%.64s'",
				 job, mine);
	status = take_line(&at, "restarts ", &restarts);
	if (status == TOW_OK)
		status = take_line(&at, "store ", &store);
	if (status == TOW_OK)
		status = take_line(&at, "key ", &key);
	if (status < 0)
		return status;
	if (*at != '\0' || !take_key(key, &note->key) || strlen(store) >= sizeof(note->store) ||
	    *store == '\0' || !take_number(restarts, 0, UINT32_MAX, &number))
		return twi_error(TOW_EPROTOCOL, "the exchange holds an address, number or key "
						"that is not valid");
	if ((uint32_t)number != note->restarts)
		return twi_error(TOW_EMISMATCH,
				 "the exchange holds the address of restart %ld of the job, this "
				 "is restart %u",
				 number, note->restarts);
	snprintf(note->store, sizeof(note->store), "%s", store);
	return TOW_OK;
}

int twi_exchange_note_take(const char *value, size_t bytes, struct twi_exchange_note *note)
{
	char text[TWI_EXCHANGE_VALUE], *at = text;
	const char *rest;
	int status;

	if (bytes >= sizeof(text))
		return twi_error(TOW_EPROTOCOL,
				 "the exchange holds %zu bytes, expected fewer than "
				 "%u",
				 bytes, TWI_EXCHANGE_VALUE);
	for (size_t i = 0; i < bytes; i++) {
		if ((value[i] < ' ' || value[i] > '~') && value[i] != '\n')
			return twi_error(TOW_EPROTOCOL,
					 "the exchange holds byte %u at %zu, which is not text",
					 (unsigned char)value[i], i);
		text[i] = value[i];
	}
	text[bytes] = '\0';
	status = take_line(&at, "towline ", &rest);
	if (status == TOW_OK && strcmp(rest, VERSION) != 0)
		status = twi_error(TOW_EMISMATCH,
				   "the exchange holds version %.16s of the address of rank 0, "
				   "this library knows " VERSION,
				   rest);
	if (status == TOW_OK && strncmp(at, "failed ", 7) == 0) {
		take_line(&at, "failed ", &rest);
		status = take_failure(at, rest);
	} else if (status == TOW_OK) {
		status = take_line(&at, "job ", &rest);
		if (status == TOW_OK)
			status = take_address(at, rest, note);
	}
	explicit_bzero(text, sizeof(text));
	return status;
}
