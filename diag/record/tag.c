/*
 * tag.c - the table of tags: found without a lock, added to under one.
 *
 * Setting a tag that is known already is the common case and may stand in a training loop. A slot
 * of the hash table holds the number of a tag, and is filled after that tag's text is complete.
 */
#include "diag/record/tag.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include <internal/base.h>
#include <towline/stats.h>

#include "diag/base/error.h"
#include "diag/base/hash.h"

/* Twice the number of tags, so that a search always meets a free slot, and soon. */
#define SLOTS (2 * TWI_TAGS_MAX)

__thread uint32_t twi_tag_current __attribute__((tls_model("initial-exec")));

static char texts[TWI_TAGS_MAX][TWI_TAG_BYTES]; /* tag n is texts[n - 1] */
static _Atomic uint32_t slots[SLOTS];           /* release, with the acquire of find */
static _Atomic uint32_t count;                  /* release, with the acquire of twi_tag_text */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of the threads that add */
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void lock_for_fork(void)
{
	pthread_mutex_lock(&lock);
}

static void unlock_after_fork(void)
{
	pthread_mutex_unlock(&lock);
}

static void init_once(void)
{
	pthread_atfork(lock_for_fork, unlock_after_fork, unlock_after_fork);
}

/* The tag with that text; or 0, and the free slot for it. */
static uint32_t find_tag(const char *text, uint32_t *slot_out)
{
	for (uint32_t at = (uint32_t)(twi_hash_text(text) % SLOTS);; at = (at + 1) % SLOTS) {
		uint32_t tag = atomic_load_explicit(&slots[at], memory_order_acquire);

		*slot_out = at;
		if (tag == 0 || strcmp(texts[tag - 1], text) == 0)
			return tag;
	}
}

static uint32_t add_tag(const char *text, uint32_t most)
{
	uint32_t slot, tag, used;

	pthread_once(&once, init_once);
	pthread_mutex_lock(&lock);
	tag = find_tag(text, &slot);
	used = atomic_load_explicit(&count, memory_order_relaxed);
	if (tag == 0 && used < most) {
		tag = used + 1;
		memcpy(texts[used], text, strlen(text) + 1);
		atomic_store_explicit(&count, tag, memory_order_release);
		atomic_store_explicit(&slots[slot], tag, memory_order_release);
	}
	pthread_mutex_unlock(&lock);
	return tag;
}

const char *twi_tag_text(uint32_t tag)
{
	if (tag == 0 || tag > atomic_load_explicit(&count, memory_order_acquire))
		return NULL;
	return texts[tag - 1];
}

static int judge_tag(const char *call, const char *text)
{
	size_t bytes = strnlen(text, TWI_TAG_BYTES);

	if (bytes == 0)
		return twi_error(TOW_EINVAL, "%s: the tag is empty; NULL means none", call);
	if (bytes == TWI_TAG_BYTES)
		return twi_error(TOW_EINVAL, "%s: the tag '%.16s...' is longer than %d bytes", call,
				 text, TWI_TAG_BYTES - 1);
	for (size_t i = 0; i < bytes; i++) {
		unsigned char byte = (unsigned char)text[i];

		if (byte < 0x20 || byte > 0x7e)
			return twi_error(TOW_EINVAL,
					 "%s: byte %zu of the tag is 0x%02x; only printable ASCII "
					 "is legal",
					 call, i, byte);
	}
	return TOW_OK;
}

int twi_tag_number(const char *call, const char *text, uint32_t *tag_out)
{
	uint32_t slot, number;
	int status = judge_tag(call, text);

	*tag_out = 0;
	if (status < 0)
		return status;
	number = find_tag(text, &slot);
	if (number == 0)
		number = add_tag(text, TWI_TAGS_MAX);
	if (number == 0)
		return twi_error(TOW_EBUSY,
				 "%s: there are %d tags already, which is the limit; name "
				 "places in the program, not steps: '%s'",
				 call, TWI_TAGS_MAX, text);
	*tag_out = number;
	return TOW_OK;
}

uint32_t twi_tag_name(const char *text)
{
	uint32_t slot, number;
	size_t bytes = 0;

	while (bytes < TWI_TAG_BYTES && (unsigned char)text[bytes] >= 0x20 &&
	       (unsigned char)text[bytes] <= 0x7e)
		bytes++;
	if (bytes == 0 || bytes == TWI_TAG_BYTES || text[bytes] != '\0')
		return 0;
	number = find_tag(text, &slot);
	return number != 0 ? number : add_tag(text, TWI_TAGS_MAX / 2);
}

TOW_PUBLIC int tow_tag_set(const char *tag)
{
	uint32_t number = 0;
	int status = TOW_OK;

	if (tag != NULL)
		status = twi_tag_number("tow_tag_set", tag, &number);
	if (status == TOW_OK)
		twi_tag_current = number;
	return status;
}
