// Hazard: a cache that is never emptied, a leak and churn behind inlined containers; all but the
// leak is freed at exit. Counts: nothing. Arguments: requests.
#include <cstdlib>
#include <map>
#include <string>

struct SessionCache {
    std::map<int, std::string> sessions;
    const std::string &get(int id) {
        auto found = sessions.find(id);
        if (found == sessions.end()) found = sessions.emplace(id, std::string(200, 'x')).first;
        return found->second;
    }
};

static char *volatile forgotten;

__attribute__((noinline)) static void remember(int id) {
    if (id % 10 == 0) forgotten = static_cast<char *>(std::malloc(500));
}

__attribute__((noinline)) static void answer(int id) {
    std::string page(4000, 'y');
    page[id % 4000] = 'z';
    __asm__ volatile("" : : "r"(page.data()) : "memory");
}

int main(int, char **argv) {
    SessionCache cache;
    for (int id = 0, requests = std::atoi(argv[1]); id < requests; id++) {
        cache.get(id);
        remember(id);
        for (int part = 0; part < 8; part++) answer(id);
    }
    return 0;
}
