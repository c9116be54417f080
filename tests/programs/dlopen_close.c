// Hazard: code that allocated is unmapped and mapped again, at the same or another address, while
// threads allocate; found through $ORIGIN, which a profiler hooking dlopen would break.
// Counts: all of it; blocks outlive the module. Arguments: rounds, busy threads.
// build: -pthread -ldl
#include "witness.h"
#include <dlfcn.h>
#include <pthread.h>

enum { MAX_THREADS = 16 };
static int stop;

static void *keep_busy(void *index) {
    uint64_t seed = (uintptr_t)index + 1;
    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) w_free(w_malloc(w_random_size(&seed)));
    return NULL;
}

static void use_plugin(uint64_t round) {
    void *plugin = dlopen("$ORIGIN/dlopen_plugin.so", RTLD_NOW);
    W_REQUIRE(plugin);
    void *(*plugin_malloc)(size_t) = (void *(*)(size_t))dlsym(plugin, "w_plugin_malloc");
    W_REQUIRE(plugin_malloc);
    for (int i = 0; i < 10; i++) {
        struct w_block block = w_counted(plugin_malloc(77), 77);
        if (i % 2) w_free(block);
    }
    if (round % 3) w_malloc(33);
    W_REQUIRE(dlclose(plugin) == 0);
}

int main(int argc, char **argv) {
    uint64_t rounds = w_argument(argc, argv, 1, 200);
    uint64_t threads = w_argument(argc, argv, 2, 2);
    W_REQUIRE(threads <= MAX_THREADS);
    pthread_t ids[MAX_THREADS];
    for (uintptr_t t = 0; t < threads; t++)
        W_REQUIRE(pthread_create(&ids[t], NULL, keep_busy, (void *)t) == 0);
    for (uint64_t round = 0; round < rounds; round++) use_plugin(round);
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    for (uintptr_t t = 0; t < threads; t++) pthread_join(ids[t], NULL);
    w_report("");
    return 0;
}
