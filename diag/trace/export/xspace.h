/*
 * xspace.h - writes an XSpace: planes of lines of events, each event with its stats.
 *
 *	space --- planes --- lines --- events --- stats
 *	                \--- names of events and stats, by number
 *
 * Parts that grow with the trace (space, plane, line) are written in pieces (packed.h). So only
 * their bytes are in memory.
 *
 * The plane /host:CPU has each span once, as an event with the stats tow_*. A trace is read back
 * from these. The plane Towline lists the ranks. All other planes are views for XProf.
 */
#ifndef TWI_XSPACE_H
#define TWI_XSPACE_H

#include <stdbool.h>
#include <stdint.h>

#include "diag/trace/delivery.h"
#include "diag/trace/export/names.h"
#include "diag/trace/export/ops.h"
#include "diag/trace/export/packed.h"
#include "diag/trace/export/show.h"
#include <diag/trace/export/xspace.pb-c.h>

/*
 * Stats by name. Those named tow_* are read back. The others have the names and types that XProf
 * and Megascale's tools look for. These tools silently ignore a stat of another type.
 */
#define TWI_STAT_MAP(X)                                                                            \
	X(KIND, "tow_kind")                                                                        \
	X(START, "tow_start_ns")                                                                   \
	X(TOOK, "tow_duration_ns")                                                                 \
	X(ID, "tow_id")                                                                            \
	X(PARENT, "tow_parent")                                                                    \
	X(BYTES, "tow_bytes")                                                                      \
	X(QUEUE, "tow_queue_ns")                                                                   \
	X(WIRE, "tow_wire_ns")                                                                     \
	X(RANKS, "tow_ranks")                                                                      \
	X(MATCH, "tow_match_ns")                                                                   \
	X(SERVER_QUEUE, "tow_server_queue_ns")                                                     \
	X(NAME, "tow_name")                                                                        \
	X(PEER, "tow_peer")                                                                        \
	X(LANE, "tow_lane")                                                                        \
	X(DETAIL, "tow_detail")                                                                    \
	X(STATUS, "tow_status")                                                                    \
	X(RANK, "tow_rank")                                                                        \
	X(LATENCY, "tow_latency_ns")                                                               \
	X(UNFINISHED, "unfinished")                                                                \
	X(REASON, "reason")                                                                        \
	X(LANE_TEXT, "lane")                                                                       \
	X(PEER_TEXT, "peer")                                                                       \
	X(DCN_LABEL, "dcn_label")                                                                  \
	X(DCN_SOURCE_SLICE, "dcn_source_slice_id")                                                 \
	X(DCN_SOURCE_DEVICE, "dcn_source_per_slice_device_id")                                     \
	X(DCN_DESTINATION_SLICE, "dcn_destination_slice_id")                                       \
	X(DCN_DESTINATION_DEVICE, "dcn_destination_per_slice_device_id")                           \
	X(DCN_CHUNK, "dcn_chunk")                                                                  \
	X(DCN_LOOP, "dcn_loop_index")                                                              \
	X(PAYLOAD, "payload_size_bytes")                                                           \
	X(DURATION_US, "duration_us")                                                              \
	X(STEP_NUM, "step_num")                                                                    \
	X(GRAPH_KEY, "graph_key")                                                                  \
	X(LOCAL_DEVICE, "local_device_id")                                                         \
	X(COLLECTIVE_TYPE, "collective_type")                                                      \
	X(INPUT_SIZE, "input_size")                                                                \
	X(ACTION_TYPE, "action_type")                                                              \
	X(START_END, "start_end_type")                                                             \
	X(ACTION_INDEX, "action_index")                                                            \
	X(ACTION_DURATION, "action_duration_ns")                                                   \
	X(BUFFER_SIZES, "buffer_sizes")                                                            \
	X(TRANSPORT_LATENCY, "network_transport_latency_us")                                       \
	X(LAUNCH_ID, "launch_id")                                                                  \
	X(RUN_ID, "run_id")                                                                        \
	X(PROGRAM_ID, "program_id")                                                                \
	X(HLO_CATEGORY, "hlo_category")                                                            \
	X(DCN_INFO, "dcn_collective_info")                                                         \
	X(HLO_PROTO, "Hlo Proto")                                                                  \
	X(TRACE_RANK, "rank")                                                                      \
	X(BEGIN, "profile_start_time")                                                             \
	X(END, "profile_stop_time")

