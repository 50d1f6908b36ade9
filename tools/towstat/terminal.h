/*
 * terminal.h - a terminal for a program that draws all of it: keys unbuffered, an alternate screen,
 * and everything as it was before, however the program ends.
 *
 * One at a time in a process: what signals restore has to be found without an argument.
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

/* 0, or -1 with errno. Standard input and output are the terminal. */
int terminal_open(void);
void terminal_close(void);

/* A signal that ends the program has come: its number, else 0. */
int terminal_signal(void);

/* Readable when a signal has come: to be polled beside standard input. */
int terminal_wake_fd(void);
void terminal_wake_clear(void);

/* Columns and rows, asked anew; 80 x 24 where nobody knows. */
void terminal_size(size_t *columns_out, size_t *rows_out);

/* One key of what has been typed; KEY_NONE: no more. *gone_out: the terminal hung up. */
int terminal_key(bool *gone_out);

/* All of it, or nothing more: a terminal that takes nothing is waited for a second at most. */
void terminal_write(const char *text, size_t bytes);

/* Gives the terminal back, stops, and takes it again when continued. */
void terminal_stop(void);

#endif
