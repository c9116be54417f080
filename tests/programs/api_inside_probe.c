// Hazard: calls of the probe's API while the thread is inside the probe, as from a signal handler
// that interrupted it. The provider of script frames is such a place that needs no signal.
#include "witness.h"
#include <errno.h>

#include "../../crates/probe/include/heapwise.h"

int mallctl(const char *name, void *old, size_t *old_len, void *new, size_t new_len) __attribute__((weak));

static int dumped = -1, controlled = -1;
static uint64_t live = 0;

static int frames(void *coroutine, struct heapwise_frame *into, int max) {
    (void)coroutine, (void)into, (void)max;
    if (dumped < 0) {
        struct heapwise_snapshot snapshot = {0};
        size_t epoch = 0, len = sizeof epoch;
        heapwise_set_mode(HEAPWISE_OFF, 0);
        heapwise_reset();
        dumped = heapwise_dump("inside.heap");
        controlled = mallctl("epoch", &epoch, &len, 0, 0);
        heapwise_take_snapshot(&snapshot);
        live = snapshot.live_bytes;
    }
    return 0;
}

int main(void) {
    int coroutine;
    W_REQUIRE(hw_present() && mallctl);
    w_malloc(5000);
    struct heapwise_snapshot before = {0};
    heapwise_take_snapshot(&before);
    heapwise_script_provider(frames);
    heapwise_script_switch(&coroutine);
    w_malloc(100);
    heapwise_script_switch(0);
    w_say("", "mode", (uint64_t)heapwise_mode());
    w_say("", "dumped", dumped == EAGAIN);
    w_say("", "controlled", controlled == EAGAIN);
    w_say("", "seen", live >= before.live_bytes && live > 0);
    w_report("");
    return 0;
}
