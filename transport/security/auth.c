/*
 * auth.c - the exchange of greetings and proofs. See auth.h.
 *
 *	connector:  GREET ---------> PROOF -----> DONE        (GREET: waits for a greeting,
 *	acceptor:   GREET ---------> PROOF -----> DONE         PROOF: for a proof)
 *	open:       GREET -----------------------> DONE
 *	any:        ------ anything illegal ----> REFUSED
 *
 * Cheap steps come before costly ones. A stranger can make an acceptor draw a nonce and, if the
 * connection is to be encrypted, make one X25519 pair. The Diffie-Hellman itself is done only for
 * members.
 */
#include "transport/security/auth.h"

#include <string.h>

#include <internal/base.h>
#include <towline/status.h>

#include "diag/base/error.h"
#include "transport/security/sodium_lazy.h"
#include "transport/wire/frame.h"

enum auth_state { IDLE, GREET, PROOF, DONE, REFUSED };

enum proof_kind { PROOF_MAC = 1, PROOF_REFUSED = 2 };

/*
 * A greeting:                                   A proof:
 *    0 | magic "TOWAUTH\0"             |           0 | kind: 1 a MAC, 2 refused | 0 (7) |
 *    8 | version | flags | 0           |           8 | MAC (32), of 2: 0                |
 *   16 | purpose, text (16)            |
 *   32 | nonce (32)                    |
 *   64 | X25519 public key or 0 (32)   |
 */
#define AT_VERSION  8
#define AT_FLAGS    10
#define AT_RESERVED 12
#define AT_PURPOSE  16
#define AT_NONCE    32
#define AT_PUBLIC   64
#define AT_MAC      8

/* The first bytes of a peer of version 1: the header of a HELLO frame, and then its body. */
#define OLD_HEAD    0x0000004000000001ull
#define OLD_VERSION (TWI_FRAME_BYTES + 8)

/* The use of a hash: the same input never gives the same bytes for two uses. Fixed size. */
#define LABEL_BYTES 32
static const char label_proof[2][LABEL_BYTES] = { "towline 2 proof of connector",
						  "towline 2 proof of acceptor" };
static const char label_keys[2][LABEL_BYTES] = { "towline 2 stream of connector",
						 "towline 2 stream of acceptor" };

static int refuse_auth(struct twi_auth *auth, int status)
{
	auth->state = REFUSED;
	auth->status = status;
	explicit_bzero(auth->key, sizeof(auth->key));
	explicit_bzero(auth->secret, sizeof(auth->secret));
	return status;
}

static void append_bytes(struct twi_auth *auth, const uint8_t *bytes, size_t count)
{
	twi_assert(auth->out_bytes + count <= sizeof(auth->out));
	memcpy(auth->out + auth->out_bytes, bytes, count);
	auth->out_bytes += (uint16_t)count;
}

static void append_greeting(struct twi_auth *auth, bool with_public)
{
	uint8_t *greeting = auth->greetings[auth->connector ? 0 : 1];
	uint16_t flags = 0;

	if (auth->keyed)
		flags = TWI_AUTH_KEYED | (auth->encrypt ? TWI_AUTH_ENCRYPT : 0);
	twi_put_le64(greeting, TWI_AUTH_MAGIC);
	twi_put_le16(greeting + AT_VERSION, TWI_AUTH_VERSION);
	twi_put_le16(greeting + AT_FLAGS, flags);
	twi_put_le32(greeting + AT_RESERVED, 0);
	memcpy(greeting + AT_PURPOSE, auth->purpose, TWI_AUTH_PURPOSE_BYTES);
	twi_random_bytes(greeting + AT_NONCE, 32);
	memset(greeting + AT_PUBLIC, 0, 32);
	if (with_public) {
		twi_random_bytes(auth->secret, sizeof(auth->secret));
		twi_sodium.crypto_scalarmult_base(greeting + AT_PUBLIC, auth->secret);
	}
	append_bytes(auth, greeting, TWI_AUTH_GREETING_BYTES);
}

