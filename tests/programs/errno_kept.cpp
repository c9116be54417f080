// Hazard: errno, which belongs to the program: every hooked function that succeeds leaves it alone,
// also on the first call of a thread or of a forked child, and every one that fails sets it as it
// would alone. Prints how many `calls` were checked.
// build: -pthread
#include "witness.h"
#include <dlfcn.h>
#include <new>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <threads.h>

static uint64_t calls;

#define KEEPS(call)                              \
    do {                                         \
        errno = 77;                              \
        call;                                    \
        W_REQUIRE(errno == 77);                  \
        __atomic_fetch_add(&calls, 1, __ATOMIC_RELAXED); \
    } while (0)

#define FAILS(call, expected)                    \
    do {                                         \
        errno = 77;                              \
        W_REQUIRE(call);                         \
        W_REQUIRE(errno == (expected));          \
        __atomic_fetch_add(&calls, 1, __ATOMIC_RELAXED); \
    } while (0)

static void blocks() {
    void *volatile p, *volatile q;
    KEEPS(p = malloc(100));
    KEEPS(p = realloc(p, 100000));
    KEEPS(p = reallocarray(p, 10, 10));
    KEEPS(W_REQUIRE(malloc_usable_size(p) >= 100));
    KEEPS(free(p));
    KEEPS(p = calloc(10, 10)); KEEPS(free(p));
    KEEPS(p = aligned_alloc(64, 128)); KEEPS(free(p));
    KEEPS(p = memalign(64, 100)); KEEPS(free(p));
    KEEPS(p = valloc(100)); KEEPS(free(p));
    KEEPS(p = pvalloc(100)); KEEPS(free(p));
    KEEPS(W_REQUIRE(posix_memalign((void **)&q, 64, 100) == 0)); KEEPS(free(q));
    KEEPS(p = malloc(2 << 20)); KEEPS(free(p));
    KEEPS(free(NULL));
}

static void operators() {
    const std::align_val_t wide{256};
    void *volatile p;
    KEEPS(p = operator new(100)); KEEPS(operator delete(p));
    KEEPS(p = operator new[](100)); KEEPS(operator delete[](p));
    KEEPS(p = operator new(100, std::nothrow)); KEEPS(operator delete(p, std::nothrow));
    KEEPS(p = operator new(100, wide)); KEEPS(operator delete(p, wide));
    KEEPS(p = operator new[](100, wide)); KEEPS(operator delete[](p, 100, wide));
    KEEPS(p = operator new(100)); KEEPS(operator delete(p, 100));
}

static void failures() {
    volatile size_t huge = PTRDIFF_MAX;
    struct rlimit limit = {2, 1};
    FAILS(!malloc(huge), ENOMEM);
    FAILS(!calloc(huge, 3), ENOMEM);
    FAILS(!reallocarray(NULL, huge, 3), ENOMEM);
    FAILS(!aligned_alloc(64, huge - 63), ENOMEM);
    FAILS(!valloc(huge), ENOMEM);
    FAILS(setrlimit(RLIMIT_CORE, &limit) == -1, EINVAL);
    FAILS(prlimit(0, (enum __rlimit_resource)999, NULL, &limit) == -1, EINVAL);
    FAILS(mlockall(1 << 20) == -1, EINVAL);
    FAILS(prctl(999999, 0, 0, 0, 0) == -1, EINVAL);
    FAILS(syscall(SYS_close, -1) == -1, EBADF);
    void *null = NULL;
    KEEPS(W_REQUIRE(posix_memalign(&null, 64, huge) == ENOMEM));
}

static void others() {
    struct rlimit limit;
    W_REQUIRE(getrlimit(RLIMIT_CORE, &limit) == 0);
    KEEPS(W_REQUIRE(setrlimit(RLIMIT_CORE, &limit) == 0));
    KEEPS(W_REQUIRE(prlimit(0, RLIMIT_CORE, &limit, NULL) == 0));
    KEEPS(W_REQUIRE(prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) == 0));
    KEEPS(W_REQUIRE(syscall(SYS_getppid) > 0));
    void *library = dlopen("libm.so.6", RTLD_NOW);
    W_REQUIRE(library);
    KEEPS(W_REQUIRE(dlclose(library) == 0));
}

static void *all(void *unused) {
    blocks();
    operators();
    failures();
    others();
    return unused;
}

static int thread(void *) {
    all(NULL);
    return 0;
}

int main() {
    all(NULL);
    pthread_t posix;
    thrd_t plain;
    KEEPS(W_REQUIRE(pthread_create(&posix, NULL, all, NULL) == 0));
    W_REQUIRE(pthread_join(posix, NULL) == 0);
    KEEPS(W_REQUIRE(thrd_create(&plain, thread, NULL) == thrd_success));
    W_REQUIRE(thrd_join(plain, NULL) == thrd_success);
    for (int first = 0; first < 2; first++) {
        pid_t pid = fork();
        if (pid == 0) {
            // The child's first hooked call: an allocation, or the start of a thread.
            if (first) KEEPS(W_REQUIRE(pthread_create(&posix, NULL, all, NULL) == 0));
            if (first) W_REQUIRE(pthread_join(posix, NULL) == 0);
            all(NULL);
            _exit(0);
        }
        int status = 0;
        W_REQUIRE(waitpid(pid, &status, 0) == pid && status == 0);
    }
    w_say("", "calls", calls);
    return 0;
}
