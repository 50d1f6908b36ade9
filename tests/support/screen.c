/* screen.c - a terminal's screen, from what a program writes to it. */
#include "screen.h"

#include "diag/base/clock.h"

/* A machine was seen on which no program that looks into /proc went on for 60 to 100 s. */
#define PATIENCE_NS (150ull * 1000 * 1000 * 1000)

void twt_screen_clear(struct twt_screen *screen, size_t from)
{
	for (size_t i = from; i < TWT_SCREEN_ROWS; i++)
		snprintf(screen->cells[i], sizeof(screen->cells[i]), "%*s", TWT_SCREEN_COLUMNS, "");
}

void twt_screen_size(struct twt_screen *screen, size_t rows, size_t columns)
{
	const struct winsize size = { .ws_row = (unsigned short)rows,
				      .ws_col = (unsigned short)columns };

	screen->rows = rows;
	screen->columns = columns;
	assert_int_equal(ioctl(screen->fd, TIOCSWINSZ, &size), 0);
}

void twt_screen_open(struct twt_screen *screen, const char *const *arguments)
{
	const struct winsize size = { .ws_row = 20, .ws_col = 150 };

	*screen = (struct twt_screen){ .rows = 20, .columns = 150 };
	twt_screen_clear(screen, 0);
	assert_int_equal(openpty(&screen->fd, &screen->slave, NULL, NULL, &size), 0);
	assert_int_equal(tcgetattr(screen->slave, &screen->before), 0);
	fcntl(screen->fd, F_SETFD, FD_CLOEXEC);
	fflush(stdout);
	screen->pid = fork();
	assert_true(screen->pid >= 0);
	if (screen->pid == 0) {
		const struct rlimit none = { 0, 0 };

		setrlimit(RLIMIT_CORE, &none);
		login_tty(screen->slave);
		execv(arguments[0], (char *const *)arguments);
		_exit(127);
	}
}

/* A sequence is whole: obey it. */
static void twt_screen_obey(struct twt_screen *screen)
{
	char last = screen->escape[screen->pending - 1];
	size_t row = 1, column = 1;

	screen->escape[screen->pending] = '\0';
	if (last == 'H') {
		sscanf(screen->escape, "\033[%zu;%zuH", &row, &column);
		screen->row = row - 1;
		screen->column = column - 1;
		assert_true(screen->row < screen->rows || screen->rows < 20);
	} else if (last == 'J') {
		if (strcmp(screen->escape, "\033[2J") == 0)
			screen->row = screen->column = 0;
		twt_screen_clear(screen, screen->row + (screen->column > 0));
	} else if (last == 'K') {
		for (size_t i = screen->column; i < TWT_SCREEN_COLUMNS; i++)
			screen->cells[screen->row % TWT_SCREEN_ROWS][i] = ' ';
	} else if (strncmp(screen->escape, "\033[?1049", 7) == 0) {
		screen->alternate = last == 'h';
	} else if (strncmp(screen->escape, "\033[?25", 5) == 0) {
		screen->hidden = last == 'l';
	}
	screen->pending = 0;
}

static void twt_screen_take(struct twt_screen *screen, char byte)
{
	if (byte == '\033' || screen->pending > 0) {
		screen->escape[screen->pending++] = byte;
		assert_true(screen->pending < sizeof(screen->escape));
		if (screen->pending > 2 && byte >= 0x40 && byte <= 0x7e)
			twt_screen_obey(screen);
		return;
	}
	if (byte == '\r') {
		screen->column = 0;
	} else if (byte == '\n') {
		screen->row++;
	} else if (screen->row < TWT_SCREEN_ROWS && screen->column < TWT_SCREEN_COLUMNS) {
		screen->cells[screen->row][screen->column++] = byte;
	}
}

bool twt_screen_read(struct twt_screen *screen)
{
	struct pollfd polled = { screen->fd, POLLIN, 0 };
	char bytes[4096];
	ssize_t got;

	if (poll(&polled, 1, 20) <= 0)
		return false;
	got = read(screen->fd, bytes, sizeof(bytes));
	for (ssize_t i = 0; i < got; i++)
		twt_screen_take(screen, bytes[i]);
	return got > 0;
}

static bool twt_screen_has(const struct twt_screen *screen, const char *words)
{
	for (size_t i = 0; i < screen->rows; i++) {
		if (strstr(screen->cells[i], words) != NULL)
			return true;
	}
	return false;
}

void twt_screen_await(struct twt_screen *screen, const char *words, bool there)
{
	const uint64_t until = twi_now_ns() + PATIENCE_NS;

	do {
		if (twt_screen_has(screen, words) == there)
			return;
		twt_screen_read(screen);
	} while (twi_now_ns() < until);
	for (size_t i = 0; i < screen->rows; i++)
		print_message("%.*s\n", (int)screen->columns, screen->cells[i]);
	fail_msg("\"%s\" is %s the screen", words, there ? "not on" : "still on");
}

void twt_screen_type(struct twt_screen *screen, const char *keys)
{
	assert_int_equal(write(screen->fd, keys, strlen(keys)), (ssize_t)strlen(keys));
}

int twt_screen_end(struct twt_screen *screen)
{
	struct termios after;
	const uint64_t until = twi_now_ns() + PATIENCE_NS;
	int status = 0, ended = 0;

	do {
		twt_screen_read(screen);
		ended = (int)waitpid(screen->pid, &status, WNOHANG);
	} while (ended == 0 && twi_now_ns() < until);
	if (ended == 0) {
		kill(screen->pid, SIGKILL);
		waitpid(screen->pid, &status, 0);
		fail_msg("the program does not end");
	}
	for (int i = 0; i < 1000 && twt_screen_read(screen); i++)
		continue;
	assert_int_equal(tcgetattr(screen->slave, &after), 0);
	assert_int_equal(after.c_lflag, screen->before.c_lflag);
	assert_int_equal(after.c_iflag, screen->before.c_iflag);
	assert_false(screen->alternate);
	assert_false(screen->hidden);
	close(screen->slave);
	close(screen->fd);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
