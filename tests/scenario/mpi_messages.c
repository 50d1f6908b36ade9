/*
 * mpi_messages.c - point to point. play_messages: rounds of random messages between all ranks,
 * sent and received in every way; all ranks draw the same plan, so a receiver knows each message.
 * Of one sender those with one tag come in their order; what a status says is what came.
 */
#include "mpi_program.h"

#include <sys/mman.h>

#include "twt_random.h"

#define MESSAGES 40
#define TAGS     4
#define ROOM     70000

struct plan_message {
	int source, target, tag, bytes;
	unsigned how;
	uint64_t key;
	bool came;
};

/* How a rank names what it receives. */
enum naming { EXACT, ANY_SOURCE, ANY_TAG, ANY_BOTH, NAMINGS };

static struct plan_message plan[MESSAGES];
static uint8_t *out[MESSAGES], *in[MESSAGES];
static MPIABI_Comm comm;

static void fill_bytes(uint8_t *data, int bytes, uint64_t key)
{
	for (int i = 0; i < bytes; i++)
		data[i] = (uint8_t)(key >> i % 8 * 8) + (uint8_t)(i >> 3);
}

static bool same_bytes(const uint8_t *data, int bytes, uint64_t key)
{
	for (int i = 0; i < bytes; i++)
		if (data[i] != (uint8_t)((uint8_t)(key >> i % 8 * 8) + (uint8_t)(i >> 3)))
			return false;
	return true;
}

static void draw_plan(uint64_t *state)
{
	for (int i = 0; i < MESSAGES; i++) {
		struct plan_message *m = &plan[i];

		m->source = (int)twt_random_below(state, (uint64_t)world_size);
		m->target = (int)twt_random_below(state, (uint64_t)world_size);
		m->tag = (int)twt_random_below(state, TAGS);
		m->bytes =
			(int)twt_random_below(state, twt_random_below(state, 8) == 0 ? ROOM : 600);
		m->how = (unsigned)twt_random_below(state, 4);
		m->key = twt_random(state);
		m->came = false;
	}
}

static void start_sends(MPIABI_Request *requests)
{
	for (int i = 0; i < MESSAGES; i++) {
		const struct plan_message *m = &plan[i];

		requests[i] = MPI_REQUEST_NULL;
		if (m->source != world_rank)
			continue;
		fill_bytes(out[i], m->bytes, m->key);
		CALL((m->how == 0   ? MPIABI_Issend
		      : m->how == 1 ? MPIABI_Ibsend
		      : m->how == 2 ? MPIABI_Irsend
				    : MPIABI_Isend)(out[i], m->bytes, MPI_BYTE, m->target, m->tag,
						    comm, &requests[i]));
	}
}

/* The oldest message that has not come, of this sender with this tag, is the one that came. */
static void take_message(const uint8_t *data, const MPIABI_Status *status)
{
	int bytes;

	CALL(MPIABI_Get_count(status, MPI_BYTE, &bytes));
	for (int i = 0; i < MESSAGES; i++) {
		struct plan_message *m = &plan[i];

		if (m->came || m->source != status->MPI_SOURCE || m->target != world_rank ||
		    m->tag != status->MPI_TAG)
			continue;
		expect(m->bytes == bytes);
		expect(same_bytes(data, bytes, m->key));
		m->came = true;
		return;
	}
	expect(false); /* nobody has sent it */
}

static int source_of(const struct plan_message *m, enum naming naming)
{
	return naming == ANY_SOURCE || naming == ANY_BOTH ? MPI_ANY_SOURCE : m->source;
}

static int tag_of(const struct plan_message *m, enum naming naming)
{
	return naming == ANY_TAG || naming == ANY_BOTH ? MPI_ANY_TAG : m->tag;
}

static void start_receives(MPIABI_Request *requests, enum naming naming)
{
	for (int i = 0; i < MESSAGES; i++) {
		requests[i] = MPI_REQUEST_NULL;
		if (plan[i].target == world_rank)
			CALL(MPIABI_Irecv(in[i], ROOM, MPI_BYTE, source_of(&plan[i], naming),
					  tag_of(&plan[i], naming), comm, &requests[i]));
	}
}

