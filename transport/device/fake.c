/*
 * fake.c - the software DMA engine. See fake.h.
 *
 * One lock guards the whole device. Each direction has a ring of jobs, of which the oldest ends
 * first. Under a real clock the device's thread ends them and signals the engine. Under a virtual
 * clock query ends them.
 */
#include "transport/device/fake.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "diag/base/error.h"
#include "transport/engine/engine.h"
#include "transport/op/path.h"

enum job_state { JOB_FREE, JOB_RUNS, JOB_ENDED };

struct job {
	enum job_state state;
	int status;
	uint64_t due_ns; /* UINT64_MAX: never */
	uint64_t number; /* of the chunk, from 0 */
	struct twi_device_copy copy;
};

struct wire {
	struct job job[TWI_DEVICE_CHUNKS];
	uint64_t free_ns; /* when the wire's last byte has left */
};

struct map {
	uintptr_t base;
	uint64_t bytes;
};

struct fake {
	struct twi_device device;
	struct twi_device_facts facts;
	struct twi_fake_options options;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	pthread_t thread;
	bool threaded;
	bool dead;
	_Atomic bool stop;
	struct wire wire[TWI_DEVICE_STREAMS];
	struct map map[TWI_FAKE_MAPS];
	uint32_t maps;
	uint64_t mapped_bytes, used_bytes, map_calls, alloc_calls;
	struct twi_list memories;
	struct twi_fake_seen seen;
};

static struct fake *fake_of(struct twi_device *device)
{
	return (struct fake *)(void *)device;
}

const struct twi_fake_seen *twi_fake_seen(const struct twi_device *device)
{
	return &((const struct fake *)(const void *)device)->seen;
}

/* Memory of the device. The list lets a device that is lost free it. */
struct fake_memory {
	struct twi_list link;
	uint64_t bytes;
	_Alignas(64) uint8_t data[];
};

static int fake_probe(const char *spec)
{
	struct twi_fake_options options;

	return twi_fake_options(spec, &options);
}

static bool fake_translates(const struct fake *fake, const void *host, uint64_t bytes)
{
	for (uint32_t i = 0; i < fake->maps; i++) {
		uint64_t offset = (uint64_t)((uintptr_t)host - fake->map[i].base);

		if (offset < fake->map[i].bytes && bytes <= fake->map[i].bytes - offset)
			return true;
	}
	return false;
}

static bool is_nth(uint64_t wanted, uint64_t count)
{
	return wanted == TWI_FAKE_ALL || (wanted != 0 && wanted == count);
}

/* The oldest running job of a wire, or NULL. */
static struct job *oldest_job(struct wire *wire)
{
	struct job *found = NULL;

	for (unsigned i = 0; i < TWI_DEVICE_CHUNKS; i++) {
		struct job *job = &wire->job[i];

		if (job->state == JOB_RUNS && (found == NULL || job->number < found->number))
			found = job;
	}
	return found;
}

/* Ends a chunk that is due. Moves its bytes, unless the chunk or the device fails by its spec. */
static void end_job(struct fake *fake, struct job *job, uint64_t now_ns)
{
	struct twi_fake_entry *entry = &fake->seen.entry[job->number % TWI_FAKE_LOG];
	struct fake_memory *memory = job->copy.memory;
	uint8_t *at = memory->data + job->copy.offset;

	if (job->status == TOW_OK && fake->dead)
		job->status = TOW_EDEVICE;
	if (job->status == TOW_OK) {
		if (job->copy.direction == TOW_TO_DEVICE)
			twi_path_wire(at, job->copy.host, job->copy.bytes);
		else
			twi_path_wire(job->copy.host, at, job->copy.bytes);
		fake->seen.bytes[job->copy.direction] += job->copy.bytes;
		entry->ended_well = true;
	}
	entry->end_ns = now_ns;
	job->state = JOB_ENDED;
}

