/*
 * list.h - a doubly linked intrusive list with a head; an entry that is on no list points to
 * itself.
 *
 * Builds with TWI_DEBUG see that the neighbours of an entry know it: one that was freed while it
 * was on a list, or was put on two, is noticed at the next call beside it.
 */
#ifndef TWI_LIST_H
#define TWI_LIST_H

#include <internal/base.h>

struct twi_list {
	struct twi_list *next, *prev;
};

static inline void twi_list_init(struct twi_list *list)
{
	list->next = list->prev = list;
}

static inline bool twi_list_empty(const struct twi_list *list)
{
	return list->next == list;
}

static inline void twi_list_push_back(struct twi_list *head, struct twi_list *entry)
{
	twi_assert_hot(head->prev->next == head && entry != head && entry != head->prev);
	entry->prev = head->prev;
	entry->next = head;
	head->prev->next = entry;
	head->prev = entry;
}

static inline void twi_list_push_front(struct twi_list *head, struct twi_list *entry)
{
	twi_list_push_back(head->next, entry);
}

/* Removing an entry that is on no list does nothing. */
static inline void twi_list_remove(struct twi_list *entry)
{
	twi_assert_hot(entry->prev->next == entry && entry->next->prev == entry);
	entry->prev->next = entry->next;
	entry->next->prev = entry->prev;
	entry->next = entry->prev = entry;
}

/* NULL when the list is empty. */
static inline struct twi_list *twi_list_first(const struct twi_list *head)
{
	return head->next == head ? NULL : head->next;
}

#define twi_list_for_each_safe(pos, tmp, head)                                                     \
	for ((pos) = (head)->next, (tmp) = (pos)->next; (pos) != (head);                           \
	     (pos) = (tmp), (tmp) = (pos)->next)

#endif
