//! Lua's own tests (the folder `testes` of its repository, of the version of `lua5.4`), named by
//! `LUA_TESTS`.

use std::path::PathBuf;

use super::{Stage, Suite, Under};
use heapwise_testkit::failure::Failure;

pub(super) const SUITE: Suite =
    Suite { name: "lua", packages: &[("/usr/bin/lua5.4", "lua5.4")], is_short: false, run };

fn run(_: &Stage, under: &Under<'_>) -> Result<Option<String>, Failure> {
    let Some(tests) = std::env::var_os("LUA_TESTS").map(PathBuf::from) else {
        eprintln!("lua: not run; LUA_TESTS names the folder `testes` of Lua's repository");
        return Ok(None);
    };
    // `_U` is Lua's own switch for machines other than its authors'.
    let output =
        under.command("/usr/bin/lua5.4").args(["-e", "_U=true", "all.lua"]).current_dir(&tests).output();
    let output = output.map_err(|error| Failure::at(&tests, error))?;
    let printed = String::from_utf8_lossy(&output.stdout);
    // A file announces itself with asterisks; what else is printed has times and addresses.
    let told = printed.lines().filter(|line| line.starts_with("***** FILE") || line.contains("OK"));
    let numbered: Vec<String> = told.enumerate().map(|(row, line)| format!("{row} {line}")).collect();
    Ok(Some(format!("{}\n{}", output.status, numbered.join("\n"))))
}
