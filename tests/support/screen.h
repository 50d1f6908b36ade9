/*
 * screen.h - a program in a terminal of its own, and what that terminal shows: as much of one as
 * our programs use.
 *
 * Every wait is bounded; what is left over is ended by its pid.
 */
#ifndef TWT_SCREEN_H
#define TWT_SCREEN_H

#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>
#include <utmp.h>

#include "twt.h"

#define TWT_SCREEN_ROWS    64
#define TWT_SCREEN_COLUMNS 240

struct twt_screen {
	int fd, slave; /* slave: kept open, to see what the program leaves behind */
	pid_t pid;
	struct termios before;
	size_t rows, columns, row, column;
	bool alternate, hidden; /* the alternate screen; the cursor */
	char cells[TWT_SCREEN_ROWS][TWT_SCREEN_COLUMNS + 1];
	/* inside: an escape sequence that is not whole yet */
	size_t pending;
	char escape[32];
};

void twt_screen_clear(struct twt_screen *screen, size_t from);

void twt_screen_size(struct twt_screen *screen, size_t rows, size_t columns);

void twt_screen_open(struct twt_screen *screen, const char *const *arguments);

/* What came within a moment; false: nothing did. */
bool twt_screen_read(struct twt_screen *screen);

/* Until the words are there, or are not: 150 s at most. */
void twt_screen_await(struct twt_screen *screen, const char *words, bool there);

void twt_screen_type(struct twt_screen *screen, const char *keys);

/* Waits for the end, 150 s at most; as the shell says its status. The terminal is as it was. */
int twt_screen_end(struct twt_screen *screen);

#endif