/* Hashes the label, both greetings, and `more`, under the job's key. */
static void hash_greetings(const struct twi_auth *auth, const char label[LABEL_BYTES],
			   const uint8_t *more, size_t more_bytes, uint8_t *out, size_t out_bytes)
{
	crypto_generichash_state state;

	twi_sodium.crypto_generichash_init(&state, auth->key, sizeof(auth->key), out_bytes);
	twi_sodium.crypto_generichash_update(&state, (const uint8_t *)label, LABEL_BYTES);
	twi_sodium.crypto_generichash_update(&state, auth->greetings[0], sizeof(auth->greetings));
	if (more_bytes > 0)
		twi_sodium.crypto_generichash_update(&state, more, more_bytes);
	twi_sodium.crypto_generichash_final(&state, out, out_bytes);
	explicit_bzero(&state, sizeof(state));
}

static void append_proof(struct twi_auth *auth, enum proof_kind kind)
{
	uint8_t proof[TWI_AUTH_PROOF_BYTES] = { (uint8_t)kind };

	if (kind == PROOF_MAC)
		hash_greetings(auth, label_proof[!auth->connector], NULL, 0, proof + AT_MAC, 32);
	append_bytes(auth, proof, sizeof(proof));
}

/* Ends the exchange: keeps only the keys of the streams, if there are any. */
static int finish_auth(struct twi_auth *auth)
{
	uint8_t shared[crypto_scalarmult_BYTES];

	if (auth->encrypts) {
		const uint8_t *theirs = auth->greetings[auth->connector ? 1 : 0] + AT_PUBLIC;

		if (twi_sodium.crypto_scalarmult(shared, auth->secret, theirs) != 0)
			return refuse_auth(auth,
					   twi_error(TOW_EAUTH, "the other side's ephemeral key "
								"cannot be used"));
		for (int i = 0; i < 2; i++)
			hash_greetings(auth, label_keys[i], shared, sizeof(shared), auth->keys[i],
				       sizeof(auth->keys[i]));
		explicit_bzero(shared, sizeof(shared));
	}
	explicit_bzero(auth->key, sizeof(auth->key));
	explicit_bzero(auth->secret, sizeof(auth->secret));
	auth->state = DONE;
	return TOW_OK;
}

void twi_auth_start(struct twi_auth *auth, const struct twi_job_key *key, bool connector,
		    const char *purpose)
{
	if (key->set) {
		/* The code that has read the key has loaded libsodium. */
		const int ready = twi_sodium_load();

		twi_assert(ready == TOW_OK);
	}
	twi_assert(strlen(purpose) < TWI_AUTH_PURPOSE_BYTES);
	*auth = (struct twi_auth){
		.state = GREET,
		.connector = connector,
		.keyed = key->set,
		.encrypt = key->set && key->encrypt,
	};
	memcpy(auth->purpose, purpose, strlen(purpose));
	if (key->set)
		memcpy(auth->key, key->bytes, sizeof(auth->key));
	/* The connector does not know yet whether the other side wants encryption. */
	if (connector)
		append_greeting(auth, auth->keyed);
}

size_t twi_auth_out(struct twi_auth *auth, uint8_t out[TWI_AUTH_OUT_MAX])
{
	const size_t bytes = auth->out_bytes;

	memcpy(out, auth->out, bytes);
	auth->out_bytes = 0;
	return bytes;
}

/* The size of the message that is arriving, judged by its bytes so far. */
static size_t message_bytes(const struct twi_auth *auth)
{
	if (auth->state == PROOF)
		return TWI_AUTH_PROOF_BYTES;
	if (auth->in_bytes >= 8 && twi_get_le64(auth->in) == OLD_HEAD)
		return OLD_VERSION + 4;
	return TWI_AUTH_GREETING_BYTES;
}

