// Hazard: mallctl and the other lookups of functions while another thread loads and unloads
// plugins.
// Counts: nothing but its rounds. Argument: rounds of dlopen and dlclose.
// build: -pthread -ldl
#include "witness.h"
#include <dlfcn.h>
#include <pthread.h>

// Weak: the program runs without the probe and without jemalloc.
__attribute__((weak)) int mallctl(const char *, void *, size_t *, void *, size_t);
static int stop;

static void *load_and_unload(void *rounds) {
    for (uintptr_t i = 0; i < (uintptr_t)rounds; i++) {
        void *plugin = dlopen(i % 2 ? "$ORIGIN/dlopen_plugin.so" : "$ORIGIN/operators_plugin.so", RTLD_NOW);
        W_REQUIRE(plugin && dlclose(plugin) == 0);
    }
    __atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
    return NULL;
}

int main(int argc, char **argv) {
    uintptr_t rounds = w_argument(argc, argv, 1, 2000);
    pthread_t thread;
    uint64_t calls = 0;
    W_REQUIRE(mallctl && pthread_create(&thread, NULL, load_and_unload, (void *)rounds) == 0);
    while (!__atomic_load_n(&stop, __ATOMIC_ACQUIRE)) {
        uint64_t epoch = 1;
        size_t len = sizeof epoch;
        W_REQUIRE(mallctl("epoch", &epoch, &len, &epoch, len) == 0);
        W_REQUIRE(mallctl("stats.allocated", &epoch, &len, NULL, 0) == 0);
        calls += 2;
    }
    pthread_join(thread, NULL);
    w_say("", "rounds", rounds);
    w_say("", "calls", calls > 0);
    return 0;
}
