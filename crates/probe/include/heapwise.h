/* heapwise.h: a program speaks to the probe that runs inside it.
 *
 * Every function is weak: the program links and runs without the probe, and the inline wrappers
 * below then do nothing. Include it, call hw_…, and start the program under `heapwise run` or
 * with the probe preloaded. Nothing here allocates from the program's heap. A call from a signal
 * handler that interrupted the probe itself changes nothing: heapwise_dump returns EAGAIN, the
 * others are counted (`heapwise stats`). */
#ifndef HEAPWISE_H
#define HEAPWISE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Weak symbols of a program that is not position-independent are 0 for good: the probe would
 * never be found. */
#if !defined(__PIC__) && !defined(__PIE__)
#warning "heapwise.h: compile with -fPIE or -fPIC, or the probe is not found"
#endif

enum heapwise_mode { HEAPWISE_OFF = 0, HEAPWISE_SAMPLED = 1, HEAPWISE_EXACT = 2, HEAPWISE_LOG = 3 };
/* How exact mode finds a block: compact, or direct-mapped by address and fastest. */
enum heapwise_index { HEAPWISE_INDEX_AUTO = 0, HEAPWISE_INDEX_HASH = 1, HEAPWISE_INDEX_SHADOW = 2 };

/* One frame of a script, innermost first in an array. Strings need to live until the call
 * returns. */
struct heapwise_frame {
    const char *function;
    const char *file;
    int line;
};

/* Writes at most `max` frames of the script that `coroutine` runs, innermost first; returns how
 * many. Called while the thread allocates, so it must not wait for a lock that is held around
 * allocations. */
typedef int (*heapwise_provider)(void *coroutine, struct heapwise_frame *frames, int max);

#define HEAPWISE_WEAK __attribute__((weak))

/* Switches for the whole process. `sample_bytes` matters to HEAPWISE_SAMPLED; 0 keeps the rate in
 * force. */
HEAPWISE_WEAK void heapwise_set_mode(enum heapwise_mode mode, uint64_t sample_bytes);
/* The mode in force, after taking up whatever another process has ordered meanwhile. */
HEAPWISE_WEAK int heapwise_mode(void);
/* The index that exact mode uses from its next start on. */
HEAPWISE_WEAK void heapwise_set_index(enum heapwise_index index);
/* The index in force; HEAPWISE_INDEX_AUTO where not every block is recorded. */
HEAPWISE_WEAK int heapwise_index(void);
/* CLOCK_MONOTONIC nanoseconds up to which the recording of this program is in its file; 0 before
 * there is one. */
HEAPWISE_WEAK uint64_t heapwise_recorded_ns(void);
/* Forgets what was counted so far. */
HEAPWISE_WEAK void heapwise_reset(void);
/* Writes a heap dump that heapwise and jeprof read; a null path takes jemalloc's next name,
 * `jeprof.<pid>.<seq>.m<n>.heap` in the current directory. Returns 0, or an errno. */
HEAPWISE_WEAK int heapwise_dump(const char *path);
/* Names this moment. */
HEAPWISE_WEAK void heapwise_mark(const char *name);

/* What was counted so far; sums of other threads may be 64 KiB behind. */
struct heapwise_snapshot {
    uint64_t live_bytes;      /* exact, or estimated from samples */
    uint64_t peak_bytes;      /* highest live_bytes since the last reset */
    uint64_t allocated_bytes; /* since the last reset */
    uint64_t recorded;        /* allocations recorded: all of them, or the samples */
    uint64_t freed;           /* recorded blocks that were freed */
    uint64_t lost;            /* events that could not be recorded */
};
HEAPWISE_WEAK void heapwise_take_snapshot(struct heapwise_snapshot *snapshot);

/* What the calling thread works for: until it is popped, blocks it allocates are attributed to a
 * frame `[name]` on top of their native frames. Labels nest. */
HEAPWISE_WEAK void heapwise_label_push(const char *name);
HEAPWISE_WEAK void heapwise_label_pop(void);

/* Declared frames of the calling thread: what it allocates is attributed to them, on top of its
 * native frames. Leave what was entered, on the same thread. */
HEAPWISE_WEAK void heapwise_script_enter(const char *file, const char *function, int line);
HEAPWISE_WEAK void heapwise_script_line(int line);
HEAPWISE_WEAK void heapwise_script_leave(void);

/* Instead of declaring each frame: a function that knows the current ones, and which coroutine
 * (for Lua the lua_State) the calling thread runs now; null when it runs none. Only recorded
 * allocations call it. */
HEAPWISE_WEAK void heapwise_script_provider(heapwise_provider provider);
HEAPWISE_WEAK void heapwise_script_switch(void *coroutine);

static inline int hw_present(void) { return heapwise_set_mode != 0; }
static inline void hw_set_mode(enum heapwise_mode mode, uint64_t sample_bytes) {
    if (heapwise_set_mode) heapwise_set_mode(mode, sample_bytes);
}
static inline enum heapwise_mode hw_mode(void) {
    return heapwise_mode ? (enum heapwise_mode)heapwise_mode() : HEAPWISE_OFF;
}
static inline void hw_set_index(enum heapwise_index index) {
    if (heapwise_set_index) heapwise_set_index(index);
}
static inline enum heapwise_index hw_index(void) {
    return heapwise_index ? (enum heapwise_index)heapwise_index() : HEAPWISE_INDEX_AUTO;
}
static inline uint64_t hw_recorded_ns(void) { return heapwise_recorded_ns ? heapwise_recorded_ns() : 0; }
static inline void hw_reset(void) {
    if (heapwise_reset) heapwise_reset();
}
/* Also 0 without the probe: there was nothing to write. */
static inline int hw_dump(const char *path) { return heapwise_dump ? heapwise_dump(path) : 0; }
static inline void hw_mark(const char *name) {
    if (heapwise_mark) heapwise_mark(name);
}
/* One block per `sample_bytes` on average is recorded from now on; 0: every block. */
static inline void hw_start(uint64_t sample_bytes) {
    hw_set_mode(sample_bytes ? HEAPWISE_SAMPLED : HEAPWISE_EXACT, sample_bytes);
}
static inline void hw_stop(void) { hw_set_mode(HEAPWISE_OFF, 0); }
/* 1, or without the probe 0 and nothing but zeros. */
static inline int hw_snapshot(struct heapwise_snapshot *snapshot) {
    struct heapwise_snapshot nothing = {0, 0, 0, 0, 0, 0};
    *snapshot = nothing;
    if (heapwise_take_snapshot) heapwise_take_snapshot(snapshot);
    return heapwise_take_snapshot != 0;
}
static inline void hw_label_push(const char *name) {
    if (heapwise_label_push) heapwise_label_push(name);
}
static inline void hw_label_pop(void) {
    if (heapwise_label_pop) heapwise_label_pop();
}
static inline void hw_script_enter(const char *file, const char *function, int line) {
    if (heapwise_script_enter) heapwise_script_enter(file, function, line);
}
static inline void hw_script_line(int line) {
    if (heapwise_script_line) heapwise_script_line(line);
}
static inline void hw_script_leave(void) {
    if (heapwise_script_leave) heapwise_script_leave();
}
static inline void hw_script_provider(heapwise_provider provider) {
    if (heapwise_script_provider) heapwise_script_provider(provider);
}
static inline void hw_script_switch(void *coroutine) {
    if (heapwise_script_switch) heapwise_script_switch(coroutine);
}

#ifdef __cplusplus
}
#endif
#endif
