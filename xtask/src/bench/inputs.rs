//! Inputs for the real programs, generated so that nobody's data is in the repository. `scale` 4 is
//! one to three seconds of an unprofiled run.

/// Tables, indexes, joins and text functions for the sqlite3 shell.
pub(crate) fn sql(scale: u32) -> String {
    let rows = 60_000 * scale;
    format!(
        "CREATE TABLE person(id INTEGER PRIMARY KEY, name TEXT, city TEXT, score REAL);\n\
         CREATE TABLE visit(person INTEGER, day INTEGER, note TEXT);\n\
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i < {rows})\n\
         INSERT INTO person SELECT i, 'name-' || (i*7919 % {rows}), 'city-' || (i % 500), i * 0.5 FROM n;\n\
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i < {rows})\n\
         INSERT INTO visit SELECT 1 + i*31 % {rows}, i % 365, hex(i) || upper('note' || i) FROM n;\n\
         CREATE INDEX person_name ON person(name);\n\
         CREATE INDEX visit_person ON visit(person, day);\n\
         SELECT city, count(*), avg(score), max(length(note)) FROM person JOIN visit ON person = id\n\
           GROUP BY city ORDER BY 2 DESC, 1 LIMIT 5;\n\
         SELECT count(DISTINCT substr(note, 1, 6)), group_concat(DISTINCT day % 7) FROM visit;\n\
         UPDATE person SET name = replace(name, 'name', 'renamed') WHERE id % 3 = 0;\n\
         SELECT count(*) FROM person WHERE name LIKE '%named-1%';\n"
    )
}

/// Encodes and decodes nested objects.
pub(crate) fn python(scale: u32) -> String {
    let rounds = 6 * scale;
    format!(
        "import json\n\
         total = 0\n\
         for r in range({rounds}):\n\
         \x20   rows = [{{'id': i, 'name': 'name-%d' % (i * 7919), 'tags': ['t%d' % (i % k) for k in (3, 5, 7)],\n\
         \x20            'point': {{'x': i / 3, 'y': [i, str(i)]}}}} for i in range(10000)]\n\
         \x20   text = json.dumps(rows, indent=1)\n\
         \x20   total += len(json.loads(text)) + len(text)\n\
         print(total)\n"
    )
}

/// Objects of Python that are replaced in turn: a program that does little but allocate them.
pub(crate) fn python_objects(scale: u32) -> String {
    let rounds = 1_000_000 * scale;
    format!(
        "class Entry:\n\
         \x20   def __init__(self, number):\n\
         \x20       self.numbers = [number]\n\
         \x20       self.name = str(number)\n\
         kept = [None] * 5000\n\
         for i in range({rounds}):\n\
         \x20   kept[i % 5000] = Entry(i)\n\
         print(kept[-1].name)\n"
    )
}

/// A translation unit that instantiates maps and regular expressions.
pub(crate) fn cpp() -> String {
    let mut text = String::from(
        "#include <map>\n#include <regex>\n#include <string>\n#include <vector>\n\
         template <int N> struct Record { std::string name; double value[N]; };\n",
    );
    for n in 1..=12 {
        text.push_str(&format!(
            "std::map<std::string, std::vector<Record<{n}>>> table{n};\n\
             bool match{n}(const std::string &s) {{\n\
             \x20 static const std::regex pattern(\"([a-z]+)-{n}=([0-9]*)\");\n\
             \x20 std::smatch found;\n\
             \x20 if (!std::regex_match(s, found, pattern)) return false;\n\
             \x20 table{n}[found[1].str()].push_back({{found[2].str(), {{{n}}}}});\n\
             \x20 return true;\n}}\n"
        ));
    }
    text
}

