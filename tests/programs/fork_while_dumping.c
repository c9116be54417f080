// Hazard: a fork while another thread is in the middle of a dump: the child has no such thread. The
// dump goes into a pipe without a reader, so that it does not finish while the pipe exists.
// Counts: what mallctl returned in the child. Usage: fork_while_dumping
// build: -pthread
#include "witness.h"
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/wait.h>

__attribute__((weak)) int mallctl(const char *, void *, size_t *, void *, size_t);

static int write_text(const char *name, const char *value) {
    return mallctl(name, NULL, NULL, &value, sizeof value);
}

static void *dump(void *unused) {
    write_text("prof.dump", "pipe");
    return unused;
}

static int child(void) {
    w_say("child.", "prefix", write_text("prof.prefix", "child"));
    w_say("child.", "log_start", write_text("prof.log_start", "child.json"));
    w_say("child.", "log_stop", mallctl("prof.log_stop", NULL, NULL, NULL, 0));
    w_say("child.", "dump", write_text("prof.dump", "child.heap"));
    return 0;
}

int main(void) {
    pthread_t thread;
    char byte;
    int status = 0;
    w_malloc(1 << 20);
    W_REQUIRE(mkfifo("pipe", 0600) == 0);
    int pipe = open("pipe", O_RDWR);
    // A page, less than any dump has: its list of mappings alone is longer.
    W_REQUIRE(pipe >= 0 && fcntl(pipe, F_SETPIPE_SZ, 4096) == 4096);
    W_REQUIRE(pthread_create(&thread, NULL, dump, NULL) == 0);
    W_REQUIRE(read(pipe, &byte, 1) == 1);
    pid_t pid = fork();
    W_REQUIRE(pid >= 0);
    if (pid == 0) _exit(child());
    W_REQUIRE(waitpid(pid, &status, 0) == pid && status == 0);
    _exit(0);
}
