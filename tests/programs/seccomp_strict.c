// Hazard: strict seccomp: any system call but read, write, sigreturn and exit is SIGKILL.
// Counts: all of it. The heap is grown beforehand, so the allocator itself needs no call.
#include "witness.h"
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

int main(void) {
    mallopt(M_TRIM_THRESHOLD, 1 << 30);
    mallopt(M_MMAP_THRESHOLD, 1 << 30);
    w_free(w_malloc(8 << 20));
    W_REQUIRE(prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) == 0);
    for (size_t i = 0; i < 20000; i++) {
        struct w_block block = w_malloc(16 + i % 200);
        if (i % 20) w_free(block);
    }
    w_report("");
    syscall(SYS_exit, 0);
    __builtin_unreachable();
}