enum twi_stat {
	TWI_STAT_NONE, /* ids begin at 1 */
#define TWI_STAT_ENUM(id, name) TWI_STAT_##id,
	TWI_STAT_MAP(TWI_STAT_ENUM)
#undef TWI_STAT_ENUM
		TWI_STAT_COUNT
};

const char *twi_stat_name(enum twi_stat stat);

#define TWI_LINE_STATS 32

/* The stats of one event, while they are gathered. */
struct twi_stats {
	size_t count;
	Twi__XStat rows[TWI_LINE_STATS];
	Twi__XStat *pointers[TWI_LINE_STATS];
};

void twi_stats_u64(struct twi_stats *s, enum twi_stat stat, uint64_t value);
void twi_stats_i64(struct twi_stats *s, enum twi_stat stat, int64_t value);
/* The text must live until the event is added. NULL: no stat. */
void twi_stats_text(struct twi_stats *s, enum twi_stat stat, const char *text);
void twi_stats_bytes(struct twi_stats *s, enum twi_stat stat, const struct twi_packed *bytes);

struct twi_plane {
	struct twi_packed out, line;
	bool used[TWI_STAT_COUNT];
	struct twi_names names; /* of events */
	int64_t line_start_ns;
};

/* The name of an event, and what all events of that name share. */
struct twi_event_name {
	const char *name, *display_name; /* display_name NULL: none */
	const struct twi_stats *stats;   /* NULL: none */
};

void twi_plane_init(struct twi_plane *plane, int64_t id, const char *name);
void twi_plane_fini(struct twi_plane *plane);
/* The number of a name. Equal names have the same number. */
int64_t twi_plane_event_name(struct twi_plane *plane, const struct twi_event_name *name);
void twi_plane_stat(struct twi_plane *plane, const struct twi_stats *stats);
void twi_plane_line_begin(struct twi_plane *plane, int64_t id, const char *name,
			  const char *display_name, int64_t start_ns);
/* Adds an event to the line; times are as from twi_show_at. */
void twi_plane_event(struct twi_plane *plane, int64_t name, int64_t start_ns, uint64_t took_ns,
		     const struct twi_stats *stats);
void twi_plane_line_end(struct twi_plane *plane);
/* Writes the plane to the space. */
void twi_plane_end(struct twi_plane *plane, struct twi_packed *space);

/* Write the parts of a space, each one or more planes. */
void twi_xspace_host(const struct twi_trace *trace, const struct twi_deliveries *deliveries,
		     struct twi_packed *space);
void twi_xspace_ranks(const struct twi_trace *trace, struct twi_packed *space);
void twi_xspace_devices(const struct twi_trace *trace, const struct twi_ops *ops,
			struct twi_packed *space);
void twi_xspace_megascale(const struct twi_trace *trace, const struct twi_ops *ops,
			  const struct twi_deliveries *deliveries, struct twi_packed *space);
/* Writes the time of the whole trace, as UNIX time. */
void twi_xspace_time(const struct twi_trace *trace, struct twi_packed *space);
/* Writes the program that the devices run. Without it XProf cannot tell to what an op belongs. */
void twi_xspace_program(const struct twi_ops *ops, struct twi_packed *space);
#define TWI_XSPACE_PROGRAM    "towline"
#define TWI_XSPACE_PROGRAM_ID 1

/* Ids of lines in /host:CPU count all threads, from 1. */
#define TWI_XSPACE_HOST_PLANE  "/host:CPU"
#define TWI_XSPACE_RANKS_PLANE "Towline"

#endif
