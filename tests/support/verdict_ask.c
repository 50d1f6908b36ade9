/* verdict_ask.c - asks a rank for its verdict, and judges that. */
#include "verdict_ask.h"

static int twt_vj_connect(const struct twt_vj_job *job, int rank, const char *path)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	char request[128];
	int n, fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	snprintf(at.sun_path, sizeof(at.sun_path), "%s/%s.%d.sock", job->dir, job->name, rank);
	n = snprintf(request, sizeof(request),
		     "GET %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", path);
	if (fd < 0 || connect(fd, (struct sockaddr *)&at, sizeof(at)) != 0 ||
	    write(fd, request, (size_t)n) != n) {
		fprintf(stderr, "%s: %s\n", at.sun_path, strerror(errno));
		close(fd);
		return -1;
	}
	return fd;
}

void twt_vj_ask(const struct twt_vj_job *job, unsigned who, const char *path,
		struct twt_vj_asked *asked)
{
	uint64_t begun = twt_vj_now();
	int left = 0;

	for (int i = 0; i < job->size; i++) {
		asked[i].bytes = 0;
		asked[i].took_ns = 0;
		asked[i].fd = (who >> i & 1) != 0 ? twt_vj_connect(job, i, path) : -1;
		left += asked[i].fd >= 0;
	}
	while (left > 0 && twt_vj_now() - begun < 10 * VJ_NS_PER_S) {
		struct pollfd fds[VJ_RANKS];

		for (int i = 0; i < job->size; i++)
			fds[i] = (struct pollfd){ .fd = asked[i].fd, .events = POLLIN };
		poll(fds, (nfds_t)job->size, 100);
		for (int i = 0; i < job->size; i++) {
			ssize_t n;

			if (asked[i].fd < 0 || fds[i].revents == 0)
				continue;
			n = read(asked[i].fd, asked[i].text + asked[i].bytes,
				 sizeof(asked[i].text) - 1 - asked[i].bytes);
			if (n > 0) {
				asked[i].bytes += (size_t)n;
				continue;
			}
			close(asked[i].fd);
			asked[i].fd = -1;
			asked[i].took_ns = twt_vj_now() - begun;
			left--;
		}
	}
	for (int i = 0; i < job->size; i++) {
		asked[i].text[asked[i].bytes] = '\0';
		if (asked[i].fd >= 0)
			close(asked[i].fd);
	}
}

json_t *twt_vj_document(const struct twt_vj_asked *asked)
{
	const char *body = strstr(asked->text, "\r\n\r\n");

	return body != NULL ? json_loads(body + 4, 0, NULL) : NULL;
}

bool twt_vj_is_planted(const struct twt_vj_job *job, const json_t *finding)
{
	const char *cause = json_string_value(json_object_get(finding, "cause"));
	json_t *ranks = json_object_get(finding, "ranks"), *links, *link;
	const char *evidence =
		json_string_value(json_array_get(json_object_get(finding, "evidence"), 0));
	bool side = job->victim >= job->size / 2;
	size_t i;

	if (cause == NULL || strcmp(cause, twt_vj_causes[job->fault]) != 0)
		return false;
	if (job->fault == VJ_BARRIER && strstr(evidence, "has not entered barrier 11 of") == NULL)
		return false;
	if (job->fault == VJ_CREDIT_OFI) {
		evidence =
			json_string_value(json_array_get(json_object_get(finding, "evidence"), 1));
		if (evidence == NULL || strstr(evidence, "(tcp;ofi_rxm, domain ") == NULL ||
		    strstr(evidence, "no TCP_INFO") == NULL)
			return false;
	}
	if (!twt_vj_is_far(job))
		return json_array_size(ranks) == 1 &&
		       json_integer_value(json_array_get(ranks, 0)) == job->victim;
	links = json_object_get(finding, "links");
	json_array_foreach(links, i, link)
	{
		bool from = json_integer_value(json_object_get(link, "from")) >= job->size / 2;
		bool to = json_integer_value(json_object_get(link, "to")) >= job->size / 2;

		if (from == to || (job->fault == VJ_DROPPED && from != side))
			return false;
	}
	return json_array_size(links) > 0;
}

bool twt_vj_right(const struct twt_vj_job *job, int rank, const struct twt_vj_asked *asked)
{
	json_t *document = twt_vj_document(asked),
	       *findings = json_object_get(document, "findings");
	size_t count = json_array_size(findings);
	bool right = document != NULL && findings != NULL;

	if (job->fault == VJ_HEALTHY)
		right = right && count == 0;
	else
		right = right && count == 1 && twt_vj_is_planted(job, json_array_get(findings, 0));
	if (!right)
		fprintf(stderr, "%s, %s, %d ranks, victim %d, asked rank %d (%.2f s): %s\n",
			twt_vj_names[job->fault], job->memory ? "shm" : "tcp", job->size,
			job->victim, rank, (double)asked->took_ns / 1e9,
			document != NULL ? json_dumps(document, JSON_COMPACT) : asked->text);
	json_decref(document);
	return right;
}
