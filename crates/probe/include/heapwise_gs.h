/* heapwise_gs.h: the gs driver's memory statistics, by their names, for any C or C++ program.
 *
 * Header only. Switching modes goes to the probe inside the program; reports, which need debug
 * information, and recordings, which need a process of their own, come from the `heapwise`
 * executable: the one that runs the program, else the one named by HEAPWISE_EXE, else the one in
 * PATH. Without the probe every function does nothing and returns false, 0 or NULL. Strings
 * returned are the caller's to free(); nothing else comes from the program's heap. Call these
 * from one thread at a time.
 *
 * The driver's own names are static functions, so no symbol of the program is taken; a program
 * that has such functions itself defines HEAPWISE_GS_PREFIXED before including this and uses the
 * names with the prefix heapwise_gs_. */
#ifndef HEAPWISE_GS_H
#define HEAPWISE_GS_H

#ifndef _GNU_SOURCE
#error "heapwise_gs.h needs _GNU_SOURCE, defined before the first #include"
#endif

#include "heapwise.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The driver's MemRecordType: its order, and its default 4. */
enum heapwise_gs_type {
    HEAPWISE_GS_CLOSED = 1,
    HEAPWISE_GS_LOG_RECORD = 2,
    HEAPWISE_GS_LOG_FAST = 3,
    HEAPWISE_GS_MEM_RECORD = 4,
    HEAPWISE_GS_MEM_FAST = 5
};

/* Size at which another log file begins: the driver's 80 to 100 MB. */
#define HEAPWISE_GS_LOG_SIZE "90M"
/* A report waits no longer than this for the recorder, which writes twice a second. */
#define HEAPWISE_GS_PATIENCE_MS 10000
#define HEAPWISE_GS_FUNCTION static __attribute__((unused))

/* The recording of this program; one for all files that include this header. */
struct heapwise_gs_log {
    pid_t recorder;      /* 0: none under way */
    int number;          /* files kept */
    char path[PATH_MAX]; /* empty: there was none yet */
    char size[16];       /* size of a file; empty: HEAPWISE_GS_LOG_SIZE */
    char error[256];     /* why the last call failed; empty: it did not */
    bool is_lost;        /* the recorder ended by itself: nothing is recorded any more */
};
__attribute__((weak)) struct heapwise_gs_log heapwise_gs_log = {0, 10, "", "", "", false};

/* Why the last call returned false or NULL, in one line; empty when it did not. */
HEAPWISE_GS_FUNCTION const char *heapwise_gs_error(void) { return heapwise_gs_log.error; }

HEAPWISE_GS_FUNCTION bool heapwise_gs_fail(const char *reason) {
    snprintf(heapwise_gs_log.error, sizeof heapwise_gs_log.error, "%s", reason);
    return false;
}

/* Whether a call may begin: the probe is there. */
HEAPWISE_GS_FUNCTION bool heapwise_gs_may(void) {
    heapwise_gs_log.error[0] = 0;
    return hw_present() || heapwise_gs_fail("the program does not carry the probe");
}

HEAPWISE_GS_FUNCTION void heapwise_gs_pause(void) {
    struct timespec millisecond = {0, 1000000};
    nanosleep(&millisecond, NULL);
}

/* The child shares this memory until it is heapwise: it may write to its own variables only. */
HEAPWISE_GS_FUNCTION __attribute__((noinline, noreturn)) void heapwise_gs_become(
    const char *const *arguments, char **environment, int out, int err) {
    const char *named = getenv("HEAPWISE_EXE");
    sigset_t none;
    setpgid(0, 0); /* Ctrl-C in a terminal is for the program; the recorder takes what it leaves. */
    signal(SIGINT, SIG_DFL), signal(SIGTERM, SIG_DFL), signal(SIGPIPE, SIG_DFL), signal(SIGCHLD, SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    dup2(out, 1), dup2(err, 2);
    execvpe(named ? named : "heapwise", (char *const *)arguments, environment);
    _exit(127);
}

/* posix_spawn would do, but its file actions come from the heap under study. */
HEAPWISE_GS_FUNCTION __attribute__((noinline)) pid_t heapwise_gs_vfork(
    const char *const *arguments, char **environment, int out, int err) {
    sigset_t all, before;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &before);
    pid_t child = vfork();
    if (child == 0) heapwise_gs_become(arguments, environment, out, err);
    sigprocmask(SIG_SETMASK, &before, NULL);
    return child;
}

