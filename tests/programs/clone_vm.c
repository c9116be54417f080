// Hazard: clone(CLONE_VM): another process id in the same memory, on the same thread-local storage.
// Counts: all of it, in both, in one account. The parent waits: they never allocate at once.
// Argument: rounds.
#include "witness.h"
#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>

enum { STACK = 256 << 10 };
static struct w_block from_child;

static int child(void *unused) {
    (void)unused;
    for (int i = 0; i < 100; i++) w_free(w_malloc(110));
    from_child = w_malloc(220);
    return 0;
}

int main(int argc, char **argv) {
    uint64_t rounds = w_argument(argc, argv, 1, 20);
    char *stack = (char *)mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    W_REQUIRE((void *)stack != MAP_FAILED);
    for (uint64_t i = 0; i < rounds; i++) {
        w_malloc(330);
        pid_t pid = clone(child, stack + STACK, CLONE_VM | SIGCHLD, NULL);
        W_REQUIRE(pid > 0);
        int status = 0;
        W_REQUIRE(waitpid(pid, &status, 0) == pid && status == 0);
        if (i % 2) w_free(from_child);
    }
    w_report("");
    return 0;
}
