// Hazard: more stacks than small tables hold. Counts: all blocks; argument: stacks (rounded down to
// a power of two for their call paths). A second argument installs a seccomp filter first, which
// allows everything.
#include "witness.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>

static void limit_itself(void) {
    struct sock_filter allow[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    struct sock_fprog program = {1, allow};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) _exit(3);
}

static struct w_block last;

static W_SITE void w_path(unsigned which, unsigned levels, size_t size) {
    if (levels == 0) {
        w_free(last);
        last = w_malloc(size);
    } else if (which & 1) {
        w_path(which >> 1, levels - 1, size);
        __asm__ volatile("" ::: "memory");
    } else {
        w_path(which >> 1, levels - 1, size);
        __asm__ volatile("nop" ::: "memory");
    }
}

int main(int argc, char **argv) {
    if (argc > 2) limit_itself();
    unsigned stacks = (unsigned)w_argument(argc, argv, 1, 40000), levels = 0;
    while (2u << levels <= stacks) levels++;
    for (unsigned round = 0; round < 2; round++)
        for (unsigned i = 0; i < 1u << levels; i++) w_path(i, levels, 1 + i % 300);
    w_report("");
    return 0;
}
