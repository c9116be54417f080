// Builds and drops lopsided trees of named nodes by recursion some 70 frames deep, a path string
// copied at every level: deep stacks that change at both ends. Argument: scale.
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

struct Node {
    std::string path;
    std::vector<std::unique_ptr<Node>> children;
};

static __attribute__((noinline)) std::unique_ptr<Node> build(std::size_t budget, const std::string &parent, unsigned salt) {
    auto node = std::make_unique<Node>();
    // The tail of the parent's path and this node's number: always too long for the inline buffer.
    node->path = parent.substr(parent.size() > 24 ? parent.size() - 24 : 0) + "/" + std::to_string(budget * 31 + salt);
    if (--budget == 0) return node;
    std::size_t small = budget / 8;
    if (small) node->children.push_back(build(small, node->path, salt + 1));
    node->children.push_back(build(budget - small, node->path, salt));
    return node;
}

static __attribute__((noinline)) std::size_t measure(const Node &node) {
    std::size_t sum = node.path.size();
    for (const auto &child : node.children) sum += measure(*child);
    return sum;
}

int main(int argc, char **argv) {
    int scale = argc > 1 ? std::atoi(argv[1]) : 60;
    std::size_t sum = 0;
    for (int i = 0; i < scale; i++) sum += measure(*build(100000, "root-of-all-the-paths", static_cast<unsigned>(i)));
    std::printf("%zu bytes of paths\n", sum);
}
