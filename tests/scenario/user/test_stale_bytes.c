/*
 * test_stale_bytes.c - memory is unmapped, replaced, moved and discarded at the same address while
 * others look it up and send it: what goes out is never what was there before.
 *
 * The registrar is a real io_uring, and what "goes out" is what WRITE_FIXED takes from the pages
 * that it has pinned. Each writer has a few pages of its own:
 *
 *   seq odd ... takes the pages away, maps others, fills them with seq + 1 ... seq even
 *
 * A reader that has seen an even seq before its lookup must get that number or a later one; 0 only
 * if the pages were being changed meanwhile. The same run with invalidation turned off must find
 * stale bytes: else the test would prove nothing.
 */
#include "twt.h"

#include <fcntl.h>
#include <liburing.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "diag/base/error.h"
#include "diag/record/counter.h"
#include "diag/record/diag.h"
#include "memreg/pool/pool.h"
#include "memreg/pool/pool_impl.h"
#include "memreg/pool/pool_regions.h"
#include "memreg/user/latecache.h"

#define PAGE    ((uint64_t)4096)
#define PAGES   8
#define WRITERS 2
#define READERS 2
#define CHANGES 2500

struct dma {
	struct io_uring ring;
	pthread_mutex_t lock; /* of the queues */
	int fd;
};

struct writer {
	char *at;
	_Atomic uint64_t seq;
	uint64_t random;
	unsigned ways; /* of 4; the last one discards */
	_Atomic bool done;
};

struct reader {
	struct twi_pool *pool;
	struct dma *dma;
	struct writer *writers;
	uint64_t random, reads, stale;
};

static int set_buffer(struct dma *dma, const struct twi_region *region, struct iovec iov)
{
	__u64 tag = 0;
	int n = io_uring_register_buffers_update_tag(&dma->ring, region->slot, &iov, &tag, 1);

	if (n != 1)
		return twi_error_errno(TOW_ESYSTEM, -n, "io_uring_register_buffers_update_tag");
	return TOW_OK;
}

static int dma_add(void *ctx, const struct twi_region *region)
{
	return set_buffer(ctx, region, (struct iovec){ region->base, region->bytes });
}

static void dma_remove(void *ctx, const struct twi_region *region)
{
	set_buffer(ctx, region, (struct iovec){ NULL, 0 });
}

static const struct twi_registrar dma_registrar = { "io_uring", dma_add, dma_remove };

/* What the pinned pages hold at p. False: the ring does not know the region. */
static bool dma_read(struct dma *dma, const struct twi_region *region, const void *p,
		     uint64_t *value_out)
{
	struct io_uring_cqe *cqe;
	struct io_uring_sqe *sqe;
	bool read;

	pthread_mutex_lock(&dma->lock);
	sqe = io_uring_get_sqe(&dma->ring);
	io_uring_prep_write_fixed(sqe, dma->fd, p, sizeof(*value_out), 0, (int)region->slot);
	io_uring_submit_and_wait(&dma->ring, 1);
	io_uring_wait_cqe(&dma->ring, &cqe);
	read = cqe->res == (int)sizeof(*value_out);
	io_uring_cqe_seen(&dma->ring, cqe);
	read = read && pread(dma->fd, value_out, sizeof(*value_out), 0) == sizeof(*value_out);
	pthread_mutex_unlock(&dma->lock);
	return read;
}

static void fill(char *p, uint64_t pages, uint64_t value)
{
	for (uint64_t i = 0; i < pages; i++)
		*(_Atomic uint64_t *)(void *)(p + i * PAGE) = value;
}

static void must(bool done)
{
	if (!done) {
		perror("test_stale_bytes");
		abort();
	}
}

/* Held while there is a hole, so that no other mapping of this test falls into it. */
static pthread_mutex_t hole = PTHREAD_MUTEX_INITIALIZER;

static void change(struct writer *w, uint64_t next)
{
	const int prot = PROT_READ | PROT_WRITE, flags = MAP_PRIVATE | MAP_ANONYMOUS;
	uint64_t first = twt_random_below(&w->random, PAGES);
	uint64_t pages = 1 + twt_random_below(&w->random, PAGES - first);
	char *p = w->at + first * PAGE, *from;

	switch (twt_random_below(&w->random, w->ways)) {
	case 0:
		must(mmap(p, pages * PAGE, prot, flags | MAP_FIXED, -1, 0) == p);
		break;
	case 1:
		pthread_mutex_lock(&hole);
		must(munmap(p, pages * PAGE) == 0);
		must(mmap(p, pages * PAGE, prot, flags | MAP_FIXED, -1, 0) == p);
		pthread_mutex_unlock(&hole);
		break;
	case 2:
		pthread_mutex_lock(&hole);
		from = mmap(NULL, pages * PAGE, prot, flags, -1, 0);
		pthread_mutex_unlock(&hole);
		must(from != MAP_FAILED);
		fill(from, pages, next);
		must(mremap(from, pages * PAGE, pages * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, p) ==
		     p);
		break;
	default:
		must(madvise(p, pages * PAGE, MADV_DONTNEED) == 0);
	}
	/* The pages that were left are written where they lie; they are the same to all. */
	fill(w->at, PAGES, next);
}

static void *write_pages(void *arg)
{
	struct writer *w = arg;

	for (int i = 0; i < CHANGES; i++) {
		uint64_t seq = atomic_load_explicit(&w->seq, memory_order_relaxed);

		atomic_store(&w->seq, seq + 1);
		change(w, seq + 2);
		atomic_store(&w->seq, seq + 2);
		if (i % 2 == 0)
			usleep((useconds_t)twt_random_below(&w->random, 500));
	}
	atomic_store(&w->done, true);
	return NULL;
}