/* Whether these can be the first bytes of `word` in wire order. */
static bool begins_with(const struct twi_auth *auth, uint64_t word)
{
	uint8_t bytes[8];

	twi_put_le64(bytes, word);
	return memcmp(auth->in, bytes, twi_min((size_t)auth->in_bytes, sizeof(bytes))) == 0;
}

static int refuse_version(struct twi_auth *auth, unsigned theirs)
{
	return refuse_auth(auth,
			   twi_error(TOW_EPROTOCOL,
				     "the other side speaks version %u of the protocol and this "
				     "one version %u: the same Towline is needed on both",
				     theirs, TWI_AUTH_VERSION));
}

/* A peer's purpose is quoted in an error only if it is one word of small letters. */
static const char *purpose_text(const char purpose[TWI_AUTH_PURPOSE_BYTES])
{
	size_t letters = strnlen(purpose, TWI_AUTH_PURPOSE_BYTES);

	if (letters == 0 || letters == TWI_AUTH_PURPOSE_BYTES)
		return "something else";
	for (size_t i = 0; i < letters; i++) {
		if (purpose[i] < 'a' || purpose[i] > 'z')
			return "something else";
	}
	return purpose;
}

/* Checks what can be checked of a greeting of this version without a key. */
static int check_greeting(const struct twi_auth *auth, const uint8_t *in)
{
	const uint16_t flags = twi_get_le16(in + AT_FLAGS);
	const char *purpose = (const char *)in + AT_PURPOSE;
	static const uint8_t none[32];
	bool wanted;

	if (memcmp(purpose, auth->purpose, TWI_AUTH_PURPOSE_BYTES) != 0)
		return twi_error(TOW_EPROTOCOL, "the connection is for %s there and for %s here",
				 purpose_text(purpose), auth->purpose);
	if ((flags & ~(TWI_AUTH_KEYED | TWI_AUTH_ENCRYPT)) != 0 || flags == TWI_AUTH_ENCRYPT ||
	    twi_get_le32(in + AT_RESERVED) != 0)
		return twi_error(TOW_EPROTOCOL, "a greeting with unknown flags, %#x", flags);
	if (memcmp(in + AT_NONCE, auth->greetings[auth->connector ? 0 : 1] + AT_NONCE, 32) == 0)
		return twi_error(TOW_EAUTH, "the other side sent the greeting of this side back");
	if ((flags & TWI_AUTH_KEYED) != 0 && !auth->keyed)
		return twi_error(TOW_EAUTH, "the other side has a job key and this one has none: "
					    "set TOW_JOB_KEY or job_key_file to the job's secret");
	if ((flags & TWI_AUTH_KEYED) == 0 && auth->keyed)
		return twi_error(TOW_EAUTH,
				 "this side has a job key and the other one has none: set "
				 "TOW_JOB_KEY or job_key_file there to the same secret");
	/* A connector always has a key ready; an acceptor makes one only if it is needed. */
	wanted = auth->keyed && (!auth->connector || auth->encrypt || (flags & TWI_AUTH_ENCRYPT));
	if ((memcmp(in + AT_PUBLIC, none, sizeof(none)) != 0) != wanted)
		return twi_error(TOW_EPROTOCOL, "a greeting %s an ephemeral key",
				 wanted ? "without" : "with");
	return TOW_OK;
}

static int take_greeting(struct twi_auth *auth)
{
	const uint16_t flags = twi_get_le16(auth->in + AT_FLAGS);
	int status;

	if (twi_get_le64(auth->in) == OLD_HEAD)
		return refuse_version(auth, twi_get_le16(auth->in + OLD_VERSION));
	/* The magic and the version keep their positions in all later versions. */
	if (twi_get_le16(auth->in + AT_VERSION) != TWI_AUTH_VERSION) {
		if (!auth->connector)
			append_greeting(auth, false);
		return refuse_version(auth, twi_get_le16(auth->in + AT_VERSION));
	}
	status = check_greeting(auth, auth->in);
	if (status < 0) {
		/* This side's flags and purpose tell the other side what is wrong. */
		if (!auth->connector)
			append_greeting(auth, false);
		return refuse_auth(auth, status);
	}
	auth->encrypts = auth->keyed && (auth->encrypt || (flags & TWI_AUTH_ENCRYPT) != 0);
	memcpy(auth->greetings[auth->connector ? 1 : 0], auth->in, TWI_AUTH_GREETING_BYTES);
	if (!auth->connector)
		append_greeting(auth, auth->encrypts);
	if (!auth->keyed)
		return finish_auth(auth);
	if (auth->connector)
		append_proof(auth, PROOF_MAC);
	auth->state = PROOF;
	return TOW_AGAIN;
}