/* Ends the jobs that are due. Returns when the next one is due. */
static uint64_t run_jobs(struct fake *fake, uint64_t now_ns, bool *any)
{
	uint64_t next = UINT64_MAX;

	for (unsigned i = 0; i < TWI_DEVICE_STREAMS; i++) {
		struct job *job;

		while ((job = oldest_job(&fake->wire[i])) != NULL && job->due_ns <= now_ns) {
			end_job(fake, job, now_ns);
			*any = true;
		}
		if (job != NULL)
			next = twi_min(next, job->due_ns);
	}
	return next;
}

static void sleep_until(struct fake *fake, uint64_t until_ns, uint64_t now_ns)
{
	struct timespec at;
	uint64_t ns;

	if (until_ns == UINT64_MAX) {
		pthread_cond_wait(&fake->changed, &fake->lock);
		return;
	}
	clock_gettime(CLOCK_MONOTONIC, &at);
	ns = (uint64_t)at.tv_nsec + (until_ns - now_ns);
	at.tv_sec += (time_t)(ns / 1000000000u);
	at.tv_nsec = (long)(ns % 1000000000u);
	pthread_cond_timedwait(&fake->changed, &fake->lock, &at);
}

static void *thread_main(void *arg)
{
	struct fake *fake = arg;

	pthread_mutex_lock(&fake->lock);
	while (!atomic_load_explicit(&fake->stop, memory_order_relaxed)) {
		uint64_t now = twi_now_ns();
		bool any = false;
		uint64_t next = run_jobs(fake, now, &any);

		if (!any) {
			sleep_until(fake, next, now);
			continue;
		}
		pthread_mutex_unlock(&fake->lock);
		twi_device_signal(fake->device.engine, &fake->stop);
		pthread_mutex_lock(&fake->lock);
	}
	pthread_mutex_unlock(&fake->lock);
	return NULL;
}

static int start_thread(struct fake *fake)
{
	pthread_condattr_t attr;
	int err;

	pthread_mutex_init(&fake->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&fake->changed, &attr);
	pthread_condattr_destroy(&attr);
	if (fake->device.engine->virtual_clock)
		return TOW_OK;
	err = pthread_create(&fake->thread, NULL, thread_main, fake);
	if (err != 0)
		return twi_error_errno(TOW_ESYSTEM, err, "device fake: pthread_create");
	fake->threaded = true;
	return TOW_OK;
}

static void fake_close(struct twi_device *device)
{
	struct fake *fake = fake_of(device);
	struct twi_list *entry;

	if (fake->threaded) {
		pthread_mutex_lock(&fake->lock);
		atomic_store_explicit(&fake->stop, true, memory_order_release);
		pthread_cond_signal(&fake->changed);
		pthread_mutex_unlock(&fake->lock);
		pthread_join(fake->thread, NULL);
	}
	while ((entry = twi_list_first(&fake->memories)) != NULL) {
		twi_list_remove(entry);
		free(twi_container_of(entry, struct fake_memory, link));
	}
	pthread_cond_destroy(&fake->changed);
	pthread_mutex_destroy(&fake->lock);
	free(fake);
}

static int fake_open(struct twi_engine *engine, const char *spec, struct twi_device **out)
{
	struct twi_fake_options options;
	int status = twi_fake_options(spec, &options);
	struct fake *fake;

	*out = NULL;
	if (status < 0)
		return status;
	fake = calloc(1, sizeof(*fake));
	if (fake == NULL)
		return twi_error(TOW_ENOMEM, "device fake: no memory for it");
	fake->device = (struct twi_device){ &twi_device_fake, engine };
	fake->options = options;
	twi_list_init(&fake->memories);
	snprintf(fake->facts.name, sizeof(fake->facts.name), "%s", options.name);
	fake->facts.memory_bytes = options.memory_bytes;
	fake->facts.chunk_bytes = options.chunk_bytes;
	fake->facts.takes_any = options.any;
	if (options.any)
		snprintf(fake->facts.takes_any_why, sizeof(fake->facts.takes_any_why),
			 "its spec says so");
	status = start_thread(fake);
	if (status < 0) {
		fake_close(&fake->device);
		return status;
	}
	*out = &fake->device;
	return TOW_OK;
}

static const struct twi_device_facts *fake_facts(const struct twi_device *device)
{
	return &((const struct fake *)(const void *)device)->facts;
}

