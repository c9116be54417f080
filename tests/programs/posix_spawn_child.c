// Hazard: posix_spawn, glibc's clone(CLONE_VM | CLONE_VFORK) on a stack of its own.
// Counts: parent as "", each spawned image as `child.`. Argument: rounds.
#include "witness.h"
#include <spawn.h>
#include <sys/wait.h>

extern char **environ;

static void image(void) {
    for (int i = 0; i < 700; i++) {
        struct w_block block = w_calloc(3, 16);
        if (i % 7) w_free(block);
    }
    w_report("child.");
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "child") == 0) return image(), 0;
    uint64_t rounds = w_argument(argc, argv, 1, 3);
    char *arguments[] = {argv[0], (char *)"child", NULL};
    for (uint64_t i = 0; i < rounds; i++) {
        struct w_block block = w_malloc(200);
        pid_t pid = 0;
        W_REQUIRE(posix_spawn(&pid, "/proc/self/exe", NULL, NULL, arguments, environ) == 0);
        if (i) w_free(block);
        int status = 0;
        W_REQUIRE(waitpid(pid, &status, 0) == pid && status == 0);
    }
    w_report("");
    return 0;
}
