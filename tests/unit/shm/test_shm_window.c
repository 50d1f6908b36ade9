/*
 * test_shm_window.c - windows into the other side's pool: that they show what they should, both
 * ways; that they end where the pool does; who may write; and how long they last.
 */
#include "shm_pair.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "transport/lanes/shm/shm_window.h"

#define PIECE (300u << 10)
#define GROWN (40ull << 20) /* more than the first extent has */

static int fds_before;

/* Mappings of pools in this process. */
static int pool_maps(void)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	char line[512];
	int count = 0;

	assert_non_null(maps);
	while (fgets(line, sizeof(line), maps) != NULL)
		count += strstr(line, "memfd:towline-pool") != NULL;
	fclose(maps);
	return count;
}

/* Opens both with a knob each. */
static int open_with(const char *knob_0, const char *knob_1)
{
	fds_before = twt_fd_count();
	setenv("TOW_SHM_PEER_WRITES", knob_0, 1);
	twt_shm_open_side(0, twt_shm_pool_bytes);
	setenv("TOW_SHM_PEER_WRITES", knob_1, 1);
	twt_shm_open_side(1, twt_shm_pool_bytes);
	unsetenv("TOW_SHM_PEER_WRITES");
	twt_shm_join();
	return 0;
}

static int open_both(void **state)
{
	(void)state;
	return open_with("1", "1");
}

static int open_reader_0(void **state)
{
	static int reader = 0;

	*state = &reader;
	return open_with("0", "1");
}

static int open_reader_1(void **state)
{
	static int reader = 1;

	*state = &reader;
	return open_with("1", "0");
}

static int close_both(void **state)
{
	twt_shm_close(state);
	assert_int_equal(pool_maps(), 0);
	assert_int_equal(twt_fd_count(), fds_before);
	return 0;
}

static struct twi_extent *extent_of(int i, uint32_t extent)
{
	struct twi_extent_table *table = (void *)twi_runtime_engine(twt_shm.runtime[i])->pool;

	assert_true(extent < table->count);
	return table->extent[extent];
}

/* A window of side `i`; fails with `status`, or must be had when that is TOW_OK. */
static uint8_t *look(int i, uint32_t extent, uint64_t offset, uint64_t bytes, bool write,
		     int status)
{
	struct twi_engine *engine = twi_runtime_engine(twt_shm.runtime[i]);
	int got = 99;
	void *at;

	twi_engine_enter(engine);
	at = twi_shm_windows.at(twt_shm.peer[i], extent, offset, bytes, write, &got);
	twi_engine_leave(engine);
	assert_int_equal(got, status);
	assert_true((at != NULL) == (status == TOW_OK));
	return at;
}

/* Memory of side `i`, as the other side sees it. */
static uint8_t *across(int i, const void *memory, uint64_t bytes, bool write)
{
	uint32_t extent = 99;
	uint64_t offset = UINT64_MAX;

	assert_true(twi_shm_windows.expose(twt_shm.peer[i], memory, bytes, &extent, &offset));
	assert_ptr_equal((uint8_t *)extent_of(i, extent)->base + offset, memory);
	return look(!i, extent, offset, bytes, write, TOW_OK);
}

/* Can this process write there? Asked of the kernel, which does not die of it. */
static bool can_write(void *at)
{
	int fd = open("/dev/zero", O_RDONLY | O_CLOEXEC);
	bool can = read(fd, at, 1) == 1;

	close(fd);
	return can;
}

static void test_reach(void **state)
{
	uint64_t random = twt_seed();

	(void)state;
	for (int i = 0; i < 2; i++) {
		uint8_t *memory = twt_shm_take(i, PIECE), *copy = malloc(PIECE), *in, *out;

		assert_true(twi_shm_windows.up(twt_shm.peer[i]));
		assert_true(twi_shm_windows.writable(twt_shm.peer[i]));
		twt_fill(memory, PIECE, 3);
		in = across(i, memory, PIECE, false);
		out = across(i, memory, PIECE, true);
		assert_true(in != memory && out != memory && in != out);
		assert_true(twt_same(in, PIECE, 3));
		memcpy(copy, memory, PIECE);
		for (int k = 0; k < 2000; k++) {
			uint64_t at = twt_random_below(&random, PIECE);
			uint64_t bytes = twt_random_below(&random, PIECE - at + 1) % 3000;
			uint8_t value = (uint8_t)twt_random(&random);

			if (k % 2 == 0)
				memset(across(i, memory + at, bytes, true), value, bytes);
			else
				memset(memory + at, value, bytes);
			memset(copy + at, value, bytes);
		}
		assert_memory_equal(memory, copy, PIECE);
		assert_memory_equal(in, copy, PIECE);
		assert_memory_equal(out, copy, PIECE);
		free(copy);
		TWT_OK(tow_free(twt_shm.runtime[i], memory));
	}
}

