/* cell_bad.c - memory that cannot be read or written. */
#include "cell_bad.h"

const char *const twt_bad_names[] = { "good", "unmapped", "protected", "short file", "half" };

/*
 * Where nobody else maps anything, and each place once: what was unmapped stays so. TSan has no
 * such places; there what should be unmapped is protected.
 */
static void *twt_bad_place(void)
{
#ifdef TWT_TSAN
	return NULL;
#else
	static _Atomic uintptr_t next = 0x200000000000;

	return (void *)(atomic_fetch_add(&next, 2 * TWT_BAD_BYTES));
#endif
}

static void twt_bad_remove(struct twt_end *end, uint8_t *at, size_t bytes)
{
#ifdef TWT_TSAN
	if (mprotect(at, bytes, PROT_NONE) != 0)
#else
	if (munmap(at, bytes) != 0)
#endif
		twt_wrong(end->cell, "memory does not go");
}

uint8_t *twt_bad_take(struct twt_end *end, enum twt_bad bad, bool write)
{
	int fd = -1, flags = MAP_PRIVATE | MAP_ANONYMOUS;
	uint8_t *at;

	if (bad == TWT_SHORT_FILE) {
		fd = memfd_create("bad", MFD_CLOEXEC);
		flags = MAP_SHARED;
		if (fd < 0 || ftruncate(fd, TWT_BAD_BYTES / 2) != 0)
			twt_wrong(end->cell, "no file");
	}
	at = mmap(twt_bad_place(), TWT_BAD_BYTES, PROT_READ | PROT_WRITE, flags, fd, 0);
	if (at == MAP_FAILED)
		twt_wrong(end->cell, "no memory");
	if (fd >= 0)
		close(fd);
	else
		memset(at, 7, TWT_BAD_BYTES);
	if (bad == TWT_GONE)
		twt_bad_remove(end, at, TWT_BAD_BYTES);
	else if (bad == TWT_HALF)
		twt_bad_remove(end, at + TWT_BAD_BYTES / 2, TWT_BAD_BYTES / 2);
	else if (bad == TWT_PROTECTED)
		mprotect(at, TWT_BAD_BYTES, write ? PROT_READ : PROT_NONE);
	return at;
}

void twt_bad_give(uint8_t *at, enum twt_bad bad)
{
	if (bad != TWT_GONE)
		munmap(at, bad == TWT_HALF ? TWT_BAD_BYTES / 2 : TWT_BAD_BYTES);
}

const char *twt_bad_told(const struct tow_result *result, const uint8_t *at, size_t bytes)
{
	const char *text = result->message != NULL ? result->message : "nothing";
	char from[32], to[32];

	snprintf(from, sizeof(from), "at %p to ", (const void *)at);
	snprintf(to, sizeof(to), "%p", (void *)((uintptr_t)at + bytes));
	if (strstr(text, "cannot be read") != NULL || strstr(text, "cannot be written") != NULL)
		return strstr(text, from) != NULL && strstr(text, to) != NULL
			       ? "mine, with its place"
			       : "mine";
	if (strstr(text, "cannot read the memory") != NULL ||
	    strstr(text, "cannot write the memory") != NULL)
		return "the peer's";
	return text;
}

void twt_bad_each(struct twt_end *end,
		  void (*play)(struct twt_end *end, enum twt_bad bad, bool receives))
{
	for (unsigned i = 0; i < 2 * (TWT_BADS - 1); i++)
		play(end, TWT_GONE + i / 2, i % 2 == 1);
}
