// Every kind of access to every profiling or statistics name of jemalloc's tree: result, size and
// (where it must be the same everywhere) value of each, one line per result. The output over
// jemalloc and over the probe must be equal.
#include "witness.h"

#include <stdbool.h>
#include <stdio.h>

__attribute__((weak)) int mallctl(const char *, void *, size_t *, void *, size_t);
__attribute__((weak)) int mallctlnametomib(const char *, size_t *, size_t *);
__attribute__((weak)) int mallctlbymib(const size_t *, size_t, void *, size_t *, void *, size_t);

// The size of a name's value, and whether the value itself is compared.
static const struct {
    const char *name;
    size_t size;
    bool same;
} names[] = {
    {"version", 8, false},
    {"epoch", 8, false},
    {"config.cache_oblivious", 1, false},
    {"config.debug", 1, true},
    {"config.fill", 1, false},
    {"config.lazy_lock", 1, true},
    {"config.malloc_conf", 8, false},
    {"config.opt_safety_checks", 1, true},
    {"config.prof", 1, true},
    {"config.prof_libgcc", 1, false},
    {"config.prof_libunwind", 1, true},
    {"config.stats", 1, true},
    {"config.utrace", 1, true},
    {"config.xmalloc", 1, false},
    {"opt.abort", 1, true},
    {"opt.abort_conf", 1, true},
    {"opt.confirm_conf", 1, true},
    {"opt.prof", 1, true},
    {"opt.prof_prefix", 8, false},
    {"opt.prof_active", 1, true},
    {"opt.prof_thread_active_init", 1, true},
    {"opt.lg_prof_sample", 8, true},
    {"opt.lg_prof_interval", 8, true},
    {"opt.prof_gdump", 1, true},
    {"opt.prof_final", 1, true},
    {"opt.prof_leak", 1, true},
    {"opt.prof_leak_error", 1, true},
    {"opt.prof_accum", 1, true},
    {"opt.prof_recent_alloc_max", 8, true},
    {"opt.prof_stats", 1, true},
    {"opt.prof_sys_thread_name", 1, true},
    {"opt.prof_time_resolution", 8, false},
    {"prof.thread_active_init", 1, true},
    {"prof.active", 1, true},
    {"prof.gdump", 1, true},
    {"prof.interval", 8, true},
    {"prof.lg_sample", 8, true},
    {"prof.dump", 8, false},
    {"prof.prefix", 8, false},
    {"prof.reset", 8, false},
    {"prof.log_start", 8, false},
    {"prof.log_stop", 8, false},
    {"prof.stats.bins.0.live", 16, false},
    {"prof.stats.bins.35.accum", 16, false},
    {"prof.stats.bins.36.accum", 16, false},
    {"prof.stats.bins.x.live", 16, false},
    {"prof.stats.lextents.0.live", 16, false},
    {"prof.stats.lextents.195.accum", 16, false},
    {"prof.stats.lextents.196.accum", 16, false},
    {"thread.prof.name", 8, false},
    {"thread.prof.active", 1, true},
    {"stats.allocated", 8, false},
    {"stats.active", 8, false},
    {"stats.metadata", 8, false},
    {"stats.metadata_thp", 8, false},
    {"stats.resident", 8, false},
    {"stats.mapped", 8, false},
    {"stats.retained", 8, false},
    {"stats.zero_reallocs", 8, false},
    {"experimental.prof_recent.alloc_max", 8, true},
    {"experimental.prof_recent.alloc_dump", 16, false},
    {"prof", 8, false},
    {"prof.stats", 8, false},
    {"prof.active.more", 8, false},
    {"nonsense", 8, false},
    {"", 8, false},
};

static void tell(const char *name, const char *way, long value) {
    char text[160];
    snprintf(text, sizeof text, "%s/%s", name, way);
    w_say("", text, (uint64_t)value & INT64_MAX);
}

static uint64_t buffer[8];

static void *clean(void) {
    memset(buffer, 0, sizeof buffer);
    return buffer;
}

// Reads with a size that may be wrong.
static void read_with(const char *name, const char *way, size_t size, bool same) {
    size_t len = size;
    int result = mallctl(name, clean(), &len, NULL, 0);
    char text[64];
    tell(name, way, result);
    snprintf(text, sizeof text, "%s_len", way);
    tell(name, text, (long)len);
    snprintf(text, sizeof text, "%s_value", way);
    if (same && result == 0) tell(name, text, (long)buffer[0]);
}

