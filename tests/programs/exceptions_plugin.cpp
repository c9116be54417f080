// The module that throws into `cpp_exceptions`, through frames of both.
// build: -shared -fPIC
#include <cstdint>
#include <stdexcept>
#include <string>

extern "C" void plugin_throw(int depth, void (*visit)(int)) {
    std::string local(40 + static_cast<std::size_t>(depth), 'x'); // destroyed by the unwinding
    visit(depth);
    if (depth == 0) throw std::runtime_error(local);
    plugin_throw(depth - 1, visit);
    if (local.empty()) throw std::logic_error("unreachable");
}
