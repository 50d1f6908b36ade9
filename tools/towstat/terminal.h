/*
 * terminal.h - a terminal for a full-screen program: unbuffered keys and an alternate screen.
 *
 * The terminal is restored however the program ends. There is one terminal in a process, because
 * signal handlers have no argument by which to find it.
 */
#ifndef TOWSTAT_TERMINAL_H
#define TOWSTAT_TERMINAL_H

#include <stdbool.h>
#include <stddef.h>

enum {
	KEY_NONE = -1,
	KEY_UP = 256,
	KEY_DOWN,
	KEY_LEFT,
	KEY_RIGHT,
	KEY_HOME,
	KEY_END,
	KEY_PAGE_UP,
	KEY_PAGE_DOWN,
	KEY_ESCAPE,
	KEY_BACKSPACE,
	KEY_ENTER,
	KEY_STOP, /* ^Z */
	KEY_INTERRUPT,
};

/* Takes standard input and output as the terminal. Returns 0, or -1 with errno. */
int terminal_open(void);
void terminal_close(void);

/* The number of a signal that has come and ends the program; else 0. */
int terminal_signal(void);

/* A descriptor to poll beside standard input: it becomes readable when a signal comes. */
int terminal_wake_fd(void);
void terminal_wake_clear(void);

/* Asks for the columns and rows. They are 80 x 24 when they are not known. */
void terminal_size(size_t *columns_out, size_t *rows_out);

/* The next key that was typed; KEY_NONE: no more. *gone_out: the terminal has hung up. */
int terminal_key(bool *gone_out);

/* Writes the text. A terminal that takes nothing for a second ends the call. */
void terminal_write(const char *text, size_t bytes);

/* Restores the terminal, stops the process, and takes the terminal again when continued. */
void terminal_stop(void);

#endif
