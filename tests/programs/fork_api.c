// Hazard: a forked child whose first call of the probe is one of heapwise.h or mallctl: all it
// changes is its own. The child has ended when the parent goes on.
// Counts: the parent as "", what its child saw as `child.`. Argument: what the child does first.
// Usage: fork_api reset|off|exact|mark|label|index|snapshot|mallctl_reset|mallctl_active
#include "witness.h"
#include <stdbool.h>
#include <sys/wait.h>

#include "../../crates/probe/include/heapwise.h"

__attribute__((weak)) int mallctl(const char *, void *, size_t *, void *, size_t);

static int child(const char *what) {
    bool no = false;
    struct heapwise_snapshot now = {0};
    if (!strcmp(what, "reset")) hw_reset();
    else if (!strcmp(what, "off")) hw_stop();
    else if (!strcmp(what, "exact")) hw_start(0);
    else if (!strcmp(what, "mark")) hw_mark("of the child");
    else if (!strcmp(what, "label")) {
        // More names than the parent has: each would be written over those of the parent.
        hw_label_push("child");
        hw_label_push("a name of the child");
    } else if (!strcmp(what, "index")) heapwise_set_index(1);
    else if (!strcmp(what, "mallctl_reset")) W_REQUIRE(mallctl("prof.reset", NULL, NULL, NULL, 0) == 0);
    else if (!strcmp(what, "mallctl_active"))
        W_REQUIRE(mallctl("prof.active", NULL, NULL, &no, sizeof no) == 0);
    else if (!strcmp(what, "snapshot")) {
        hw_snapshot(&now);
        w_say("child.", "recorded", now.recorded);
    } else return 1;
    return 0;
}

int main(int argc, char **argv) {
    W_REQUIRE(argc == 2 && hw_present());
    hw_label_push("of the parent");
    for (int i = 0; i < 100; i++) w_malloc(1000);
    pid_t pid = fork();
    W_REQUIRE(pid >= 0);
    if (pid == 0) _exit(child(argv[1]));
    int status = 0;
    W_REQUIRE(waitpid(pid, &status, 0) == pid && status == 0);
    for (int i = 0; i < 100; i++) w_malloc(1000);
    hw_label_pop();
    hw_mark("of the parent");
    w_report("");
    return 0;
}
