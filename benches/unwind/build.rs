//! Generates four C files of 32 functions each, of the frame shapes compilers make (a few saved
//! registers, local arrays, `alloca` and so a frame pointer, many saved registers), and compiles
//! them.

use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs};

const FILES: usize = 4;
const FUNCTIONS: usize = 32;

struct Random(u64);

impl Random {
    fn choose<T: Copy>(&mut self, from: &[T]) -> T {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        from[(self.0 % from.len() as u64) as usize]
    }
}

/// Code before and after a call that gives the frame its shape.
fn shape(random: &mut Random) -> (String, String) {
    let size = random.choose(&[24, 40, 72, 136, 264, 520]);
    match random.choose(&[0, 0, 0, 1, 1, 2, 3, 3]) {
        1 => (
            format!("char array[{size}]; memset(array, (int)depth, {size}); c->sink = array;"),
            "sum += ((volatile char *)array)[3];".into(),
        ),
        2 => (
            "char *array = alloca(16 + ((depth * 7) & 63)); array[0] = (char)depth; c->sink = array;".into(),
            "sum += ((volatile char *)array)[0];".into(),
        ),
        3 => (
            "long p = c->numbers[0] + depth, q = c->numbers[1] ^ depth, r = c->numbers[2] * 3, \
             s = c->numbers[3] - depth, t = c->numbers[4] + 7;"
                .into(),
            "sum += p + q * 3 + r + s * 5 + t;".into(),
        ),
        _ => (String::new(), String::new()),
    }
}

fn source(file: usize) -> String {
    let mut random = Random(0x9e37_79b9_7f4a_7c15 ^ (file as u64 + 1));
    let mut text = String::from("#include \"chain.h\"\n#include <alloca.h>\n#include <string.h>\n");
    for index in 0..FUNCTIONS {
        let (before, after) = shape(&mut random);
        let next = index * 7 + 3;
        write!(
            text,
            "__attribute__((noinline)) static long fixed_{index}(chain *c, long depth) {{ long sum = depth; {before}\n\
             if (depth <= 0) {{ for (long n = c->repeats; n > 0; n--) sum += c->leaf(c, c->body); }}\n\
             else sum += c->fixed[({next} + depth * 13 + c->salt) & 127](c, depth - 1); {after} return sum; }}\n\
             __attribute__((noinline)) static long walking_{index}(chain *c, long depth) {{ long sum = depth; {before}\n\
             for (;;) {{ unsigned step = *c->steps++; if (step == 0) sum += c->leaf(c, c->body);\n\
             else if (step == 1) break; else if (step == 255) {{ c->steps--; break; }}\n\
             else sum += c->walking[step & 127](c, depth + 1); }} {after} return sum; }}\n"
        )
        .unwrap();
    }
    for kind in ["fixed", "walking"] {
        let list: Vec<String> = (0..FUNCTIONS).map(|index| format!("{kind}_{index}")).collect();
        writeln!(text, "const function {kind}_functions_{file}[] = {{{}}};", list.join(", ")).unwrap();
    }
    text
}

fn main() {
    let out = env::var("OUT_DIR").unwrap();
    let mut build = cc::Build::new();
    build.opt_level(2).include(".").warnings(false);
    for file in 0..FILES {
        let path = Path::new(&out).join(format!("chain_{file}.c"));
        fs::write(&path, source(file)).unwrap();
        build.file(path);
    }
    build.compile("chains");
    cc::Build::new().cpp(true).opt_level(2).include(".").file("throwing.cpp").compile("throwing");
    for file in ["build.rs", "chain.h", "throwing.cpp"] {
        println!("cargo::rerun-if-changed={file}");
    }
}