/* One after another; `probes`: after a look at what comes, into just as much room. */
static void receive_each(enum naming naming, bool probes)
{
	MPIABI_Status status;
	int bytes = ROOM;

	for (int i = 0; i < MESSAGES; i++) {
		if (plan[i].target != world_rank)
			continue;
		int source = source_of(&plan[i], naming), tag = tag_of(&plan[i], naming);

		if (probes) {
			CALL(MPIABI_Probe(source, tag, comm, &status));
			CALL(MPIABI_Get_count(&status, MPI_BYTE, &bytes));
			source = status.MPI_SOURCE;
			tag = status.MPI_TAG;
		}
		CALL(MPIABI_Recv(in[i], bytes, MPI_BYTE, source, tag, comm, &status));
		take_message(in[i], &status);
	}
}

/* Receives that were started are looked at in the order in which they were. */
static void end_receives(MPIABI_Request *requests, unsigned way)
{
	MPIABI_Status statuses[MESSAGES], some[MESSAGES];
	int at, count, indices[MESSAGES];

	if (way == 0)
		CALL(MPIABI_Waitall(MESSAGES, requests, statuses));
	for (;;) {
		if (way == 1) {
			CALL(MPIABI_Waitany(MESSAGES, requests, &at, &some[0]));
			if (at == MPI_UNDEFINED)
				break;
			statuses[at] = some[0];
		} else if (way == 2) {
			CALL(MPIABI_Waitsome(MESSAGES, requests, &count, indices, some));
			if (count == MPI_UNDEFINED)
				break;
			for (int i = 0; i < count; i++)
				statuses[indices[i]] = some[i];
		} else {
			break;
		}
	}
	for (int i = 0; i < MESSAGES; i++)
		if (plan[i].target == world_rank)
			take_message(in[i], &statuses[i]);
}

static void play_round(uint64_t *state)
{
	MPIABI_Request sends[MESSAGES], receives[MESSAGES];
	uint64_t mine;

	draw_plan(state);
	mine = twt_random(state) + (uint64_t)world_rank; /* each rank in its own way */
	enum naming naming = (enum naming)twt_random_below(&mine, NAMINGS);
	unsigned order = (unsigned)twt_random_below(&mine, 4);
	unsigned way = (unsigned)twt_random_below(&mine, 3);

	if (order == 0)
		start_receives(receives, naming);
	start_sends(sends);
	if (order == 1)
		start_receives(receives, naming);
	if (order <= 1)
		end_receives(receives, way);
	else
		receive_each(naming, order == 2);
	CALL(MPIABI_Waitall(MESSAGES, sends, MPI_STATUSES_IGNORE));
	for (int i = 0; i < MESSAGES; i++)
		expect(plan[i].came == (plan[i].target == world_rank));
}

void play_messages(uint64_t seed, unsigned rounds)
{
	static uint8_t buffer[MESSAGES * (ROOM + 128)];
	uint64_t state = seed;
	int none, left;
	void *detached;

	for (int i = 0; i < MESSAGES; i++) {
		out[i] = malloc(ROOM);
		in[i] = malloc(ROOM);
		expect(out[i] != NULL && in[i] != NULL);
	}
	CALL(MPIABI_Buffer_attach(buffer, sizeof(buffer)));
	for (unsigned n = 0; n < rounds; n++) {
		/* Ranks run ahead of each other: what comes of the next round has a communicator
		 * of its own. */
		CALL(MPIABI_Comm_dup(MPI_COMM_WORLD, &comm));
		play_round(&state);
		CALL(MPIABI_Buffer_detach(&detached, &left));
		expect(detached == buffer && left == sizeof(buffer));
		CALL(MPIABI_Buffer_attach(buffer, sizeof(buffer)));
		CALL(MPIABI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &none, MPI_STATUS_IGNORE));
		expect(!none);
		CALL(MPIABI_Comm_free(&comm));
	}
	for (int i = 0; i < MESSAGES; i++) {
		free(out[i]);
		free(in[i]);
	}
}

