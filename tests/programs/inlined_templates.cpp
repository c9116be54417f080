// Virtual calls, templates, inlining, recursion and a second thread: names that a profile's reader
// must shorten.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

struct Shape {
    virtual ~Shape() {}
    virtual void *draw(int) = 0;
};

struct Circle : Shape {
    __attribute__((noinline)) void *draw(int n) override { return malloc(1000 + n); }
};

template <class T> struct Square : Shape {
    __attribute__((noinline)) void *draw(int n) override { return new T[300 + n]; }
};

static std::vector<void *> kept;
static std::map<std::string, std::vector<int>> by_name;

static inline char *label(int n) { return strdup(std::string(100 + n, 'x').c_str()); }

__attribute__((noinline)) int descend(int n) {
    if (n == 0) return 0;
    kept.push_back(label(n));
    return descend(n - 1) + 1;
}

__attribute__((noinline)) void fill(int n) {
    for (int i = 0; i < n; i++) by_name[std::to_string(i)].resize(i % 50 + 1);
}

__attribute__((noinline)) void churn(int n) {
    for (int i = 0; i < n; i++) {
        auto block = std::make_unique<int[]>(1024 + i % 100);
        asm volatile("" : : "r"(block.get()) : "memory");
    }
}

int main(int argc, char **argv) {
    int n = argc > 1 ? atoi(argv[1]) : 1000;
    Circle circle;
    Square<long> square;
    Shape *shapes[] = {&circle, &square};
    for (int i = 0; i < n; i++) kept.push_back(shapes[i & 1]->draw(i % 200));
    descend(40);
    fill(n);
    std::thread second([&] {
        churn(n);
        fill(n * 2);
    });
    second.join();
    printf("%zu\n", kept.size());
}
