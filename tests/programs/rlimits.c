// Hazard: resource limits at their smallest, set in the running process and then met by a fresh
// image.
// Counts: `before.` the exec, and the limited image as "". Arguments: as|fsize|nofile, limit.
// stdout must be a pipe: under fsize 0 no file can take the account.
#include "witness.h"
#include <sys/resource.h>

static void allocate(void) {
    for (int i = 0; i < 3000; i++) {
        struct w_block block = w_malloc(80);
        if (i % 3) w_free(block);
    }
}

static void limit(const char *name, rlim_t value) {
    int resource = strcmp(name, "as") == 0 ? RLIMIT_AS : strcmp(name, "fsize") == 0 ? RLIMIT_FSIZE : RLIMIT_NOFILE;
    struct rlimit both = {value, value};
    W_REQUIRE(setrlimit(resource, &both) == 0);
}

// The least an untouched program of this size starts with: 16 MiB of address space, no file growth,
// and the descriptors the dynamic loader needs (0, 1, 2 and one library at a time).
static rlim_t smallest(const char *name) {
    return strcmp(name, "as") == 0 ? 16 << 20 : strcmp(name, "fsize") == 0 ? 0 : 4;
}

int main(int argc, char **argv) {
    const char *name = argc > 1 ? argv[1] : "as";
    if (strcmp(name, "limited") == 0) return allocate(), w_report(""), 0;
    limit(name, w_argument(argc, argv, 2, smallest(name)));
    allocate();
    w_report("before.");
    char *arguments[] = {argv[0], (char *)"limited", NULL};
    execv("/proc/self/exe", arguments);
    return 98;
}
