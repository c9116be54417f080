// A program that uses heapwise.h: with the probe it records a part of itself, without it runs the
// same way.
// Usage: api_user [labels]
// build: -fno-optimize-sibling-calls
#include "witness.h"

#include "../../crates/probe/include/heapwise.h"

static void labels(void) {
    hw_label_push("checkout");
    w_malloc(1000);
    hw_label_push("basket of 3");
    for (int i = 0; i < 3; i++) w_malloc(2000);
    hw_label_pop();
    w_malloc(500);
    hw_label_pop();
    w_malloc(9000);
    w_say("", "checkout", 7500);
    w_say("", "basket", 6000);
}

int main(int argc, char **argv) {
    (void)argv;
    if (argc > 1) {
        labels();
        return 0;
    }
    struct heapwise_snapshot now;
    void *before = malloc(100000);
    hw_start(0);
    struct w_block block = w_malloc(70000);
    w_malloc(1234);
    w_free(block);
    hw_mark("half-way");
    w_malloc(50000);
    hw_stop();
    void *after = malloc(100000);
    w_say("", "present", hw_present());
    w_say("", "snapshot", hw_snapshot(&now));
    w_say("", "live", now.live_bytes);
    w_say("", "dump", hw_dump("api.heap"));
    w_say("", "bad_dump", hw_dump("/nonexistent/api.heap"));
    w_report("");
    hw_reset();
    free(before);
    free(after);
    return 0;
}
