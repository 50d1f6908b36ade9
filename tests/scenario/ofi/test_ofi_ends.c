/*
 * test_ofi_ends.c - how peers of the ofi lane come and go, over each provider of libfabric's: waits
 * that sleep, closing, nobody there, strangers, kill -9, buffers that libfabric does not take.
 */
#include "twt.h"

#include "ofi_run.h"

#include <limits.h>

#include "diag/record/counter.h"
#include "diag/record/diag.h"
#include "transport/lanes/ofi/ofi_calls.h"

#ifdef TWI_HAVE_OFI

/* Messages of all sizes both ways until somebody dies. */
#define IN_TURN 16

static int stream(struct twt_side *side, uint64_t kill_at_ns, uint64_t *killed_out)
{
	struct tow_op *ops[2 * IN_TURN];
	uint64_t killed = 0;
	int last = TOW_OK;
	uint8_t *out, *in;

	TWT_OK(tow_alloc(side->runtime, 1 << 20, 0, (void **)&out));
	TWT_OK(tow_alloc(side->runtime, 1 << 20, 0, (void **)&in));
	memset(out, 1, 1 << 20);
	while (last == TOW_OK) {
		for (uint64_t i = 0; i < IN_TURN; i++) {
			TWT_OK(tow_recv_start(side->peer, in, 1 << 20, i, NULL, &ops[2 * i]));
			TWT_OK(tow_send_start(side->peer, out, i % 3 == 0 ? 1 << 20 : i * 100, i,
					      NULL, &ops[2 * i + 1]));
		}
		for (int i = 0; i < 2 * IN_TURN; i++) {
			int status;

			while (killed == 0 && tow_op_test(ops[i]) == TOW_AGAIN) {
				if (twt_ofi_now_ns() < kill_at_ns)
					continue;
				kill(side->child, SIGKILL);
				killed = twt_ofi_now_ns();
			}
			status = twt_finish(ops[i], NULL);
			last = last == TOW_OK ? status : last;
		}
		if (killed == 0 && twt_ofi_now_ns() >= kill_at_ns) {
			kill(side->child, SIGKILL);
			killed = twt_ofi_now_ns();
		}
	}
	TWT_OK(tow_free(side->runtime, out));
	TWT_OK(tow_free(side->runtime, in));
	*killed_out = killed;
	return last;
}

static int stream_child(struct twt_side *side, void *arg)
{
	uint64_t killed;

	(void)arg;
	return stream(side, UINT64_MAX, &killed) != TOW_OK;
}

static void test_killed(void)
{
	uint64_t killed, random = twt_ofi.seed;
	struct twi_pool_stats stats;
	struct twt_side side;
	struct tow_op *op;
	int how;

	twt_ofi_open_pair(&side, stream_child);
	assert_int_equal(stream(&side,
				twt_ofi_now_ns() + 50000000 + twt_random_below(&random, 100000000),
				&killed),
			 TOW_EPEER);
	assert_true(killed != 0);
	TWT_OK(tow_send_start(side.peer, &how, 4, 1, NULL, &op));
	assert_int_equal(twt_finish(op, NULL), TOW_EPEER);
	TWT_OK(tow_peer_close(side.peer));
	twi_pool_stats(twi_runtime_engine(side.runtime)->pool, &stats);
	assert_int_equal(stats.leased, 0);
	how = twt_pair_end(&side);
	assert_true(WIFSIGNALED(how) && WTERMSIG(how) == SIGKILL);
}

/* Nobody is there: refused or too late, and in time. Closing tells the other side. */
static int closes(struct twt_side *side, void *arg)
{
	(void)arg;
	twt_ofi_meet(side);
	TWT_OK(tow_peer_close(side->peer));
	return 0;
}

/* "fi_shm://999999999", with the zero at its end. */
static void nobody(char address[TOW_ADDRESS_MAX])
{
	static const char name[] = "fi_shm://999999999";
	size_t used = (size_t)snprintf(address, TOW_ADDRESS_MAX, "ofi://shm/");

	for (size_t i = 0; i < sizeof(name); i++)
		used += (size_t)snprintf(address + used, TOW_ADDRESS_MAX - used, "%02x", name[i]);
}