static void ring(void)
{
	int next = (world_rank + 1) % world_size, last = (world_rank + world_size - 1) % world_size;
	int64_t given[3000], got[3000];
	MPIABI_Status status;

	for (int i = 0; i < 3000; i++)
		given[i] = world_rank * 10000 + i;
	CALL(MPIABI_Sendrecv(given, 3000, MPI_INT64_T, next, 5, got, 3000, MPI_INT64_T, last, 5,
			     MPI_COMM_WORLD, &status));
	expect(status.MPI_SOURCE == last && status.MPI_TAG == 5);
	for (int i = 0; i < 3000; i++)
		expect(got[i] == last * 10000 + i);
	CALL(MPIABI_Sendrecv_replace(got, 3000, MPI_INT64_T, last, 6, next, MPI_ANY_TAG,
				     MPI_COMM_WORLD, &status));
	for (int i = 0; i < 3000; i++)
		expect(got[i] == world_rank * 10000 + i);
	/* The ends of a line have nobody beyond them. */
	got[0] = -7;
	CALL(MPIABI_Sendrecv(
		given, 1, MPI_INT64_T, world_rank + 1 < world_size ? next : MPI_PROC_NULL, 7, got,
		1, MPI_INT64_T, world_rank > 0 ? last : MPI_PROC_NULL, 7, MPI_COMM_WORLD, &status));
	expect(got[0] == (world_rank > 0 ? last * 10000 : -7));
	expect(status.MPI_SOURCE == (world_rank > 0 ? last : MPI_PROC_NULL));
}

