/* lone_peer.c - see lone_peer.h. */
#include "lone_peer.h"

#include <string.h>

#include "transport/lanes/lane.h"

void twt_lone_open(struct tow_runtime **runtime_out, struct twi_engine **engine_out,
		   struct tow_peer **peer_out)
{
	static const struct twi_lane_ops lane_ops = { .id = TWI_LANE_LOOP };
	static struct twi_lane lane = { .ops = &lane_ops };
	struct tow_options options = TOW_OPTIONS_INIT;
	struct tow_peer *peer = calloc(1, sizeof(*peer));

	assert_non_null(peer);
	options.premap_memory_bytes = 1 << 20;
	assert_int_equal(twi_runtime_open_sim(&options, runtime_out), TOW_OK);
	*engine_out = twi_runtime_engine(*runtime_out);
	twi_engine_enter(*engine_out);
	strcpy(peer->address, "loop://them");
	peer->engine = *engine_out;
	peer->lane = &lane;
	twi_peer_claims_init(&peer->claims);
	*peer_out = peer;
}

int twt_lone_close(struct tow_runtime *runtime, struct tow_peer *peer)
{
	free(peer);
	twi_engine_leave(twi_runtime_engine(runtime));
	return tow_runtime_close(runtime);
}
