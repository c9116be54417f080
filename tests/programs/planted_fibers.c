// Hazard: fibers as libraries make them: the return address of a fiber's first function was put
// there by hand, and the code that it names has no unwind information. Every stack is whole
// nevertheless.
// Counts: all of it. Argument: rounds.
#include "witness.h"
#include <sys/mman.h>
#include <ucontext.h>

enum { STACK = 64 << 10 };
static W_SITE void w_at_depth(int depth);

#if defined(__x86_64__)
static void *scheduler, *fiber;
void switch_stacks(void **from, void *to);
void finish_fiber(void);
__asm__(".text\n.type switch_stacks,@function\n.globl switch_stacks\n.globl finish_fiber\n"
        "switch_stacks:\n  pushq %rbp\n  pushq %rbx\n  pushq %r12\n  pushq %r13\n  pushq %r14\n  pushq %r15\n"
        "  movq %rsp, (%rdi)\n  movq %rsi, %rsp\n"
        "  popq %r15\n  popq %r14\n  popq %r13\n  popq %r12\n  popq %rbx\n  popq %rbp\n  ret\n"
        ".type finish_fiber,@function\n  ud2\nfinish_fiber:\n  ud2\n");

static void enter_fiber(void) { switch_stacks(&scheduler, fiber); }
static void leave_fiber(void) { switch_stacks(&fiber, scheduler); }

static void fiber_main(void) {
    for (int round = 0;; round++) w_at_depth(round % 20);
}

static void make_fiber(char *stack) {
    uint64_t *sp = (uint64_t *)(stack + STACK - 64);
    *--sp = (uint64_t)finish_fiber;
    *--sp = (uint64_t)fiber_main;
    *--sp = (uint64_t)finish_fiber; // the frame pointer
    for (int saved = 0; saved < 5; saved++) *--sp = 0;
    fiber = sp;
}
#else
static ucontext_t scheduler, fiber;
static void enter_fiber(void) { swapcontext(&scheduler, &fiber); }
static void leave_fiber(void) { swapcontext(&fiber, &scheduler); }

static void fiber_main(void) {
    for (int round = 0;; round++) w_at_depth(round % 20);
}

static void make_fiber(char *stack) {
    W_REQUIRE(getcontext(&fiber) == 0);
    fiber.uc_stack.ss_sp = stack;
    fiber.uc_stack.ss_size = STACK;
    makecontext(&fiber, fiber_main, 0);
}
#endif

static W_SITE void w_at_depth(int depth) {
    if (depth > 0) {
        w_at_depth(depth - 1);
        __asm__ volatile("" ::: "memory");
        return;
    }
    struct w_block block = w_malloc(100);
    leave_fiber();
    w_free(block);
}

int main(int argc, char **argv) {
    uint64_t rounds = w_argument(argc, argv, 1, 500);
    char *stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    W_REQUIRE(stack != MAP_FAILED);
    make_fiber(stack);
    for (uint64_t round = 0; round < rounds; round++) enter_fiber();
    w_report("");
    return 0;
}