/* Starts heapwise, without the probe in it. */
HEAPWISE_GS_FUNCTION pid_t heapwise_gs_spawn(const char *const *arguments, int out, int err) {
    size_t count = 0, kept = 0;
    while (environ[count]) count++;
    char **environment = (char **)__builtin_alloca((count + 1) * sizeof *environment);
    for (size_t i = 0; i < count; i++)
        if (strncmp(environ[i], "LD_PRELOAD=", 11) != 0 && strncmp(environ[i], "HEAPWISE_CONF=", 14) != 0)
            environment[kept++] = environ[i];
    environment[kept] = NULL;
    return heapwise_gs_vfork(arguments, environment, out, err);
}

/* Whether it ended well; also when a handler of the program took its status away. */
HEAPWISE_GS_FUNCTION bool heapwise_gs_wait(pid_t child) {
    int status = 0;
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR) return errno == ECHILD;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* Keeps the last line that heapwise wrote to `err` as the reason. */
HEAPWISE_GS_FUNCTION void heapwise_gs_keep_reason(int err) {
    char text[sizeof heapwise_gs_log.error];
    struct stat file;
    off_t from = 0;
    if (fstat(err, &file) == 0 && file.st_size >= (off_t)sizeof text) from = file.st_size - (off_t)sizeof text + 1;
    ssize_t got = pread(err, text, sizeof text - 1, from);
    while (got > 0 && text[got - 1] == '\n') got--;
    text[got < 0 ? 0 : got] = 0;
    char *line = strrchr(text, '\n');
    heapwise_gs_fail(text[0] ? (line ? line + 1 : text) : "heapwise could not be started (HEAPWISE_EXE, PATH)");
}

/* What heapwise prints for these arguments, or NULL. */
HEAPWISE_GS_FUNCTION char *heapwise_gs_ask(const char *const *arguments) {
    int out = memfd_create("heapwise", MFD_CLOEXEC), err = memfd_create("heapwise errors", MFD_CLOEXEC);
    char *text = NULL;
    if (out >= 0 && err >= 0) {
        pid_t child = heapwise_gs_spawn(arguments, out, err);
        struct stat file;
        if (child > 0 && heapwise_gs_wait(child) && fstat(out, &file) == 0 && file.st_size > 0) {
            text = (char *)malloc((size_t)file.st_size + 1);
            ssize_t got = text ? pread(out, text, (size_t)file.st_size, 0) : 0;
            if (text) text[got < 0 ? 0 : got] = 0;
        }
        if (!text) heapwise_gs_keep_reason(err);
    } else {
        heapwise_gs_fail(strerror(errno));
    }
    if (out >= 0) close(out);
    if (err >= 0) close(err);
    return text;
}

/* Ends the recording; its files are complete then. */
HEAPWISE_GS_FUNCTION void heapwise_gs_end_log(void) {
    struct heapwise_gs_log *log = &heapwise_gs_log;
    if (log->recorder == 0) return;
    kill(log->recorder, SIGINT);
    /* Asking for the mode takes up the recorder's last order, which it waits for. */
    for (;; heapwise_gs_pause()) {
        pid_t ended = waitpid(log->recorder, NULL, WNOHANG);
        if (ended == log->recorder || (ended < 0 && errno != EINTR)) break;
        hw_mode();
    }
    log->recorder = 0;
}

/* A fresh recording in the working directory; whether it has begun. */
HEAPWISE_GS_FUNCTION bool heapwise_gs_begin_log(bool fast) {
    struct heapwise_gs_log *log = &heapwise_gs_log;
    static unsigned serial;
    char directory[PATH_MAX - 100], pid[16], number[16], date[16];
    struct timespec now;
    struct tm calendar;
    int null = open("/dev/null", O_WRONLY | O_CLOEXEC), err = memfd_create("heapwise errors", MFD_CLOEXEC);
    if (null < 0 || err < 0 || clock_gettime(CLOCK_REALTIME, &now) != 0 || !getcwd(directory, sizeof directory) ||
        !gmtime_r(&now.tv_sec, &calendar))
        return heapwise_gs_fail(strerror(errno));
    strftime(date, sizeof date, "%Y%m%d", &calendar);
    snprintf(pid, sizeof pid, "%d", (int)getpid());
    snprintf(number, sizeof number, "%d", log->number);
    /* The time to the nanosecond: a restart with the same pid has other names. */
    unsigned long long run = (unsigned long long)now.tv_sec * 1000000000 + (unsigned long long)now.tv_nsec;
    snprintf(log->path, sizeof log->path, "%s/memlog%s_%llx_%s_%u.hwr", directory, date, run, pid, serial++);
    const char *size = log->size[0] ? log->size : HEAPWISE_GS_LOG_SIZE;
    const char *arguments[] = {"heapwise", "record", "-o", log->path, "--rotate", size, "--keep", number,
                               "--on-full", fast ? "drop" : "block", pid, NULL};
    hw_set_mode(HEAPWISE_OFF, 0);
    log->recorder = heapwise_gs_spawn(arguments, null, err);
    close(null);
    if (log->recorder < 0) log->recorder = 0;
    while (log->recorder && hw_mode() != HEAPWISE_LOG) {
        if (waitpid(log->recorder, NULL, WNOHANG) != 0) log->recorder = 0;
        heapwise_gs_pause();
    }
    if (log->recorder == 0) log->path[0] = 0, heapwise_gs_keep_reason(err);
    close(err);
    return log->recorder != 0;
}

