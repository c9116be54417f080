// Hazard: names of marks and of the thread that look like moments, ranges, paths or terminal
// control sequences.
// Counts: all of it; the bytes live at the mark of each argument, numbered from 1.
// Arguments: names of marks; the first is the name of the thread, too.
#include "witness.h"
#include <sys/prctl.h>

#include "../../crates/probe/include/heapwise.h"

int main(int argc, char **argv) {
    char text[32];
    if (argc > 1) prctl(PR_SET_NAME, argv[1]);
    for (int i = 1; i < argc; i++) {
        w_malloc(1000 * (uint64_t)i);
        hw_mark(argv[i]);
        *w_append_number(w_append(text, text + 31, "live_at_"), text + 31, (uint64_t)i) = 0;
        w_say("", text, w_total.alloc_bytes - w_total.free_bytes);
    }
    w_report("");
    return 0;
}