static void test_ends(void)
{
	struct tow_op_options options = TOW_OP_OPTIONS_INIT;
	char address[TOW_ADDRESS_MAX];
	struct tow_endpoint *other;
	struct twt_side side;
	struct tow_op *op;
	uint64_t word;
	int status;

	twt_ofi_open_pair(&side, closes);
	twt_ofi_meet(&side);
	TWT_OK(tow_recv_start(side.peer, &word, 8, 1, NULL, &op));
	assert_int_equal(twt_finish(op, NULL), TOW_EPEER);
	snprintf(address, sizeof(address), "ofi://%s", twt_ofi.provider);
	TWT_OK(tow_endpoint_open(side.runtime, address, &other));
	TWT_OK(tow_endpoint_address(other, address, sizeof(address)));
	TWT_OK(tow_endpoint_close(other));
	/*
	 * An address where somebody was. Not with shm: libfabric 1.17 crashes when it is asked for
	 * a closed endpoint of its own process; so it is one where nobody ever was.
	 */
	if (strcmp(twt_ofi.provider, "shm") == 0)
		nobody(address);
	options.timeout_ns = TWT_SECOND;
	TWT_OK(tow_connect_start(side.endpoint, address, &options, &op));
	status = twt_finish(op, NULL);
	assert_true(status == TOW_EREFUSED || status == TOW_EDEADLINE);
	assert_int_equal(tow_connect_start(side.endpoint, "ofi://other/00ff", NULL, &op),
			 TOW_EINVAL);
	twt_ofi_close_pair(&side);
}

/* Does an operation end so, with a message that says this? Prints what it did else. */
static int ended_with(struct twt_side *side, int expected, const char *words)
{
	uint64_t word;
	struct tow_op *op;
	int status;

	TWT_OK(tow_recv_start(side->peer, &word, 8, 1, NULL, &op));
	status = twt_finish(op, NULL);
	if (status == expected && strstr(tow_error_message(), words) != NULL)
		return 0;
	fprintf(stderr, "%s: %s\n", tow_status_name(status), tow_error_message());
	return 1;
}

/* A message that was never sent; a message of a channel, of which none is open. */
static const struct lie {
	struct twi_ofi_packet packet;
	const char *rule;
} ofi_lies[] = {
	{ { .type = TWI_OFI_DONE, .seq = 9999 }, "broke rule 37 of the protocol" },
	{ { .type = TWI_OFI_EAGER, .seq = 1, .channel = 300 }, "broke rule 54 of the protocol" },
};
static const struct lie *told; /* the one of this pair */

/* Says what is not so, and hears which rule that breaks. */
static int lies(struct twt_side *side, void *arg)
{
	struct twi_ofi_packet packet = told->packet;
	char words[80];
	struct twi_engine *engine = twi_runtime_engine(side->runtime);

	(void)arg;
	twt_ofi_meet(side);
	twi_engine_enter(engine);
	twi_engine_bind_ring(engine);
	twi_ofi_send_packet(twi_ofi_peer_of(side->peer), &packet, &twi_ofi_no_load, true);
	twi_engine_leave(engine);
	snprintf(words, sizeof(words), "it says that this side %s", told->rule);
	return ended_with(side, TOW_EPEER, words);
}

static void lie(const struct lie *which)
{
	struct twt_side side;
	siginfo_t info = { .si_pid = 0 };

	told = which;
	twt_ofi_open_pair(&side, lies);
	twt_ofi_meet(&side);
	assert_int_equal(ended_with(&side, TOW_EPROTOCOL, which->rule), 0);
	assert_int_equal(
		twi_counter_sum(twi_runtime_engine(side.runtime)->diag, TWI_C_protocol_errors), 1);
	/* An endpoint of libfabric's that is closed takes with it what is still to go. */
	for (int i = 0; i < 20000 && info.si_pid == 0; i++) {
		tow_progress(side.runtime);
		usleep(1000);
		assert_int_equal(
			waitid(P_PID, (id_t)side.child, &info, WEXITED | WNOHANG | WNOWAIT), 0);
	}
	twt_ofi_close_pair(&side);
}