/// Tables, closures and strings.
pub(crate) fn lua(scale: u32) -> String {
    let rounds = 5 * scale;
    format!(
        "local words, total = {{}}, 0\n\
         for round = 1, {rounds} do\n\
         \x20 local index = {{}}\n\
         \x20 for i = 1, 60000 do\n\
         \x20   local key = 'key' .. (i * 7919 % 30011)\n\
         \x20   index[key] = {{ name = key .. '-' .. i, at = i, next = index[key] }}\n\
         \x20 end\n\
         \x20 for key, entry in pairs(index) do total = total + #entry.name + #key end\n\
         \x20 words[round % 4] = index\n\
         end\n\
         print(total)\n"
    )
}

/// Hashes of arrays, regular expressions, sorting.
pub(crate) fn perl(scale: u32) -> String {
    let rounds = 3 * scale;
    format!(
        "use strict;\nmy $total = 0;\n\
         for my $round (1 .. {rounds}) {{\n\
         \x20 my %index;\n\
         \x20 for my $i (1 .. 60000) {{\n\
         \x20   my $line = 'user' . ($i * 7919 % 30011) . \"=value-$i;tag-\" . ($i % 17);\n\
         \x20   push @{{$index{{$1}}}}, {{ value => $2, tag => $3 }} if $line =~ /^(\\w+)=([^;]+);(.*)$/;\n\
         \x20 }}\n\
         \x20 $total += scalar @{{$index{{$_}}}} for sort keys %index;\n\
         }}\n\
         print \"$total\\n\";\n"
    )
}

/// Hashes of arrays of hashes.
pub(crate) fn ruby(scale: u32) -> String {
    let rounds = 6 * scale;
    format!(
        "total = 0\n\
         {rounds}.times do\n\
         \x20 index = {{}}\n\
         \x20 60000.times do |i|\n\
         \x20   key = \"key#{{i * 7919 % 30011}}\"\n\
         \x20   (index[key] ||= []) << {{ name: \"#{{key}}-#{{i}}\", at: i }}\n\
         \x20 end\n\
         \x20 index.each {{ |key, entries| total += entries.size + key.size }}\n\
         end\n\
         puts total\n"
    )
}

/// Buffers and strings for node, whose stacks pass through code without unwind information.
pub(crate) fn node(scale: u32) -> String {
    let rounds = 150_000 * scale;
    format!(
        "const kept = [];\n\
         let total = 0;\n\
         for (let i = 0; i < {rounds}; i++) {{\n\
         \x20 const text = Buffer.alloc(100 + i % 100).toString('hex');\n\
         \x20 kept[i % 20000] = text;\n\
         \x20 total += text.length;\n\
         }}\n\
         console.log(total);\n"
    )
}

/// Strings that grow in an array.
pub(crate) fn awk(scale: u32) -> String {
    let rounds = 3 * scale;
    format!(
        "BEGIN {{\n\
         \x20 for (r = 0; r < {rounds}; r++) {{\n\
         \x20   delete table\n\
         \x20   for (i = 1; i < 120000; i++) {{\n\
         \x20     key = \"key\" (i * 7919 % 30011)\n\
         \x20     table[key] = table[key] \":\" i\n\
         \x20     total += length(substr(table[key], 1, 9))\n\
         \x20   }}\n\
         \x20 }}\n\
         \x20 print total\n}}\n"
    )
}

/// A list of objects for jq.
pub(crate) fn json(scale: u32) -> String {
    let object = |i: u32| {
        format!(
            "{{\"id\": {i}, \"name\": \"name-{}\", \"tags\": [\"t{}\", \"t{}\"], \"at\": [{i}, \"{i}\"]}}",
            i * 7919 % 30011,
            i % 3,
            i % 7
        )
    };
    format!("[{}]\n", (0..30_000 * scale).map(object).collect::<Vec<_>>().join(",\n"))
}

/// Rows for xmllint.
pub(crate) fn xml(scale: u32) -> String {
    let row = |i: u32| {
        format!("<row id=\"{i}\"><name>n{}</name><text kind=\"{}\">text {i}</text></row>\n", i * 7, i % 11)
    };
    format!("<rows>{}</rows>\n", (0..120_000 * scale).map(row).collect::<String>())
}
