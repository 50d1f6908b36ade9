/*
 * explore.c - the choices of a run, and the contexts that are its threads. See explore.h.
 */
#include "twt.h"

#include "explore.h"

#include <dlfcn.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "explore_memory.h"
#include "explore_shared.h"
#include "explore_threads.h"

#define STACK_BYTES   (256u << 10)
#define CHOICES_MAX   20000u
#define STEPS_MAX     20000u
#define LOG_STEPS     96u
#define OWN_BYTES_MAX 256u
#define OWN_MAX       4u
#define STEP_NS       100u
#define SLEEP_NS      2000000u /* that pass when everybody waits */

enum state {
	READY,
	YIELDED,  /* until something is stored */
	SLEEPING, /* until it is woken */
	ENDED,
};

struct thread {
	ucontext_t context;
	void *stack;
	enum state state;
	uint64_t stores_seen;
	uintptr_t sleeps_at;
	bool timed, woken;
	bool behind; /* since it gave way it has read a value that was not the last */
	uint8_t own[OWN_BYTES_MAX];
};

struct choice {
	uint16_t taken, options;
};

struct step {
	unsigned thread;
	const char *what;
	uintptr_t address;
	const void *code;
	uint64_t value;
};

static struct thread threads[TWT_EXPLORE_THREADS];
static ucontext_t outside;
static const struct twt_explore_case *current_case;
static struct twt_explored *result;
static int running = -1;

/* The choices of this run; what the run before has taken stands in the first `given`. */
static struct choice choices[CHOICES_MAX];
static uint32_t given, made;
static unsigned preemptions_left, stale_left;
static uint64_t stores, steps, jumps;
static struct step steps_log[LOG_STEPS];

/* What each thread has for itself; all of it one behind the other in thread->own. */
static struct {
	uint8_t *memory;
	size_t bytes;
} owned[OWN_MAX];
static unsigned owned_count;
static uint8_t own_first[OWN_BYTES_MAX];

bool twt_explore_inside(void)
{
	return running >= 0;
}

unsigned twt_explore_self(void)
{
	return (unsigned)running;
}

uint64_t twt_explore_now_ns(void)
{
	return 1000000000u + steps * STEP_NS + jumps * SLEEP_NS;
}

void twt_explore_own(void *memory, size_t bytes)
{
	size_t all = bytes;

	for (unsigned i = 0; i < owned_count; i++)
		all += owned[i].bytes;
	assert_true(owned_count < OWN_MAX && all <= OWN_BYTES_MAX);
	owned[owned_count].memory = memory;
	owned[owned_count++].bytes = bytes;
}

bool twt_explore_owns(uintptr_t address)
{
	for (unsigned i = 0; i < owned_count; i++) {
		if (address - (uintptr_t)owned[i].memory < owned[i].bytes)
			return true;
	}
	return false;
}

static void own_save(uint8_t *to)
{
	for (unsigned i = 0; i < owned_count; to += owned[i++].bytes)
		memcpy(to, owned[i].memory, owned[i].bytes);
}

static void own_restore(const uint8_t *from)
{
	for (unsigned i = 0; i < owned_count; from += owned[i++].bytes)
		memcpy(owned[i].memory, from, owned[i].bytes);
}

const void *twt_explore_code(const void *code)
{
	Dl_info info;

	return dladdr(code, &info) != 0
		       ? (const void *)((uintptr_t)code - (uintptr_t)info.dli_fbase)
		       : code;
}

/* Leaves the running thread, whose run is over, for good. */
static _Noreturn void run_stop(void)
{
	running = -1;
	setcontext(&outside);
	abort();
}

void twt_explore_fault(const char *format, ...)
{
	va_list args;

	if (result->faulty)
		return;
	result->faulty = true;
	va_start(args, format);
	vsnprintf(result->fault, sizeof(result->fault), format, args);
	va_end(args);
	if (running >= 0)
		run_stop();
}

void twt_explore_stored(void)
{
	stores++;
}

