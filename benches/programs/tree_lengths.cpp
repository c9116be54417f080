// Builds and drops binary trees by recursion, a std::string of 8 to 67 bytes in every node, and
// reads them once: 65 000 stacks, and a size per block that its stack does not tell. Argument:
// scale.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

static uint64_t state = 0x9e3779b97f4a7c15ULL;

struct Node {
    std::string text;
    std::unique_ptr<Node> left, right;
};

static uint64_t next() {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return state;
}

static __attribute__((noinline)) std::string text() {
    std::string result(8 + next() % 60, ' ');
    for (char &letter : result) letter = static_cast<char>('a' + letter % 7 + result.size() % 13);
    return result;
}

static __attribute__((noinline)) std::unique_ptr<Node> build(int depth) {
    auto node = std::make_unique<Node>();
    node->text = text();
    if (depth > 0) {
        node->left = build(depth - 1);
        node->right = build(depth - 1);
    }
    return node;
}

static __attribute__((noinline)) std::size_t read(const Node &node) {
    std::size_t sum = 0;
    for (char letter : node.text) sum += static_cast<unsigned char>(letter);
    if (node.left) sum += read(*node.left) + read(*node.right);
    return sum;
}

int main(int argc, char **argv) {
    int scale = argc > 1 ? std::atoi(argv[1]) : 60;
    std::size_t sum = 0;
    for (int i = 0; i < scale; i++) sum += read(*build(14));
    std::printf("%zu\n", sum);
}
