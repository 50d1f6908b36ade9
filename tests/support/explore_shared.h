/*
 * explore_shared.h - which addresses more than one explored thread has accessed, one of them to
 * store: nobody else sees when the others are accessed, so no thread has to be changed there.
 */
#ifndef TWT_EXPLORE_SHARED_H
#define TWT_EXPLORE_SHARED_H

#include <stdbool.h>
#include <stdint.h>

/* Nothing is known. */
void twt_shared_forget(void);

/* A thread is about to access the address. True: it is known to be shared. */
bool twt_shared_touch(uintptr_t address, unsigned thread, bool store);

/* Has something turned out to be shared since this was asked last? */
bool twt_shared_news(void);

#endif
