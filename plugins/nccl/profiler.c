/*
 * profiler.c - the communicators of the profiler: their table, their names, and the runtime. They
 * share the runtime with the network plugin, if NCCL uses that plugin as well.
 */
#include "plugins/nccl/profiler.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EVENTS_DEFAULT                                                                             \
	(NCCL_EVENT_COLL | NCCL_EVENT_P2P | NCCL_EVENT_PROXY_OP | NCCL_EVENT_PROXY_STEP |          \
	 NCCL_EVENT_KERNEL)

/* A context is a number that no other context has, with the row of its communicator as low bits. */
#define CONTEXT_ROWS 4096u

/*
 * The memory of a communicator stays in its row for the next one. So an event finds its
 * communicator by one load. A late event finds another context there, or none.
 */
static struct {
	pthread_mutex_t lock; /* protects all below; taken before that of a communicator */
	uint64_t last_context, last_number;
	struct twp_comm *_Atomic rows[TWP_COMMS + 1];
	bool used[TWP_COMMS + 1];
} table = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* --- the events that NCCL has to report --- */

static const struct {
	const char *word;
	int events;
} words[] = {
	{ "all", EVENTS_DEFAULT },
	{ "device", NCCL_EVENT_COLL | NCCL_EVENT_P2P | NCCL_EVENT_KERNEL },
	{ "network",
	  NCCL_EVENT_COLL | NCCL_EVENT_P2P | NCCL_EVENT_PROXY_OP | NCCL_EVENT_PROXY_STEP },
	{ "none", 0 },
};

static int read_events(void)
{
	const char *text = getenv("TOW_NCCL_EVENTS");

	if (text == NULL || *text == '\0')
		return EVENTS_DEFAULT;
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (strcmp(text, words[i].word) == 0)
			return words[i].events;
	twn_log(NCCL_LOG_WARN,
		"TOW_NCCL_EVENTS is \"%.40s\"; it takes all, device, network or none: all is taken",
		text);
	return EVENTS_DEFAULT;
}

/* --- the table --- */

struct twp_comm *twp_comm_take(uint32_t row, uint64_t context)
{
	struct twp_comm *comm = NULL;

	if (row != 0 && row <= TWP_COMMS) /* acquire: pairs with comm_take_row */
		comm = atomic_load_explicit(&table.rows[row], memory_order_acquire);
	if (comm == NULL)
		return NULL;
	pthread_mutex_lock(&comm->lock);
	if (comm->context != 0 && (context == 0 || comm->context == context))
		return comm;
	pthread_mutex_unlock(&comm->lock);
	return NULL;
}

struct twp_comm *twp_comm_of(void *context)
{
	uint64_t value = (uint64_t)(uintptr_t)context;

	return value == 0 ? NULL : twp_comm_take((uint32_t)(value % CONTEXT_ROWS), value);
}

void twp_comm_give(struct twp_comm *comm)
{
	pthread_mutex_unlock(&comm->lock);
}

bool twp_comm_name(uint64_t id, char out[TWP_NAME])
{
	bool found = false;

	for (uint32_t i = 1; i <= TWP_COMMS && !found; i++) {
		struct twp_comm *comm = twp_comm_take(i, 0);

		if (comm == NULL)
			continue;
		found = comm->id == id;
		if (found)
			snprintf(out, TWP_NAME, "%s", comm->name);
		twp_comm_give(comm);
	}
	return found;
}

/* Returns the memory of a free row; the table's lock is held. NULL: no row is free. */
static struct twp_comm *comm_take_row(uint32_t *row_out)
{
	struct twp_comm *comm;
	uint32_t row = 1;

	while (row <= TWP_COMMS && table.used[row])
		row++;
	if (row > TWP_COMMS)
		return NULL;
	comm = atomic_load_explicit(&table.rows[row], memory_order_relaxed);
	if (comm == NULL) {
		comm = calloc(1, sizeof(*comm));
		if (comm == NULL)
			return NULL;
		pthread_mutex_init(&comm->lock, NULL);
		/* release: a thread that finds the comm finds its lock initialized */
		atomic_store_explicit(&table.rows[row], comm, memory_order_release);
	}
	table.used[row] = true;
	*row_out = row;
	return comm;
}

/* --- begin and end --- */

