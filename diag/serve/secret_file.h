/*
 * secret_file.h - files that knobs name and that hold a secret: a token, the job's key.
 */
#ifndef TWI_SECRET_FILE_H
#define TWI_SECRET_FILE_H

/*
 * May what is open here hold a secret? It is judged by its descriptor, not by its name, so that
 * nobody can swap it between the look and the read. TOW_EPERM: it is no regular file, is another's
 * than this process's user's or root's, or others may use it; TOW_ESYSTEM. `knob` and `path` are
 * for the message.
 */
int twi_secret_file_judge(int fd, const char *knob, const char *path);

#endif
