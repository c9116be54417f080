// An allocator that returns the pages of each large block when it is freed, as jemalloc and
// mimalloc do: one `madvise(MADV_DONTNEED)` per free of a block of 64 KiB or more. Addresses are
// never reused.
// build: -shared -fPIC
#include <errno.h>
#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE 4096UL
static const size_t ARENA = (size_t)1 << 32; // address space, not memory: MAP_NORESERVE
static const size_t LARGE = 64 << 10;
static uintptr_t arena, used;

static uintptr_t arena_start(void) {
    uintptr_t start = __atomic_load_n(&arena, __ATOMIC_ACQUIRE);
    if (start) return start;
    void *fresh = mmap(NULL, ARENA, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (fresh == MAP_FAILED) return 0;
    if (__atomic_compare_exchange_n(&arena, &start, (uintptr_t)fresh, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        return (uintptr_t)fresh;
    munmap(fresh, ARENA);
    return start;
}

// The size is in the 16 bytes before the block.
static void *take(size_t alignment, size_t size) {
    uintptr_t start = arena_start();
    if (alignment < 16) alignment = 16;
    if (size >= LARGE && alignment < PAGE) alignment = PAGE;
    size_t room = size + alignment + 16;
    if (!start || room < size || room > ARENA) return errno = ENOMEM, NULL;
    uintptr_t at = __atomic_fetch_add(&used, (room + PAGE - 1) & ~(PAGE - 1), __ATOMIC_RELAXED);
    if (at + room > ARENA) return errno = ENOMEM, NULL;
    uintptr_t block = (start + at + 16 + alignment - 1) & ~(uintptr_t)(alignment - 1);
    ((size_t *)block)[-1] = size;
    return (void *)block;
}

static size_t size_of(void *p) { return p ? ((size_t *)p)[-1] : 0; }
void *malloc(size_t size) { return take(16, size); }
void *memalign(size_t alignment, size_t size) { return take(alignment, size); }
size_t malloc_usable_size(void *p) { return size_of(p); }
void *aligned_alloc(size_t alignment, size_t size) { return take(alignment, size); }

// The result is used, so the compiler makes a call and not a jump: the allocator is its caller.
void free(void *p) {
    if (size_of(p) >= LARGE && madvise(p, size_of(p), MADV_DONTNEED) != 0) abort();
}

int posix_memalign(void **p, size_t alignment, size_t size) {
    void *block = take(alignment, size);
    if (!block) return ENOMEM;
    *p = block;
    return 0;
}

// Fresh pages of the arena are zero and never reused.
void *calloc(size_t count, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) return errno = ENOMEM, NULL;
    return take(16, bytes);
}

void *realloc(void *old, size_t size) {
    if (old && !size) return NULL;
    void *fresh = take(16, size);
    size_t had = size_of(old);
    if (fresh && old) memcpy(fresh, old, had < size ? had : size);
    return fresh;
}