/* Resets all but the lock, the row and the memory of the parts. */
static void comm_reset(struct twp_comm *comm, const char *name, uint64_t id, int ranks, int rank)
{
	comm->id = id;
	comm->rank = (uint32_t)rank;
	comm->ranks = (uint32_t)ranks;
	comm->group = NULL;
	comm->coll_count = comm->dropped = 0;
	comm->first_open = 1;
	comm->kernels_told = false;
	memset(comm->colls, 0, sizeof(comm->colls));
	twp_parts_reset(comm);
	if (name != NULL && *name != '\0')
		snprintf(comm->name, sizeof(comm->name), "%s", name);
	else
		snprintf(comm->name, sizeof(comm->name), "nccl-%016llx", (unsigned long long)id);
	for (char *at = comm->name; *at != '\0'; at++)
		*at = *at >= ' ' && *at < 0x7f ? *at : '?';
}

static void release_runtime(void)
{
	pthread_mutex_lock(&twn.lock);
	twn_release();
	pthread_mutex_unlock(&twn.lock);
}

static enum nccl_result open_group(struct twp_comm *comm, nccl_logger logger)
{
	struct tow_foreign_options options = TOW_FOREIGN_OPTIONS_INIT;
	enum nccl_result result;
	int status;

	pthread_mutex_lock(&twn.lock);
	result = twn_runtime_use(logger, (int)comm->rank);
	pthread_mutex_unlock(&twn.lock);
	if (result != NCCL_SUCCESS)
		return result;
	options.name = comm->name;
	options.id = comm->id;
	options.rank = comm->rank;
	options.ranks = comm->ranks;
	status = tow_foreign_open(twn.runtime, &options, &comm->group);
	if (status == TOW_OK)
		return NCCL_SUCCESS;
	result = twn_refuse(status, "the profiler's communicator");
	release_runtime();
	return result;
}

/* Frees the row of the comm; the caller does not hold the table's lock. */
static void release_row(struct twp_comm *comm)
{
	pthread_mutex_lock(&table.lock);
	if (comm->last_number > table.last_number)
		table.last_number = comm->last_number;
	table.used[comm->row] = false;
	pthread_mutex_unlock(&table.lock);
}

/* Takes a row for a new comm, which no event finds yet. */
static struct twp_comm *comm_create(const char *name, uint64_t id, int ranks, int rank,
				    uint64_t *context_out)
{
	struct twp_comm *comm;
	uint32_t row;

	pthread_mutex_lock(&table.lock);
	comm = comm_take_row(&row);
	if (comm != NULL) {
		*context_out = ++table.last_context * CONTEXT_ROWS + row;
		pthread_mutex_lock(&comm->lock);
		comm->row = row;
		comm->last_number = table.last_number;
		comm_reset(comm, name, id, ranks, rank);
		pthread_mutex_unlock(&comm->lock);
	}
	pthread_mutex_unlock(&table.lock);
	return comm;
}

enum nccl_result twp_init(void **context, int *mask_out, const char *name, uint64_t id, int ranks,
			  int rank, nccl_logger logger)
{
	enum nccl_result result;
	struct twp_comm *comm;
	uint64_t value;

	if (context == NULL || mask_out == NULL || ranks < 1 || rank < 0 || rank >= ranks)
		return NCCL_INVALID_ARGUMENT;
	*context = NULL;
	comm = comm_create(name, id, ranks, rank, &value);
	if (comm == NULL)
		return NCCL_SYSTEM_ERROR;
	result = open_group(comm, logger);
	if (result != NCCL_SUCCESS) {
		release_row(comm);
		return result;
	}
	*mask_out = read_events();
	twn_log(NCCL_LOG_INFO, "profiler: communicator %s, rank %d of %d", comm->name, rank, ranks);
	pthread_mutex_lock(&comm->lock);
	comm->context = value;
	pthread_mutex_unlock(&comm->lock);
	*context = (void *)(uintptr_t)value;
	return NCCL_SUCCESS;
}

enum nccl_result twp_finalize(void *context)
{
	struct twp_comm *comm = twp_comm_of(context);

	if (comm == NULL)
		return NCCL_INVALID_ARGUMENT;
	twp_colls_end(comm);
	comm->context = 0; /* no event finds it any more */
	if (comm->dropped > 0)
		twn_log(NCCL_LOG_WARN,
			"profiler: %llu events of communicator %s found no room, as %u were "
			"under way",
			(unsigned long long)comm->dropped, comm->name, TWP_PARTS);
	tow_foreign_close(comm->group);
	comm->group = NULL;
	twp_comm_give(comm);
	release_row(comm);
	release_runtime();
	return NCCL_SUCCESS;
}
