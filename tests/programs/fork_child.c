// Hazard: fork; parent and child go on allocating, the child frees blocks it inherited. With
// `busy` as the third argument another thread is inside malloc at every fork.
// Counts: parent as "", each child as `child.` from zero, its frees of the parent's blocks apart as
// `child.inherited_freed_*`. Arguments: children, blocks each, busy.
// build: -pthread
#include "witness.h"
#include <pthread.h>
#include <sys/wait.h>

enum { MAX_BLOCKS = 10000 };
static struct w_block inherited[MAX_BLOCKS];
static int stop;

static void *keep_busy(void *unused) {
    uint64_t seed = 5;
    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) w_free(w_malloc(w_random_size(&seed)));
    return unused;
}

static void child(uint64_t blocks) {
    w_total = (struct w_account){0};
    struct w_account freed = {0};
    for (uint64_t i = 0; i < blocks; i += 2) {
        free(inherited[i].p);
        freed.free_objects++;
        freed.free_bytes += inherited[i].size;
    }
    for (uint64_t i = 0; i < blocks; i++) {
        struct w_block block = w_malloc(100 + i % 100);
        if (i % 3) w_free(block);
    }
    w_report("child.");
    w_say("child.", "inherited_freed_objects", freed.free_objects);
    w_say("child.", "inherited_freed_bytes", freed.free_bytes);
    exit(0);
}

int main(int argc, char **argv) {
    uint64_t children = w_argument(argc, argv, 1, 3);
    uint64_t blocks = w_argument(argc, argv, 2, 1000);
    int busy = argc > 3 && strcmp(argv[3], "busy") == 0;
    W_REQUIRE(blocks <= MAX_BLOCKS);
    pthread_t thread;
    if (busy) W_REQUIRE(pthread_create(&thread, NULL, keep_busy, NULL) == 0);

    for (uint64_t i = 0; i < blocks; i++) inherited[i] = w_malloc(32 + i % 64);
    for (uint64_t c = 0; c < children; c++) {
        pid_t pid = fork();
        W_REQUIRE(pid >= 0);
        if (pid == 0) child(blocks);
        w_malloc(1000);
        int status = 0;
        W_REQUIRE(waitpid(pid, &status, 0) == pid && status == 0);
    }

    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    if (busy) pthread_join(thread, NULL);
    w_report("");
    return 0;
}
