/*
 * job_key.c - reads the job's secret, and hashes it into a key. See job_key.h.
 *
 * The file is judged by its open descriptor and not by its name, so that no one can swap it between
 * the check and the read. A link is not followed, and a FIFO does not block the open.
 */
#include "transport/security/job_key.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <internal/base.h>

#include "diag/base/error.h"
#include "diag/serve/secret_file.h"
#include "transport/security/sodium_lazy.h"

/* Hashed too, so that the same secret used elsewhere gives another key. */
#define CONTEXT "towline 2 job key"

static int make_key(const char *name, const void *secret, size_t bytes, struct twi_job_key *out)
{
	if (bytes < TWI_JOB_KEY_SECRET_MIN)
		return twi_error(TOW_EINVAL,
				 "the secret of %s has %zu characters, fewer than %d: make a "
				 "random one, as with: openssl rand -hex 16",
				 name, bytes, TWI_JOB_KEY_SECRET_MIN);
	twi_sodium.crypto_generichash(out->bytes, sizeof(out->bytes), secret, bytes,
				      (const unsigned char *)CONTEXT, sizeof(CONTEXT) - 1);
	out->set = true;
	return TOW_OK;
}

static int judge_file(int fd, const char *path)
{
	struct stat st;
	int status = twi_secret_file_judge(fd, "job_key_file", path);

	if (status < 0)
		return status;
	if (fstat(fd, &st) != 0)
		return twi_error_errno(TOW_ESYSTEM, errno, "job_key_file %s: fstat", path);
	if (st.st_size > TWI_JOB_KEY_FILE_MAX)
		return twi_error(TOW_EINVAL, "job_key_file %s has %lld bytes, more than %d", path,
				 (long long)st.st_size, TWI_JOB_KEY_FILE_MAX);
	return TOW_OK;
}

/* Reads to the end of the file, which may have grown since it was judged. */
static int read_secret(int fd, const char *path, uint8_t *out, size_t *bytes_out)
{
	size_t bytes = 0;

	for (;;) {
		ssize_t got = read(fd, out + bytes, TWI_JOB_KEY_FILE_MAX + 1 - bytes);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return twi_error_errno(TOW_ESYSTEM, errno, "job_key_file %s: read", path);
		bytes += (size_t)got;
		if (bytes > TWI_JOB_KEY_FILE_MAX)
			return twi_error(TOW_EINVAL, "job_key_file %s has more than %d bytes", path,
					 TWI_JOB_KEY_FILE_MAX);
		if (got == 0)
			break;
	}
	/* An editor or echo adds a line break; the same secret in the environment has none. */
	if (bytes > 0 && out[bytes - 1] == '\n')
		bytes--;
	*bytes_out = bytes;
	return TOW_OK;
}

static int load_file(const char *path, struct twi_job_key *out)
{
	uint8_t secret[TWI_JOB_KEY_FILE_MAX + 1];
	size_t bytes = 0;
	int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	int status;

	if (fd < 0 && errno == ELOOP)
		return twi_error(TOW_EPERM, "job_key_file %s is a symbolic link: name the file",
				 path);
	if (fd < 0)
		return twi_error_errno(TOW_ESYSTEM, errno, "job_key_file %s: open", path);
	status = judge_file(fd, path);
	if (status == TOW_OK)
		status = read_secret(fd, path, secret, &bytes);
	close(fd);
	if (status == TOW_OK)
		status = make_key(path, secret, bytes, out);
	explicit_bzero(secret, sizeof(secret));
	return status;
}

int twi_job_key_load(const struct twi_knobs *knobs, struct twi_job_key *out)
{
	int status = TOW_OK;

	*out = (struct twi_job_key){ 0 };
	if (knobs->job_key[0] != '\0' || knobs->job_key_file[0] != '\0')
		status = twi_sodium_load();
	if (status < 0)
		return status;
	if (knobs->job_key[0] != '\0')
		status = make_key("job_key", knobs->job_key, strlen(knobs->job_key), out);
	else if (knobs->job_key_file[0] != '\0')
		status = load_file(knobs->job_key_file, out);
	if (status == TOW_OK && knobs->encrypt && !out->set)
		status = twi_error(TOW_EINVAL, "encrypt=1 needs a job key: set TOW_JOB_KEY or "
					       "job_key_file to the job's secret");
	out->encrypt = knobs->encrypt;
	if (status < 0)
		twi_job_key_wipe(out);
	return status;
}

void twi_job_key_wipe(struct twi_job_key *key)
{
	explicit_bzero(key, sizeof(*key));
}

void twi_job_key_mask(char *secret)
{
	memset(secret, '*', strlen(secret));
}
