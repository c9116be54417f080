// Hazard: exceptions thrown across modules, destructors that free on the way, maps and strings.
// Counts: blocks that containers allocate through `w_allocate`; the exceptions' own memory is
// libstdc++'s. Argument: throws.
// build: -pthread {out}/exceptions_plugin.so -Wl,-rpath,$ORIGIN
#include "witness.h"
#include <map>
#include <stdexcept>
#include <string>

static W_SITE void *w_allocate(size_t bytes) {
    void *p = ::operator new(bytes);
    w_count_alloc(bytes);
    return p;
}

static W_SITE void w_deallocate(void *p, size_t bytes) {
    w_count_free(bytes);
    ::operator delete(p, bytes);
    __asm__ volatile("" ::: "memory");
}

template <class T> struct Witnessed {
    using value_type = T;
    Witnessed() = default;
    template <class U> Witnessed(const Witnessed<U> &) {}
    T *allocate(size_t n) { return static_cast<T *>(w_allocate(n * sizeof(T))); }
    void deallocate(T *p, size_t n) { w_deallocate(p, n * sizeof(T)); }
    template <class U> bool operator==(const Witnessed<U> &) const { return true; }
};

using String = std::basic_string<char, std::char_traits<char>, Witnessed<char>>;
using Map = std::map<int, String, std::less<int>, Witnessed<std::pair<const int, String>>>;

extern "C" void plugin_throw(int depth, void (*visit)(int));

static Map kept;

static void visit(int depth) {
    kept[depth] = String(100 + static_cast<size_t>(depth), 'v');
    if (depth % 5 == 4) kept.erase(depth);
}

static void caught_one(int i) {
    Map local;
    for (int n = 0; n < 8; n++) local.emplace(n, String(60, 'l'));
    plugin_throw(i % 30, visit);
}

int main(int argc, char **argv) {
    int throws = static_cast<int>(w_argument(argc, argv, 1, 3000)), caught = 0;
    for (int i = 0; i < throws; i++) {
        try {
            caught_one(i);
        } catch (const std::runtime_error &error) {
            caught++;
            W_REQUIRE(std::string(error.what()).size() == 40);
        }
    }
    W_REQUIRE(caught == throws);
    w_report("");
    _exit(0); // `kept` stays alive: its destructor would free it after the account
}
