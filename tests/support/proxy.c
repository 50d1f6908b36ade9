/* proxy.c - the proxy's thread, and what it does to connections. */
#include "proxy.h"

static void twt_proxy_drop(struct twt_proxy_pair *pair, bool reset)
{
	struct linger now = { .l_onoff = 1 };

	for (int i = 0; i < 2; i++) {
		if (reset)
			setsockopt(pair->fds[i], SOL_SOCKET, SO_LINGER, &now, sizeof(now));
		close(pair->fds[i]);
		free(pair->ways[i].data);
		pair->ways[i] = (struct twt_proxy_way){ 0 };
	}
	pair->fds[0] = pair->fds[1] = -1;
}

static void twt_proxy_take(struct twt_proxy *p)
{
	int fd = accept4(p->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC), one = 1, other;

	if (fd < 0)
		return;
	other = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	for (int i = 0; i < TWT_PROXY_PAIRS; i++) {
		struct twt_proxy_pair *pair = &p->pairs[i];

		if (pair->fds[0] >= 0)
			continue;
		/* Loopback answers at once; a refusal is handed on as a reset. */
		if (other < 0 || connect(other, (struct sockaddr *)&p->to, sizeof(p->to)) != 0)
			break;
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
		setsockopt(other, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
		*pair = (struct twt_proxy_pair){ .fds = { fd, other } };
		pair->number = atomic_load(&p->came);
		for (int k = 0; k < 2; k++)
			pair->ways[k].data = malloc(TWT_PROXY_BUF);
		atomic_fetch_add(&p->came, 1);
		return;
	}
	close(other);
	close(fd);
}

/* Moves one direction. False: the connection is broken. */
static bool twt_proxy_move(struct twt_proxy *p, struct twt_proxy_pair *pair, int i)
{
	struct twt_proxy_way *way = &pair->ways[i];
	ssize_t n;

	if (!way->ended && way->tail < TWT_PROXY_BUF) {
		n = recv(pair->fds[i], way->data + way->tail, TWT_PROXY_BUF - way->tail,
			 MSG_DONTWAIT);
		if (n < 0 && errno != EAGAIN)
			return false;
		if (n > 0 && atomic_load(&p->largest) != 0 && (size_t)n > atomic_load(&p->largest))
			return false;
		way->ended = n == 0;
		if (n > 0 && p->tap != NULL)
			p->tap(way->data + way->tail, (size_t)n);
		way->tail += n > 0 && !way->drops ? (size_t)n : 0;
	}
	if (way->head < way->tail) {
		n = send(pair->fds[!i], way->data + way->head, way->tail - way->head,
			 MSG_DONTWAIT | MSG_NOSIGNAL);
		if (n < 0 && errno != EAGAIN)
			return false;
		if (n > 0) {
			way->head += (size_t)n;
			atomic_fetch_add(&p->bytes[pair->number % 1024], (uint64_t)n);
		}
	}
	if (way->head == way->tail)
		way->head = way->tail = 0;
	if (way->ended && way->tail == 0 && !way->told) {
		way->told = true;
		shutdown(pair->fds[!i], SHUT_WR);
	}
	return true;
}

static bool twt_proxy_over(const struct twt_proxy_way *way)
{
	return way->ended && way->told;
}

static void *twt_proxy_run(void *arg)
{
	struct twt_proxy *p = arg;

	while (!atomic_load(&p->stop)) {
		struct pollfd fds[2 + 2 * TWT_PROXY_PAIRS];
		bool stalled = atomic_load(&p->stalled);
		nfds_t count = 0;
		uint64_t drained;

		pthread_mutex_lock(&p->lock);
		fds[count++] = (struct pollfd){ .fd = p->wake_fd, .events = POLLIN };
		if (!stalled)
			fds[count++] = (struct pollfd){ .fd = p->listen_fd, .events = POLLIN };
		for (int i = 0; i < TWT_PROXY_PAIRS && !stalled; i++) {
			struct twt_proxy_pair *pair = &p->pairs[i];

			for (int k = 0; k < 2 && pair->fds[0] >= 0; k++) {
				const struct twt_proxy_way *in = &pair->ways[k],
							   *out = &pair->ways[!k];
				short events = !in->ended && in->tail < TWT_PROXY_BUF ? POLLIN : 0;

				if (out->head < out->tail)
					events |= POLLOUT;
				fds[count++] =
					(struct pollfd){ .fd = events != 0 ? pair->fds[k] : -1,
							 .events = events };
			}
		}
		pthread_mutex_unlock(&p->lock);
		poll(fds, count, 1000);
		(void)!read(p->wake_fd, &drained, sizeof(drained));
		pthread_mutex_lock(&p->lock);
		if (!atomic_load(&p->stalled)) {
			twt_proxy_take(p);
			for (int i = 0; i < TWT_PROXY_PAIRS; i++) {
				struct twt_proxy_pair *pair = &p->pairs[i];

				if (pair->fds[0] < 0)
					continue;
				if (!twt_proxy_move(p, pair, 0) || !twt_proxy_move(p, pair, 1))
					twt_proxy_drop(pair, true);
				else if (twt_proxy_over(&pair->ways[0]) &&
					 twt_proxy_over(&pair->ways[1]))
					twt_proxy_drop(pair, false);
			}
		}
		pthread_mutex_unlock(&p->lock);
	}
	return NULL;
}

static void twt_proxy_wake(struct twt_proxy *p)
{
	uint64_t one = 1;

	(void)!write(p->wake_fd, &one, sizeof(one));
}

void twt_proxy_open(struct twt_proxy *p, const char *to, void (*tap)(uint8_t *at, size_t bytes))
{
	struct sockaddr_in at = { .sin_family = AF_INET };
	socklen_t bytes = sizeof(at);

	memset(p, 0, sizeof(*p));
	p->tap = tap;
	for (int i = 0; i < TWT_PROXY_PAIRS; i++)
		p->pairs[i].fds[0] = p->pairs[i].fds[1] = -1;
	at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	p->to = at;
	p->to.sin_port = htons((uint16_t)atoi(strrchr(to, ':') + 1));
	p->listen_fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	p->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	pthread_mutex_init(&p->lock, NULL);
	if (bind(p->listen_fd, (struct sockaddr *)&at, sizeof(at)) != 0 ||
	    listen(p->listen_fd, 128) != 0 ||
	    getsockname(p->listen_fd, (struct sockaddr *)&at, &bytes) != 0)
		abort();
	snprintf(p->address, sizeof(p->address), "tcp://127.0.0.1:%u", ntohs(at.sin_port));
	if (pthread_create(&p->thread, NULL, twt_proxy_run, p) != 0)
		abort();
}

static void twt_proxy_shut(struct twt_proxy_pair *pair)
{
	for (int i = 0; i < 2; i++) {
		struct twt_proxy_way *way = &pair->ways[i];

		way->drops = way->told = true;
		way->head = way->tail = 0;
		shutdown(pair->fds[!i], SHUT_WR);
	}
}

static bool twt_proxy_stop(struct twt_proxy *p, int number, bool reset)
{
	bool any = false;

	pthread_mutex_lock(&p->lock);
	for (int i = 0; i < TWT_PROXY_PAIRS; i++) {
		if (p->pairs[i].fds[0] < 0 ||
		    (number != TWT_PROXY_ALL && p->pairs[i].number != number))
			continue;
		if (reset)
			twt_proxy_drop(&p->pairs[i], true);
		else
			twt_proxy_shut(&p->pairs[i]);
		any = true;
	}
	pthread_mutex_unlock(&p->lock);
	twt_proxy_wake(p);
	return any;
}

bool twt_proxy_cut(struct twt_proxy *p, int number)
{
	return twt_proxy_stop(p, number, true);
}

bool twt_proxy_end(struct twt_proxy *p, int number)
{
	return twt_proxy_stop(p, number, false);
}

void twt_proxy_stall(struct twt_proxy *p, bool stalled)
{
	atomic_store(&p->stalled, stalled);
	twt_proxy_wake(p);
}

uint64_t twt_proxy_bytes(struct twt_proxy *p, int number)
{
	return atomic_load(&p->bytes[number % 1024]);
}

void twt_proxy_close(struct twt_proxy *p)
{
	atomic_store(&p->stop, true);
	twt_proxy_wake(p);
	pthread_join(p->thread, NULL);
	twt_proxy_cut(p, TWT_PROXY_ALL);
	close(p->listen_fd);
	close(p->wake_fd);
	pthread_mutex_destroy(&p->lock);
}