// `write` has the right size only where nothing can happen: the value is null, which each name
// takes or refuses by its rules.
static void ask(const char *name, size_t size, bool same) {
    read_with(name, "read", size, same);
    read_with(name, "read_short", size - 1, false);
    read_with(name, "read_long", size + 1, false);
    // jemalloc crashes on a prefix that is null.
    bool crashes = strcmp(name, "prof.prefix") == 0;
    if (!crashes) tell(name, "nothing", mallctl(name, NULL, NULL, NULL, 0));
    tell(name, "no_len", mallctl(name, clean(), NULL, NULL, 0));
    size_t len = size;
    tell(name, "no_room", mallctl(name, NULL, &len, NULL, 0));
    tell(name, "write_long", mallctl(name, NULL, NULL, clean(), size + 1));
    tell(name, "write_short", mallctl(name, NULL, NULL, clean(), size - 1));
    if (!crashes) tell(name, "write_null_of_size", mallctl(name, NULL, NULL, NULL, size));
    len = size;
    tell(name, "swap_long", mallctl(name, buffer + 4, &len, clean(), size + 1));
    size_t mib[8] = {0}, depth = 8;
    int found = mallctlnametomib(name, mib, &depth);
    tell(name, "to_mib", found);
    tell(name, "depth", (long)depth);
    len = size;
    if (found == 0) tell(name, "by_mib", mallctlbymib(mib, depth, clean(), &len, NULL, 0));
    tell(name, "by_mib_len", (long)len);
    depth = 1;
    tell(name, "to_short_mib", mallctlnametomib(name, mib, &depth));
    tell(name, "short_depth", (long)depth);
}

// A value of the right size and kind.
static void write_values(void) {
    bool yes = true, no = false;
    static const char *const switches[] = {"prof.active", "prof.thread_active_init", "prof.gdump", "thread.prof.active",
                                           "opt.prof"};
    for (size_t i = 0; i < sizeof switches / sizeof *switches; i++) {
        bool before = false;
        size_t len = sizeof before;
        tell(switches[i], "set_off", mallctl(switches[i], NULL, NULL, &no, sizeof no));
        tell(switches[i], "swap_on", mallctl(switches[i], &before, &len, &yes, sizeof yes));
        tell(switches[i], "swapped", before);
        tell(switches[i], "set_off_again", mallctl(switches[i], NULL, NULL, &no, sizeof no));
    }
    static const char *const texts[] = {"worker", "", "two words", "bad\nname", "\x01"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        char way[16];
        snprintf(way, sizeof way, "set_%zu", i);
        tell("thread.prof.name", way, mallctl("thread.prof.name", NULL, NULL, (void *)&texts[i], sizeof texts[i]));
        const char *name = NULL;
        size_t len = sizeof name;
        mallctl("thread.prof.name", &name, &len, NULL, 0);
        snprintf(way, sizeof way, "length_%zu", i);
        tell("thread.prof.name", way, name ? (long)strlen(name) : -1);
    }
    size_t rate = 10, now = 0, len = sizeof now;
    tell("prof.reset", "rate", mallctl("prof.reset", NULL, NULL, &rate, sizeof rate));
    tell("prof.lg_sample", "after_reset", mallctl("prof.lg_sample", &now, &len, NULL, 0));
    tell("prof.lg_sample", "value_after_reset", (long)now);
    ssize_t few = 3, many = -2, before = 0;
    len = sizeof before;
    tell("experimental.prof_recent.alloc_max", "set", mallctl("experimental.prof_recent.alloc_max", NULL, NULL, &few, 8));
    tell("experimental.prof_recent.alloc_max", "bad", mallctl("experimental.prof_recent.alloc_max", NULL, NULL, &many, 8));
    tell("experimental.prof_recent.alloc_max", "now", mallctl("experimental.prof_recent.alloc_max", &before, &len, NULL, 0));
    tell("experimental.prof_recent.alloc_max", "value", before);
}

int main(void) {
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) ask(names[i].name, names[i].size, names[i].same);
    write_values();
    return 0;
}
