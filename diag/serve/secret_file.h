/*
 * secret_file.h - checks files that knobs name and that hold a secret: a token, the job's key.
 */
#ifndef TWI_SECRET_FILE_H
#define TWI_SECRET_FILE_H

/*
 * May the open file hold a secret? It is judged by its descriptor, so that no process can exchange
 * the file between check and read. TOW_EPERM: it is not a regular file, it belongs to neither this
 * process's user nor root, or others may use it. TOW_ESYSTEM. Messages name `knob` and `path`.
 */
int twi_secret_file_judge(int fd, const char *knob, const char *path);

#endif
