// Hazard: it is killed at any moment, or its recorder is.
// Counts: per thread the allocations begun and done, in FILE (mapped, so that it outlives a kill):
// the pid, then one pair of u64 per thread. What was recorded lies between the sums. Arguments:
// FILE, ms, threads.
#include "witness.h"
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <time.h>

enum { THREADS = 8, KEPT = 500 };
struct account {
    uint64_t pid;
    struct {
        uint64_t begun, done;
    } thread[THREADS];
};
static struct account *account;
static uint64_t end_ms;

static uint64_t milliseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static void *work(void *argument) {
    size_t self = (size_t)(uintptr_t)argument;
    struct w_block kept[KEPT] = {{0}};
    for (uint64_t i = 0; i % 256 || milliseconds() < end_ms; i++) {
        struct w_block *slot = &kept[i * 7919 % KEPT];
        if (slot->p) w_free(*slot);
        w_add(&account->thread[self].begun, 1);
        *slot = w_malloc(16 + i % 500);
        w_add(&account->thread[self].done, 1);
    }
    return NULL;
}

int main(int argc, char **argv) {
    W_REQUIRE(argc > 1);
    int file = open(argv[1], O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    W_REQUIRE(file >= 0 && ftruncate(file, sizeof *account) == 0);
    account = mmap(NULL, sizeof *account, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    W_REQUIRE(account != MAP_FAILED);
    end_ms = milliseconds() + w_argument(argc, argv, 2, 10000);
    uint64_t threads = w_argument(argc, argv, 3, 2);
    W_REQUIRE(threads <= THREADS);
    account->pid = (uint64_t)getpid();
    pthread_t thread[THREADS];
    for (uint64_t i = 0; i < threads; i++) W_REQUIRE(!pthread_create(&thread[i], NULL, work, (void *)(uintptr_t)i));
    for (uint64_t i = 0; i < threads; i++) pthread_join(thread[i], NULL);
    w_report("");
    return 0;
}
