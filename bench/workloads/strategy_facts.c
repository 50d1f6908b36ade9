/*
 * strategy_facts.c - facts about a model from the names and shapes in its list of tensors.
 *
 * A fact that the list does not show is 0, and must be given by hand (--set).
 */
#include <stdlib.h>
#include <string.h>

#include "bench/workloads/maker.h"

/* Names of projections to keys, and of those to queries, keys and values together. */
static const char *const key_names[] = { "wk.weight", "k_proj.weight" };
static const char *const joint_names[] = { "c_attn.weight", "qkv_proj.weight" };

/* Whether a kernel has more than two extents. Then activations are images, which have no width. */
static bool has_images(const struct workload *work)
{
	for (uint64_t i = 0; i < work->count; i++)
		if (work->tensors[i].dims > 2)
			return true;
	return false;
}

/* The model's width: the extent of most one-dimensional tensors (norms, biases). */
uint64_t fact_width(const struct workload *work)
{
	uint64_t best = 0, best_count = 0;

	if (has_images(work))
		return 0;
	for (uint64_t i = 0; i < work->count; i++) {
		uint64_t seen = 0, width = work->tensors[i].extent[0];

		if (work->tensors[i].dims != 1 || width == best)
			continue;
		for (uint64_t k = i; k < work->count; k++)
			seen += work->tensors[k].dims == 1 && work->tensors[k].extent[0] == width;
		if (seen > best_count) {
			best = width;
			best_count = seen;
		}
	}
	return best;
}

uint64_t fact_element_bytes(const struct workload *work)
{
	return work->count > 0 ? work->tensors[0].element_bytes : 4;
}

/*
 * The length of the part of a name that a layer shares: up to its first number, else without its
 * last part.
 */
static size_t layer_prefix(const char *name, bool *numbered_out)
{
	const char *last = strrchr(name, '.');

	*numbered_out = true;
	for (const char *at = name; *at != '\0';) {
		size_t digits = strspn(at, "0123456789"), length = strcspn(at, ".");

		if (digits > 0 && digits == length)
			return (size_t)(at - name) + digits;
		at += length + (at[length] == '.');
	}
	*numbered_out = false;
	return last != NULL ? (size_t)(last - name) : strlen(name);
}

struct layer *fact_layers(const struct workload *work, uint64_t *count_out)
{
	struct layer *layers = calloc(work->count + 1, sizeof(*layers));
	uint64_t count = 0;
	size_t length = 0;

	for (uint64_t i = 0; layers != NULL && i < work->count; i++) {
		const struct workload_tensor *tensor = &work->tensors[i];
		bool numbered;
		size_t prefix = layer_prefix(tensor->name, &numbered);

		if (i == 0 || prefix != length ||
		    strncmp(tensor->name, work->tensors[i - 1].name, prefix) != 0) {
			layers[count].element_bytes = tensor->element_bytes;
			layers[count++].tensor = i;
		}
		length = prefix;
		layers[count - 1].bytes += tensor->bytes;
		layers[count - 1].numbered = numbered;
		layers[count - 1].experts |= strstr(tensor->name, "experts.") != NULL;
	}
	*count_out = layers != NULL ? count : 0;
	return layers;
}

static uint64_t layers_with(const struct workload *work, bool experts)
{
	uint64_t count, found = 0;
	struct layer *layers = fact_layers(work, &count);

	for (uint64_t l = 0; l < count; l++)
		found += layers[l].numbered && (!experts || layers[l].experts);
	free(layers);
	return found;
}

uint64_t fact_layer_count(const struct workload *work)
{
	return layers_with(work, false);
}

uint64_t fact_expert_layers(const struct workload *work)
{
	return layers_with(work, true);
}

static bool ends_with(const char *name, const char *end)
{
	size_t length = strlen(name), tail = strlen(end);

	return length >= tail && strcmp(name + length - tail, end) == 0;
}

/* The number of elements of a token's keys in a layer, over all key heads. */
static uint64_t key_width(const struct workload *work)
{
	for (uint64_t i = 0; i < work->count; i++) {
		const struct workload_tensor *tensor = &work->tensors[i];

		if (tensor->dims != 2)
			continue;
		for (size_t n = 0; n < sizeof(key_names) / sizeof(key_names[0]); n++)
			if (ends_with(tensor->name, key_names[n]))
				return tensor->extent[0];
		/* One side is three times the width; queries are not grouped. */
		for (size_t n = 0; n < sizeof(joint_names) / sizeof(joint_names[0]); n++)
			if (ends_with(tensor->name, joint_names[n]))
				return (tensor->extent[0] > tensor->extent[1] ? tensor->extent[0]
									      : tensor->extent[1]) /
				       3;
	}
	return 0;
}

/*
 * A guess, as only the product with the number of heads counts: 128 where it divides the width and
 * leaves several heads.
 */
uint64_t fact_head_dim(const struct workload *work)
{
	uint64_t width = key_width(work);

	return width == 0 ? 0 : width >= 1024 && width % 128 == 0 ? 128 : width % 64 == 0 ? 64 : 1;
}

uint64_t fact_kv_heads(const struct workload *work)
{
	uint64_t dim = fact_head_dim(work);

	return dim == 0 ? 0 : key_width(work) / dim;
}
