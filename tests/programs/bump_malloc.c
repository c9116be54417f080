// An allocator that is safe in signal handlers: one atomic addition, nothing is ever reused. Linked
// under `signal_alloc`, so that any failure when a handler interrupts an allocation is the
// profiler's.
// build: -shared -fPIC
#include <errno.h>
#include <malloc.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

static const size_t ARENA = (size_t)16 << 30; // address space, not memory: MAP_NORESERVE
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

// The size sits in the 16 bytes before the block. Static, as inside real allocators: a call through
// an exported name would call the interposing library.
static void *take(size_t alignment, size_t size) {
    uintptr_t start = arena_start();
    if (alignment < 16) alignment = 16;
    size_t room = size + alignment + 16;
    if (!start || room < size || room > ARENA) return errno = ENOMEM, NULL;
    uintptr_t at = __atomic_fetch_add(&used, (room + 15) & ~(size_t)15, __ATOMIC_RELAXED);
    if (at + room > ARENA) return errno = ENOMEM, NULL;
    uintptr_t block = (start + at + 16 + alignment - 1) & ~(uintptr_t)(alignment - 1);
    ((size_t *)block)[-1] = size;
    return (void *)block;
}

void *malloc(size_t size) { return take(16, size); }
void *memalign(size_t alignment, size_t size) { return take(alignment, size); }
void free(void *p) { (void)p; }
static size_t size_of(void *p) { return p ? ((size_t *)p)[-1] : 0; }
size_t malloc_usable_size(void *p) { return size_of(p); }
void *aligned_alloc(size_t alignment, size_t size) { return take(alignment, size); }

int posix_memalign(void **p, size_t alignment, size_t size) {
    void *block = take(alignment, size);
    if (!block) return ENOMEM;
    *p = block;
    return 0;
}

// Fresh arena pages are zero and never reused.
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
