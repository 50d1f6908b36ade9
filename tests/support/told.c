/* told.c - see told.h. */
#include "told.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* The place of a path, made where there is none yet; under the mutex. */
static size_t find_said(struct twt_told *told, const char *path, size_t bytes)
{
	size_t i = 0;

	while (i < TWT_TOLD_PATHS && told->said[i].path != NULL &&
	       (strlen(told->said[i].path) != bytes ||
		strncmp(told->said[i].path, path, bytes) != 0))
		i++;
	return i;
}

static void answer_one(struct twt_told *told, int fd)
{
	const char *document = "{}", *path = "";
	char request[512], head[128];
	ssize_t got = recv(fd, request, sizeof(request) - 1, 0);
	size_t i;
	int used;

	request[got > 0 ? got : 0] = '\0';
	if (strncmp(request, "GET ", 4) == 0)
		path = request + 4;
	pthread_mutex_lock(&told->mutex);
	i = find_said(told, path, strcspn(path, " ?"));
	if (i < TWT_TOLD_PATHS && told->said[i].path != NULL) {
		document = told->said[i].document;
		told->said[i].asked++;
	}
	pthread_mutex_unlock(&told->mutex);
	if (document == NULL)
		return;
	used = snprintf(head, sizeof(head), "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n",
			strlen(document));
	send(fd, head, (size_t)used, MSG_NOSIGNAL);
	send(fd, document, strlen(document), MSG_NOSIGNAL);
}

static void *serve_told(void *arg)
{
	struct twt_told *told = arg;
	int fd;

	while ((fd = accept(told->fd, NULL, NULL)) >= 0) {
		answer_one(told, fd);
		close(fd);
	}
	return NULL;
}

void twt_told_open(struct twt_told *told, const char *dir, const char *name)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };

	*told = (struct twt_told){ .mutex = PTHREAD_MUTEX_INITIALIZER };
	snprintf(at.sun_path, sizeof(at.sun_path), "%s/%s.sock", dir, name);
	told->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_true(told->fd >= 0);
	assert_int_equal(bind(told->fd, (struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(listen(told->fd, 64), 0);
	assert_int_equal(pthread_create(&told->thread, NULL, serve_told, told), 0);
}

void twt_told_close(struct twt_told *told)
{
	shutdown(told->fd, SHUT_RDWR);
	pthread_join(told->thread, NULL);
	close(told->fd);
}

void twt_told_say(struct twt_told *told, const char *path, const char *document)
{
	size_t i;

	pthread_mutex_lock(&told->mutex);
	i = find_said(told, path, strlen(path));
	if (i < TWT_TOLD_PATHS) {
		told->said[i].path = path;
		told->said[i].document = document;
	}
	pthread_mutex_unlock(&told->mutex);
	assert_true(i < TWT_TOLD_PATHS);
}

unsigned twt_told_asked(struct twt_told *told, const char *path)
{
	unsigned asked = 0;
	size_t i;

	pthread_mutex_lock(&told->mutex);
	i = find_said(told, path, strlen(path));
	if (i < TWT_TOLD_PATHS)
		asked = told->said[i].asked;
	pthread_mutex_unlock(&told->mutex);
	return asked;
}
