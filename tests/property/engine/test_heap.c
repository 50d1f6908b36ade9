/*
 * test_heap.c - the heap of deadlines against a plain list: whatever is put in and taken out, the
 * first is always the smallest, and nothing is lost or doubled.
 */
#include "twt.h"

#include <string.h>

#include "transport/engine/engine_heap.h"

#define NODES 500u
#define STEPS 4000u

static struct twi_heap_node nodes[NODES];
static uint64_t plain[NODES]; /* its key; UINT64_MAX: not in */

static uint64_t plain_min(void)
{
	uint64_t least = UINT64_MAX;

	for (unsigned i = 0; i < NODES; i++)
		least = plain[i] < least ? plain[i] : least;
	return least;
}

/* Every link of the heap leads back, and no child comes before its parent. */
static unsigned check_links(const struct twi_heap *heap)
{
	unsigned count = 0;

	for (unsigned i = 0; i < NODES; i++) {
		const struct twi_heap_node *node = &nodes[i];

		assert_int_equal(twi_heap_has(node), plain[i] != UINT64_MAX);
		if (!twi_heap_has(node))
			continue;
		count++;
		assert_int_equal(node->key, plain[i]);
		if (node == heap->root) {
			assert_ptr_equal(node->prev, node);
			assert_null(node->next);
		} else {
			assert_true(node->prev->child == node || node->prev->next == node);
		}
		for (const struct twi_heap_node *at = node->child; at != NULL; at = at->next)
			assert_true(at->key >= node->key);
	}
	return count;
}

static void run(uint64_t seed)
{
	struct twi_heap heap = { NULL };
	uint64_t random = seed, spread = 1 + twt_random(&random) % 3000;
	unsigned in = 0;

	memset(nodes, 0, sizeof(nodes));
	memset(plain, 0xff, sizeof(plain));
	for (unsigned step = 0; step < STEPS; step++) {
		unsigned i = (unsigned)(twt_random(&random) % NODES);

		if (twt_random(&random) % 8 == 0 && heap.root != NULL)
			i = (unsigned)(heap.root - nodes);
		if (plain[i] == UINT64_MAX) {
			plain[i] = twt_random(&random) % spread;
			twi_heap_insert(&heap, &nodes[i], plain[i]);
			in++;
		} else {
			plain[i] = UINT64_MAX;
			twi_heap_remove(&heap, &nodes[i]);
			twi_heap_remove(&heap, &nodes[i]); /* twice is once */
			in--;
		}
		if (step % 16 == 0) {
			assert_int_equal(heap.root == NULL ? UINT64_MAX : heap.root->key,
					 plain_min());
		}
		if (step % 256 == 0)
			assert_int_equal(check_links(&heap), in);
	}
	for (uint64_t last = 0; heap.root != NULL; in--) {
		struct twi_heap_node *root = heap.root;

		assert_true(root->key >= last);
		last = root->key;
		plain[root - nodes] = UINT64_MAX;
		twi_heap_remove(&heap, root);
	}
	assert_int_equal(in, 0);
	assert_int_equal(plain_min(), UINT64_MAX);
}

static void test_against_a_list(void **state)
{
	uint64_t seed = twt_seed();

	(void)state;
	for (unsigned i = 0; i < 40; i++)
		run(seed + i);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_against_a_list),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
