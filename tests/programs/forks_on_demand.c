// Hazard: a process forks while a controller has it recorded; the controller does not know of the
// child.
// Counts: nothing. On SIGUSR1 it forks a child that allocates as it does. Both run until they are
// killed; they end by themselves after some minutes in any case.
#include <signal.h>

#include "witness.h"

static volatile sig_atomic_t wanted;

static void on_signal(int signal) {
    (void)signal;
    wanted = 1;
}

int main(void) {
    alarm(300);
    signal(SIGUSR1, on_signal);
    w_say("", "ready", 1);
    for (;;) {
        w_free(w_malloc(4000));
        usleep(100);
        if (wanted) {
            wanted = 0;
            if (fork() == 0) alarm(300);
        }
    }
}