/* A synchronous send has not ended before its receive is there, however small it is. */
static void synchronous(void)
{
	int next = (world_rank + 1) % world_size, last = (world_rank + world_size - 1) % world_size;
	MPIABI_Request request;
	MPIABI_Status status;
	int given = world_rank, got = -1, flag;

	CALL(MPIABI_Issend(&given, 1, MPI_INT, next, 1, MPI_COMM_WORLD, &request));
	CALL(MPIABI_Probe(last, 1, MPI_COMM_WORLD, &status));
	CALL(MPIABI_Barrier(MPI_COMM_WORLD));
	CALL(MPIABI_Test(&request, &flag, &status));
	expect(!flag);
	CALL(MPIABI_Barrier(MPI_COMM_WORLD));
	CALL(MPIABI_Recv(&got, 1, MPI_INT, last, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
	expect(got == last);
	CALL(MPIABI_Wait(&request, MPI_STATUS_IGNORE));
}

static void persistent(void)
{
	int next = (world_rank + 1) % world_size, last = (world_rank + world_size - 1) % world_size;
	MPIABI_Request requests[2];
	MPIABI_Status statuses[2];
	int given = 0, got = -1, flag, index;

	CALL(MPIABI_Send_init(&given, 1, MPI_INT, next, 3, MPI_COMM_WORLD, &requests[0]));
	CALL(MPIABI_Recv_init(&got, 1, MPI_INT, last, 3, MPI_COMM_WORLD, &requests[1]));
	CALL(MPIABI_Test(&requests[1], &flag,
			 MPI_STATUS_IGNORE)); /* not active: as if it was none */
	expect(flag);
	CALL(MPIABI_Waitany(2, requests, &index, MPI_STATUS_IGNORE));
	expect(index == MPI_UNDEFINED);
	for (int i = 0; i < 20; i++) {
		given = world_rank * 100 + i;
		CALL(MPIABI_Startall(2, requests));
		CALL(MPIABI_Waitall(2, requests, statuses));
		expect(got == last * 100 + i && statuses[1].MPI_SOURCE == last);
		expect(requests[0] != MPI_REQUEST_NULL && requests[1] != MPI_REQUEST_NULL);
	}
	CALL(MPIABI_Start(&requests[1]));
	FAILS(MPIABI_Start(&requests[1]), MPI_ERR_REQUEST, "is active already");
	CALL(MPIABI_Cancel(&requests[1]));
	CALL(MPIABI_Wait(&requests[1], &statuses[1]));
	CALL(MPIABI_Test_cancelled(&statuses[1], &flag));
	expect(flag);
	CALL(MPIABI_Request_free(&requests[0]));
	CALL(MPIABI_Request_free(&requests[1]));
	FAILS(MPIABI_Start(&requests[0]), MPI_ERR_REQUEST, "not a persistent request");
}

/* Tags of a communicator are its own, and no collective takes a message. */
static void apart(void)
{
	int peer = world_size - 1 - world_rank, one = 1, two = 2, got = 0, flag, sum;
	MPIABI_Request requests[2];
	MPIABI_Comm dup;

	CALL(MPIABI_Comm_dup(MPI_COMM_WORLD, &dup));
	CALL(MPIABI_Isend(&one, 1, MPI_INT, peer, 0, dup, &requests[0]));
	CALL(MPIABI_Probe(peer, 0, dup, MPI_STATUS_IGNORE));
	CALL(MPIABI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
	expect(!flag);
	CALL(MPIABI_Barrier(dup)); /* then all have looked */
	CALL(MPIABI_Isend(&two, 1, MPI_INT, peer, 0, MPI_COMM_WORLD, &requests[1]));
	CALL(MPIABI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, dup));
	expect(sum == world_size);
	CALL(MPIABI_Recv(&got, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD,
			 MPI_STATUS_IGNORE));
	expect(got == two);
	CALL(MPIABI_Recv(&got, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, dup, MPI_STATUS_IGNORE));
	expect(got == one);
	CALL(MPIABI_Waitall(2, requests, MPI_STATUSES_IGNORE));
	CALL(MPIABI_Comm_free(&dup));
}

static void mistakes(void)
{
	int next = (world_rank + 1) % world_size, last = (world_rank + world_size - 1) % world_size;
	int data[4] = { 1, 2, 3, 4 }, got[2] = { 0 }, count, flag;
	MPIABI_Request request, pair[2];
	MPIABI_Status status, both[2];
	uint8_t small[200];
	void *detached;

	FAILS(MPIABI_Send(data, 1, MPI_INT, world_size, 0, MPI_COMM_WORLD), MPI_ERR_RANK,
	      "not a rank of");
	FAILS(MPIABI_Send(data, 1, MPI_INT, MPI_ANY_SOURCE, 0, MPI_COMM_WORLD), MPI_ERR_RANK, "-2");
	FAILS(MPIABI_Send(data, 1, MPI_INT, 0, -4, MPI_COMM_WORLD), MPI_ERR_TAG, "the tag is -4");
	FAILS(MPIABI_Recv(data, -1, MPI_INT, 0, 0, MPI_COMM_WORLD, &status), MPI_ERR_COUNT, "-1");
	FAILS(MPIABI_Irecv(NULL, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, &request), MPI_ERR_BUFFER,
	      "NULL");
	FAILS(MPIABI_Bsend(data, 1, MPI_INT, 0, 0, MPI_COMM_WORLD), MPI_ERR_BUFFER, "has no room");
	CALL(MPIABI_Buffer_attach(small, sizeof(small)));
	FAILS(MPIABI_Buffer_attach(small, sizeof(small)), MPI_ERR_BUFFER, "attached already");
	FAILS(MPIABI_Bsend(small, 100, MPI_BYTE, 0, 0, MPI_COMM_WORLD), MPI_ERR_BUFFER,
	      "no room for 228");
	CALL(MPIABI_Buffer_detach(&detached, &count));
	expect(detached == small && count == sizeof(small));
	/* The receiver alone is told, and the next message is whole. */
	CALL(MPIABI_Isend(data, 4, MPI_INT, next, 2, MPI_COMM_WORLD, &request));
	FAILS(MPIABI_Recv(got, 2, MPI_INT, last, 2, MPI_COMM_WORLD, &status), MPI_ERR_TRUNCATE,
	      "has 16 bytes, the buffer 8");
	expect(got[0] == 1 && got[1] == 2 && status.MPI_SOURCE == last);
	CALL(MPIABI_Wait(&request, MPI_STATUS_IGNORE));
	CALL(MPIABI_Isend(data, 2, MPI_INT, next, 2, MPI_COMM_WORLD, &request));
	CALL(MPIABI_Recv(got, 2, MPI_INT, last, 2, MPI_COMM_WORLD, &status));
	CALL(MPIABI_Get_count(&status, MPI_LONG, &count));
	expect(count == 1);
	CALL(MPIABI_Get_count(&status, MPI_LONG_DOUBLE, &count));
	expect(count == MPI_UNDEFINED);
	CALL(MPIABI_Wait(&request, MPI_STATUS_IGNORE));
	/* Of several requests the failed one's status has its code. */
	CALL(MPIABI_Isend(data, 4, MPI_INT, next, 8, MPI_COMM_WORLD, &pair[0]));
	CALL(MPIABI_Irecv(got, 1, MPI_INT, last, 8, MPI_COMM_WORLD, &pair[1]));
	FAILS(MPIABI_Waitall(2, pair, both), MPI_ERR_IN_STATUS, "MPI_Waitall");
	expect(both[0].MPI_ERROR == MPI_SUCCESS && both[1].MPI_ERROR == MPI_ERR_TRUNCATE);
	expect(pair[0] == MPI_REQUEST_NULL && pair[1] == MPI_REQUEST_NULL);
	CALL(MPIABI_Irecv(got, 2, MPI_INT, last, 77, MPI_COMM_WORLD, &request));
	CALL(MPIABI_Cancel(&request));
	CALL(MPIABI_Wait(&request, &status));
	CALL(MPIABI_Test_cancelled(&status, &flag));
	expect(flag);
	CALL(MPIABI_Iallreduce(data, got, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request));
	FAILS(MPIABI_Cancel(&request), MPI_ERR_REQUEST, "a collective cannot be canceled");
	CALL(MPIABI_Wait(&request, MPI_STATUS_IGNORE));
}

/* Starts two receives that are too short, of messages with the tags `first` and `first` + 1. */
static void cut_two(int first, MPIABI_Request receives[2])
{
	int next = (world_rank + 1) % world_size, last = (world_rank + world_size - 1) % world_size;
	static int data[4], got[2];
	MPIABI_Request sends[2];

	for (int i = 0; i < 2; i++) {
		CALL(MPIABI_Irecv(&got[i], 1, MPI_INT, last, first + i, MPI_COMM_WORLD,
				  &receives[i]));
		CALL(MPIABI_Isend(data, 4, MPI_INT, next, first + i, MPI_COMM_WORLD, &sends[i]));
	}
	CALL(MPIABI_Waitall(2, sends, MPI_STATUSES_IGNORE));
}

/* The text of a failure is that of its own request, whatever has failed since. */
static void texts_of_failures(void)
{
	MPIABI_Request pair[2];
	MPIABI_Status both[2];
	int flag, count, indices[2];

	cut_two(30, pair);
	FAILS(MPIABI_Waitall(2, pair, MPI_STATUSES_IGNORE), MPI_ERR_TRUNCATE, "with tag 30");
	cut_two(32, pair);
	FAILS(MPIABI_Waitall(2, pair, both), MPI_ERR_IN_STATUS, "with tag 32");
	cut_two(34, pair);
	do
		CALL(MPIABI_Request_get_status(pair[1], &flag, both));
	while (!flag);
	FAILS(MPIABI_Waitall(2, pair, MPI_STATUSES_IGNORE), MPI_ERR_TRUNCATE, "with tag 34");
	cut_two(36, pair);
	for (int i = 0; i < 2; i++) {
		do
			CALL(MPIABI_Request_get_status(pair[i], &flag, both));
		while (!flag);
	}
	FAILS(MPIABI_Wait(&pair[0], MPI_STATUS_IGNORE), MPI_ERR_TRUNCATE, "with tag 36");
	FAILS(MPIABI_Waitsome(2, pair, &count, indices, MPI_STATUSES_IGNORE), MPI_ERR_TRUNCATE,
	      "with tag 37");
	expect(count == 1 && indices[0] == 1);
}

/* Both parts fail, because the memory of the send cannot be read. The text is the send's. */
static void text_of_exchange(void)
{
	enum { BYTES = 1 << 20 };
	void *bad = mmap(NULL, BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	void *room = malloc(BYTES);

	expect(bad != MAP_FAILED && room != NULL);
	FAILS(MPIABI_Sendrecv(bad, BYTES, MPI_BYTE, 0, 41, room, BYTES, MPI_BYTE, 0, 41,
			      MPI_COMM_SELF, MPI_STATUS_IGNORE),
	      MPI_ERR_BUFFER, "cannot be read: it is unmapped, protected");
	munmap(bad, BYTES);
	free(room);
}

/* What a matched probe has found nobody else receives. */
static void matched(void)
{
	int next = (world_rank + 1) % world_size, last = (world_rank + world_size - 1) % world_size;
	int one[2] = { 1, 11 }, two = 2, got[2] = { 0 }, flag;
	MPIABI_Request requests[3];
	MPIABI_Message first, second, none;
	MPIABI_Status status;

	CALL(MPIABI_Issend(one, 2, MPI_INT, next, 21, MPI_COMM_WORLD, &requests[0]));
	CALL(MPIABI_Isend(&two, 1, MPI_INT, next, 21, MPI_COMM_WORLD, &requests[1]));
	CALL(MPIABI_Mprobe(last, MPI_ANY_TAG, MPI_COMM_WORLD, &first, &status));
	expect(status.MPI_SOURCE == last && status.MPI_TAG == 21);
	CALL(MPIABI_Recv(&got[0], 1, MPI_INT, last, 21, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
	expect(got[0] == two);
	CALL(MPIABI_Improbe(MPI_ANY_SOURCE, 21, MPI_COMM_WORLD, &flag, &none, &status));
	expect(!flag && none == MPI_MESSAGE_NULL);
	CALL(MPIABI_Mrecv(got, 2, MPI_INT, &first, &status));
	expect(got[0] == 1 && got[1] == 11 && first == MPI_MESSAGE_NULL);
	FAILS(MPIABI_Mrecv(got, 2, MPI_INT, &first, &status), MPI_ERR_REQUEST, "is not a message");
	CALL(MPIABI_Waitall(2, requests, MPI_STATUSES_IGNORE));
	CALL(MPIABI_Isend(one, 2, MPI_INT, next, 22, MPI_COMM_WORLD, &requests[0]));
	CALL(MPIABI_Isend(one, 2, MPI_INT, next, 23, MPI_COMM_WORLD, &requests[1]));
	do
		CALL(MPIABI_Improbe(last, 22, MPI_COMM_WORLD, &flag, &second, &status));
	while (!flag);
	got[1] = -1;
	CALL(MPIABI_Imrecv(got, 2, MPI_INT, &second, &requests[2]));
	CALL(MPIABI_Wait(&requests[2], &status));
	expect(got[1] == 11 && status.MPI_TAG == 22);
	CALL(MPIABI_Mprobe(last, 23, MPI_COMM_WORLD, &second, MPI_STATUS_IGNORE));
	FAILS(MPIABI_Mrecv(got, 1, MPI_INT, &second, &status), MPI_ERR_TRUNCATE, "has 8 bytes");
	CALL(MPIABI_Waitall(2, requests, MPI_STATUSES_IGNORE));
	CALL(MPIABI_Isend(one, 2, MPI_INT, next, 24, MPI_COMM_WORLD, &requests[0]));
	CALL(MPIABI_Mprobe(last, 24, MPI_COMM_WORLD, &second, MPI_STATUS_IGNORE));
	CALL(MPIABI_Imrecv(got, 1, MPI_INT, &second, &requests[1]));
	FAILS(MPIABI_Send(one, 1, MPI_INT, next, -4, MPI_COMM_WORLD), MPI_ERR_TAG, "is -4");
	FAILS(MPIABI_Wait(&requests[1], &status), MPI_ERR_TRUNCATE, "with tag 24");
	CALL(MPIABI_Wait(&requests[0], MPI_STATUS_IGNORE));
	CALL(MPIABI_Mprobe(MPI_PROC_NULL, 0, MPI_COMM_WORLD, &second, &status));
	expect(second == MPI_MESSAGE_NO_PROC);
	CALL(MPIABI_Mrecv(got, 1, MPI_INT, &second, &status));
	expect(status.MPI_SOURCE == MPI_PROC_NULL);
}

void part_messages(void)
{
	ring();
	synchronous();
	persistent();
	apart();
	texts_of_failures();
	text_of_exchange();
	matched();
	mistakes();
	CALL(MPIABI_Barrier(MPI_COMM_WORLD));
}
