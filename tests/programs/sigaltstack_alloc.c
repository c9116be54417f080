// Hazard: handlers allocate on an alternate stack, one of them after the main stack has overflowed.
// Counts: all of it, plus `overflows` survived. Arguments: signals, overflows.
#include "witness.h"
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>

enum { ALTERNATE = 256 << 10 };
static sigjmp_buf landing;
static uint64_t handled;

static void on_signal(int signal) {
    (void)signal;
    struct w_block block = w_malloc(70);
    if (++handled % 4) w_free(block);
}

static void on_overflow(int signal) {
    (void)signal;
    w_malloc(99);
    siglongjmp(landing, 1);
}

// Touches the stack, never the allocator, until the guard page.
static __attribute__((noinline)) int overflow(volatile char *above) {
    volatile char frame[4096];
    frame[0] = above ? above[0] : 1;
    return overflow(frame) + frame[0];
}

static void handle(int signal, void (*handler)(int)) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK | SA_NODEFER};
    W_REQUIRE(sigaction(signal, &action, NULL) == 0);
}

int main(int argc, char **argv) {
    volatile uint64_t signals = w_argument(argc, argv, 1, 2000);
    volatile uint64_t overflows = w_argument(argc, argv, 2, 20), survived = 0;
    void *memory = mmap(NULL, ALTERNATE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    stack_t alternate = {.ss_sp = memory, .ss_size = ALTERNATE};
    W_REQUIRE(memory != MAP_FAILED && sigaltstack(&alternate, NULL) == 0);
    handle(SIGUSR1, on_signal);
    handle(SIGSEGV, on_overflow);

    for (volatile uint64_t i = 0; i < signals; i++) {
        raise(SIGUSR1);
        w_free(w_malloc(30));
    }
    struct rlimit small = {1 << 20, 1 << 20};
    setrlimit(RLIMIT_STACK, &small);
    while (survived < overflows) {
        if (sigsetjmp(landing, 1) == 0) overflow(NULL);
        survived++;
        w_free(w_malloc(30));
    }
    w_report("");
    w_say("", "overflows", survived);
    return 0;
}
