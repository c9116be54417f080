// Hazard: exec replaces the program: same process id, everything else new.
// Counts: each image its own blocks, as `imageN.` printed just before it execs; the last as "".
// Argument: images.
#include "witness.h"

int main(int argc, char **argv) {
    uint64_t images = w_argument(argc, argv, 1, 3);
    uint64_t image = w_argument(argc, argv, 2, 1);
    for (uint64_t i = 0; i < 1000 * image; i++) {
        struct w_block block = w_malloc(64);
        if (i % 4) w_free(block);
    }
    if (image >= images) return w_report(""), 0;

    char prefix[32], *to = w_append(prefix, prefix + 31, "image");
    to = w_append_number(to, prefix + 31, image);
    *w_append(to, prefix + 31, ".") = 0;
    w_report(prefix);

    char next[24];
    *w_append_number(next, next + 23, image + 1) = 0;
    char *arguments[] = {argv[0], argc > 1 ? argv[1] : (char *)"3", next, NULL};
    execv("/proc/self/exe", arguments);
    return 98;
}
