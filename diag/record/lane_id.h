/*
 * lane_id.h - the lanes, in one list: diag counts by lane without knowing what a lane is.
 */
#ifndef TWI_LANE_ID_H
#define TWI_LANE_ID_H

/* X(name in capitals, name) */
#define TWI_LANE_MAP(X)                                                                            \
	X(LOOP, "loop")                                                                            \
	X(TCP, "tcp")                                                                              \
	X(SHM, "shm")                                                                              \
	X(OFI, "ofi")

enum twi_lane_id {
#define TWI_LANE_ENUM(id, name) TWI_LANE_##id,
	TWI_LANE_MAP(TWI_LANE_ENUM)
#undef TWI_LANE_ENUM
		TWI_LANE_COUNT
};

const char *twi_lane_name(enum twi_lane_id lane);

#endif
