/*
 * token.c - reads and compares tokens, and counts guesses. See token.h.
 *
 * The file is judged by its open descriptor, not by its name. Links are not followed, and opening a
 * FIFO does not wait.
 */
#include "diag/serve/token.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include <internal/base.h>

#include "diag/base/ascii.h"
#include "diag/base/error.h"
#include "diag/serve/secret_file.h"

#define TOKEN_CHARACTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._~-"
#define MEND             "; make one, as with: openssl rand -hex 16"

static int take_token(const char *knob, const char *text, size_t bytes, struct twi_token *out)
{
	if (bytes < TWI_TOKEN_MIN || bytes > TWI_TOKEN_MAX)
		return twi_error(TOW_EINVAL,
				 "the token of %s has %zu characters, not %d to %d" MEND, knob,
				 bytes, TWI_TOKEN_MIN, TWI_TOKEN_MAX);
	*out = (struct twi_token){ 0 };
	memcpy(out->text, text, bytes);
	if (strspn(out->text, TOKEN_CHARACTERS) == bytes)
		return TOW_OK;
	explicit_bzero(out, sizeof(*out));
	return twi_error(
		TOW_EINVAL,
		"the token of %s has characters other than letters, digits and . _ ~ -" MEND, knob);
}

/* Reads one line. CR or LF at its end is not part of the token. */
static int read_file(int fd, const char *path, struct twi_token *out)
{
	char text[TWI_TOKEN_MAX + 4];
	size_t bytes = 0;
	ssize_t got = 1;
	int status;

	while (bytes < sizeof(text) && got > 0) {
		got = read(fd, text + bytes, sizeof(text) - bytes);
		if (got < 0 && errno == EINTR)
			got = 1;
		else if (got < 0)
			return twi_error_errno(TOW_ESYSTEM, errno, "stats_token_file %s: read",
					       path);
		else
			bytes += (size_t)got;
	}
	while (bytes > 0 && (text[bytes - 1] == '\n' || text[bytes - 1] == '\r'))
		bytes--;
	status = take_token("stats_token_file", text, bytes, out);
	explicit_bzero(text, sizeof(text));
	return status;
}

int twi_token_load(const char *text, const char *file, struct twi_token *out)
{
	int fd, status;

	if (text != NULL && text[0] != '\0')
		return take_token("stats_token", text, strlen(text), out);
	if (file == NULL || file[0] == '\0')
		return twi_error(TOW_EINVAL,
				 "stats_listen without a token: set stats_token or "
				 "stats_token_file (TOW_STATS_TOKEN, TOW_STATS_TOKEN_FILE)" MEND);
	fd = open(file, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0)
		return twi_error_errno(errno == EACCES || errno == ELOOP ? TOW_EPERM : TOW_ESYSTEM,
				       errno, "cannot open stats_token_file %s", file);
	status = twi_secret_file_judge(fd, "stats_token_file", file);
	if (status == TOW_OK)
		status = read_file(fd, file, out);
	close(fd);
	return status;
}

bool twi_token_same(const struct twi_token *token, const char *given)
{
	size_t bytes = given != NULL ? strnlen(given, TWI_TOKEN_MAX + 1) : 0;
	volatile unsigned char differs = bytes < TWI_TOKEN_MIN || bytes > TWI_TOKEN_MAX;

	/* Always compares all bytes, also those behind the end of a shorter text. */
	for (size_t i = 0; i < TWI_TOKEN_MAX; i++)
		differs |= (unsigned char)(token->text[i] ^ (i < bytes ? given[i] : '\0'));
	return differs == 0;
}

const char *twi_token_bearer(const char *authorization)
{
	if (authorization == NULL || !twi_ascii_begins(authorization, "Bearer ", 7))
		return NULL;
	authorization += 7;
	return authorization + strspn(authorization, " ");
}

static int hex_of(char digit)
{
	if (digit >= '0' && digit <= '9')
		return digit - '0';
	digit |= 0x20;
	return digit >= 'a' && digit <= 'f' ? digit - 'a' + 10 : -1;
}

const char *twi_token_param(const char *escaped, char out[TWI_TOKEN_PARAM_BYTES])
{
	size_t bytes = 0;

	if (escaped == NULL)
		return NULL;
	while (*escaped != '\0' && bytes < TWI_TOKEN_PARAM_BYTES - 1) {
		int high = *escaped == '%' ? hex_of(escaped[1]) : -1;
		int low = high >= 0 ? hex_of(escaped[2]) : -1;

		/* %00 would end the text early. It stays, as bad escapes do, and is no token. */
		out[bytes++] = low >= 0 && high + low > 0 ? (char)(high << 4 | low) : *escaped;
		escaped += low >= 0 && high + low > 0 ? 3 : 1;
	}
	out[bytes] = '\0';
	return out;
}

static unsigned left_of(const struct twi_throttle *throttle, unsigned i, uint64_t now_ns)
{
	uint64_t since = now_ns - twi_min(throttle->rows[i].wrong_ns, now_ns);
	uint64_t left = throttle->rows[i].left + since / TWI_THROTTLE_REFILL_NS;

	return (unsigned)twi_min(left, (uint64_t)TWI_THROTTLE_BURST);
}

bool twi_throttle_refuses(const struct twi_throttle *throttle, const uint8_t address[16],
			  uint64_t now_ns)
{
	for (unsigned i = 0; i < TWI_THROTTLE_ADDRESSES; i++) {
		if (throttle->rows[i].wrong_ns != 0 &&
		    memcmp(throttle->rows[i].address, address, 16) == 0)
			return left_of(throttle, i, now_ns) == 0;
	}
	return false;
}

void twi_throttle_wrong(struct twi_throttle *throttle, const uint8_t address[16], uint64_t now_ns)
{
	unsigned at = 0, left = TWI_THROTTLE_BURST;

	for (unsigned i = 0; i < TWI_THROTTLE_ADDRESSES; i++) {
		if (throttle->rows[i].wrong_ns != 0 &&
		    memcmp(throttle->rows[i].address, address, 16) == 0) {
			at = i;
			left = left_of(throttle, i, now_ns);
			break;
		}
		if (throttle->rows[i].wrong_ns < throttle->rows[at].wrong_ns)
			at = i;
	}
	memcpy(throttle->rows[at].address, address, 16);
	throttle->rows[at].wrong_ns = twi_max(now_ns, (uint64_t)1);
	throttle->rows[at].left = left > 0 ? left - 1 : 0;
}
