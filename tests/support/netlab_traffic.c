/* netlab_traffic.c - operations of a run between two namespaces. */
#include "netlab_traffic.h"

bool twt_nl_fail(struct twt_nl_traffic *t, const char *what, uint64_t number, int status)
{
	if (t->count->failure[0] == '\0')
		snprintf(t->count->failure, sizeof(t->count->failure), "side %d: %s (%llu): %s: %s",
			 t->side, what, (unsigned long long)number, tow_status_name(status),
			 status < 0 ? tow_error_message() : "");
	return false;
}

struct tow_op_options twt_nl_options(const struct twt_nl_traffic *t)
{
	struct tow_op_options options = TOW_OP_OPTIONS_INIT;

	options.timeout_ns = t->plan->deadline_ns;
	return options;
}

bool twt_nl_started(struct twt_nl_traffic *t, const char *what, uint64_t number, int status)
{
	return status == TOW_OK || twt_nl_fail(t, what, number, status);
}

bool twt_nl_excused(const struct twt_nl_traffic *t, int status)
{
	return t->gone && status == TOW_EPEER;
}

bool twt_nl_say(struct twt_nl_traffic *t, const void *data, uint64_t bytes, uint64_t tag,
		struct tow_op **op_out)
{
	struct tow_op_options options = twt_nl_options(t);

	return twt_nl_started(t, "send", tag,
			      tow_send_start(t->peer, data, bytes, tag, &options, op_out));
}

bool twt_nl_hear(struct twt_nl_traffic *t, void *data, uint64_t bytes, uint64_t tag,
		 struct tow_op **op_out)
{
	struct tow_op_options options = twt_nl_options(t);

	return twt_nl_started(t, "receive", tag,
			      tow_recv_start(t->peer, data, bytes, tag, &options, op_out));
}

bool twt_nl_ended(struct twt_nl_traffic *t, struct tow_op **op, int *status_out,
		  uint64_t *bytes_out)
{
	struct tow_result result = { .size = sizeof(result) };

	if (*op == NULL)
		return false;
	*status_out = tow_op_test(*op);
	if (*status_out == TOW_AGAIN)
		return false;
	tow_op_result(*op, &result);
	tow_op_release(*op);
	*op = NULL;
	*bytes_out = result.bytes;
	if (*status_out == TOW_EPEER && t->plan->may_go) {
		if (t->count->gone_ns == 0)
			t->count->gone_ns = twt_nl_now();
		t->gone = true;
		t->count->lost_after_gone++;
	}
	return true;
}