static void test_lies(void)
{
	for (size_t i = 0; i < sizeof(ofi_lies) / sizeof(ofi_lies[0]); i++)
		lie(&ofi_lies[i]);
}

/* Offers a message, says good-bye as if it were on its way, and sends nothing. */
static int lies_about_the_end(struct twt_side *side, void *arg)
{
	struct twi_engine *engine = twi_runtime_engine(side->runtime);
	struct twi_ofi_packet bye = { .type = TWI_OFI_BYE };
	struct tow_op *op;
	void *large;

	(void)arg;
	TWT_OK(tow_alloc(side->runtime, 1 << 20, 0, &large));
	twt_ofi_meet(side);
	TWT_OK(tow_send_start(side->peer, large, 1 << 20, 1, NULL, &op));
	twi_engine_enter(engine);
	twi_engine_bind_ring(engine);
	twi_ofi_send_packet(twi_ofi_peer_of(side->peer), &bye, &twi_ofi_no_load, true);
	twi_engine_leave(engine);
	usleep(4000000);
	return 0;
}

/* What it asked for with a tag never comes: that costs the receive, and not the endpoint. */
static void test_false_bye(void)
{
	char address[TOW_ADDRESS_MAX];
	struct twt_side side;
	struct tow_op *op;
	void *large;

	if (strcmp(twt_ofi.provider, "tcp;ofi_rxm") != 0)
		return;                   /* it is the one that goes by tags here */
	setenv("TOW_BACKGROUND", "0", 1); /* it is not to be sent for the liar, either */
	twt_ofi_open_pair(&side, lies_about_the_end);
	TWT_OK(tow_alloc(side.runtime, 1 << 20, 0, &large));
	TWT_OK(tow_recv_start(side.peer, large, 1 << 20, 1, NULL, &op));
	twt_ofi_meet(&side);
	assert_int_equal(twt_finish(op, NULL), TOW_EPEER);
	for (uint64_t until = twi_now_ns() + 3 * TWT_SECOND; twi_now_ns() < until;)
		tow_progress(side.runtime);
	/* An endpoint that was given up connects to nobody any more. */
	TWT_OK(tow_endpoint_address(side.endpoint, address, sizeof(address)));
	TWT_OK(tow_connect_start(side.endpoint, address, NULL, &op));
	TWT_OK(tow_op_cancel(op));
	TWT_OK(tow_op_release(op));
	TWT_OK(tow_free(side.runtime, large));
	twt_ofi_close_pair(&side);
}

/* Sleeping waiters are woken. */
static int sleepy(struct twt_side *side, void *arg)
{
	uint8_t data[64], *large;

	(void)arg;
	TWT_OK(tow_alloc(side->runtime, 1 << 20, 0, (void **)&large));
	for (uint64_t i = 0; i < 20; i++) {
		twt_ofi_recv_wait(side, data, sizeof(data), i);
		usleep(3000);
		twt_ofi_send_wait(side, data, sizeof(data), i);
		twt_ofi_recv_wait(side, large, 1 << 20, 100 + i);
	}
	TWT_OK(tow_free(side->runtime, large));
	return 0;
}

static void test_sleep(void)
{
	uint8_t data[64] = { 0 }, *large;
	struct twt_side side;

	setenv("TOW_SPIN_NS", "0", 1);
	twt_ofi_open_pair(&side, sleepy);
	TWT_OK(tow_alloc(side.runtime, 1 << 20, 0, (void **)&large));
	for (uint64_t i = 0; i < 20; i++) {
		usleep(2000);
		twt_ofi_send_wait(&side, data, sizeof(data), i);
		twt_ofi_recv_wait(&side, data, sizeof(data), i);
		twt_ofi_send_wait(&side, large, 1 << 20, 100 + i);
	}
	TWT_OK(tow_free(side.runtime, large));
	twt_ofi_close_pair(&side);
}

