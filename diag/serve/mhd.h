/*
 * mhd.h - loads libmicrohttpd when the stats are first served (diag/base/lazy.h).
 */
#ifndef TWI_MHD_H
#define TWI_MHD_H

#include <microhttpd.h>

/* The functions that we call. */
#define TWI_MHD_MAP(X)                                                                             \
	X(add_connection)                                                                          \
	X(add_response_header)                                                                     \
	X(create_response_from_buffer)                                                             \
	X(create_response_from_callback)                                                           \
	X(destroy_response)                                                                        \
	X(get_connection_info)                                                                     \
	X(get_connection_values)                                                                   \
	X(lookup_connection_value)                                                                 \
	X(queue_response)                                                                          \
	X(resume_connection)                                                                       \
	X(set_response_options)                                                                    \
	X(start_daemon)                                                                            \
	X(stop_daemon)                                                                             \
	X(suspend_connection)

struct twi_mhd {
#define TWI_MHD_MEMBER(name) __typeof__(&MHD_##name) name;
	TWI_MHD_MAP(TWI_MHD_MEMBER)
#undef TWI_MHD_MEMBER
};

/* Set once twi_mhd_load has returned TOW_OK. */
extern struct twi_mhd twi_mhd;

/* TOW_OK. TOW_ENOTSUP: the library cannot be loaded; the message says why. */
int twi_mhd_load(void);

#endif
