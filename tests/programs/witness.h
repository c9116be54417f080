// The witness: a victim's own account of the blocks it allocates, kept without the allocator's
// help.
//
// What counts: requested bytes of the calls made through the `w_…` functions, and nothing else. A
// realloc counts as one free of the old block and one allocation of the new one, in place or not;
// realloc(p, 0) as a free. libc's own blocks (stdio, dlopen, thread stacks) are not in the account,
// so a report is compared after focusing on `^w_`, the only frames that carry this prefix.
//
// Every `w_…` function stays out of line and works after the call it makes (no tail call), so its
// frame is on the stack of every counted block. Output goes through write(2), one call a line: it
// allocates nothing and is allowed in signal handlers, after fork and under seccomp.
#pragma once

#include <errno.h>
#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define W_SITE __attribute__((noinline, noclone, unused))
#define W_INLINE static inline __attribute__((unused))

// A block and the requested size: the caller keeps both, so no header changes the request.
struct w_block {
    void *p;
    size_t size;
};

struct w_account {
    uint64_t alloc_objects, alloc_bytes, free_objects, free_bytes;
};

static struct w_account w_total;

W_INLINE void w_add(uint64_t *counter, uint64_t n) { __atomic_fetch_add(counter, n, __ATOMIC_RELAXED); }
W_INLINE uint64_t w_get(const uint64_t *counter) { return __atomic_load_n(counter, __ATOMIC_RELAXED); }

W_INLINE void w_count_alloc(size_t size) {
    w_add(&w_total.alloc_objects, 1);
    w_add(&w_total.alloc_bytes, size);
}

W_INLINE void w_count_free(size_t size) {
    w_add(&w_total.free_objects, 1);
    w_add(&w_total.free_bytes, size);
}

W_INLINE struct w_block w_counted(void *p, size_t size) {
    struct w_block block = {p, size};
    if (p) w_count_alloc(size);
    return block;
}

static W_SITE struct w_block w_malloc(size_t size) { return w_counted(malloc(size), size); }

static W_SITE struct w_block w_calloc(size_t count, size_t size) {
    return w_counted(calloc(count, size), count * size);
}

static W_SITE struct w_block w_memalign(size_t alignment, size_t size) {
    void *p = NULL;
    if (posix_memalign(&p, alignment, size) != 0) p = NULL;
    return w_counted(p, size);
}

static W_SITE void w_free(struct w_block block) {
    if (block.p) w_count_free(block.size);
    free(block.p);
    __asm__ volatile("" ::: "memory");
}

// Leaves *block as it was when the allocator refuses; empties it for size 0 (glibc frees and
// returns NULL).
static W_SITE void w_realloc(struct w_block *block, size_t size) {
    int had = block->p != NULL;
    size_t old = block->size;
    void *p = realloc(block->p, size);
    if (!p && size) return;
    if (had) w_count_free(old);
    if (p) w_count_alloc(size);
    block->p = p;
    block->size = p ? size : 0;
}

// xorshift64*: the same blocks for the same seed on every machine.
W_INLINE uint64_t w_random(uint64_t *state) {
    uint64_t x = *state ? *state : 88172645463325252ULL;
    x ^= x >> 12, x ^= x << 25, x ^= x >> 27;
    *state = x;
    return x * 2685821657736338717ULL;
}

// Mostly small, some pages, rarely a mapping of its own: 1 B … 64 B, 4 KiB, 64 KiB, 256 KiB.
W_INLINE size_t w_random_size(uint64_t *state) {
    uint64_t kind = w_random(state) % 1000;
    size_t limit = kind < 850 ? 64 : kind < 980 ? 4096 : kind < 999 ? 65536 : 262144;
    return 1 + w_random(state) % limit;
}

static inline void w_write(int fd, const char *text, size_t length) {
    while (length) {
        ssize_t n = write(fd, text, length);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return;
        text += n, length -= (size_t)n;
    }
}

W_INLINE char *w_append(char *to, const char *end, const char *text) {
    while (*text && to < end) *to++ = *text++;
    return to;
}

W_INLINE char *w_append_number(char *to, const char *end, uint64_t value) {
    char digits[24];
    int n = sizeof digits - 1;
    digits[n] = 0;
    do digits[--n] = (char)('0' + value % 10);
    while (value /= 10);
    return w_append(to, end, digits + n);
}

// `witness PREFIXNAME VALUE`
W_INLINE void w_say(const char *prefix, const char *name, uint64_t value) {
    char line[160], *end = line + sizeof line - 1, *to = line;
    to = w_append(to, end, "witness ");
    to = w_append(to, end, prefix);
    to = w_append(to, end, name);
    to = w_append(to, end, " ");
    to = w_append_number(to, end, value);
    *to++ = '\n';
    w_write(1, line, (size_t)(to - line));
}

W_INLINE void w_report_account(const char *prefix, const struct w_account *a) {
    w_say(prefix, "alloc_objects", w_get(&a->alloc_objects));
    w_say(prefix, "alloc_bytes", w_get(&a->alloc_bytes));
    w_say(prefix, "inuse_objects", w_get(&a->alloc_objects) - w_get(&a->free_objects));
    w_say(prefix, "inuse_bytes", w_get(&a->alloc_bytes) - w_get(&a->free_bytes));
}

W_INLINE void w_report(const char *prefix) { w_report_account(prefix, &w_total); }

W_INLINE uint64_t w_argument(int argc, char **argv, int index, uint64_t otherwise) {
    return index < argc ? strtoull(argv[index], NULL, 0) : otherwise;
}

// The victim's own expectations: a broken one ends it with status 99 and names the line.
#define W_TEXT_(x) #x
#define W_TEXT(x) W_TEXT_(x)
#define W_REQUIRE(condition)                                                          \
    do {                                                                              \
        if (!(condition)) {                                                           \
            static const char w_broken[] = __FILE__ ":" W_TEXT(__LINE__) ": " #condition "\n"; \
            w_write(2, w_broken, sizeof w_broken - 1);                                \
            _exit(99);                                                                \
        }                                                                             \
    } while (0)