/* The lane's mapping stays as it is; the window's is made once, and costs its descriptor. */
static void test_lazy(void **state)
{
	uint8_t *memory = twt_shm_take(0, PIECE), *in, *out;
	int fds = twt_fd_count(), maps = pool_maps();

	(void)state;
	assert_true(twt_shm_inside(1)->shared->extents[0]->window_fd >= 0);
	in = across(0, memory, PIECE, false);
	assert_int_equal(pool_maps(), maps);
	out = across(0, memory, PIECE, true);
	assert_int_equal(pool_maps(), maps + 1);
	assert_int_equal(twt_fd_count(), fds - 1);
	assert_int_equal(twt_shm_inside(1)->shared->extents[0]->window_fd, -1);
	assert_ptr_equal(across(0, memory, PIECE, true), out);
	assert_int_equal(pool_maps(), maps + 1);
	assert_true(can_write(out));
	assert_false(can_write(in));
	TWT_OK(tow_free(twt_shm.runtime[0], memory));
}

static void test_bounds(void **state)
{
	const uint64_t bytes = extent_of(0, 0)->bytes;

	(void)state;
	for (int write = 0; write < 2; write++) {
		uint8_t *at = look(1, 0, 0, bytes, write, TOW_OK);

		assert_ptr_equal(look(1, 0, bytes - 1, 1, write, TOW_OK), at + bytes - 1);
		assert_ptr_equal(look(1, 0, bytes, 0, write, TOW_OK), at + bytes);
		look(1, 0, 0, bytes + 1, write, TOW_EPROTOCOL);
		look(1, 0, 1, bytes, write, TOW_EPROTOCOL);
		look(1, 0, bytes, 1, write, TOW_EPROTOCOL);
		look(1, 0, bytes + 1, 0, write, TOW_EPROTOCOL);
		look(1, 0, UINT64_MAX, 1, write, TOW_EPROTOCOL);
		look(1, 0, UINT64_MAX, 2, write, TOW_EPROTOCOL);
		look(1, 0, 64, UINT64_MAX, write, TOW_EPROTOCOL);
		look(1, 0, 64, UINT64_MAX - 63, write, TOW_EPROTOCOL);
		look(1, 1, 0, 1, write, TOW_AGAIN);
		look(1, TWI_EXTENTS_MAX - 1, 0, 1, write, TOW_AGAIN);
		look(1, TWI_EXTENTS_MAX, 0, 1, write, TOW_EPROTOCOL);
		look(1, UINT32_MAX, 0, 1, write, TOW_EPROTOCOL);
	}
	/* What the caller asked for was wrong, not the peer. */
	assert_int_equal(twt_shm_inside(1)->base.ended, 0);
	assert_int_equal(twt_shm_counted(1, TWI_C_protocol_errors), 0);
}

static void test_foreign(void **state)
{
	const struct twi_extent *extent = extent_of(0, 0);
	uint8_t *base = extent->base, heap[64];
	uint64_t offset = 1;
	uint32_t number = 1;

	(void)state;
	assert_false(twi_shm_windows.expose(twt_shm.peer[0], heap, sizeof(heap), &number, &offset));
	assert_false(
		twi_shm_windows.expose(twt_shm.peer[0], base, extent->bytes + 1, &number, &offset));
	assert_false(twi_shm_windows.expose(twt_shm.peer[0], base - 1, 2, &number, &offset));
	assert_true(twi_shm_windows.expose(twt_shm.peer[0], base, extent->bytes, &number, &offset));
	assert_int_equal(number, 0);
	assert_int_equal(offset, 0);
}

/* One side's knob is 0: nobody writes, both read as ever, and nothing is kept for it. */
static void test_read_only(void **state)
{
	const int reader = *(const int *)*state;

	for (int i = 0; i < 2; i++) {
		uint8_t *memory = twt_shm_take(i, PIECE), *in;

		twt_fill(memory, PIECE, 4);
		assert_false(twi_shm_windows.writable(twt_shm.peer[i]));
		in = across(i, memory, PIECE, false);
		assert_true(twt_same(in, PIECE, 4));
		assert_false(can_write(in));
		look(!i, 0, 0, 1, true, TOW_EPERM);
		assert_non_null(
			strstr(tow_error_message(), reader == !i ? "shm_peer_writes is 0 here"
								 : "shm_peer_writes is 0 there"));
		assert_int_equal(twt_shm_inside(i)->shared->extents[0]->window_fd, -1);
		TWT_OK(tow_free(twt_shm.runtime[i], memory));
	}
}

