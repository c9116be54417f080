// Builds and drops binary trees by recursion, a string of 8 to 67 bytes in every node: many stacks, and a
// size per block that its stack does not tell. Argument: scale.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

static uint64_t state = 0x9e3779b97f4a7c15ULL;
static uint64_t blocks, bytes;

struct Node {
    char *text;
    Node *left, *right;
};

static uint64_t next() {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return state;
}

static __attribute__((noinline)) char *text() {
    std::size_t length = 8 + next() % 60;
    char *result = new char[length];
    std::memset(result, 'x', length);
    blocks++, bytes += length;
    return result;
}

static __attribute__((noinline)) Node *build(int depth) {
    Node *node = new Node{text(), nullptr, nullptr};
    blocks++, bytes += sizeof(Node);
    if (depth > 0) {
        node->left = build(depth - 1);
        node->right = build(depth - 1);
    }
    return node;
}

static __attribute__((noinline)) std::size_t drop(Node *node) {
    if (!node) return 0;
    std::size_t sum = drop(node->left) + drop(node->right) + static_cast<unsigned char>(node->text[0]);
    delete[] node->text;
    delete node;
    return sum;
}

int main(int argc, char **argv) {
    int scale = argc > 1 ? std::atoi(argv[1]) : 60;
    std::size_t sum = 0;
    for (int i = 0; i < scale; i++) sum += drop(build(14));
    std::printf("%zu blocks %llu bytes %llu\n", sum, (unsigned long long)blocks, (unsigned long long)bytes);
}
