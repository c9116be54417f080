// Returns memory to the kernel by madvise and creates memory by memfd_create, a known number of
// times with known bytes from functions with known names, by libc's functions and by `syscall`:
//   return_now     MADV_DONTNEED   10 calls of 16 pages
//   return_later   MADV_FREE        3 calls of 8 pages
//   return_file    MADV_REMOVE      2 calls of 4 pages of the memfd
//   return_direct  MADV_DONTNEED    5 calls of 2 pages, by `syscall`
//   create_pool    memfd_create     1 call: `pool`, of which 24 pages are touched by map_pool
//   create_direct  memfd_create     1 call by `syscall`: `direct`, of which 3 pages are touched
//   free_blocks    no call of its own: 4 blocks of 64 pages, which purging_malloc.so returns
// Calls that fail, and calls with an advice that returns nothing, are not among them.
// With `fork` it does all that in a child. Then it prints `ready` and its pid, and waits until its
// input ends.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE 4096UL

static void touch(char *p, size_t pages) {
    for (size_t i = 0; i < pages; i++) ((volatile char *)p)[i * PAGE] = 1;
}

static char *map_pages(size_t pages, int flags, int fd) {
    char *p = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, flags, fd, 0);
    if (p == MAP_FAILED) abort();
    return p;
}

__attribute__((noinline)) static void return_now(char *p) {
    for (int i = 0; i < 10; i++) {
        touch(p, 16);
        // The kernel rounds the length up to whole pages.
        if (madvise(p, 16 * PAGE - (i & 1), MADV_DONTNEED) != 0) abort();
    }
}

__attribute__((noinline)) static void return_later(char *p) {
    for (int i = 0; i < 3; i++) {
        if (madvise(p + 16 * PAGE, 8 * PAGE, MADV_FREE) != 0) abort();
    }
}

__attribute__((noinline)) static void return_direct(char *p) {
    for (int i = 0; i < 5; i++) {
        if (syscall(SYS_madvise, p, 2 * PAGE, MADV_DONTNEED) != 0) abort();
    }
    errno = 0;
    if (syscall(SYS_madvise, p + 1, PAGE, MADV_DONTNEED) != -1 || errno != EINVAL) abort();
}

__attribute__((noinline)) static void return_nothing(char *p) {
    if (madvise(p, PAGE, MADV_WILLNEED) != 0 || madvise(p, PAGE, MADV_RANDOM) != 0) abort();
    errno = 0;
    if (madvise(p + 1, PAGE, MADV_DONTNEED) != -1 || errno != EINVAL) abort();
    errno = 0;
    if (memfd_create("x", ~0U) != -1 || errno != EINVAL) abort();
}

__attribute__((noinline)) static int create_pool(void) {
    int fd = memfd_create("pool", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, 64 * PAGE) != 0) abort();
    return fd;
}

__attribute__((noinline)) static int create_direct(void) {
    int fd = (int)syscall(SYS_memfd_create, "direct", 0L);
    if (fd < 0 || ftruncate(fd, 8 * PAGE) != 0) abort();
    return fd;
}

__attribute__((noinline)) static char *map_pool(int fd) {
    char *p = map_pages(64, MAP_SHARED, fd);
    touch(p, 24);
    return p;
}

__attribute__((noinline)) static void return_file(char *pool) {
    // These pages were never touched: what is resident stays as it is.
    for (int i = 0; i < 2; i++) {
        if (madvise(pool + 32 * PAGE, 4 * PAGE, MADV_REMOVE) != 0) abort();
    }
}

__attribute__((noinline)) static void free_blocks(void) {
    for (int i = 0; i < 4; i++) {
        void *volatile block = malloc(64 * PAGE);
        free(block);
    }
}

static void work(void) {
    char *p = map_pages(32, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    return_now(p);
    return_later(p);
    return_direct(p);
    return_nothing(p);
    char *pool = map_pool(create_pool());
    return_file(pool);
    touch(map_pages(8, MAP_SHARED, create_direct()), 3);
    free_blocks();
    printf("ready %d\n", getpid());
    fflush(stdout);
    char byte;
    while (read(0, &byte, 1) > 0) {}
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "fork") == 0) {
        char *p = map_pages(4, MAP_PRIVATE | MAP_ANONYMOUS, -1);
        if (madvise(p, PAGE, MADV_DONTNEED) != 0) abort();
        pid_t child = fork();
        if (child == 0) {
            work();
            return 0;
        }
        int status;
        return waitpid(child, &status, 0) != child || status != 0;
    }
    work();
    return 0;
}
