/* drive.c - see drive.h. */
#include "bench/common/drive.h"

#include <time.h>

#include <towline/towline.h>

#define CLOCK_TURNS 4096u

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

int bench_drive(struct tow_op *op, bool tests, uint64_t timeout_ns)
{
	uint64_t since_ns;
	int rc;

	if (!tests)
		return tow_op_wait(op, timeout_ns);
	rc = tow_op_test(op);
	if (rc != TOW_AGAIN)
		return rc;
	since_ns = now_ns();
	for (unsigned turn = 1; (rc = tow_op_test(op)) == TOW_AGAIN; turn++) {
		if (turn % CLOCK_TURNS == 0 && now_ns() - since_ns > timeout_ns)
			return TOW_ETIMEDOUT;
	}
	return rc;
}
