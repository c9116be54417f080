// Hazard: more marks than there is room for. Argument: marks.
#include "witness.h"
#include <stdio.h>

#include "../../crates/probe/include/heapwise.h"

int main(int argc, char **argv) {
    uint64_t marks = w_argument(argc, argv, 1, 300);
    W_REQUIRE(hw_present());
    for (uint64_t i = 0; i < marks; i++) {
        char name[32];
        snprintf(name, sizeof name, "mark %d", (int)i);
        w_malloc(100);
        hw_mark(name);
    }
    w_say("", "marks", marks);
    w_report("");
    return 0;
}
