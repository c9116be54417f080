// Hazard: a forked child that starts threads at once, before it allocated anything itself: all of
// them find the parent's state at the same time. The parent has had as many threads, so that their
// stacks are cached and starting one allocates nothing.
// Counts: parent as "", the last child as `child.` from zero; all children do the same. Arguments:
// children, threads, blocks each.
// build: -pthread
#include "witness.h"
#include <pthread.h>
#include <sched.h>
#include <sys/wait.h>

enum { MAX_THREADS = 64 };
static uint64_t blocks;
static int started, go;

static void *work(void *unused) {
    __atomic_fetch_add(&started, 1, __ATOMIC_RELEASE);
    while (!__atomic_load_n(&go, __ATOMIC_ACQUIRE)) sched_yield();
    for (uint64_t i = 0; i < blocks; i++) {
        struct w_block block = w_malloc(100 + i % 1000);
        if (i % 3) w_free(block);
    }
    return unused;
}

static void run_threads(int threads) {
    pthread_t thread[MAX_THREADS];
    __atomic_store_n(&started, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&go, 0, __ATOMIC_RELAXED);
    for (int i = 0; i < threads; i++) W_REQUIRE(!pthread_create(&thread[i], NULL, work, NULL));
    while (__atomic_load_n(&started, __ATOMIC_ACQUIRE) < threads) sched_yield();
    __atomic_store_n(&go, 1, __ATOMIC_RELEASE);
    for (int i = 0; i < threads; i++) W_REQUIRE(!pthread_join(thread[i], NULL));
}

int main(int argc, char **argv) {
    uint64_t children = w_argument(argc, argv, 1, 20);
    int threads = (int)w_argument(argc, argv, 2, 8);
    blocks = w_argument(argc, argv, 3, 200);
    W_REQUIRE(threads <= MAX_THREADS);
    run_threads(threads);
    for (uint64_t c = 0; c < children; c++) {
        pid_t pid = fork();
        W_REQUIRE(pid >= 0);
        if (pid == 0) {
            w_total = (struct w_account){0};
            run_threads(threads);
            // The first thread's cached state from before the fork must be harmless, too.
            w_free(w_malloc(77));
            if (c + 1 == children) w_report("child.");
            exit(0);
        }
        int status = 0;
        W_REQUIRE(waitpid(pid, &status, 0) == pid && status == 0);
    }
    w_report("");
    return 0;
}
