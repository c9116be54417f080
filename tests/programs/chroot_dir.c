// Hazard: chroot into an empty directory: no /proc, no /dev/shm, no libraries, no path that was.
// Counts: all of it; `skipped` 1 instead when it may not chroot (needs root). Argument: directory.
#include "witness.h"
#include <sys/stat.h>

int main(int argc, char **argv) {
    char fresh[] = "/tmp/chroot_dir.XXXXXX";
    const char *directory = argc > 1 ? argv[1] : mkdtemp(fresh);
    W_REQUIRE(directory);
    for (int i = 0; i < 1000; i++) w_malloc(70);
    W_REQUIRE(chdir(directory) == 0);
    if (argc <= 1) rmdir(fresh); // stays usable as a root, and leaves nothing behind
    if (chroot(".") != 0) return w_say("", "skipped", 1), 0;
    for (int i = 0; i < 5000; i++) {
        struct w_block block = w_malloc(71);
        if (i % 3) w_free(block);
    }
    w_report("");
    return 0;
}