static int map_refusal(struct fake *fake, const void *base, uint64_t bytes)
{
	if (fake->options.nomap)
		return twi_error(TOW_ENOTSUP, "device %s: it has no mapping", fake->facts.name);
	if (is_nth(fake->options.fail_map, fake->map_calls))
		return twi_error(TOW_EPERM, "device %s: map number %llu is refused, by its spec",
				 fake->facts.name, (unsigned long long)fake->map_calls);
	if (fake->maps == TWI_FAKE_MAPS || bytes > fake->options.maps_bytes - fake->mapped_bytes)
		return twi_error(TOW_ENOMEM, "device %s: %llu bytes at %p are more than it can map",
				 fake->facts.name, (unsigned long long)bytes, base);
	return TOW_OK;
}

static int fake_map(struct twi_device *device, void *base, uint64_t bytes)
{
	struct fake *fake = fake_of(device);
	int status;

	pthread_mutex_lock(&fake->lock);
	fake->map_calls++;
	status = map_refusal(fake, base, bytes);
	if (status == TOW_OK) {
		fake->map[fake->maps++] = (struct map){ (uintptr_t)base, bytes };
		fake->mapped_bytes += bytes;
		fake->seen.maps++;
	}
	pthread_mutex_unlock(&fake->lock);
	return status;
}

static void fake_unmap(struct twi_device *device, void *base, uint64_t bytes)
{
	struct fake *fake = fake_of(device);

	pthread_mutex_lock(&fake->lock);
	for (uint32_t i = 0; i < fake->maps; i++) {
		if (fake->map[i].base != (uintptr_t)base || fake->map[i].bytes != bytes)
			continue;
		fake->map[i] = fake->map[--fake->maps];
		fake->mapped_bytes -= bytes;
		fake->seen.unmaps++;
		break;
	}
	pthread_mutex_unlock(&fake->lock);
}

static int fake_alloc(struct twi_device *device, uint64_t bytes, void **memory_out)
{
	struct fake *fake = fake_of(device);
	struct fake_memory *memory = NULL;
	bool refused;

	*memory_out = NULL;
	pthread_mutex_lock(&fake->lock);
	refused = is_nth(fake->options.fail_alloc, ++fake->alloc_calls) ||
		  bytes > fake->options.memory_bytes - fake->used_bytes;
	if (!refused)
		memory = aligned_alloc(64, twi_align_up(sizeof(*memory) + bytes, 64));
	if (memory != NULL) {
		memory->bytes = bytes;
		twi_list_push_back(&fake->memories, &memory->link);
		fake->used_bytes += bytes;
	}
	pthread_mutex_unlock(&fake->lock);
	if (memory == NULL)
		return twi_error(TOW_ENOMEM, "device %s: no room for %llu bytes of %llu",
				 fake->facts.name, (unsigned long long)bytes,
				 (unsigned long long)fake->options.memory_bytes);
	*memory_out = memory;
	return TOW_OK;
}

static void fake_free(struct twi_device *device, void *memory)
{
	struct fake *fake = fake_of(device);

	pthread_mutex_lock(&fake->lock);
	fake->used_bytes -= ((struct fake_memory *)memory)->bytes;
	twi_list_remove(&((struct fake_memory *)memory)->link);
	pthread_mutex_unlock(&fake->lock);
	free(memory);
}

/* When a chunk that starts now ends, if nothing fails. */
static uint64_t job_due_ns(struct fake *fake, struct wire *wire, uint64_t bytes, uint64_t now_ns)
{
	uint64_t start = twi_max(wire->free_ns, now_ns);

	if (fake->options.bandwidth > 0)
		start += (uint64_t)((double)bytes * 1e9 / (double)fake->options.bandwidth);
	wire->free_ns = start;
	return start + fake->options.latency_ns;
}