static int take_proof(struct twi_auth *auth)
{
	uint8_t expected[TWI_AUTH_PROOF_BYTES] = { PROOF_MAC };
	bool same;

	hash_greetings(auth, label_proof[auth->connector], NULL, 0, expected + AT_MAC, 32);
	same = twi_sodium.sodium_memcmp(expected, auth->in, sizeof(expected)) == 0;
	explicit_bzero(expected, sizeof(expected));
	if (!same) {
		if (!auth->connector)
			append_proof(auth, PROOF_REFUSED);
		return refuse_auth(auth,
				   twi_error(TOW_EAUTH,
					     "the other side has another job key: TOW_JOB_KEY or "
					     "job_key_file must be the same in all of the job"));
	}
	if (!auth->connector)
		append_proof(auth, PROOF_MAC);
	return finish_auth(auth);
}

/* Refuses at the first byte that no greeting has: this side waits for nothing from a stranger. */
static int check_beginning(struct twi_auth *auth)
{
	if (auth->state != GREET || begins_with(auth, TWI_AUTH_MAGIC) ||
	    begins_with(auth, OLD_HEAD))
		return TOW_OK;
	return refuse_auth(
		auth, twi_error(TOW_EPROTOCOL, "the first bytes are not a greeting of Towline"));
}

int twi_auth_in(struct twi_auth *auth, const uint8_t *data, size_t bytes, size_t *used_out)
{
	size_t used = 0;
	int status = TOW_AGAIN;

	*used_out = 0;
	if (auth->state == DONE)
		return TOW_OK;
	if (auth->state == REFUSED)
		return twi_error(auth->status, "the connection was refused already");
	if (auth->state == IDLE)
		return refuse_auth(auth, twi_error(TOW_EPROTOCOL, "no greeting was begun"));
	while (status == TOW_AGAIN && used < bytes) {
		/* Eight bytes come first, since they tell how long the message is. */
		size_t whole = auth->in_bytes < 8 ? 8 : message_bytes(auth);
		size_t part = twi_min(bytes - used, whole - auth->in_bytes);

		memcpy(auth->in + auth->in_bytes, data + used, part);
		auth->in_bytes += (uint16_t)part;
		used += part;
		*used_out = used;
		if (check_beginning(auth) < 0)
			return auth->status;
		if (auth->in_bytes < 8 || auth->in_bytes < message_bytes(auth))
			continue;
		auth->in_bytes = 0;
		status = auth->state == GREET ? take_greeting(auth) : take_proof(auth);
	}
	return status;
}

bool twi_auth_done(const struct twi_auth *auth)
{
	return auth->state == DONE;
}

bool twi_auth_encrypts(const struct twi_auth *auth)
{
	return auth->state == DONE && auth->encrypts;
}

void twi_auth_ciphers(struct twi_auth *auth, struct twi_cipher *send, struct twi_cipher *receive)
{
	twi_assert(auth->state == DONE && auth->encrypts);
	twi_cipher_init(send, auth->keys[auth->connector ? 0 : 1]);
	twi_cipher_init(receive, auth->keys[auth->connector ? 1 : 0]);
	explicit_bzero(auth->keys, sizeof(auth->keys));
}

void twi_auth_wipe(struct twi_auth *auth)
{
	explicit_bzero(auth, sizeof(*auth));
}