/* One of `options`: as the run before had it, else the first. */
static unsigned choose(unsigned options)
{
	if (options <= 1)
		return 0;
	if (made == CHOICES_MAX)
		twt_explore_fault("more than %u choices", CHOICES_MAX);
	if (made >= given)
		choices[made] = (struct choice){ .taken = 0, .options = (uint16_t)options };
	else if (choices[made].options != options)
		twt_explore_fault("choice %u has %u options and had %u: a run is not as the one "
				  "before",
				  made, options, choices[made].options);
	return choices[made++].taken;
}

unsigned twt_explore_choose_store(unsigned options)
{
	unsigned back = stale_left > 0 ? choose(options) : 0;

	stale_left -= back > 0;
	threads[running].behind |= back > 0;
	return back;
}

static bool can_go_on(const struct thread *thread)
{
	return thread->state == READY ||
	       (thread->state == YIELDED && thread->stores_seen != stores);
}

/* Nobody can: whoever has slept for a time of its own, or has yielded, has waited long enough. */
static bool time_passes(void)
{
	bool slept = current_case->may_wait, any = false;

	jumps += slept;
	for (unsigned i = 0; i < current_case->threads; i++) {
		struct thread *thread = &threads[i];

		if ((thread->state == YIELDED && (slept || current_case->polite)) ||
		    (thread->state == SLEEPING && thread->timed && slept)) {
			thread->state = READY;
			any = true;
		}
	}
	return any;
}

/* Those who can go on, the running one first. */
static unsigned list_ready(unsigned *out)
{
	unsigned count = 0;

	if (running >= 0 && can_go_on(&threads[running]))
		out[count++] = (unsigned)running;
	for (unsigned i = 0; i < current_case->threads; i++) {
		if ((int)i != running && can_go_on(&threads[i]))
			out[count++] = i;
	}
	return count;
}

static bool has_all_ended(void)
{
	for (unsigned i = 0; i < current_case->threads; i++) {
		if (threads[i].state != ENDED)
			return false;
	}
	return true;
}

/* Who goes on; -1: all have ended. */
static int choose_thread(void)
{
	unsigned ready[TWT_EXPLORE_THREADS], count = list_ready(ready), at;

	if (count == 0 && has_all_ended())
		return -1;
	if (count == 0) {
		if (!time_passes())
			twt_explore_fault("deadlock: nobody can go on");
		count = list_ready(ready);
	}
	if ((int)ready[0] != running)
		return (int)ready[choose(count)];
	at = choose(preemptions_left > 0 ? count : 1);
	preemptions_left -= at > 0;
	return (int)ready[at];
}

/* The running thread leaves, or has ended; who is next goes on. */
static void pass_on(void)
{
	int next = choose_thread(), last = running;

	if (next == last)
		return;
	if (last >= 0)
		own_save(threads[last].own);
	running = next;
	if (next < 0) {
		setcontext(&outside);
		abort();
	}
	threads[next].state = READY;
	own_restore(threads[next].own);
	if (last >= 0)
		swapcontext(&threads[last].context, &threads[next].context);
	else
		swapcontext(&outside, &threads[next].context);
}

static void log_step(const char *what, uintptr_t address, const void *code)
{
	if (++steps == STEPS_MAX)
		twt_explore_fault("no end after %u steps", STEPS_MAX);
	steps_log[steps % LOG_STEPS] = (struct step){
		.thread = (unsigned)running, .what = what, .address = address, .code = code
	};
}

void twt_explore_note(uint64_t value)
{
	steps_log[steps % LOG_STEPS].value = value;
}

void twt_explore_point(const char *what, uintptr_t address, const void *code)
{
	pass_on();
	log_step(what, address, code);
}

void twt_explore_access(const char *what, uintptr_t address, bool store, const void *code)
{
	if (twt_shared_touch(address, (unsigned)running, store))
		pass_on();
	log_step(what, address, code);
}

void twt_explore_yield(void)
{
	log_step("yields", 0, __builtin_return_address(0));
	threads[running].state = YIELDED;
	threads[running].stores_seen = stores - threads[running].behind;
	threads[running].behind = false;
	pass_on();
}

bool twt_explore_sleep(uintptr_t address, bool timed)
{
	struct thread *thread = &threads[running];

	log_step("sleeps", address, __builtin_return_address(0));
	thread->state = SLEEPING;
	thread->sleeps_at = address;
	thread->timed = timed;
	thread->woken = false;
	pass_on();
	return thread->woken;
}

