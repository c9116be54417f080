// Hazard: a signal handler that uses the probe interrupts the first event of a forked child, after
// the thread's state was read and before it is used. A child for each instruction: it steps to the
// instruction, and the handler sets a mark there, which needs a new segment and no state.
// Counts: children that ended well. Arguments: the first event, instructions.
// Usage: fork_step malloc|free|realloc INSTRUCTIONS
// build: {out}/bump_malloc.so -Wl,-rpath,$ORIGIN -Wl,-z,now
#include "witness.h"
#include <signal.h>
#include <sys/wait.h>
#include <ucontext.h>

#include "../../crates/probe/include/heapwise.h"

#if defined __x86_64__
#define TRAP_FLAG 0x100

static volatile int64_t steps;

static void handler(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)info;
    if (steps-- > 0) return;
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL] &= ~TRAP_FLAG;
    hw_mark("in the handler");
}

static void set_trap_flag(void) {
    __asm__ volatile("lea -128(%%rsp), %%rsp; pushf; orl %0, (%%rsp); popf; lea 128(%%rsp), %%rsp" ::"i"(
                         TRAP_FLAG)
                     : "memory", "cc");
}

static void child(const char *what, void *block, int64_t step) {
    char first = *what;
    steps = step;
    set_trap_flag();
    if (first == 'm') block = malloc(1000);
    if (first == 'f') free(block);
    if (first == 'r') block = realloc(block, 3000);
    W_REQUIRE(steps < 0);
    for (int i = 0; i < 100; i++) free(malloc(100 + i));
    _exit(0);
}

int main(int argc, char **argv) {
    W_REQUIRE(argc > 1);
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
    W_REQUIRE(sigaction(SIGTRAP, &action, NULL) == 0);
    void *block = NULL;
    for (int i = 0; i < 2000; i++) {
        block = realloc(malloc(1000), 3000);
        free(block);
    }
    uint64_t instructions = w_argument(argc, argv, 2, 100), ended = 0;
    for (uint64_t i = 0; i < instructions; i++) {
        int status = 0;
        block = malloc(2000);
        pid_t pid = fork();
        W_REQUIRE(pid >= 0);
        if (pid == 0) child(argv[1], block, (int64_t)i);
        W_REQUIRE(waitpid(pid, &status, 0) == pid);
        ended += status == 0;
        free(block);
    }
    w_say("", "ended", ended);
    return 0;
}
#else
int main(void) { return 0; }
#endif
