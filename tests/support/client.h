/*
 * client.h - a client of the stats over unix sockets or TCP, as simple as can be.
 */
#ifndef TWT_CLIENT_H
#define TWT_CLIENT_H

#include "twt.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* Connects to `path` by a unix socket of `type`; -1: refused. Everything later is given up after
 * 10 s. */
int twt_dial(const char *path, int type);

/* Connects to 127.0.0.1:PORT of `address`. */
int twt_dial_tcp(const char *address);

/* Sends `request` and reads until the other side hangs up; closes fd. free() the text. */
char *twt_talk(int fd, const char *request);

const char *twt_body(const char *answer);

int twt_http_status(const char *answer);

/* Runs a script of tests/support with an argument, its input a text or NULL. Returns its exit
 * status; 77 too without a Python or the source. */
int twt_python(const char *script, const char *arg, const char *input);

#endif
