// Hazard: allocation before main (preinit array, constructors) and after it (atexit, destructors).
// Counts: all of it; the account is printed by the destructor that runs last.
#include "witness.h"

static struct w_block early[3];

static void preinit(int argc, char **argv, char **env) {
    (void)argc, (void)argv, (void)env;
    early[0] = w_malloc(111);
}
__attribute__((section(".preinit_array"), used)) static void (*preinit_entry)(int, char **, char **) = preinit;

__attribute__((constructor(101))) static void first(void) { early[1] = w_calloc(1, 222); }
__attribute__((constructor)) static void second(void) {
    early[2] = w_malloc(10);
    w_realloc(&early[2], 333);
}

static void at_exit(void) {
    w_malloc(444);
    w_free(early[0]);
}

__attribute__((destructor)) static void before_last(void) {
    w_malloc(555);
    w_free(early[1]);
}

__attribute__((destructor(101))) static void last(void) {
    w_malloc(666);
    w_free(w_malloc(777));
    w_report("");
}

int main(void) {
    W_REQUIRE(early[0].p && early[1].p && early[2].p);
    W_REQUIRE(atexit(at_exit) == 0);
    w_malloc(888);
    return 0;
}
