// Hazard: vfork; the child runs in the parent's memory and thread until it execs.
// Counts: parent as "", the exec'ed image as `child.`. Argument: rounds.
#include "witness.h"
#include <sys/wait.h>

static void image(void) {
    for (int i = 0; i < 500; i++) {
        struct w_block block = w_malloc(48);
        if (i % 5) w_free(block);
    }
    w_report("child.");
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "child") == 0) return image(), 0;
    uint64_t rounds = w_argument(argc, argv, 1, 3);
    char *arguments[] = {argv[0], (char *)"child", NULL};
    for (uint64_t i = 0; i < rounds; i++) {
        w_malloc(128);
        pid_t pid = vfork();
        if (pid == 0) {
            execv("/proc/self/exe", arguments);
            _exit(98);
        }
        W_REQUIRE(pid > 0);
        w_malloc(256);
        int status = 0;
        W_REQUIRE(waitpid(pid, &status, 0) == pid && status == 0);
    }
    w_report("");
    return 0;
}
