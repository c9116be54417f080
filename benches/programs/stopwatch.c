// Not a workload: runs one and accounts for it. `stopwatch FILE SECONDS [NAME=VALUE…] -- PROG
// ARGS…` writes `wall_seconds cpu_seconds peak_rss_bytes wait_status` to FILE. The settings are for
// the program alone: a preloaded profiler must not see its stopwatch. After SECONDS the program's
// whole process group is killed.
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile pid_t group;

static void give_up(int signal) {
    (void)signal;
    kill(-group, SIGKILL);
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static double seconds(struct timeval t) { return (double)t.tv_sec + (double)t.tv_usec * 1e-6; }

static void become(char **settings, char **program) {
    setpgid(0, 0);
    for (; settings != program - 1; settings++) putenv(*settings);
    execvp(program[0], program);
    _exit(127);
}

int main(int argc, char **argv) {
    int split = 3;
    while (split < argc && strcmp(argv[split], "--") != 0) split++;
    if (split + 1 >= argc) return 2;
    FILE *file = fopen(argv[1], "we");
    if (!file) return 2;

    double began = now();
    group = fork();
    if (group < 0) return 2;
    if (group == 0) become(argv + 3, argv + split + 1);
    setpgid(group, group); // in both, so that neither can be too late
    signal(SIGALRM, give_up); // restarts wait4
    alarm((unsigned)atoi(argv[2]));

    int status = 0;
    struct rusage usage = {0};
    if (wait4(group, &status, 0, &usage) != group) return 2;
    double wall = now() - began, cpu = seconds(usage.ru_utime) + seconds(usage.ru_stime);
    fprintf(file, "%.6f %.6f %ld %d\n", wall, cpu, usage.ru_maxrss * 1024, status);
    return fclose(file) == 0 ? 0 : 2;
}
