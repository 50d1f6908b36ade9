/*
 * flight_home.h - the default folder of flight recorders' files: `flight` beside the stats socket,
 * of bounded size.
 */
#ifndef TWI_FLIGHT_HOME_H
#define TWI_FLIGHT_HOME_H

#define TWI_FLIGHT_HOME_FILES 256u

/*
 * Makes the folder (0700) if it is missing, and room in it for one file: the oldest files of this
 * user's jobs are deleted. TOW_OK; TOW_EPERM: the folder is another user's, or others can write to
 * it; TOW_ESYSTEM.
 */
int twi_flight_home_open(const char *folder);

#endif