/* Waits until everything before this call is in the file; whether it is. */
HEAPWISE_GS_FUNCTION bool heapwise_gs_await_log(void) {
    struct heapwise_gs_log *log = &heapwise_gs_log;
    const char *lost = "the recorder has ended: the disk is full, or it was killed";
    if (log->recorder == 0) return !log->is_lost || heapwise_gs_fail(lost);
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    uint64_t moment = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
    for (int ms = 0; ms < HEAPWISE_GS_PATIENCE_MS; ms++) {
        if (hw_recorded_ns() > moment) return true;
        if (waitpid(log->recorder, NULL, WNOHANG) == log->recorder) {
            log->recorder = 0, log->is_lost = true;
            return heapwise_gs_fail(lost);
        }
        heapwise_gs_pause();
    }
    return heapwise_gs_fail("the recorder does not keep up: the report would be of an earlier state");
}

/* Switches what is recorded; LOG types write files memlog<date>_<hex>_<pid>_<n>-<number>.hwr in
 * the working directory. */
HEAPWISE_GS_FUNCTION bool heapwise_gs_set_enable_mem_profiler(int type) {
    if (!heapwise_gs_may()) return false;
    if (type < HEAPWISE_GS_CLOSED || type > HEAPWISE_GS_MEM_FAST) return heapwise_gs_fail("types are 1 to 5");
    heapwise_gs_end_log();
    heapwise_gs_log.is_lost = false;
    if (type == HEAPWISE_GS_LOG_RECORD || type == HEAPWISE_GS_LOG_FAST)
        return heapwise_gs_begin_log(type == HEAPWISE_GS_LOG_FAST);
    hw_set_index(type == HEAPWISE_GS_MEM_FAST ? HEAPWISE_INDEX_SHADOW : HEAPWISE_INDEX_HASH);
    hw_set_mode(type == HEAPWISE_GS_CLOSED ? HEAPWISE_OFF : HEAPWISE_EXACT, 0);
    return true;
}

/* JSON {"total_size": BYTES, "mem_report": ["file     line:N    size:BYTES", …]} in padded columns,
 * largest first, sites that hold nothing any more included. */
HEAPWISE_GS_FUNCTION char *heapwise_gs_get_mem_report(void) {
    if (!heapwise_gs_may() || !heapwise_gs_await_log()) return NULL;
    char pid[16];
    snprintf(pid, sizeof pid, "%d", (int)getpid());
    const char *live[] = {"heapwise", "top", "--gs", "--zero", "--json", pid, NULL};
    const char *logged[] = {"heapwise", "at", "--gs", "--zero", "--json", heapwise_gs_log.path, "end", NULL};
    return heapwise_gs_ask(heapwise_gs_log.recorder ? logged : live);
}

/* How many log files are kept; a recording under way takes it up at its next file. */
HEAPWISE_GS_FUNCTION int heapwise_gs_get_mem_profiler_log_number(void) { return heapwise_gs_log.number; }

HEAPWISE_GS_FUNCTION void heapwise_gs_set_mem_profiler_log_number(int number) {
    struct heapwise_gs_log *log = &heapwise_gs_log;
    char path[PATH_MAX + 8], text[16];
    log->number = number < 1 ? 1 : number;
    if (log->recorder == 0) return;
    snprintf(path, sizeof path, "%.*s.keep", (int)(strlen(log->path) - strlen(".hwr")), log->path);
    int length = snprintf(text, sizeof text, "%d\n", log->number);
    int file = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);
    if (file < 0) return;
    if (write(file, text, (size_t)length) != length) ftruncate(file, 0); /* an empty one changes nothing */
    close(file);
}