static const struct twi_region *look_up(struct reader *r, const char *p, uint64_t bytes)
{
	const struct twi_region *region = twi_pool_region_acquire(r->pool, p, bytes);

	if (region == NULL &&
	    twi_pool_region_late(r->pool, p, bytes, TWI_SITE_NONE, &region) != TOW_OK)
		return NULL;
	return region;
}

static void *read_pages(void *arg)
{
	struct reader *r = arg;

	while (!atomic_load(&r->writers[0].done) || !atomic_load(&r->writers[1].done)) {
		struct writer *w = &r->writers[twt_random_below(&r->random, WRITERS)];
		uint64_t first = twt_random_below(&r->random, PAGES);
		uint64_t pages = 1 + twt_random_below(&r->random, PAGES - first);
		const char *p = w->at + first * PAGE;
		uint64_t before = atomic_load(&w->seq), after, value;
		const struct twi_region *region = look_up(r, p, pages * PAGE);

		if (region == NULL)
			continue;
		p += twt_random_below(&r->random, pages) * PAGE;
		if (before % 2 == 0 && dma_read(r->dma, region, p, &value)) {
			after = atomic_load(&w->seq);
			r->reads++;
			r->stale += value < before && (value != 0 || after == before);
		}
		twi_pool_region_release(r->pool, region);
	}
	return NULL;
}

static void nothing(void *arg, uint64_t start, uint64_t end)
{
	(void)arg;
	(void)start;
	(void)end;
}

/* The number of stale reads; -1: it cannot be run here. */
static int64_t run(unsigned ways, bool blind, uint64_t *reads_out, uint64_t *hits_out)
{
	struct twi_pool_options options = { .bytes = 1 << 20,
					    .late_cache_bytes = 64 * PAGE,
					    .late_cache_entries = 16,
					    .late = &twi_latecache_ops };
	uint64_t random = twt_seed();
	struct writer writers[WRITERS] = { 0 };
	struct reader readers[READERS] = { 0 };
	pthread_t threads[WRITERS + READERS];
	struct dma dma = { .fd = memfd_create("out", MFD_CLOEXEC) };
	struct twi_pool *pool;
	int64_t stale = 0;

	pthread_mutex_init(&dma.lock, NULL);
	if (io_uring_queue_init(8, &dma.ring, 0) ||
	    io_uring_register_buffers_sparse(&dma.ring, TWI_REGION_SLOTS))
		return -1;
	assert_int_equal(twi_diag_create(&options.diag), TOW_OK);
	assert_int_equal(twi_pool_create(&options, &pool), TOW_OK);
	assert_int_equal(twi_pool_registrar_add(pool, &dma_registrar, &dma), TOW_OK);
	if (blind) {
		twi_latecache_of(pool)->watch.changed = nothing;
		twi_latecache_of(pool)->watch.blind = true;
	}
	for (int i = 0; i < WRITERS; i++) {
		writers[i] = (struct writer){ .random = twt_random(&random), .ways = ways };
		writers[i].at = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE,
				     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		fill(writers[i].at, PAGES, 0);
	}
	for (int i = 0; i < READERS; i++)
		readers[i] = (struct reader){
			.pool = pool, .dma = &dma, .writers = writers, .random = twt_random(&random)
		};
	for (int i = 0; i < WRITERS; i++)
		pthread_create(&threads[i], NULL, write_pages, &writers[i]);
	for (int i = 0; i < READERS; i++)
		pthread_create(&threads[WRITERS + i], NULL, read_pages, &readers[i]);
	for (int i = 0; i < WRITERS + READERS; i++)
		pthread_join(threads[i], NULL);
	*reads_out = 0;
	for (int i = 0; i < READERS; i++) {
		stale += (int64_t)readers[i].stale;
		*reads_out += readers[i].reads;
	}
	*hits_out = twi_counter_sum(options.diag, TWI_C_late_cache_hits);
	printf("%llu reads, %llu hits, %llu invalidations, %lld stale\n",
	       (unsigned long long)*reads_out, (unsigned long long)*hits_out,
	       (unsigned long long)twi_counter_sum(options.diag, TWI_C_late_cache_invalidations),
	       (long long)stale);
	twi_pool_destroy(pool);
	twi_diag_destroy(options.diag);
	io_uring_queue_exit(&dma.ring);
	close(dma.fd);
	for (int i = 0; i < WRITERS; i++)
		munmap(writers[i].at, PAGES * PAGE);
	return stale;
}

static void never_stale(void **state)
{
	uint64_t reads, hits;

	(void)state;
	assert_int_equal(run(3, false, &reads, &hits), 0);
	assert_true(reads > 0 && hits > 0);
}

static void never_stale_with_discards(void **state)
{
	uint64_t reads, hits;

	(void)state;
	assert_int_equal(run(4, false, &reads, &hits), 0);
	assert_true(reads > 0);
}

static void stale_without_invalidation(void **state)
{
	uint64_t reads, hits;

	(void)state;
	assert_true(run(4, true, &reads, &hits) > 0);
	assert_true(hits > 0);
}

static bool possible(void)
{
	struct io_uring ring;
	struct twi_watch watch = { .lock = NULL };
	bool ring_ok = io_uring_queue_init(8, &ring, 0) == 0;
	bool watch_ok = twi_watch_start(&watch) == TOW_OK;

	if (ring_ok)
		io_uring_queue_exit(&ring);
	twi_watch_stop(&watch);
	return ring_ok && watch_ok;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(never_stale),
		cmocka_unit_test(never_stale_with_discards),
		cmocka_unit_test(stale_without_invalidation),
	};

	if (!possible()) {
		printf("skipped: io_uring or userfaultfd is refused here\n");
		return 77;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