/* The pool grows: who has heard of the new extent finds its announcement by himself. */
static void test_grown(void **state)
{
	uint32_t first = extent_of(0, 0)->slot, count = twt_shm_inside(1)->shared->extent_count;
	uint8_t *memory, *in, *out, *later;
	struct tow_result result;
	struct tow_op *send, *view;

	(void)state;
	assert_int_equal(first, 0);
	look(1, count, 0, 1, true, TOW_AGAIN);
	memory = twt_shm_take(0, GROWN);
	look(1, count, 0, 1, false, TOW_AGAIN);
	twt_shm_settle();
	look(1, count, 0, 1, false, TOW_AGAIN); /* it is announced when it is needed, not before */
	twt_fill(memory, GROWN, 5);
	in = across(0, memory, GROWN, false);
	out = across(0, memory, GROWN, true);
	assert_int_equal(twt_shm_inside(1)->shared->extent_count, count + 1);
	assert_true(twt_same(in, GROWN, 5));
	twt_fill(out, GROWN, 6);
	assert_true(twt_same(memory, GROWN, 6));
	/* The same by way of a message, which announces, too. */
	later = twt_shm_take(0, GROWN);
	send = twt_shm_lend(0, later, GROWN, 1);
	view = twt_shm_view(1, 1);
	assert_int_equal(twt_shm_finish(view, &result, true), TOW_OK);
	assert_int_equal(twt_shm_inside(1)->shared->extent_count, count + 2);
	out = across(0, later, GROWN, true);
	assert_true(result.data != out);
	out[GROWN - 1] = 77;
	assert_int_equal(((const uint8_t *)result.data)[GROWN - 1], 77);
	TWT_OK(tow_view_release(view));
	assert_int_equal(twt_shm_finish(send, NULL, false), TOW_OK);
	TWT_OK(tow_free(twt_shm.runtime[0], later));
	TWT_OK(tow_free(twt_shm.runtime[0], memory));
}

/* A peer that said that its pool can be written, and gives a descriptor that cannot. */
static void test_liar_reader(void **state)
{
	uint8_t *memory = twt_shm_take(0, GROWN);
	uint64_t offset;
	uint32_t extent;

	(void)state;
	twi_runtime_engine(twt_shm.runtime[0])->knobs.shm_peer_writes = 0;
	assert_true(twi_shm_windows.expose(twt_shm.peer[0], memory, GROWN, &extent, &offset));
	look(1, extent, offset, GROWN, false, TOW_EPROTOCOL);
	assert_non_null(strstr(tow_error_message(), "descriptor of extent 1 is not"));
	assert_int_equal(twt_shm_inside(1)->base.ended, TOW_EPROTOCOL);
	assert_int_equal(twt_shm_counted(1, TWI_C_protocol_errors), 1);
	look(1, 0, 0, 1, false, TOW_EPROTOCOL); /* the peer is lost, by that */
}

static void test_liar_sealed(void **state)
{
	uint8_t *memory = twt_shm_take(0, GROWN);
	uint64_t offset;
	uint32_t extent;

	(void)state;
	/* F_SEAL_FUTURE_WRITE, which not every libc names */
	if (fcntl(extent_of(0, 1)->fd, F_ADD_SEALS, 0x0010) != 0)
		skip();
	assert_true(twi_shm_windows.expose(twt_shm.peer[0], memory, GROWN, &extent, &offset));
	twt_shm_settle(); /* found by the socket's poll this time */
	assert_int_equal(twt_shm_inside(1)->base.ended, TOW_EPROTOCOL);
	assert_int_equal(twt_shm_counted(1, TWI_C_protocol_errors), 1);
}

/* Whoever has our descriptor cannot seal the pool against others. */
static void test_seals(void **state)
{
	int fd = twt_shm_inside(1)->shared->extents[0]->window_fd;

	(void)state;
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_GROW), -1);
	assert_int_equal(errno, EPERM);
	assert_int_equal(ftruncate(fd, 4096), -1);
}

/* A window that cannot be mapped now can be later. */
static void test_no_room(void **state)
{
	int *fd = &twt_shm_inside(1)->shared->extents[0]->window_fd, kept = *fd;
	struct rlimit old, none = { .rlim_cur = 1 << 20 };

	(void)state;
	*fd = twi_shm_extent_fd(extent_of(0, 0), false);
	assert_true(*fd >= 0);
	look(1, 0, 0, 8, true, TOW_EPERM);
	close(*fd);
	*fd = kept;
#ifndef TWT_SANITIZED
	TWT_OK(getrlimit(RLIMIT_AS, &old));
	none.rlim_max = old.rlim_max;
	TWT_OK(setrlimit(RLIMIT_AS, &none));
	kept = 0;
	(void)twi_shm_windows.at(twt_shm.peer[1], 0, 0, 8, true, &kept);
	TWT_OK(setrlimit(RLIMIT_AS, &old));
	assert_int_equal(kept, TOW_ENOMEM);
#else
	(void)old, (void)none;
#endif
	assert_true(can_write(look(1, 0, 0, 8, true, TOW_OK)));
}