static int take_copy(struct fake *fake, const struct twi_device_copy *copy)
{
	const struct twi_fake_options *options = &fake->options;
	struct job *job = &fake->wire[copy->direction].job[copy->slot];
	uint64_t now = twi_engine_now(fake->device.engine), count;

	twi_assert(job->state == JOB_FREE);
	count = fake->seen.chunks + 1;
	if (!options->any && !fake_translates(fake, copy->host, copy->bytes)) {
		fake->seen.refused_addresses++;
		return twi_error(TOW_EDEVICE, "device %s: %llu bytes at %p are not mapped for it",
				 fake->facts.name, (unsigned long long)copy->bytes, copy->host);
	}
	if (fake->dead || is_nth(options->refuse_copy, count)) {
		fake->seen.chunks += !fake->dead;
		return twi_error(TOW_EDEVICE, "device %s: %s", fake->facts.name,
				 fake->dead ? "it is dead" : "a copy is refused, by its spec");
	}
	*job = (struct job){ .state = JOB_RUNS, .number = fake->seen.chunks++, .copy = *copy };
	fake->seen.entry[job->number % TWI_FAKE_LOG] = (struct twi_fake_entry){
		copy->direction, false, copy->memory, copy->offset, copy->host, copy->bytes, now, 0,
	};
	job->due_ns = job_due_ns(fake, &fake->wire[copy->direction], copy->bytes, now);
	if (options->hang_copy != 0 && count >= options->hang_copy)
		job->due_ns = UINT64_MAX;
	if (is_nth(options->fail_copy, count))
		job->status = TOW_EDEVICE;
	if (is_nth(options->die_copy, count))
		fake->dead = true;
	return TOW_OK;
}

static int fake_copy(struct twi_device *device, const struct twi_device_copy *copy,
		     uint64_t *taken_out)
{
	struct fake *fake = fake_of(device);
	int status;

	pthread_mutex_lock(&fake->lock);
	status = take_copy(fake, copy);
	if (status == TOW_OK && fake->threaded)
		pthread_cond_signal(&fake->changed);
	pthread_mutex_unlock(&fake->lock);
	*taken_out = status == TOW_OK ? copy->bytes : 0;
	return status;
}

static int fake_query(struct twi_device *device, enum tow_direction direction, unsigned slot)
{
	struct fake *fake = fake_of(device);
	struct job *job = &fake->wire[direction].job[slot];
	int status = TOW_AGAIN;
	bool any = false;

	pthread_mutex_lock(&fake->lock);
	if (!fake->threaded)
		run_jobs(fake, twi_engine_now(device->engine), &any);
	if (job->state == JOB_ENDED) {
		job->state = JOB_FREE;
		status = job->status;
		if (status < 0)
			twi_error(status, "device %s: a copy of %llu bytes has failed, by its spec",
				  fake->facts.name, (unsigned long long)job->copy.bytes);
	}
	pthread_mutex_unlock(&fake->lock);
	return status;
}

static uint64_t fake_deadline_ns(struct twi_device *device)
{
	struct fake *fake = fake_of(device);
	uint64_t next = UINT64_MAX;

	pthread_mutex_lock(&fake->lock);
	for (unsigned i = 0; i < TWI_DEVICE_STREAMS; i++) {
		for (unsigned k = 0; k < TWI_DEVICE_CHUNKS; k++) {
			if (fake->wire[i].job[k].state != JOB_FREE)
				next = twi_min(next, fake->wire[i].job[k].due_ns);
		}
	}
	pthread_mutex_unlock(&fake->lock);
	return next;
}

static void fake_describe(struct twi_device *device, struct twi_emit *emit)
{
	struct fake *fake = fake_of(device);

	pthread_mutex_lock(&fake->lock);
	twi_emit_u64(emit, "translations", fake->maps);
	twi_emit_u64(emit, "refused_addresses", fake->seen.refused_addresses);
	pthread_mutex_unlock(&fake->lock);
}

const struct twi_device_ops twi_device_fake = {
	.kind = "fake",
	.help = "fake[:latency=10us,bandwidth=10GB,...]",
	.probe = fake_probe,
	.open = fake_open,
	.close = fake_close,
	.facts = fake_facts,
	.map = fake_map,
	.unmap = fake_unmap,
	.alloc = fake_alloc,
	.free = fake_free,
	.copy = fake_copy,
	.query = fake_query,
	.deadline_ns = fake_deadline_ns,
	.describe = fake_describe,
};
