/* store_port.c - a port that nobody uses yet. */
#include "store_port.h"

int twt_store_port(char *text, size_t room)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;
	socklen_t bytes = sizeof(at);

	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) < 0 ||
	    bind(fd, (struct sockaddr *)&at, sizeof(at)) < 0 ||
	    getsockname(fd, (struct sockaddr *)&at, &bytes) < 0) {
		perror("a port for the store");
		abort();
	}
	snprintf(text, room, "127.0.0.1:%u", ntohs(at.sin_port));
	return fd;
}
