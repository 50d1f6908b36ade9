/*
 * explore_shared.c - a table of addresses. See explore_shared.h.
 */
#include "explore_shared.h"

#include <string.h>

#define ADDRESSES 8192u

struct row {
	uintptr_t address;
	uint8_t threads; /* a bit each */
	bool stored;
	bool shared; /* the choices of the runs are made as it says */
};

static struct row rows[ADDRESSES];
static unsigned count;
static bool news;

void twt_shared_forget(void)
{
	memset(rows, 0, sizeof(rows));
	count = 0;
	news = false;
}

static struct row *row_of(uintptr_t address)
{
	unsigned at = (unsigned)(address * 0x9e3779b97f4a7c15u >> 40) % ADDRESSES;

	while (rows[at].address != 0 && rows[at].address != address)
		at = (at + 1) % ADDRESSES;
	if (rows[at].address == 0 && count < ADDRESSES / 2) {
		rows[at].address = address;
		count++;
	}
	return &rows[at];
}

bool twt_shared_touch(uintptr_t address, unsigned thread, bool store)
{
	struct row *row = row_of(address);
	bool known = row->shared;

	if (row->address == 0)
		return true; /* the table is full */
	row->threads |= (uint8_t)(1u << thread);
	row->stored |= store;
	if (!known && row->stored && (row->threads & (row->threads - 1)) != 0) {
		row->shared = true;
		news = true;
	}
	return known;
}

bool twt_shared_news(void)
{
	bool was = news;

	news = false;
	return was;
}