/* Lost while it is used: the memory is there until the hold ends. */
static void test_held(void **state)
{
	uint8_t *memory = twt_shm_take(0, PIECE), *in, *out;
	struct twi_window_hold *link = twi_shm_windows.hold(twt_shm.peer[1]);
	uint64_t offset;
	uint32_t extent;

	(void)state;
	assert_non_null(link);
	in = across(0, memory, PIECE, false);
	out = across(0, memory, PIECE, true);
	TWT_OK(tow_peer_close(twt_shm.peer[0]));
	twt_shm_settle();
	assert_int_equal(twt_shm_inside(1)->base.ended, TOW_EPEER);
	assert_false(twi_shm_windows.up(twt_shm.peer[1]));
	assert_false(twi_shm_windows.writable(twt_shm.peer[1]));
	assert_null(twi_shm_windows.hold(twt_shm.peer[1]));
	assert_int_equal(twi_shm_window_pid(twt_shm.peer[1]), 0);
	twi_shm_windows.wrote(twt_shm.peer[1]);
	look(1, 0, 0, 1, false, TOW_EPEER);
	assert_false(twi_shm_windows.expose(twt_shm.peer[1], extent_of(1, 0)->base, 8, &extent,
					    &offset));
	twt_fill(out, PIECE, 7);
	assert_true(twt_same(memory, PIECE, 7));
	TWT_OK(tow_runtime_close(twt_shm.runtime[0])); /* its pool is unmapped there */
	twt_shm.runtime[0] = NULL;
	assert_true(twt_same(in, PIECE, 7));
	twt_fill(out, PIECE, 8);
	assert_true(twt_same(in, PIECE, 8));
	TWT_OK(tow_peer_close(twt_shm.peer[1]));
	assert_true(twt_same(in, PIECE, 8));
	twi_shm_windows.release(link);
	assert_false(can_write(out));
}

/* Two holds, and a descriptor that was never used: all ends with the last of them. */
static void test_holds(void **state)
{
	struct twi_window_hold *links[2];
	int fds;

	(void)state;
	for (int k = 0; k < 2; k++)
		links[k] = twi_shm_windows.hold(twt_shm.peer[1]);
	assert_ptr_equal(links[0], links[1]);
	TWT_OK(tow_peer_close(twt_shm.peer[1]));
	fds = twt_fd_count();
	twi_shm_windows.release(links[0]);
	assert_int_equal(twt_fd_count(), fds);
	twi_shm_windows.release(links[1]);
	assert_int_equal(twt_fd_count(), fds - 1);
}

static void test_wake(void **state)
{
	_Atomic uint32_t *asleep = &twt_shm_inside(1)->out.box.head->asleep;
	char byte;

	(void)state;
	twt_shm_settle();
	while (recv(twt_shm_inside(1)->socket.fd, &byte, 1, MSG_DONTWAIT) > 0)
		; /* bells of before */
	atomic_store(asleep, 0);
	twi_shm_windows.wrote(twt_shm.peer[0]);
	assert_int_equal(recv(twt_shm_inside(1)->socket.fd, &byte, 1, MSG_DONTWAIT | MSG_PEEK), -1);
	atomic_store(asleep, 1);
	twi_shm_windows.wrote(twt_shm.peer[0]);
	assert_int_equal(atomic_load(asleep), 0);
	assert_int_equal(recv(twt_shm_inside(1)->socket.fd, &byte, 1, MSG_DONTWAIT | MSG_PEEK), 1);
}

static void test_pid(void **state)
{
	(void)state;
	twt_shm_inside(0)->remote_theirs = true;
	assert_int_equal(twi_shm_window_pid(twt_shm.peer[0]), getpid());
	twt_shm_inside(0)->remote_theirs = false;
	assert_int_equal(twi_shm_window_pid(twt_shm.peer[0]), 0);
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, open_both, close_both)
#define READER(i)                                                                                  \
	{                                                                                          \
		"test_read_only_" #i, test_read_only, open_reader_##i, close_both, NULL            \
	}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(test_reach),
		CASE(test_lazy),
		CASE(test_bounds),
		CASE(test_foreign),
		READER(0),
		READER(1),
		CASE(test_grown),
		CASE(test_liar_reader),
		CASE(test_liar_sealed),
		CASE(test_seals),
		CASE(test_no_room),
		CASE(test_held),
		CASE(test_holds),
		CASE(test_wake),
		CASE(test_pid),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
