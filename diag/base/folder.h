/*
 * folder.h - makes folders for one user alone.
 */
#ifndef TWI_FOLDER_H
#define TWI_FOLDER_H

/*
 * Makes the folder `path`, whose mode is 0700 whatever the umask. With a umask that takes the
 * owner's rights too, neither this process nor a later one could use what mkdir makes. Returns 0,
 * also where something of that name exists, or an errno value.
 */
int twi_folder_make(const char *path);

#endif