/* A member of another job, which is told so; the endpoint goes on for its own. */
static int stranger(const char *where)
{
	struct tow_options options = TOW_OPTIONS_INIT;
	struct tow_endpoint *endpoint;
	struct tow_runtime *runtime;
	char address[TOW_ADDRESS_MAX];
	struct tow_op *op;
	int status;

	snprintf(address, sizeof(address), "ofi://%s", twt_ofi.provider);
	options.premap_memory_bytes = twt_ofi.pool_bytes;
	options.stats = 0;
	TWT_OK(tow_runtime_open(&options, &runtime));
	TWT_OK(tow_endpoint_open(runtime, address, &endpoint));
	TWT_OK(tow_connect_start(endpoint, where, NULL, &op));
	status = twt_finish(op, NULL);
	if (status != TOW_EAUTH)
		fprintf(stderr, "a stranger's connect: %s\n", tow_status_name(status));
	TWT_OK(tow_runtime_close(runtime));
	return status != TOW_EAUTH;
}

static void test_stranger(void)
{
	static const char *const keys[] = { "", "another key of another job" };
	char where[TOW_ADDRESS_MAX];
	struct twt_side side = { .child = 0 };
	struct tow_op *accept;
	pid_t child[2];
	int fds[2][2];

	/* the strangers are there before libfabric is */
	for (int i = 0; i < 2; i++) {
		assert_int_equal(pipe(fds[i]), 0);
		child[i] = fork();
		if (child[i] == 0) {
			setenv("TOW_JOB_KEY", keys[i], 1);
			if (read(fds[i][0], where, sizeof(where)) != (ssize_t)sizeof(where))
				_exit(99);
			_exit(stranger(where));
		}
	}
	setenv("TOW_JOB_KEY", "one key for all of the job", 1);
	twt_ofi_open_listener(&side);
	TWT_OK(tow_endpoint_address(side.endpoint, where, sizeof(where)));
	TWT_OK(tow_accept_start(side.endpoint, NULL, &accept));
	for (int i = 0; i < 2; i++) {
		int how = -1;

		assert_int_equal(write(fds[i][1], where, sizeof(where)), sizeof(where));
		for (int turn = 0; turn < 2000 && waitpid(child[i], &how, WNOHANG) == 0; turn++) {
			assert_int_equal(tow_op_test(accept), TOW_AGAIN);
			usleep(5000);
		}
		assert_true(WIFEXITED(how));
		assert_int_equal(WEXITSTATUS(how), 0);
	}
	assert_int_equal(tow_op_test(accept), TOW_AGAIN);
	TWT_OK(tow_op_release(accept));
	assert_true(twi_counter_sum(twi_runtime_engine(side.runtime)->diag,
				    TWI_C_handshakes_refused) >= 2);
	TWT_OK(tow_runtime_close(side.runtime));
}

/* libfabric takes no receive for so many calls. */
static struct {
	struct fi_ops_msg ops;
	const struct fi_ops_msg *real;
	int err;
	unsigned left, count;
} refusal;

static ssize_t refuse_recvmsg(struct fid_ep *ep, const struct fi_msg *msg, uint64_t flags)
{
	if (refusal.left == 0)
		return refusal.real->recvmsg(ep, msg, flags);
	refusal.left--;
	refusal.count++;
	return -refusal.err;
}

static void refuse_buffers(struct twt_side *side, int err, unsigned calls)
{
	struct twi_engine *engine = twi_runtime_engine(side->runtime);
	struct fid_ep *ep = twi_ofi_peer_of(side->peer)->port->ep;

	twi_engine_enter(engine);
	if (ep->msg != &refusal.ops) {
		refusal.ops = *ep->msg;
		refusal.real = ep->msg;
		refusal.ops.recvmsg = refuse_recvmsg;
	}
	refusal.err = err;
	refusal.left = calls;
	refusal.count = 0;
	ep->msg = &refusal.ops;
	twi_engine_leave(engine);
}

#define MANY       400
#define MANY_BYTES 8192

