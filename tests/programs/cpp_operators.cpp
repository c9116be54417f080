// Hazard: every form of new and delete: plain, array, nothrow, aligned, sized. None may count
// twice, though libstdc++'s forms call each other and then malloc.
// Counts: all of it, plus `bad_allocs` thrown. Argument: rounds.
#include "witness.h"
#include <new>

using std::align_val_t;
using std::nothrow;

static constexpr align_val_t ALIGNED{128};

static W_SITE w_block w_new(int form, size_t n) {
    switch (form) {
    case 0: return w_counted(::operator new(n), n);
    case 1: return w_counted(::operator new[](n), n);
    case 2: return w_counted(::operator new(n, nothrow), n);
    case 3: return w_counted(::operator new[](n, nothrow), n);
    case 4: return w_counted(::operator new(n, ALIGNED), n);
    case 5: return w_counted(::operator new[](n, ALIGNED), n);
    case 6: return w_counted(::operator new(n, ALIGNED, nothrow), n);
    default: return w_counted(::operator new[](n, ALIGNED, nothrow), n);
    }
}

static W_SITE void w_delete(int form, int way, w_block b) {
    w_count_free(b.size);
    bool array = form & 1, aligned = form >= 4;
    switch ((aligned ? 6 : 0) + (array ? 3 : 0) + way) {
    case 0: ::operator delete(b.p); break;
    case 1: ::operator delete(b.p, b.size); break;
    case 2: ::operator delete(b.p, nothrow); break;
    case 3: ::operator delete[](b.p); break;
    case 4: ::operator delete[](b.p, b.size); break;
    case 5: ::operator delete[](b.p, nothrow); break;
    case 6: ::operator delete(b.p, ALIGNED); break;
    case 7: ::operator delete(b.p, b.size, ALIGNED); break;
    case 8: ::operator delete(b.p, ALIGNED, nothrow); break;
    case 9: ::operator delete[](b.p, ALIGNED); break;
    case 10: ::operator delete[](b.p, b.size, ALIGNED); break;
    default: ::operator delete[](b.p, ALIGNED, nothrow);
    }
    __asm__ volatile("" ::: "memory");
}

static int impossible() {
    volatile size_t huge = PTRDIFF_MAX;
    W_REQUIRE(::operator new(huge, nothrow) == nullptr);
    try {
        W_REQUIRE(::operator new(huge) != nullptr);
    } catch (const std::bad_alloc &) {
        return 1;
    }
    return 0;
}

int main(int argc, char **argv) {
    uint64_t rounds = w_argument(argc, argv, 1, 500), bad_allocs = 0;
    for (uint64_t round = 0; round < rounds; round++) {
        for (int form = 0; form < 8; form++)
            for (int way = 0; way < 3; way++) {
                w_block block = w_new(form, 20 + round % 200);
                W_REQUIRE(block.p && (form < 4 || reinterpret_cast<uintptr_t>(block.p) % 128 == 0));
                if (round % 10 || way) w_delete(form, way, block);
            }
        bad_allocs += static_cast<uint64_t>(impossible());
    }
    w_report("");
    w_say("", "bad_allocs", bad_allocs);
    return 0;
}
