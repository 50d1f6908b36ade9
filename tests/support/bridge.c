/* bridge.c - a bridge between network namespaces. */
#include "twt.h"

#include "bridge.h"

static void twt_bridge_end(struct twt_bridge *b, unsigned i)
{
	close(b->pipes[i].near);
	close(b->pipes[i].far);
	b->pipes[i].near = b->pipes[i].far = -1;
}

static bool twt_bridge_pass(struct twt_bridge *b, int from, int to, bool keep)
{
	char bytes[16384];
	ssize_t got = recv(from, bytes, sizeof(bytes), 0);

	for (ssize_t sent = 0; sent < got;) {
		ssize_t count = send(to, bytes + sent, (size_t)(got - sent), MSG_NOSIGNAL);

		if (count <= 0)
			return false;
		sent += count;
	}
	for (ssize_t i = 0; keep && i < got && b->asked + 1 < sizeof(b->text); i++)
		b->text[b->asked++] = bytes[i];
	return got > 0;
}

static void twt_bridge_accept(struct twt_bridge *b)
{
	int near = accept4(b->fd, NULL, NULL, SOCK_CLOEXEC);
	int far = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	for (unsigned i = 0; near >= 0 && far >= 0 && i < TWT_BRIDGE_PIPES; i++) {
		if (b->pipes[i].near >= 0)
			continue;
		if (connect(far, (const struct sockaddr *)&b->to, sizeof(b->to)) != 0)
			break;
		b->pipes[i].near = near;
		b->pipes[i].far = far;
		return;
	}
	close(near);
	close(far);
}

static void *twt_bridge_run(void *arg)
{
	struct twt_bridge *b = arg;

	while (!atomic_load(&b->stop)) {
		struct pollfd fds[1 + 2 * TWT_BRIDGE_PIPES] = { { .fd = b->fd, .events = POLLIN } };

		for (unsigned i = 0; i < TWT_BRIDGE_PIPES; i++) {
			fds[1 + 2 * i] = (struct pollfd){ b->pipes[i].near, POLLIN, 0 };
			fds[2 + 2 * i] = (struct pollfd){ b->pipes[i].far, POLLIN, 0 };
		}
		poll(fds, 1 + 2 * TWT_BRIDGE_PIPES, 50);
		for (unsigned i = 0; i < TWT_BRIDGE_PIPES; i++) {
			int near = b->pipes[i].near, far = b->pipes[i].far;

			if (near < 0)
				continue;
			if ((fds[1 + 2 * i].revents && !twt_bridge_pass(b, near, far, true)) ||
			    (fds[2 + 2 * i].revents && !twt_bridge_pass(b, far, near, false)))
				twt_bridge_end(b, i);
		}
		if (fds[0].revents)
			twt_bridge_accept(b);
	}
	return NULL;
}

void twt_bridge_open(struct twt_bridge *b, const char *to)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
	socklen_t bytes = sizeof(at);

	*b = (struct twt_bridge){ .to = at };
	assert_non_null(strchr(to, ':'));
	b->to.sin_port = htons((uint16_t)atoi(strchr(to, ':') + 1));
	for (unsigned i = 0; i < TWT_BRIDGE_PIPES; i++)
		b->pipes[i].near = b->pipes[i].far = -1;
	b->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_true(b->fd >= 0);
	assert_int_equal(bind(b->fd, (const struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(listen(b->fd, 16), 0);
	assert_int_equal(getsockname(b->fd, (struct sockaddr *)&at, &bytes), 0);
	b->port = ntohs(at.sin_port);
	assert_int_equal(pthread_create(&b->thread, NULL, twt_bridge_run, b), 0);
}

void twt_bridge_close(struct twt_bridge *b)
{
	atomic_store(&b->stop, true);
	pthread_join(b->thread, NULL);
	for (unsigned i = 0; i < TWT_BRIDGE_PIPES; i++) {
		if (b->pipes[i].near >= 0)
			twt_bridge_end(b, i);
	}
	close(b->fd);
	b->text[b->asked] = '\0';
}
