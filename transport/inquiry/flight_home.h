/*
 * flight_home.h - the folder in which flight recorders' files are kept where nobody names one:
 * `flight` beside the stats socket, of bounded size.
 */
#ifndef TWI_FLIGHT_HOME_H
#define TWI_FLIGHT_HOME_H

#define TWI_FLIGHT_HOME_FILES 256u

/*
 * Makes it (0700) where it is missing, and room in it for one file: the oldest go, of all jobs of
 * this user. TOW_OK; TOW_EPERM: it is another user's, or others can write to it; TOW_ESYSTEM.
 */
int twi_flight_home_open(const char *folder);

#endif
