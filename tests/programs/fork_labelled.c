// Hazard: a fork below labels and declared frames: the child's blocks belong to them as the
// parent's do.
// Counts: the parent as "", the child as `child.`; its blocks below the labels are
// `child.labelled`.
#include "witness.h"
#include <sys/wait.h>

#include "../../crates/probe/include/heapwise.h"

int main(void) {
    W_REQUIRE(hw_present());
    hw_label_push("checkout");
    hw_label_push("basket of 3");
    w_malloc(700);
    pid_t pid = fork();
    W_REQUIRE(pid >= 0);
    if (pid == 0) {
        w_total = (struct w_account){0};
        w_malloc(1000);
        hw_label_pop();
        w_malloc(2000);
        hw_label_push("payment");
        w_malloc(4000);
        hw_label_pop();
        hw_label_pop();
        w_malloc(8000);
        w_say("child.", "checkout", 7000);
        w_say("child.", "basket", 1000);
        w_say("child.", "payment", 4000);
        w_report("child.");
        exit(0);
    }
    int status = 0;
    W_REQUIRE(waitpid(pid, &status, 0) == pid && status == 0);
    w_report("");
    return 0;
}
