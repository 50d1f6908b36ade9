/*
 * far_bulk.h - the bulk channels of the far side (far_side.h): feeds and drinks them in pieces of
 * any size.
 */
#ifndef TWT_FAR_BULK_H
#define TWT_FAR_BULK_H

#include "far_side.h"

/* Gives bytes of a bulk channel, `step` at a time; without _on: of channel 0, here and below. */
int twt_far_feed_on(unsigned channel, const uint8_t *at, size_t n, size_t step);
int twt_far_feed(const uint8_t *at, size_t n, size_t step);

/* Gives a header and its payload; flags with SUM: the commit's checksum is `sum`. */
int twt_far_say_data_on(unsigned channel, uint64_t seq, uint64_t offset, uint32_t n, uint8_t flags,
			uint32_t sum);
int twt_far_say_data(uint64_t seq, uint64_t offset, uint32_t n, uint8_t flags);

/* Takes up to n bytes of a bulk channel into `to`; returns how many there were. */
size_t twt_far_drink_on(unsigned channel, uint8_t *to, size_t n);
size_t twt_far_drink(uint8_t *to, size_t n);

/* The next header on a channel is this; its payload is left there. */
void twt_far_drink_head(unsigned channel, uint64_t seq, uint8_t flags, uint64_t offset, uint32_t n);
void twt_far_drink_data(uint64_t seq, uint8_t flags, uint64_t offset, uint32_t n);

/* A large message that has been offered and granted. */
struct tow_op *twt_far_granted(void);

/* A receive whose large message has been offered and asked for. */
struct tow_op *twt_far_asked(uint64_t seq);

#endif
