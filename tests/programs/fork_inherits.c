// Hazard: a forked child of a process with a large heap, which is the child's too.
// Counts: the parent as "", its pid as `parent`; the child frees none of its blocks. Ends with
// standard input.
#include "witness.h"
#include <sys/wait.h>

static __attribute__((noinline)) void load(void) {
    for (int i = 0; i < 100; i++) w_malloc(1 << 20);
}

int main(void) {
    load();
    w_say("", "parent", getpid());
    pid_t pid = fork();
    W_REQUIRE(pid >= 0);
    char byte;
    if (pid == 0) {
        w_total = (struct w_account){0};
        // Enough that also a probe that samples notices the fork.
        for (int i = 0; i < 100; i++) w_malloc(1000);
        w_say("child.", "pid", getpid());
        W_REQUIRE(read(0, &byte, 1) == 0);
        _exit(0);
    }
    int status = 0;
    W_REQUIRE(waitpid(pid, &status, 0) == pid && status == 0);
    w_report("");
    return 0;
}
