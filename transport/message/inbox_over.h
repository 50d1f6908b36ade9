/*
 * inbox_over.h - messages of groups that nobody receives any more (job/group_over.h). What is here
 * of them is freed, and their credit is given back. An offer waits, without credit, until its
 * sender takes it back.
 */
#ifndef TWI_INBOX_OVER_H
#define TWI_INBOX_OVER_H

#include "transport/message/inbox.h"

/* Is a message with that tag one of those? */
bool twi_inbox_is_unwanted(const struct twi_inbox *inbox, uint64_t tag, uint8_t space);

/* Drops those that wait. */
void twi_inbox_drop_over(struct twi_inbox *inbox);

/* Gives back the credit of an offer, unless that was done before. */
void twi_inbox_credit_offer(struct twi_inbox *inbox, struct twi_unexpected *offer);

#endif
