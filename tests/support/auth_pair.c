/* auth_pair.c - both ends of a handshake, and the wire between them. */
#include "auth_pair.h"

struct twi_job_key twt_job_key(unsigned how, uint8_t number)
{
	struct twi_job_key key = { .set = how != 0, .encrypt = how == ENCRYPTED };

	if (key.set)
		memset(key.bytes, number, sizeof(key.bytes));
	return key;
}

void twt_auth_open(struct twt_auth_pair *p, const struct twi_job_key *connector,
		   const struct twi_job_key *acceptor)
{
	memset(p, 0xa5, sizeof(*p));
	memset(p->wire, 0, sizeof(p->wire));
	twi_auth_start(&p->auth[0], connector, true, "tcp");
	twi_auth_start(&p->auth[1], acceptor, false, "tcp");
	p->status[0] = p->status[1] = TOW_AGAIN;
}

void twt_auth_speak(struct twt_auth_pair *p, int who)
{
	uint8_t out[TWI_AUTH_OUT_MAX];
	size_t bytes = twi_auth_out(&p->auth[who], out);

	assert_true(p->wire[who].said + bytes <= sizeof(p->wire[who].bytes));
	memcpy(p->wire[who].bytes + p->wire[who].said, out, bytes);
	p->wire[who].said += bytes;
}

bool twt_auth_hear(struct twt_auth_pair *p, int who, size_t step)
{
	struct twt_said *from = &p->wire[!who];
	size_t bytes = from->said - from->heard, used;

	if (bytes == 0 || p->status[who] != TOW_AGAIN)
		return false;
	bytes = bytes < step ? bytes : step;
	p->status[who] = twi_auth_in(&p->auth[who], from->bytes + from->heard, bytes, &used);
	assert_true(used <= bytes);
	if (p->status[who] == TOW_AGAIN)
		assert_int_equal(used, bytes);
	from->heard += used;
	return true;
}

void twt_auth_run(struct twt_auth_pair *p, size_t step)
{
	bool moved = true;

	while (moved) {
		twt_auth_speak(p, 0);
		twt_auth_speak(p, 1);
		moved = twt_auth_hear(p, 1, step);
		moved |= twt_auth_hear(p, 0, step);
	}
}
