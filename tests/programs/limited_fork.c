// Hazard: a limit on addresses makes the profiler give up those it does not need; the program maps
// its own memory there, limits itself again, and forks. Neither the second limit nor a child that
// drops what it inherited of the profiler may take the program's memory with it.
// Counts: all of it, the parent's only; each child checks every mapping and says so by its status.
// Argument: children.
#include "witness.h"
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

enum { MAPPINGS = 64, BYTES = 16 << 20 };
static unsigned char *mapped[MAPPINGS];

static void check(void) {
    for (int i = 0; i < MAPPINGS; i++) W_REQUIRE(mapped[i][0] == i && mapped[i][BYTES - 1] == i);
}

int main(int argc, char **argv) {
    uint64_t children = w_argument(argc, argv, 1, 3);
    for (int i = 0; i < 1000; i++) w_malloc(40);
    struct rlimit limit = {1UL << 40, 1UL << 40};
    W_REQUIRE(setrlimit(RLIMIT_AS, &limit) == 0);
    for (int i = 0; i < MAPPINGS; i++) {
        mapped[i] = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        W_REQUIRE(mapped[i] != MAP_FAILED);
        mapped[i][0] = mapped[i][BYTES - 1] = (unsigned char)i;
    }
    W_REQUIRE(setrlimit(RLIMIT_AS, &limit) == 0);
    check();
    for (uint64_t c = 0; c < children; c++) {
        pid_t pid = fork();
        W_REQUIRE(pid >= 0);
        if (pid == 0) {
            for (int i = 0; i < 1000; i++) w_free(w_malloc(500000)), w_malloc(100);
            check();
            _exit(0);
        }
        int status = 0;
        W_REQUIRE(waitpid(pid, &status, 0) == pid && status == 0);
    }
    check();
    w_report("");
    return 0;
}