/* Size at which another file begins (`90M`), for recordings that begin after the call; what is in
 * force. */
HEAPWISE_GS_FUNCTION const char *heapwise_gs_get_mem_profiler_log_size(void) {
    return heapwise_gs_log.size[0] ? heapwise_gs_log.size : HEAPWISE_GS_LOG_SIZE;
}

HEAPWISE_GS_FUNCTION bool heapwise_gs_set_mem_profiler_log_size(const char *size) {
    heapwise_gs_log.error[0] = 0;
    if (!size || strlen(size) >= sizeof heapwise_gs_log.size || size[0] < '1' || size[0] > '9')
        return heapwise_gs_fail("a size is a number of bytes, or one with K, M or G");
    snprintf(heapwise_gs_log.size, sizeof heapwise_gs_log.size, "%s", size);
    return true;
}

/* Whether a recording was begun, and its file has everything until now. */
HEAPWISE_GS_FUNCTION bool heapwise_gs_has_log(void) {
    if (!heapwise_gs_may()) return false;
    if (!heapwise_gs_log.path[0]) return heapwise_gs_fail("no recording was begun");
    return heapwise_gs_await_log();
}

/* Reads the files of the recording with `jobs` threads (0: one per core) and says on stderr what
 * they contain. */
HEAPWISE_GS_FUNCTION bool heapwise_gs_start_mem_log_profiler(int jobs) {
    char number[16];
    snprintf(number, sizeof number, "%d", jobs);
    const char *some[] = {"heapwise", "summary", heapwise_gs_log.path, "-j", number, NULL};
    const char *all[] = {"heapwise", "summary", heapwise_gs_log.path, NULL};
    if (!heapwise_gs_has_log()) return false;
    pid_t child = heapwise_gs_spawn(jobs > 0 ? some : all, 2, 2);
    return child > 0 && heapwise_gs_wait(child);
}

/* JSON [[ms, BYTES], …]: the highest live bytes of each 100 ms of the recording. */
HEAPWISE_GS_FUNCTION char *heapwise_gs_get_all_time_size(void) {
    const char *arguments[] = {"heapwise", "timeline", "--json", heapwise_gs_log.path, NULL};
    if (!heapwise_gs_has_log()) return NULL;
    return heapwise_gs_ask(arguments);
}

/* As get_mem_report, at the highest moment of the 100 ms that contain `ms`. */
HEAPWISE_GS_FUNCTION char *heapwise_gs_get_mem_report_with_time(uint64_t ms) {
    char moment[32];
    snprintf(moment, sizeof moment, "%llums", (unsigned long long)ms);
    const char *arguments[] = {"heapwise", "at", "--gs", "--zero", "--json", heapwise_gs_log.path, moment, NULL};
    if (!heapwise_gs_has_log()) return NULL;
    return heapwise_gs_ask(arguments);
}

#ifndef HEAPWISE_GS_PREFIXED
HEAPWISE_GS_FUNCTION bool set_enable_mem_profiler(int type) { return heapwise_gs_set_enable_mem_profiler(type); }
HEAPWISE_GS_FUNCTION char *get_mem_report(void) { return heapwise_gs_get_mem_report(); }
HEAPWISE_GS_FUNCTION int get_mem_profiler_log_number(void) { return heapwise_gs_get_mem_profiler_log_number(); }
HEAPWISE_GS_FUNCTION void set_mem_profiler_log_number(int number) { heapwise_gs_set_mem_profiler_log_number(number); }
HEAPWISE_GS_FUNCTION const char *get_mem_profiler_log_size(void) { return heapwise_gs_get_mem_profiler_log_size(); }
HEAPWISE_GS_FUNCTION bool set_mem_profiler_log_size(const char *size) { return heapwise_gs_set_mem_profiler_log_size(size); }
HEAPWISE_GS_FUNCTION const char *get_mem_profiler_error(void) { return heapwise_gs_error(); }
HEAPWISE_GS_FUNCTION bool start_mem_log_profiler(int jobs) { return heapwise_gs_start_mem_log_profiler(jobs); }
HEAPWISE_GS_FUNCTION char *get_all_time_size(void) { return heapwise_gs_get_all_time_size(); }
HEAPWISE_GS_FUNCTION char *get_mem_report_with_time(uint64_t ms) { return heapwise_gs_get_mem_report_with_time(ms); }
#endif

#ifdef __cplusplus
}
#endif
#endif
