// Hazard: coroutines on stacks of their own; the stack pointer jumps between allocations.
// Counts: all of it. Arguments: coroutines, rounds.
#include "witness.h"
#include <sys/mman.h>
#include <ucontext.h>

enum { MAX_COROUTINES = 64, STACK = 64 << 10 };
static ucontext_t scheduler, coroutines[MAX_COROUTINES];
static uint64_t rounds;

static W_SITE void w_at_depth(int depth, int self) {
    if (depth > 0) {
        w_at_depth(depth - 1, self);
        __asm__ volatile("" ::: "memory");
        return;
    }
    struct w_block block = w_malloc(40 + (size_t)self);
    swapcontext(&coroutines[self], &scheduler); // suspended with the block in hand, others run
    w_free(block);
}

static void coroutine(int self) {
    for (uint64_t round = 0; round < rounds; round++) {
        w_at_depth((int)((round + (uint64_t)self) % 20), self);
        if (round % 10 == 0) w_malloc(16);
    }
}

int main(int argc, char **argv) {
    const volatile int count = (int)w_argument(argc, argv, 1, 16);
    rounds = w_argument(argc, argv, 2, 500);
    W_REQUIRE(count <= MAX_COROUTINES);
    for (int i = 0; i < count; i++) {
        void *stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        W_REQUIRE(stack != MAP_FAILED && getcontext(&coroutines[i]) == 0);
        coroutines[i].uc_stack.ss_sp = stack;
        coroutines[i].uc_stack.ss_size = STACK;
        coroutines[i].uc_link = &scheduler;
        makecontext(&coroutines[i], (void (*)(void))coroutine, 1, i);
    }
    // Each round suspends a coroutine once; one more turn lets it return.
    for (uint64_t turn = 0; turn <= rounds; turn++)
        for (int i = 0; i < count; i++) swapcontext(&scheduler, &coroutines[i]);
    w_report("");
    return 0;
}
