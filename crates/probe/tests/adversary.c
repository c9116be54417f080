// Stacks that change in every way a memo might miss: the same registers over different callers,
// jumps, coroutines, signals on the same and on another stack, functions interrupted before they
// have a frame, realigned frames, variable frames. Each of them ends in a call of `hook`.
// Deterministic for a seed.
#define _GNU_SOURCE
#include <alloca.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#define NOINLINE __attribute__((noinline))
enum { COROUTINES = 8, COROUTINE_STACK = 1 << 16 };

typedef long (*hook_t)(void *context, void *body);

struct adversary {
    hook_t hook;
    void *context, *body;
    uint64_t random;
    ucontext_t main, coroutine[COROUTINES];
    int current;
    jmp_buf out;
};

static __thread struct adversary *self;
static volatile long sink;

static uint64_t draw(void) {
    uint64_t x = self->random;
    x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    return self->random = x;
}

NOINLINE static long leaf(long n) { long r = self->hook(self->context, self->body); sink += n; return r; }
NOINLINE static long two_leaves(long n) { long r = leaf(n) + leaf(n + 1); sink += r; return r; }

// Frames of equal layout: below equal (pc, sp) the callers differ.
#define TWIN(name) \
    NOINLINE static long name(long n) { \
        volatile long pad[3] = {n, 1, 2}; \
        long r = two_leaves(n); \
        sink += pad[n % 3] + sizeof #name; \
        return r; \
    }
TWIN(twin_a) TWIN(twin_b) TWIN(twin_c) TWIN(twin_d)
static long (*const twins[])(long) = {twin_a, twin_b, twin_c, twin_d};
NOINLINE static long over_twin(long n) { long r = twins[draw() & 3](n); sink += r; return r; }
NOINLINE static long over_twin_too(long n) { long r = twins[draw() & 3](n) + 1; sink += r; return r; }

// A realigned stack, with a frame whose size is known at run time only.
NOINLINE static long realigned(long n) {
    _Alignas(64) volatile char block[64];
    volatile char *more = alloca(16 + n % 100);
    block[n & 63] = more[0] = (char)n;
    long r = (draw() & 1) ? over_twin(n) : over_twin_too(n);
    sink += block[n & 63] + more[0];
    return r;
}

NOINLINE static long recurse(long n) {
    volatile char pad[40];
    pad[n % 40] = (char)n;
    long r;
    if (n > 0) r = recurse(n - 1);
    else switch (draw() % 3) {
        case 0: r = over_twin(n); break;
        case 1: r = over_twin_too(n); break;
        default: r = realigned(n);
    }
    sink += pad[n % 40];
    return r;
}

NOINLINE static long variable(long n) {
    char *p = alloca(16 + draw() % 500);
    p[0] = (char)n;
    sink += (long)p;
    long r = n ? variable(n - 1) : recurse(2);
    sink += p[0];
    return r;
}

NOINLINE static long jump(long n) {
    volatile char pad[32];
    pad[0] = (char)n;
    if (n == 0) {
        recurse(3);
        if (draw() & 1) longjmp(self->out, 1);
        return recurse(2);
    }
    long r = jump(n - 1);
    sink += pad[0];
    return r;
}

NOINLINE static void yield(void) {
    int me = self->current;
    swapcontext(&self->coroutine[me], &self->main);
    self->current = me;
}

NOINLINE static long in_coroutine(long n) {
    volatile char pad[24];
    pad[0] = (char)n;
    long r;
    if (n > 0) r = in_coroutine(n - 1);
    else {
        r = recurse(draw() % 6);
        yield();
        r += recurse(draw() % 6);
    }
    if ((draw() & 7) == 0) yield();
    sink += pad[0];
    return r;
}

static void coroutine(void) { for (;;) { in_coroutine(draw() % 12); yield(); } }

static void on_signal(int number) { (void)number; recurse(draw() % 5); }

