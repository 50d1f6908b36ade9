/*
 * sized.h - public structs that begin with their size, so that caller or library may be older.
 *
 * A caller and the library may be built from different headers. A struct only grows at its end, and
 * its first member is the size that the caller knows. One rule holds for every such struct
 * (docs/abi.md):
 *
 *	          size                     known to the library
 *	in   |----- given ------|......... initial values .........|     an older caller
 *	in   |----------------- given -----------------|-- unset --|     a newer caller
 *	out  |---- written -----|  the rest is not touched               an older caller
 *	out  |---------------- written ----------------|-- zeros --|     a newer caller
 *
 * A newer caller must leave unset what lies behind the part that the library knows. Unset is 0,
 * NULL, -1 or TOW_FOREVER. Else the call is refused, as an option that is silently ignored would
 * give a wrong answer. libbpf's option structs have the same rule. Here -1 is unset too, since 0 is
 * a valid value of many knobs.
 */
#ifndef TWI_SIZED_H
#define TWI_SIZED_H

#include <stddef.h>

#include <internal/base.h>
#include <towline/coll.h>
#include <towline/device.h>
#include <towline/endpoint.h>
#include <towline/foreign.h>
#include <towline/group.h>
#include <towline/group_message.h>
#include <towline/interface.h>
#include <towline/match.h>
#include <towline/rpc.h>
#include <towline/runtime.h>
#include <towline/stats.h>

/* X(struct, initialiser): the only list of these structs. First, those that the caller gives. */
#define TWI_SIZED_IN_MAP(X)                                                                        \
	X(tow_options, TOW_OPTIONS_INIT)                                                           \
	X(tow_op_options, TOW_OP_OPTIONS_INIT)                                                     \
	X(tow_match, TOW_MATCH_INIT)                                                               \
	X(tow_group_match, TOW_GROUP_MATCH_INIT)                                                   \
	X(tow_group_options, TOW_GROUP_OPTIONS_INIT)                                               \
	X(tow_coll_options, TOW_COLL_OPTIONS_INIT)                                                 \
	X(tow_method_options, TOW_METHOD_OPTIONS_INIT)                                             \
	X(tow_call_options, TOW_CALL_OPTIONS_INIT)                                                 \
	X(tow_foreign_options, TOW_FOREIGN_OPTIONS_INIT)                                           \
	X(tow_foreign_coll, TOW_FOREIGN_COLL_INIT)                                                 \
	X(tow_foreign_message, TOW_FOREIGN_MESSAGE_INIT)
#define TWI_SIZED_OUT_MAP(X)                                                                       \
	X(tow_result, TOW_RESULT_INIT)                                                             \
	X(tow_call_result, TOW_CALL_RESULT_INIT)                                                   \
	X(tow_job_info, TOW_JOB_INFO_INIT)                                                         \
	X(tow_device_info, TOW_DEVICE_INFO_INIT)                                                   \
	X(tow_knob_info, TOW_KNOB_INFO_INIT)                                                       \
	X(tow_counter_info, TOW_COUNTER_INFO_INIT)                                                 \
	X(tow_reason_info, TOW_REASON_INFO_INIT)                                                   \
	X(tow_status_info, TOW_STATUS_INFO_INIT)                                                   \
	X(tow_lane_info, TOW_LANE_INFO_INIT)                                                       \
	X(tow_interface_info, TOW_INTERFACE_INFO_INIT)

enum twi_sized {
#define TWI_SIZED_ENUM(type, init) TWI_SIZED_##type,
	TWI_SIZED_IN_MAP(TWI_SIZED_ENUM) TWI_SIZED_OUT_MAP(TWI_SIZED_ENUM)
#undef TWI_SIZED_ENUM
		TWI_SIZED_COUNT
};

/* A struct of the list, for tests. `initial` is NULL for those that only the library fills. */
struct twi_sized_info {
	const char *name;    /* without "struct" */
	const char *init;    /* the name of its initialiser */
	const void *initial; /* its initial value */
	size_t bytes;
};

const struct twi_sized_info *twi_sized_describe(enum twi_sized which);

/*
 * Copies the caller's struct `in`, which has another size, to `known` in the library's size.
 * Messages name `call`. TOW_EINVAL: the size is impossible, or members are set that this library
 * does not know. Use TWI_SIZED_IN.
 */
int twi_sized_adapt(enum twi_sized which, const char *call, const void *in, void *known);

/*
 * Copies the library's struct to the caller's. The caller has set the size in its own, and the size
 * stays. TOW_EINVAL for NULL and for an impossible size. Use TWI_SIZED_OUT.
 */
int twi_sized_give(enum twi_sized which, const char *call, const void *known, void *out);

/* Can `out` be written? For calls that must refuse before they have an effect. */
int twi_sized_check_out(enum twi_sized which, const char *call, const void *out);

/*
 * Takes `options`, a pointer to a const struct `type` or NULL. Afterwards it points to a struct of
 * the library's size: the caller's own where the sizes are equal, else `room`.
 */
#define TWI_SIZED_IN(type, call, options, room)                                                    \
	(twi_likely((options) == NULL || (options)->size == sizeof(struct type)) ? TOW_OK          \
	 : twi_sized_adapt(TWI_SIZED_##type, call, options, room) < 0                              \
		 ? TOW_EINVAL                                                                      \
		 : ((options) = (room), TOW_OK))

/* Copies `known`, a struct `type`, to the caller's `out`. */
#define TWI_SIZED_OUT(type, call, known, out)                                                      \
	twi_sized_give(TWI_SIZED_##type, call, (const struct type *){ (known) },                   \
		       (struct type *){ (out) })

#endif
