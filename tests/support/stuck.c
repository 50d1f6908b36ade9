/* stuck.c - see stuck.h. */
#include "stuck.h"

#include <pthread.h>
#include <stddef.h>

#include <towline/towline.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct tow_op *stuck;

void twt_stuck_set(struct tow_op *op)
{
	pthread_mutex_lock(&lock);
	stuck = op;
	pthread_mutex_unlock(&lock);
}

void twt_stuck_cancel(void)
{
	pthread_mutex_lock(&lock);
	if (stuck != NULL)
		tow_op_cancel(stuck);
	pthread_mutex_unlock(&lock);
}
