/*
 * step.h - what the program is doing, said by the program: its training steps, and spans of its own
 * around parts of them. Traces, slack and verdicts tell of steps; a span stands in the trace beside
 * what the library did meanwhile, as the annotations of other profilers do.
 *
 *	tow_step_begin(runtime, 17);
 *	tow_span_begin(runtime, "backward");
 *	...compute, start collectives...
 *	tow_span_end(runtime);
 *	...wait for them...
 *	tow_step_end(runtime, 17);
 *
 * Each costs less than 100 ns, and they are always on.
 */
#ifndef TOWLINE_STEP_H
#define TOWLINE_STEP_H

#include <stdint.h>

#include <towline/runtime.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TOW_SPAN_DEPTH 32 /* spans that one thread can have open on a runtime */

/*
 * Says that a training step begins. A runtime has one step at a time, whichever threads begin and
 * end it; what is started meanwhile belongs to it. Numbers usually rise by one, but need not;
 * collectives of a step with the number 0 are not told to be of it.
 * Ownership: none passes.
 * Copies: none.
 * Blocks: never.
 * Threads: any.
 * Returns: TOW_OK; TOW_EBUSY when a step is under way, which the message names; TOW_EINVAL for
 * NULL; TOW_EFORKED.
 */
int tow_step_begin(struct tow_runtime *runtime, uint64_t number);

/*
 * Says that the training step ends. The first that does seals the runtime (tow_runtime_seal): what
 * is registered later is late.
 * Ownership: none passes.
 * Copies: none.
 * Blocks: never.
 * Threads: any.
 * Returns: TOW_OK; TOW_EINVAL for NULL, when no step is under way, or another one, which goes on;
 * TOW_EFORKED.
 */
int tow_step_end(struct tow_runtime *runtime, uint64_t number);

/*
 * Begins a span of the calling thread, within the thread's span that is open, if there is one.
 * name: of a part of the program ("backward"), not of a step: names are tags, of which a process
 * can have 1,024 (tow_tag_set); 1 to 63 bytes of printable ASCII.
 * Ownership: the text is copied.
 * Copies: no payload.
 * Blocks: never for long; a new name takes a lock.
 * Threads: any; each has its own spans.
 * Returns: TOW_OK; TOW_EINVAL for NULL or a name that is not legal; TOW_EBUSY when TOW_SPAN_DEPTH
 * spans are open, or there are 1,024 other names; TOW_ENOMEM; TOW_EFORKED.
 */
int tow_span_begin(struct tow_runtime *runtime, const char *name);

/*
 * Ends the span that the calling thread began last, of those that are open on this runtime.
 * Ownership: none passes.
 * Copies: none.
 * Blocks: never.
 * Threads: the one that began it.
 * Returns: TOW_OK; TOW_EINVAL for NULL or when the thread has none open; TOW_EFORKED.
 */
int tow_span_end(struct tow_runtime *runtime);

#ifdef __cplusplus
}
#endif
#endif
