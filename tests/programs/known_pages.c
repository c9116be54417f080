// Holds memory whose resident pages are known by construction, and prints the pages of each line of
// the ledger:
//   mappings    anonymous mappings: some whole, some with a hole or trimmed, some touched in part,
//               one moved by mremap, one replaced by MAP_FIXED, one released by madvise, and some
//               mapped, unmapped and moved by `syscall`
//   sparse      1000 blocks of 256 bytes, each alone on its page of the heap
//   large       a block with a mapping of its own, touched in part and split by madvise
//   shared      System V shared memory, memfd and a shared anonymous mapping
//   file        pages of a mapped file
// Then it waits until its input ends.
// build: -pthread
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PAGE 4096UL
#define SPARSE 1000

static long mapped_pages, shared_pages;

static void touch(char *p, size_t pages) {
    for (size_t i = 0; i < pages; i++) ((volatile char *)p)[i * PAGE] = 1;
}

static char *map_pages(size_t pages) {
    char *p = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) abort();
    return p;
}

__attribute__((noinline)) static void map_private(void) {
    touch(map_pages(64), 64);
    touch(map_pages(64), 16);
    // Trimmed on both sides, as aligned arenas are, with a hole in the middle.
    char *p = map_pages(96);
    touch(p, 96);
    munmap(p, 16 * PAGE);
    munmap(p + 80 * PAGE, 16 * PAGE);
    munmap(p + 40 * PAGE, 8 * PAGE);
    // Released without unmapping.
    p = map_pages(32);
    touch(p, 32);
    madvise(p + 8 * PAGE, 8 * PAGE, MADV_DONTNEED);
    // Replaced in the middle.
    p = map_pages(32);
    touch(p, 32);
    p = mmap(p + 8 * PAGE, 8 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    touch(p, 2);
    mapped_pages += 64 + 16 + (96 - 40) + 24 + 26;
}

__attribute__((noinline)) static void map_moved(void) {
    char *p = map_pages(16);
    touch(p, 16);
    p = mremap(p, 16 * PAGE, 200 * PAGE, MREMAP_MAYMOVE);
    if (p == MAP_FAILED) abort();
    touch(p, 48);
    mapped_pages += 48;
}

// By `syscall`, without libc's functions.
__attribute__((noinline)) static void map_direct(void) {
    long flags = MAP_PRIVATE | MAP_ANONYMOUS, access = PROT_READ | PROT_WRITE;
    char *p = (char *)syscall(SYS_mmap, NULL, 40 * PAGE, access, flags, -1L, 0L);
    char *q = (char *)syscall(SYS_mmap, NULL, 8 * PAGE, access, flags, -1L, 0L);
    if (p == MAP_FAILED || q == MAP_FAILED) abort();
    touch(p, 40);
    if (syscall(SYS_munmap, p, 8 * PAGE) != 0) abort();
    q = (char *)syscall(SYS_mremap, q, 8 * PAGE, 64 * PAGE, MREMAP_MAYMOVE);
    if (q == MAP_FAILED) abort();
    touch(q, 24);
    // Failures are passed on.
    if (syscall(SYS_mmap, NULL, 0L, access, flags, -1L, 0L) != -1) abort();
    mapped_pages += 32 + 24;
}

__attribute__((noinline)) static void map_shared(void) {
    char *p = mmap(NULL, 32 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    touch(p, 20);
    int fd = memfd_create("known", 0);
    if (fd < 0 || ftruncate(fd, 32 * PAGE) != 0) abort();
    touch(mmap(NULL, 32 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), 10);
    int id = shmget(IPC_PRIVATE, 32 * PAGE, IPC_CREAT | 0600);
    char *attached = shmat(id, NULL, 0);
    shmctl(id, IPC_RMID, NULL);
    if (attached == (char *)-1) abort();
    touch(attached, 7);
    shared_pages += 20 + 10 + 7;
}

static void *kept[SPARSE];

// Blocks of 4080 bytes fill pages one by one; every other byte of them is freed.
__attribute__((noinline)) static void hold_sparse(void) {
    static void *fill[SPARSE];
    for (int i = 0; i < SPARSE; i++) {
        kept[i] = malloc(256);
        fill[i] = malloc(PAGE - 256 - 32);
        memset(kept[i], 1, 256);
        memset(fill[i], 1, PAGE - 256 - 32);
    }
    for (int i = 0; i < SPARSE; i++) free(fill[i]);
}

__attribute__((noinline)) static char *hold_large(void) {
    char *p = malloc(4 << 20);
    touch(p, 100);
    // As numpy does with MADV_HUGEPAGE: the kernel splits the mapping in three.
    char *inside = (char *)(((size_t)p + PAGE) & ~(PAGE - 1));
    madvise(inside, 1 << 20, MADV_DONTFORK);
    return p;
}

int main(void) {
    map_private();
    map_moved();
    map_direct();
    map_shared();
    hold_sparse();
    char *large = hold_large();
    printf("mappings %ld\nshared %ld\nsparse_pages %d\nsparse_bytes %d\nlarge %d\nuntouched %d\n", mapped_pages,
           shared_pages, SPARSE, SPARSE * 256, 100, (4 << 20) - 100 * 4096);
    fflush(stdout);
    char byte;
    while (read(0, &byte, 1) > 0) {}
    return large == NULL;
}