// A leaf has no frame: where there is a register for return addresses it is there, and there only.
#ifdef __aarch64__
#define TRAP "udf #0"
enum { TRAP_BYTES = 4 };
#define PC(context) (context)->uc_mcontext.pc
#else
#define TRAP "ud2"
enum { TRAP_BYTES = 2 };
#define PC(context) (context)->uc_mcontext.gregs[REG_RIP]
#endif

NOINLINE static long leaf_interrupted(long n) {
    __asm__ volatile(TRAP ::: "memory");
    return n + 1;
}

// Every stage of a frame's life: the return address in the register, signed there, signed in
// memory, memory alone.
#ifdef __aarch64__
long stages_interrupted(long n);
__asm__(".text\n.p2align 2\n.hidden stages_interrupted\n.type stages_interrupted, %function\n"
        "stages_interrupted: .cfi_startproc\n" TRAP "\n"
        "hint 25\n.cfi_negate_ra_state\n" TRAP "\n" // paciasp
        "stp x29, x30, [sp, #-32]!\n.cfi_def_cfa_offset 32\n.cfi_offset 29, -32\n.cfi_offset 30, -24\n" TRAP "\n"
        "mov x30, xzr\n" TRAP "\n"
        "ldp x29, x30, [sp], #32\n.cfi_restore 30\n.cfi_restore 29\n.cfi_def_cfa_offset 0\n" TRAP "\n"
        "hint 29\n.cfi_negate_ra_state\n" TRAP "\n" // autiasp
        "ret\n.cfi_endproc\n.size stages_interrupted, . - stages_interrupted\n");
#else
#define stages_interrupted leaf_interrupted
#endif

NOINLINE static long interrupted(long n) {
    volatile char pad[24];
    pad[0] = (char)n;
    long r = n > 0 ? interrupted(n - 1) : (draw() & 1) ? leaf_interrupted(n) : stages_interrupted(n);
    sink += pad[0];
    return r;
}

static void on_trap(int number, siginfo_t *info, void *context) {
    (void)number, (void)info;
    recurse(draw() % 5);
    PC((ucontext_t *)context) += TRAP_BYTES;
}

static void install(int number, int flags) {
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = flags};
    sigaction(number, &action, NULL);
}

// One act; `long` results keep the compiler from dropping frames.
static void act(void) {
    switch (draw() % 8) {
    case 0: recurse(draw() % 10); break;
    case 1: self->current = draw() % COROUTINES; swapcontext(&self->main, &self->coroutine[self->current]); break;
    case 2: if (!setjmp(self->out)) jump(draw() % 9); break;
    case 3: if ((draw() & 7) == 0) raise(SIGUSR1); break;
    case 4: if ((draw() & 7) == 0) raise(SIGUSR2); break;
    case 5: variable(draw() % 6); break;
    case 6: recurse(200 + draw() % 200); break;
    case 7: if ((draw() & 7) == 0) interrupted(draw() % 4); break;
    }
}

void adversary_run(hook_t hook, void *context, void *body, uint64_t seed, long acts) {
    struct adversary *me = calloc(1, sizeof *me);
    *me = (struct adversary){.hook = hook, .context = context, .body = body, .random = seed | 1};
    self = me;
    char *stacks = malloc((size_t)COROUTINES * COROUTINE_STACK), *signal_stack = malloc(1 << 16);
    sigaltstack(&(stack_t){.ss_sp = signal_stack, .ss_size = 1 << 16}, NULL);
    install(SIGUSR1, 0), install(SIGUSR2, SA_ONSTACK);
    sigaction(SIGILL, &(struct sigaction){.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO}, NULL);
    for (int i = 0; i < COROUTINES; i++) {
        getcontext(&me->coroutine[i]);
        me->coroutine[i].uc_stack.ss_sp = stacks + (size_t)i * COROUTINE_STACK;
        me->coroutine[i].uc_stack.ss_size = COROUTINE_STACK;
        makecontext(&me->coroutine[i], coroutine, 0);
    }
    for (long i = 0; i < acts; i++) act();
    sigaltstack(&(stack_t){.ss_flags = SS_DISABLE}, NULL);
    free(stacks), free(signal_stack), free(me);
}
