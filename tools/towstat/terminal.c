/*
 * terminal.c - see terminal.h.
 *
 * Restoring the terminal takes two system calls, tcsetattr and write, which a signal handler may
 * make. So after a fault the terminal works, and the process ends with the fault's own signal.
 */
#include "tools/towstat/terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#define WRITE_MS  1000
#define ESCAPE_MS 25 /* a byte that comes later is another key, not part of an escape */

/* Alternate screen, hidden cursor and no wrapping at the edge; and the reverse. */
static const char enter_text[] = "\033[?1049h\033[?25l\033[?7l\033[2J";
static const char leave_text[] = "\033[0m\033[?7h\033[?25h\033[?1049l";

static struct {
	volatile sig_atomic_t open, stopping, ended; /* ended: number of a signal */
	struct termios before;
	int wake[2];
	unsigned char typed[64];
	size_t typed_count, typed_at;
} term = { .wake = { -1, -1 } };

static const int ending[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE };
static const int faults[] = { SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL };

static void give_back(void)
{
	ssize_t wrote;

	if (!term.open)
		return;
	term.open = 0;
	wrote = write(STDOUT_FILENO, leave_text, sizeof(leave_text) - 1);
	(void)wrote; /* an error cannot be reported here */
	tcsetattr(STDIN_FILENO, TCSANOW, &term.before);
}

static void on_fault(int number)
{
	give_back();
	raise(number); /* SA_RESETHAND: this time it ends the process */
}

static void on_signal(int number)
{
	int err = errno;
	ssize_t wrote;

	if (number == SIGTSTP)
		term.stopping = 1;
	else if (number != SIGWINCH && number != SIGCONT)
		term.ended = number;
	wrote = write(term.wake[1], "", 1);
	(void)wrote; /* a full pipe wakes the reader as well */
	errno = err;
}

static void set_handler(int number, void (*handler)(int), int flags)
{
	struct sigaction action = { .sa_handler = handler, .sa_flags = flags };

	sigemptyset(&action.sa_mask);
	sigaction(number, &action, NULL);
}

static void take_terminal(void)
{
	struct termios raw = term.before;

	/* Keys that send signals come as bytes, so that the main loop ends the program. */
	raw.c_iflag &= ~(tcflag_t)(IXON | ICRNL | INLCR | ISTRIP);
	raw.c_lflag &= ~(tcflag_t)(ECHO | ICANON | ISIG | IEXTEN);
	raw.c_cc[VMIN] = 0;
	raw.c_cc[VTIME] = 0;
	term.open = 1;
	tcsetattr(STDIN_FILENO, TCSANOW, &raw);
	terminal_write(enter_text, sizeof(enter_text) - 1);
}

int terminal_open(void)
{
	if (tcgetattr(STDIN_FILENO, &term.before) != 0 ||
	    pipe2(term.wake, O_CLOEXEC | O_NONBLOCK) != 0)
		return -1;
	atexit(give_back);
	for (size_t i = 0; i < sizeof(ending) / sizeof(ending[0]); i++)
		set_handler(ending[i], on_signal, SA_RESTART);
	for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++)
		set_handler(faults[i], on_fault, (int)SA_RESETHAND | SA_NODEFER);
	set_handler(SIGWINCH, on_signal, SA_RESTART);
	set_handler(SIGCONT, on_signal, SA_RESTART);
	set_handler(SIGTSTP, on_signal, SA_RESTART);
	take_terminal();
	return 0;
}

void terminal_close(void)
{
	give_back();
}

int terminal_signal(void)
{
	return term.ended;
}

int terminal_wake_fd(void)
{
	return term.wake[0];
}

void terminal_wake_clear(void)
{
	char bytes[64];

	while (read(term.wake[0], bytes, sizeof(bytes)) > 0)
		continue;
}

void terminal_size(size_t *columns_out, size_t *rows_out)
{
	struct winsize size;

	*columns_out = 80;
	*rows_out = 24;
	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 && size.ws_row > 0) {
		*columns_out = size.ws_col;
		*rows_out = size.ws_row;
	}
}

/* The next byte typed. -1: none within the time; -2: the terminal is gone. */
static int typed_byte(int wait_ms)
{
	struct pollfd polled = { STDIN_FILENO, POLLIN, 0 };
	ssize_t got;

	if (term.typed_at < term.typed_count)
		return term.typed[term.typed_at++];
	if (poll(&polled, 1, wait_ms) <= 0)
		return -1;
	got = read(STDIN_FILENO, term.typed, sizeof(term.typed));
	if (got <= 0)
		return got < 0 && (errno == EINTR || errno == EAGAIN) ? -1 : -2;
	term.typed_count = (size_t)got;
	term.typed_at = 1;
	return term.typed[0];
}

/* Reads the rest of an escape sequence, such as "[A", "OA" or "[5~". Unknown ones are skipped. */
static int escape_key(void)
{
	static const struct {
		int last, key;
	} keys[] = { { 'A', KEY_UP },      { 'B', KEY_DOWN },      { 'C', KEY_RIGHT },
		     { 'D', KEY_LEFT },    { 'H', KEY_HOME },      { 'F', KEY_END },
		     { '5', KEY_PAGE_UP }, { '6', KEY_PAGE_DOWN }, { '1', KEY_HOME },
		     { '4', KEY_END },     { '7', KEY_HOME },      { '8', KEY_END } };
	int byte = typed_byte(ESCAPE_MS), number = 0, last;

	if (byte != '[' && byte != 'O')
		return KEY_ESCAPE;
	do {
		last = typed_byte(ESCAPE_MS);
		if (last >= '0' && last <= '9' && number == 0)
			number = last;
	} while (last >= 0x20 && last < 0x40);
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		if ((last == '~' ? number : last) == keys[i].last)
			return keys[i].key;
	}
	return KEY_NONE;
}

int terminal_key(bool *gone_out)
{
	int byte;

	*gone_out = false;
	if (term.stopping) {
		term.stopping = 0;
		return KEY_STOP;
	}
	do {
		byte = typed_byte(0);
		if (byte < 0) {
			*gone_out = byte == -2;
			return KEY_NONE;
		}
		if (byte == 0x1b)
			byte = escape_key();
	} while (byte == KEY_NONE);
	switch (byte) {
	case 0x03:
		return KEY_INTERRUPT;
	case 0x1a:
		return KEY_STOP;
	case 0x08:
	case 0x7f:
		return KEY_BACKSPACE;
	case '\r':
	case '\n':
		return KEY_ENTER;
	default:
		return byte;
	}
}

void terminal_write(const char *text, size_t bytes)
{
	struct pollfd polled = { STDOUT_FILENO, POLLOUT, 0 };

	while (bytes > 0) {
		ssize_t wrote;

		/*
		 * After ^S, or when nothing reads the terminal, this picture is dropped. The next
		 * one replaces it.
		 */
		if (poll(&polled, 1, WRITE_MS) == 0)
			return;
		wrote = write(STDOUT_FILENO, text, bytes < 512 ? bytes : 512);
		if (wrote < 0 && errno != EINTR && errno != EAGAIN)
			return;
		if (wrote > 0) {
			text += wrote;
			bytes -= (size_t)wrote;
		}
	}
}

void terminal_stop(void)
{
	give_back();
	raise(SIGSTOP);
	tcgetattr(STDIN_FILENO, &term.before);
	take_terminal();
}