unsigned twt_explore_wake(uintptr_t address, unsigned most)
{
	unsigned woken = 0;

	log_step("wakes", address, __builtin_return_address(0));
	for (unsigned i = 0; i < current_case->threads && woken < most; i++) {
		struct thread *thread = &threads[i];

		if (thread->state != SLEEPING || thread->sleeps_at != address)
			continue;
		thread->state = READY;
		thread->woken = true;
		woken++;
	}
	return woken;
}

static void thread_main(void)
{
	current_case->thread((unsigned)running);
	threads[running].state = ENDED;
	pass_on();
}

static void thread_prepare(struct thread *thread)
{
	if (thread->stack == NULL) {
		thread->stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE,
				     MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
		assert_true(thread->stack != MAP_FAILED);
	}
	getcontext(&thread->context);
	thread->context.uc_stack.ss_sp = thread->stack;
	thread->context.uc_stack.ss_size = STACK_BYTES;
	thread->context.uc_link = NULL;
	makecontext(&thread->context, thread_main, 0);
	thread->state = READY;
	thread->behind = false;
	memcpy(thread->own, own_first, sizeof(own_first));
}

/* What is asked for beyond the bounds of the case. */
static unsigned more_of(const char *name)
{
	const char *text = getenv(name);

	return text != NULL ? (unsigned)strtoul(text, NULL, 10) : 0;
}

static void run_once(void)
{
	made = 0;
	preemptions_left = current_case->preemptions + more_of("TOW_EXPLORE_PREEMPTIONS");
	stale_left = current_case->stale_reads + more_of("TOW_EXPLORE_STALE");
	stores = steps = jumps = 0;
	current_case->begin();
	twt_explore_system_begin();
	twt_memory_begin(current_case->threads);
	for (unsigned i = 0; i < current_case->threads; i++)
		thread_prepare(&threads[i]);
	pass_on();
	if (!result->faulty && current_case->end != NULL)
		current_case->end();
}

/*
 * The next combination: the last choice that has another option takes it. False: there is none.
 * When more is known to be shared there are more choices, and it begins anew.
 */
static bool next_run(void)
{
	if (twt_shared_news()) {
		given = 0;
		return true;
	}
	while (made > 0 && choices[made - 1].taken + 1 == choices[made - 1].options)
		made--;
	if (made == 0)
		return false;
	choices[made - 1].taken++;
	given = made;
	return true;
}

static void print_steps(void)
{
	uint64_t first = steps >= LOG_STEPS ? steps - LOG_STEPS + 1 : 1;

	for (uint64_t i = first; i <= steps; i++) {
		const struct step *step = &steps_log[i % LOG_STEPS];

		print_message("%4llu thread %u %-12s %#14lx at %p: %#llx\n", (unsigned long long)i,
			      step->thread, step->what, (unsigned long)step->address,
			      twt_explore_code(step->code), (unsigned long long)step->value);
	}
}

void twt_explore(const struct twt_explore_case *what, struct twt_explored *out)
{
	bool more = true;

	*out = (struct twt_explored){ 0 };
	assert_true(what->threads <= TWT_EXPLORE_THREADS);
	current_case = what;
	result = out;
	given = 0;
	twt_shared_forget();
	own_save(own_first);
	while (more && !out->faulty && (what->runs == 0 || out->runs < what->runs)) {
		run_once();
		out->runs++;
		out->choices = made > out->choices ? made : out->choices;
		more = !out->faulty && next_run();
	}
	out->whole = !more && !out->faulty;
	own_restore(own_first);
}

void twt_explore_all(const struct twt_explore_case *what)
{
	struct twt_explored out;

	twt_explore(what, &out);
	print_message("%s: %llu runs with up to %u preemptions and %u stale reads, up to %u "
		      "choices each%s\n",
		      what->name, (unsigned long long)out.runs,
		      what->preemptions + more_of("TOW_EXPLORE_PREEMPTIONS"),
		      what->stale_reads + more_of("TOW_EXPLORE_STALE"), out.choices,
		      out.whole ? "" : "; there are more");
	if (out.faulty) {
		print_steps();
		fail_msg("%s: run %llu: %s", what->name, (unsigned long long)out.runs, out.fault);
	}
}
