/* clean.c - makes texts that every format accepts. */
#include "diag/trace/export/clean.h"

#include <stdlib.h>
#include <string.h>

#include "diag/base/error.h"

/* The bytes of the text's first character; 0: it is not clean. */
static size_t character_bytes(const char *text)
{
	const uint8_t *at = (const uint8_t *)text;
	size_t more = *at < 0x80 ? 0 : *at < 0xe0 ? 1 : *at < 0xf0 ? 2 : 3;

	if (*at < ' ' || *at == 127 || (*at >= 0x80 && *at < 0xc2) || *at > 0xf4)
		return 0;
	/* An overlong form, a surrogate, or above U+10FFFF. */
	if ((*at == 0xe0 && at[1] < 0xa0) || (*at == 0xed && at[1] > 0x9f) ||
	    (*at == 0xf0 && at[1] < 0x90) || (*at == 0xf4 && at[1] > 0x8f))
		return 0;
	for (size_t i = 1; i <= more; i++)
		if ((at[i] & 0xc0) != 0x80)
			return 0;
	return 1 + more;
}

bool twi_text_is_clean(const char *text)
{
	for (size_t bytes; *text; text += bytes) {
		bytes = character_bytes(text);
		if (bytes == 0)
			return false;
	}
	return true;
}

static void clean_text(char *text)
{
	for (size_t bytes; *text; text += bytes) {
		bytes = character_bytes(text);
		if (bytes == 0) {
			*text = '?';
			bytes = 1;
		}
	}
}

/* NULL: there is no memory. */
static char *cleaned_copy(const char *text)
{
	char *copy = strdup(text != NULL ? text : "");

	if (copy != NULL)
		clean_text(copy);
	return copy;
}

static bool clean_rank(const struct twi_trace_rank *rank, struct twi_trace_rank *out)
{
	*out = *rank;
	out->host = cleaned_copy(rank->host);
	out->job = cleaned_copy(rank->job);
	out->threads = calloc(rank->thread_count + 1, sizeof(*out->threads));
	out->peers = calloc(rank->peer_count + 1, sizeof(*out->peers));
	out->names = calloc(rank->name_count + 1, sizeof(*out->names));
	if (out->threads == NULL || out->peers == NULL || out->names == NULL) {
		out->peer_count = out->name_count = 0;
		return false;
	}
	for (size_t i = 0; i < rank->thread_count; i++) {
		out->threads[i] = rank->threads[i];
		clean_text(out->threads[i].name);
	}
	for (size_t i = 0; i < rank->peer_count; i++) {
		out->peers[i] = rank->peers[i];
		out->peers[i].name = cleaned_copy(rank->peers[i].name);
	}
	for (size_t i = 0; i < rank->name_count; i++)
		out->names[i] = cleaned_copy(rank->names[i]);
	for (size_t i = 0; i < rank->peer_count; i++)
		if (out->peers[i].name == NULL)
			return false;
	for (size_t i = 0; i < rank->name_count; i++)
		if (out->names[i] == NULL)
			return false;
	return out->host != NULL && out->job != NULL;
}

int twi_clean_make(const struct twi_trace *trace, struct twi_trace *out)
{
	bool done = true;

	*out = (struct twi_trace){ .ranks = calloc(trace->rank_count + 1, sizeof(*out->ranks)) };
	for (size_t i = 0; out->ranks != NULL && done && i < trace->rank_count; i++) {
		out->rank_count++;
		done = clean_rank(&trace->ranks[i], &out->ranks[i]);
	}
	if (out->ranks != NULL && done)
		return TOW_OK;
	twi_clean_fini(out);
	return twi_error(TOW_ENOMEM, "no memory to write a trace");
}

void twi_clean_fini(struct twi_trace *view)
{
	for (size_t i = 0; i < view->rank_count; i++) {
		struct twi_trace_rank *rank = &view->ranks[i];

		for (size_t p = 0; p < rank->peer_count; p++)
			free(rank->peers[p].name);
		for (size_t n = 0; n < rank->name_count; n++)
			free(rank->names[n]);
		free(rank->threads);
		free(rank->peers);
		free(rank->names);
		free(rank->host);
		free(rank->job);
	}
	free(view->ranks);
	*view = (struct twi_trace){ 0 };
}
