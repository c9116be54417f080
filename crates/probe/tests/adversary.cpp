// C++ exceptions: stacks unwound by throwing, destructors and handlers that call the hook
// meanwhile.
#include <cstdint>
#include <string>

using hook_t = long (*)(void *, void *);
namespace {
struct Run { hook_t hook; void *context, *body; uint64_t random; };
thread_local Run run;
volatile long sink;

uint64_t draw() {
    auto &x = run.random;
    x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    return x;
}
struct Guard { long n; ~Guard() { run.hook(run.context, run.body); sink = sink + n; } };

[[gnu::noinline]] long level(long n) {
    Guard guard{n};
    volatile char pad[48] = {};
    pad[n % 48] = 1;
    if (n == 0) {
        run.hook(run.context, run.body);
        switch (draw() % 3) {
        case 0: throw n;
        case 1: throw std::string(40, 'x');
        }
        return 1;
    }
    try {
        return level(n - 1) + pad[n % 48];
    } catch (long value) {
        run.hook(run.context, run.body);
        if (draw() & 1) throw;
        return value;
    }
}
}

extern "C" void exceptions_run(hook_t hook, void *context, void *body, uint64_t seed, long acts) {
    run = {hook, context, body, seed | 1};
    for (long i = 0; i < acts; i++) {
        try { sink = sink + level(long(draw() % 20)); }
        catch (long value) { sink = sink + value; }
        catch (const std::string &text) { sink = sink + long(text.size()); }
    }
}
