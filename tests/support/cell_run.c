/* cell_run.c - one cell, in a process with two threads. */
#include "cell_run.h"

#include "bytes.h"

static uint8_t *twt_memory_take(struct twt_end *end, uint64_t *handle)
{
	void *at = NULL;

	if (end->cell->memory == TWT_POOL) {
		twt_ok(end, tow_alloc(end->runtime, TWT_CELL_BYTES, 0, &at));
		return at;
	}
	at = mmap(NULL, TWT_CELL_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (at == MAP_FAILED)
		twt_wrong(end->cell, "no memory");
	memset(at, 0, TWT_CELL_BYTES);
	if (end->cell->memory == TWT_REGISTERED)
		twt_ok(end, tow_mem_register(end->runtime, at, TWT_CELL_BYTES, handle));
	return at;
}

static void twt_memory_give(struct twt_end *end, uint8_t *at, uint64_t handle)
{
	if (end->cell->memory == TWT_POOL) {
		twt_ok(end, tow_free(end->runtime, at));
		return;
	}
	if (end->cell->memory == TWT_REGISTERED)
		twt_ok(end, tow_mem_deregister(end->runtime, handle));
	munmap(at, TWT_CELL_BYTES);
}

void twt_data_fill(uint8_t *at, size_t bytes, unsigned seed)
{
	twt_fill(at, bytes, seed + 1ull); /* of seed 0 it would begin with zeros */
}

const char *twt_data_judge(const uint8_t *at, size_t bytes, unsigned seed)
{
	return twt_same(at, bytes, seed + 1ull) ? "right" : "WRONG";
}

/* Any thread of either runtime. What has no room any more is left out. */
static void twt_keep_log(void *user, int level, const char *text)
{
	struct twt_cell_shared *shared = user;
	unsigned bytes = (unsigned)strlen(text) + 1, at;

	(void)level; /* what knob log_level lets through */
	at = atomic_fetch_add(&shared->log_bytes, bytes);
	if (at < TWT_CELL_LOG && bytes < TWT_CELL_LOG - at) {
		memcpy(shared->log + at, text, bytes - 1);
		shared->log[at + bytes - 1] = '\n';
	}
}

static void twt_runtime_of(struct twt_end *end)
{
	struct tow_options options = TOW_OPTIONS_INIT;

	options.premap_memory_bytes = 16 << 20;
	options.stats = 0;
	options.max_ops = 1024;
	options.log_callback = twt_keep_log;
	options.log_user = end->cell->shared;
	options.background = twt_by_itself(end->cell);
	options.poller = end->cell->lane->poller;
	if (end->cell->lane->encrypted) {
		options.job_key = "a key of the conformance suite, of 32 bytes and more";
		options.encrypt = 1;
	}
	twt_ok(end, tow_runtime_open(&options, &end->runtime));
}

static void twt_end_open(struct twt_end *end)
{
	struct twt_cell *cell = end->cell;
	int status;

	if (end->which == 1 && cell->lane->one_runtime)
		end->runtime = cell->ends[0].runtime;
	else
		twt_runtime_of(end);
	status = tow_endpoint_open(end->runtime, cell->lane->address[end->which], &end->endpoint);
	if (status == TOW_ENOTSUP || status == TOW_EPERM) {
		snprintf(cell->shared->wrong, sizeof(cell->shared->wrong), "%s",
			 tow_error_message());
		_exit(TWT_NOT_HERE);
	}
	twt_ok(end, status);
	if (cell->grouped) /* the lane is there; a group opens an endpoint of its own */
		twt_ok(end, tow_endpoint_close(end->endpoint));
	else if (end->which == 1)
		twt_ok(end, tow_endpoint_address(end->endpoint, cell->where, sizeof(cell->where)));
}

/* A port for the store that is ours: bound without listening, so that nobody else gets it. */
static void twt_store_of(struct twt_cell *cell)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;
	socklen_t room = sizeof(at);

	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) != 0 ||
	    bind(fd, (struct sockaddr *)&at, sizeof(at)) != 0 ||
	    getsockname(fd, (struct sockaddr *)&at, &room) != 0)
		twt_wrong(cell, "no port for the store");
	snprintf(cell->store, sizeof(cell->store), "127.0.0.1:%u", ntohs(at.sin_port));
}

static void twt_group_join(struct twt_end *end)
{
	struct tow_group_options options = TOW_GROUP_OPTIONS_INIT;
	struct tow_result result;
	struct twt_doing doing;

	options.rank = end->which;
	options.world_size = 2;
	options.store = end->cell->store;
	options.address = end->cell->lane->address[end->which];
	twt_ok(end,
	       tow_group_open_start(end->runtime, &options, twt_begin(end, &doing, TOW_FOREVER),
				    &end->group, &doing.op));
	twt_say(end, "open: %s", tow_status_name(twt_await(end, &doing, &result)));
	if (end->group == NULL)
		twt_wrong(end->cell, "end %d has no group: %s", end->which, tow_error_message());
}

static void twt_end_join(struct twt_end *end)
{
	struct tow_result result;
	struct twt_doing doing;

	if (end->which == 0)
		twt_ok(end, tow_connect_start(end->endpoint, end->cell->where,
					      twt_begin(end, &doing, TOW_FOREVER), &doing.op));
	else
		twt_ok(end, tow_accept_start(end->endpoint, twt_begin(end, &doing, TOW_FOREVER),
					     &doing.op));
	twt_say(end, "join: %s", tow_status_name(twt_await(end, &doing, &result)));
	end->peer = result.peer;
	if (end->peer == NULL)
		twt_wrong(end->cell, "end %d has no peer: %s", end->which, tow_error_message());
}

