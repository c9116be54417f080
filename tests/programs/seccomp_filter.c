// Hazard: the program's own seccomp filter, which kills for any system call but read, write,
// sigreturn and exit.
// Counts: all of it. The heap is grown beforehand, so the allocator itself needs no call. Argument:
// `prctl` or `syscall`, how the filter is installed.
#include "witness.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#define ALLOW(name) \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_##name, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

static struct sock_filter filter[] = {
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
    ALLOW(read), ALLOW(write), ALLOW(exit), ALLOW(exit_group), ALLOW(rt_sigreturn),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
};

int main(int argc, char **argv) {
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    mallopt(M_TRIM_THRESHOLD, 1 << 30);
    mallopt(M_MMAP_THRESHOLD, 1 << 30);
    w_free(w_malloc(8 << 20));
    W_REQUIRE(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    // The call with which libraries detect filter support.
    W_REQUIRE(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, NULL) == -1 && errno == EFAULT);
    if (argc > 1 && strcmp(argv[1], "prctl") == 0)
        W_REQUIRE(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) == 0);
    else
        W_REQUIRE(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) == 0);
    for (size_t i = 0; i < 20000; i++) {
        struct w_block block = w_malloc(16 + i % 200);
        if (i % 20) w_free(block);
    }
    w_report("");
    syscall(SYS_exit, 0);
    __builtin_unreachable();
}