/* So many messages that every buffer must be posted again. It ends early when one fails. */
static int send_many(struct twt_side *side, void *arg)
{
	static uint8_t data[MANY_BYTES];
	struct tow_op *op;
	int status = TOW_OK;

	(void)arg;
	twt_ofi_meet(side);
	for (unsigned i = 0; i < MANY && status == TOW_OK; i++) {
		data[0] = (uint8_t)i;
		TWT_OK(tow_send_start(side->peer, data, sizeof(data), i, NULL, &op));
		status = twt_finish(op, NULL);
	}
	if (status == TOW_OK)
		twt_ofi_meet(side);
	return 0;
}

static int receive_many(struct twt_side *side)
{
	static uint8_t data[MANY_BYTES];
	int status = TOW_OK;

	for (unsigned i = 0; i < MANY && status == TOW_OK; i++) {
		struct tow_op *op;

		TWT_OK(tow_recv_start(side->peer, data, sizeof(data), i, NULL, &op));
		status = twt_finish(op, NULL);
		assert_true(status < 0 || data[0] == (uint8_t)i);
	}
	return status;
}

static int send_many_twice(struct twt_side *side, void *arg)
{
	return send_many(side, arg) + send_many(side, arg);
}

/*
 * A queue of libfabric's that is full for a while: its buffers are posted later. Twice, for what
 * passes does not add up.
 */
static void test_full_queue(void)
{
	struct twt_side side;

	setenv("TOW_SPIN_NS", "0", 1);
	twt_ofi_open_pair(&side, send_many_twice);
	for (int i = 0; i < 2; i++) {
		twt_ofi_meet(&side);
		refuse_buffers(&side, FI_EAGAIN, 90);
		TWT_OK(receive_many(&side));
		assert_int_equal(refusal.count, 90);
		twt_ofi_meet(&side);
		usleep(i == 0 ? 2100000 : 0);
	}
	twt_ofi_close_pair(&side);
}

static ssize_t refuse_read(struct fid_cq *cq, void *buf, size_t count)
{
	(void)cq, (void)buf, (void)count;
	return -FI_EOTHER;
}

/* The completion queue cannot be read any more. */
static void refuse_reads(struct twt_side *side)
{
	static struct fi_ops_cq ops;
	struct twi_engine *engine = twi_runtime_engine(side->runtime);
	struct fid_cq *cq = twi_ofi_peer_of(side->peer)->port->cq;

	twi_engine_enter(engine);
	ops = *cq->ops;
	ops.read = refuse_read;
	cq->ops = &ops;
	twi_engine_leave(engine);
}

/* err 0: it is not the buffers, but the queue. */
static void deaf_end(int err, const char *words)
{
	struct twt_side side;

	twt_ofi_open_pair(&side, send_many);
	twt_ofi_meet(&side);
	if (err != 0)
		refuse_buffers(&side, err, UINT_MAX);
	else
		refuse_reads(&side);
	assert_int_equal(receive_many(&side), TOW_EPEER);
	assert_non_null(strstr(tow_error_message(), words));
	twt_ofi_close_pair(&side);
}

/* An endpoint that receives nothing any more ends its peers, with the cause. */
static void test_deaf(void)
{
	setenv("TOW_PEER_TIMEOUT_NS", "2s", 1); /* the other side hears nothing of it */
	deaf_end(FI_EIO, "has stopped receiving: fi_recv: ");
	if (strcmp(twt_ofi.provider, "tcp;ofi_rxm") != 0)
		return;
	setenv("TOW_PEER_TIMEOUT_NS", "4s", 1); /* later than what is waited for */
	deaf_end(FI_EAGAIN, "has stopped receiving: fi_recv: ");
	deaf_end(0, "has stopped receiving: fi_cq_read: ");
}

static const struct twt_ofi_scenario table[] = {
	{ "sleep", test_sleep, false },         { "ends", test_ends, false },
	{ "false bye", test_false_bye, false }, { "lies", test_lies, false },
	{ "killed", test_killed, true },        { "stranger", test_stranger, false },
	{ "full", test_full_queue, false },     { "deaf", test_deaf, false },
};

#endif

int main(void)
{
	return twt_ofi_main(table, sizeof(table) / sizeof(table[0]));
}
