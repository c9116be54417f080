//! Bundles the page (`web/`) into `OUT_DIR/web`, from where `serve::assets` embeds it.
//!
//! Needs `npm` once: esbuild is installed by lock file into `OUT_DIR`, so the source tree stays
//! clean. A failure is an error in a release build, because only a user would notice a missing
//! page, and a warning in a debug build; `HEAPWISE_SKIP_WEB=1` builds without the page.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const STUB: &str = "<!doctype html><title>heapwise</title><p>This heapwise was built without the page; every other \
address of the server works.";

/// Writes `index.html`, `app.js` and `app.css` into `OUT_DIR/web`.
fn main() {
    let manifest = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("set by cargo"));
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("set by cargo")).join("web");
    let web = manifest.join("../../web");
    fs::create_dir_all(&out).expect("OUT_DIR is writable");
    println!("cargo::rerun-if-env-changed=HEAPWISE_SKIP_WEB");
    println!("cargo::rerun-if-changed={}", manifest.join("../render/src/flame/script").display());
    for part in ["src", "index.html", "package.json", "package-lock.json"] {
        println!("cargo::rerun-if-changed={}", web.join(part).display());
    }
    if env::var_os("HEAPWISE_SKIP_WEB").is_some_and(|value| value != "0" && !value.is_empty()) {
        return write_stub(&out);
    }
    let Err(why) = install(&web, &out).and_then(|()| compile(&web, &out)) else { return };
    // `cargo test` must not depend on npm or a network; a release without its page must not exist
    // unnoticed.
    if env::var("PROFILE").is_ok_and(|profile| profile == "debug") {
        println!("cargo::warning=built without the page: {}", why.lines().next().unwrap_or_default());
        return write_stub(&out);
    }
    panic!(
        "the page could not be built: {why}\n\
         hint: it needs node and npm (https://nodejs.org, or your distribution's `npm` package) and a reachable \
         npm registry; HEAPWISE_SKIP_WEB=1 builds heapwise without the page"
    );
}

fn write_stub(out: &Path) {
    for (name, content) in [("index.html", STUB), ("app.js", ""), ("app.css", "")] {
        fs::write(out.join(name), content).expect("OUT_DIR is writable");
    }
}

/// `npm ci`, unless this lock file is installed already.
fn install(web: &Path, out: &Path) -> Result<(), String> {
    let lock = read(&web.join("package-lock.json"))?;
    let stamp = out.join("installed.lock");
    if fs::read(&stamp).is_ok_and(|installed| installed == lock) {
        return Ok(());
    }
    for name in ["package.json", "package-lock.json"] {
        fs::copy(web.join(name), out.join(name)).map_err(|why| format!("{name}: {why}"))?;
    }
    // esbuild's install script only checks the binary that npm has already put in place.
    run(Command::new("npm").current_dir(out).args([
        "ci",
        "--omit=dev",
        "--ignore-scripts",
        "--no-audit",
        "--no-fund",
        "--loglevel=error",
    ]))?;
    fs::write(&stamp, lock).map_err(|why| format!("{}: {why}", stamp.display()))
}

fn compile(web: &Path, out: &Path) -> Result<(), String> {
    run(Command::new(out.join("node_modules/.bin/esbuild"))
        .arg(web.join("src/main.ts"))
        .args(["--bundle", "--minify", "--target=es2022", "--format=esm", "--log-level=warning"])
        .arg(format!("--outfile={}", out.join("app.js").display())))?;
    fs::copy(web.join("index.html"), out.join("index.html")).map_err(|why| format!("index.html: {why}"))?;
    Ok(())
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    fs::read(path).map_err(|why| format!("{}: {why}", path.display()))
}

fn run(command: &mut Command) -> Result<(), String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|why| format!("{name}: {why}"))?;
    if output.status.success() {
        return Ok(());
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    Err(format!("{name}: {}\n{}", output.status, stderr.trim_end()))
}
