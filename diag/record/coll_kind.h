/*
 * coll_kind.h - the kinds of collectives in one list. So diag can name them without knowing how a
 * collective is carried out (lane_id.h does the same for lanes).
 */
#ifndef TWI_COLL_KIND_H
#define TWI_COLL_KIND_H

/* X(name, text) */
#define TWI_COLL_MAP(X)                                                                            \
	X(ALL_REDUCE, "all-reduce")                                                                \
	X(REDUCE_SCATTER, "reduce-scatter")                                                        \
	X(ALL_GATHER, "all-gather")                                                                \
	X(ALL_GATHER_V, "all-gather-v")                                                            \
	X(BROADCAST, "broadcast")                                                                  \
	X(REDUCE, "reduce")                                                                        \
	X(GATHER, "gather")                                                                        \
	X(SCATTER, "scatter")                                                                      \
	X(ALL_TO_ALL, "all-to-all")                                                                \
	X(ALL_TO_ALL_V, "all-to-all-v")                                                            \
	X(PERMUTE, "permute")                                                                      \
	X(BARRIER, "barrier")                                                                      \
	X(SEND_RECEIVE, "send-receive")

enum twi_coll_kind {
#define TWI_COLL_ENUM(name, text) TWI_COLL_##name,
	TWI_COLL_MAP(TWI_COLL_ENUM)
#undef TWI_COLL_ENUM
		TWI_COLL_KINDS
};

/* The name of a collective that the library has fused from several calls: "<number> combined". */
#define TWI_COLL_COMBINED "combined"

/* "?" if there is no such kind. */
const char *twi_coll_kind_name(enum twi_coll_kind kind);

#endif