/* What the kind of memory itself makes of it, on any lane. */
static bool twt_of_memory(const char *name)
{
	return strcmp(name, "mem_registers") == 0 || strcmp(name, "mem_deregisters") == 0;
}

static bool twt_is_timed(const struct twt_cell *cell, const char *name)
{
	size_t bytes = strlen(name);

	for (const char *at = cell->ends[0].timed; at != NULL && *at != '\0'; at += *at == ',') {
		size_t length = strcspn(at, ",");

		if (length == bytes && strncmp(at, name, bytes) == 0)
			return true;
		at += length;
	}
	return false;
}

/* Of all runtimes together, for one lane has but one: those that the list says are the same. */
static void twt_cell_counters(struct twt_cell *cell, char *out, size_t room)
{
	struct tow_counter_info row = { .size = sizeof(row) };
	size_t at = 0;

	for (size_t i = 0; tow_counter_info(i, &row) == TOW_OK; i++) {
		uint64_t sum;

		if (row.lanes != NULL || twt_of_memory(row.name) || twt_is_timed(cell, row.name))
			continue;
		sum = twt_counter(&cell->ends[0], row.name);
		if (!cell->lane->one_runtime)
			sum += twt_counter(&cell->ends[1], row.name);
		if (sum != 0)
			at += (size_t)snprintf(out + at, room - at, "%s %llu\n", row.name,
					       (unsigned long long)sum);
		if (at >= room)
			twt_wrong(cell, "too many counters");
	}
}

void twt_group_connect(struct twt_end *end)
{
	if (end->which == 0)
		twt_ok(end, tow_group_connect(end->group, 1, TWT_CELL_NS, NULL));
	twt_meet(end);
}

/*
 * Rank 1 first, and rank 0 when it has heard of it: in one process libfabric's shm (1.17) writes
 * through a pointer into an endpoint that was closed.
 */
static void twt_group_leave(struct twt_end *end)
{
	if (end->which == 0)
		twt_until(end, "/v1/counters", "counters", "peers_lost", 1);
	twt_ok(end, tow_group_close(end->group));
}

/* An operation may be seen to have ended just before it is counted: until two looks are alike. */
static void twt_counters_settle(struct twt_end *end)
{
	struct twt_cell *cell = end->cell;
	char before[sizeof(cell->shared->counters)];

	do {
		snprintf(before, sizeof(before), "%s", cell->shared->counters);
		twt_cell_counters(cell, cell->shared->counters, sizeof(cell->shared->counters));
		usleep(300);
	} while (strcmp(before, cell->shared->counters) != 0);
}

static void *twt_end_run(void *arg)
{
	struct twt_end *end = arg;

	if (end->cell->driving == TWT_FD)
		twt_ok(end, tow_fd(end->runtime, &end->fd));
	if (end->cell->driving == TWT_QUEUE) {
		twt_ok(end, tow_queue_open(end->runtime, 1024, &end->queue));
		twt_ok(end, tow_queue_fd(end->queue, &end->fd));
	}
	end->out = twt_memory_take(end, &end->handles[0]);
	end->in = twt_memory_take(end, &end->handles[1]);
	if (end->cell->grouped)
		twt_group_join(end);
	else
		twt_end_join(end);
	twt_meet(end);
	end->cell->play(end);
	twt_meet(end);
	if (end->which == 0) /* before the connection goes: who goes first is a matter of timing */
		twt_counters_settle(end);
	twt_meet(end);
	if (end->cell->grouped)
		twt_group_leave(end);
	twt_meet(end);
	twt_until(end, "/v1/pool", NULL, "leased_bytes", 0);
	twt_say(end, "leased: 0");
	twt_meet(end);
	twt_memory_give(end, end->out, end->handles[0]);
	twt_memory_give(end, end->in, end->handles[1]);
	if (end->cell->driving == TWT_THREADS)
		twt_crew_stop(end);
	if (end->queue != NULL)
		twt_ok(end, tow_queue_close(end->queue));
	return NULL;
}

int twt_cell_run(struct twt_cell *cell)
{
	pthread_t threads[2];

	if (cell->grouped)
		twt_store_of(cell);
	for (int i = 0; i < 2; i++) {
		cell->ends[i].cell = cell;
		cell->ends[i].which = i;
		cell->ends[i].fd = -1;
		twt_end_open(&cell->ends[i]);
	}
	for (int i = 0; i < 2 && cell->driving == TWT_THREADS; i++)
		twt_crew_start(&cell->ends[i]);
	for (int i = 0; i < 2; i++)
		if (pthread_create(&threads[i], NULL, twt_end_run, &cell->ends[i]) != 0)
			twt_wrong(cell, "no thread");
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	snprintf(cell->shared->transcript, sizeof(cell->shared->transcript),
		 "--- who connects\n%s--- who accepts\n%s--- counters of both\n%s",
		 cell->ends[0].text, cell->ends[1].text, cell->shared->counters);
	for (int i = 0; i < 2; i++)
		if (cell->ends[i].peer != NULL)
			twt_ok(&cell->ends[i], tow_peer_close(cell->ends[i].peer));
	for (int i = 0; i < 100; i++) { /* they say goodbye */
		tow_progress(cell->ends[0].runtime);
		tow_progress(cell->ends[1].runtime);
		usleep(100);
	}
	twt_ok(&cell->ends[0], tow_runtime_close(cell->ends[0].runtime));
	if (!cell->lane->one_runtime)
		twt_ok(&cell->ends[1], tow_runtime_close(cell->ends[1].runtime));
	return 0;
}
