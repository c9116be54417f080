// C++ with exceptions: every eighth frame catches; between two throws a burst of captures.
extern "C" {
#include "chain.h"
}

[[gnu::noinline]] static long level(chain *c, long depth) {
    volatile char pad[40] = {};
    long sum = depth;
    if (depth <= 0) {
        for (long n = c->repeats; n > 0; n--) sum += c->leaf(c, c->body);
        throw sum;
    }
    if (depth % 8) return level(c, depth - 1) + pad[depth % 40];
    try {
        sum += level(c, depth - 1);
    } catch (long value) {
        sum += value + c->leaf(c, c->body);
    }
    return sum + pad[3];
}

extern "C" long throwing(chain *c, long depth) {
    try {
        return level(c, depth);
    } catch (long value) {
        return value;
    }
}

// A capture in each frame on the way down, up to two calls from each: the depth keeps changing by
// one.
extern "C" [[gnu::noinline]] long recursing(chain *c, long depth) {
    volatile long pad[4] = {depth};
    long sum = 0;
    for (int calls = 0; depth > 0 && calls < 2 && *c->steps != 255; calls++) {
        c->steps++;
        sum += c->leaf(c, c->body) + recursing(c, depth - 1);
    }
    return sum + pad[0];
}
