/* duo.c - two processes with options of their own, directly or through a proxy. */
#include "duo.h"

struct tow_options twt_duo_options(void)
{
	return twt_pair_options(8 << 20);
}

void twt_duo_init(struct twt_duo *duo)
{
	memset(duo, 0, sizeof(*duo));
	duo->parent = duo->child = twt_duo_options();
	duo->address = "tcp://127.0.0.1:0";
}

/* The child may have its own address and options. */
static void twt_duo_prepare(struct twt_pair_way *way)
{
	struct twt_duo *duo = way->arg;

	if (duo->prepare != NULL)
		duo->prepare(duo);
	way->child = duo->child;
	way->address = duo->address;
}

static void twt_duo_dial(char where[TOW_ADDRESS_MAX], void *arg)
{
	struct twt_duo *duo = arg;

	if (duo->proxied) {
		twt_proxy_open(&duo->proxy, where, duo->proxy_tap);
		snprintf(where, TOW_ADDRESS_MAX, "%s", duo->proxy.address);
	}
	if (duo->dialed != NULL) {
		char port[16];

		snprintf(port, sizeof(port), "%s", strrchr(where, ':') + 1);
		snprintf(where, TOW_ADDRESS_MAX, "tcp://%s:%s", duo->dialed, port);
	}
}

static int twt_duo_run(struct twt_side *side, void *arg)
{
	struct twt_duo *duo = arg;

	(void)side;
	return duo->run(duo);
}

void twt_duo_open(struct twt_duo *duo, int (*child)(struct twt_duo *duo))
{
	const struct twt_pair_way way = {
		.parent = duo->parent,
		.child = duo->child,
		.address = duo->address,
		.limit_s = 200,
		.prepare = twt_duo_prepare,
		.dial = twt_duo_dial,
		.run = twt_duo_run,
		.arg = duo,
	};

	duo->run = child;
	twt_pair_open(&duo->side, &way);
}

int twt_duo_end(struct twt_duo *duo)
{
	int how = twt_pair_end(&duo->side);

	if (duo->proxied)
		twt_proxy_close(&duo->proxy);
	return how;
}

/* The size of message i: every kind of path, half of the bytes in large ones. */
static size_t twt_duo_size(uint64_t i)
{
	static const uint32_t sizes[] = { 0,       8, 64,  4000,    16384, 20001, 300000,
					  1 << 20, 8, 100, 3000003, 13,    65536, TWT_DUO_LARGEST };

	return sizes[i % (sizeof(sizes) / sizeof(sizes[0]))];
}

int twt_duo_traffic(struct twt_duo *duo, uint64_t total, void (*tick)(struct twt_duo *))
{
	struct twt_side *side = &duo->side;
	uint64_t mine = side->child == 0 ? 1000000 : 0, theirs = 1000000 - mine, came = 0, i = 0;
	struct tow_op *sends[TWT_DUO_TURN], *recvs[TWT_DUO_TURN];
	uint8_t *out[TWT_DUO_TURN], *in[TWT_DUO_TURN];
	int bad = 0;

	for (int k = 0; k < TWT_DUO_TURN; k++) {
		out[k] = malloc(TWT_DUO_LARGEST);
		in[k] = malloc(TWT_DUO_LARGEST);
	}
	for (; came < total && bad == 0; i += TWT_DUO_TURN) {
		for (uint64_t k = 0; k < TWT_DUO_TURN; k++) {
			size_t n = twt_duo_size(i + k);

			memset(in[k], 0xee, 16);
			TWT_OK(tow_recv_start(side->peer, in[k], TWT_DUO_LARGEST, 5, NULL,
					      &recvs[k]));
			twt_fill(out[k], n, mine + i + k);
			TWT_OK(tow_send_start(side->peer, out[k], n, 5, NULL, &sends[k]));
		}
		for (uint64_t k = 0; k < TWT_DUO_TURN; k++) {
			struct tow_result result;
			int status = twt_finish(recvs[k], &result),
			    sent = twt_finish(sends[k], NULL);

			if (tick != NULL)
				tick(duo);
			if (status != TOW_OK || sent != TOW_OK) {
				fprintf(stderr, "message %llu: %s, %s: %s\n",
					(unsigned long long)(i + k), tow_status_name(status),
					tow_status_name(sent), tow_error_message());
				bad = 1;
			} else if (result.bytes != twt_duo_size(i + k) ||
				   twt_check(in[k], result.bytes, theirs + i + k) != 0) {
				fprintf(stderr, "message %llu has %llu bytes of %zu\n",
					(unsigned long long)(i + k),
					(unsigned long long)result.bytes, twt_duo_size(i + k));
				bad = 1;
			}
			came += result.bytes;
		}
	}
	for (int k = 0; k < TWT_DUO_TURN; k++) {
		free(out[k]);
		free(in[k]);
	}
	return bad;
}
