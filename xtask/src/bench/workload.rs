//! What is run: our own programs, real ones from Debian, and whatever a folder holds.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::inputs;
use super::tools;
use heapwise_testkit::failure::Failure;
use heapwise_testkit::programs;

/// One program with its arguments and input.
#[derive(Clone)]
pub(crate) struct Workload {
    pub name: String,
    pub program: PathBuf,
    pub args: Vec<String>,
    pub env: Vec<(&'static str, &'static str)>,
    pub stdin: Option<PathBuf>,
}

/// Our programs: name, program, arguments for a full run (1 to 3 s alone), arguments for a quick
/// one.
const OWN: [(&str, &str, &[&str], &[&str]); 14] = [
    ("factor", "factor", &["20"], &["8"]),
    ("producer_consumer", "producer_consumer", &["30"], &["8"]),
    ("replace_mixed", "replace_mixed", &["40"], &["10"]),
    ("tree_strings", "tree_strings", &["60"], &["15"]),
    ("tree_lengths", "tree_lengths", &["240"], &["60"]),
    ("maps_exceptions", "maps_exceptions", &["15"], &["4"]),
    ("big_live", "big_live", &["12"], &["3"]),
    ("small_live", "small_live", &["100000"], &["100000"]),
    ("sizes_20k", "random_sizes", &["6000", "20000", "64"], &["2000", "20000", "64"]),
    ("sizes_200k", "random_sizes", &["3000", "200000", "64"], &["1000", "200000", "64"]),
    ("sizes_60", "random_sizes", &["20000", "60", "1024"], &["4000", "60", "1024"]),
    ("wrapper", "wrapper", &["40"], &["10"]),
    ("threads_200", "many_threads", &["200", "200"], &["120", "200"]),
    ("threads_1000", "many_threads", &["40", "1000"], &["24", "1000"]),
];

impl Workload {
    fn new(name: &str, program: impl Into<PathBuf>, args: &[&str]) -> Workload {
        let args = args.iter().map(|a| a.to_string()).collect();
        Workload { name: name.into(), program: program.into(), args, env: Vec::new(), stdin: None }
    }
}

/// The programs of `benches/programs`, built into `folder`.
pub(crate) fn own(root: &Path, folder: &Path, quick: bool) -> Result<Vec<Workload>, Failure> {
    programs::build(&root.join("benches/programs"), folder)?;
    Ok(OWN
        .iter()
        .map(|(name, program, full, small)| {
            Workload::new(name, folder.join(program), if quick { small } else { full })
        })
        .collect())
}

/// Real programs on inputs generated into `folder`; those not installed are left out.
pub(crate) fn real(folder: &Path, quick: bool) -> Result<Vec<Workload>, Failure> {
    let scale = if quick { 1 } else { 4 };
    let file = |name: &str, text: String| {
        let path = folder.join(name);
        fs::write(&path, text).map_err(|e| Failure::at(&path, e))?;
        Ok::<String, Failure>(path.to_string_lossy().into_owned())
    };
    let sql = file("input.sql", inputs::sql(scale))?;
    let json = file("input.py", inputs::python(scale))?;
    let objects = file("objects.py", inputs::python_objects(scale))?;
    let cpp = file("input.cpp", inputs::cpp())?;
    let lua = file("input.lua", inputs::lua(scale))?;
    let perl = file("input.pl", inputs::perl(scale))?;
    let ruby = file("input.rb", inputs::ruby(scale))?;
    let awk = file("input.awk", inputs::awk(scale))?;
    let js = file("input.js", inputs::node(scale))?;
    let rows_of_json = file("input.json", inputs::json(scale))?;
    let rows = file("input.xml", inputs::xml(scale))?;

    let sqlite = Workload { stdin: Some(sql.into()), ..Workload::new("sqlite", "sqlite3", &[":memory:"]) };
    // The interpreter itself: `python3` may be a script that starts one, which some systems do not
    // follow.
    let interpreter = tools::first_line("python3", &["-c", "import sys; print(sys.executable)"]);
    let interpreter = interpreter.unwrap_or_else(|| "python3".to_owned());
    let python = Workload::new("python-json", &interpreter, &[&json]);
    let mut python_malloc = Workload::new("python-malloc", &interpreter, &[&json]);
    python_malloc.env = vec![("PYTHONMALLOC", "malloc")];
    let clang = Workload::new("clang", "clang++", &["-O1", "-c", &cpp, "-o", "/dev/null"]);
    let all = [
        sqlite,
        python,
        python_malloc,
        Workload::new("python-objects", &interpreter, &[&objects]),
        clang,
        Workload::new("lua", "lua5.4", &[&lua]),
        Workload::new("perl", "perl", &[&perl]),
        Workload::new("ruby", "ruby", &[&ruby]),
        Workload::new("node", "/usr/bin/node", &[&js]),
        Workload::new("gawk", "gawk", &["-f", &awk]),
        Workload::new("gcc", "g++", &["-O1", "-c", &cpp, "-o", "/dev/null"]),
        Workload::new("jq", "jq", &["[.[] | {id, tags: (.tags | join(\",\"))}] | length", &rows_of_json]),
        Workload::new("xmllint", "xmllint", &["--xpath", "count(//row[text/@kind=3])", &rows]),
    ];
    Ok(all.into_iter().filter(|w| tools::has(&w.program.to_string_lossy())).collect())
}

/// Every executable file of `folder`, run without arguments.
pub(crate) fn of_folder(folder: &Path) -> Result<Vec<Workload>, Failure> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(|e| Failure::at(folder, e))?.flatten() {
        let path = entry.path();
        let executable = path.metadata().is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0);
        if executable && path.extension().is_none_or(|e| e != "so") {
            found.push(Workload::new(&entry.file_name().to_string_lossy(), path, &[]));
        }
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(found)
}
