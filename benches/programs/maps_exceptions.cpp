// A little record store in the C++ style: maps of strings and vectors, parse errors as exceptions
// that cross several frames. Argument: scale.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <vector>

struct ParseError : std::runtime_error {
    using std::runtime_error::runtime_error;
};

static std::uint64_t state = 1;
static unsigned draw(unsigned limit) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    return static_cast<unsigned>(state >> 33) % limit;
}

// `key=value,value,…`; one line in twenty has no `=`.
static std::string make_line() {
    std::string line = "record-" + std::to_string(draw(20000));
    line += draw(20) ? "=" : " ";
    for (unsigned n = 1 + draw(5); n--;) line += "value-" + std::to_string(draw(1000000)) + ",";
    return line;
}

static std::vector<std::string> parse_values(const std::string &line, std::size_t equals) {
    if (equals == std::string::npos) throw ParseError("no '=' in line: " + line);
    std::vector<std::string> values;
    for (std::size_t at = equals + 1; at < line.size();) {
        std::size_t comma = line.find(',', at);
        values.push_back(line.substr(at, comma - at));
        at = comma + 1;
    }
    return values;
}

class Store {
    std::map<std::string, std::vector<std::string>> records;
    std::unordered_map<std::string, unsigned> mentions;

  public:
    void load(const std::string &line) {
        std::size_t equals = line.find('=');
        try {
            auto values = parse_values(line, equals);
            for (const auto &value : values) mentions[value.substr(0, 9)]++;
            records[line.substr(0, equals)] = std::move(values);
        } catch (const ParseError &error) {
            throw std::invalid_argument(std::string("rejected: ") + error.what());
        }
    }
    void forget(const std::string &key) { records.erase(key); }
    std::size_t size() const { return records.size() + mentions.size(); }
};

int main(int argc, char **argv) {
    int scale = argc > 1 ? std::atoi(argv[1]) : 15;
    Store store;
    std::size_t rejected = 0;
    for (long i = 0; i < scale * 100000L; i++) {
        try {
            store.load(make_line());
        } catch (const std::invalid_argument &error) {
            rejected += std::string(error.what()).size() > 20;
        }
        if (i % 3 == 0) store.forget("record-" + std::to_string(draw(20000)));
    }
    std::printf("%zu kept, %zu rejected\n", store.size(), rejected);
}
