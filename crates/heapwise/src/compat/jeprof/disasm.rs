//! `--disasm`: annotated disassembly of matching functions, by `objdump`, in jeprof's layout.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::process::Command;

use heapwise_profile::query::Regex;
use heapwise_profile::view::Totals;
use heapwise_profile::view::locations::{Locations, locations};
use heapwise_profile::{Query, name};
use heapwise_render::TextOptions;
use heapwise_render::amount::percent;
use heapwise_symbolize::{Routine, routines};

use super::Input;
use crate::failure::Outcome;
use crate::input_error;

/// Longer names of source files lose their beginning.
const LONGEST_FILE: usize = 58;
const SHORTENED_FILE: usize = 55;

/// The annotated disassembly of the functions whose name matches.
pub(super) fn disassemble(
    input: &Input,
    pattern: &Regex,
    query: &Query,
    style: &TextOptions,
) -> Outcome<String> {
    let view = locations(&input.profile, query);
    let options = input.symbols.options();
    let mut found = routines(&view.selection, &options, &|name| pattern.is_match(name));
    found.retain(|routine| routine.locations.iter().any(|(id, _)| view.cum[id.index()] != 0.0));
    if found.is_empty() {
        return Err(input_error!(
            "disassembly: no function of a binary on this machine matches `{}` and allocated",
            pattern
        ));
    }
    let mut text = String::new();
    for routine in &found {
        text += &Annotated::new(routine, &view)?.text(&view.totals, style);
    }
    Ok(text)
}

/// One machine instruction with the source line it belongs to.
struct Instruction {
    address: u64,
    file: String,
    line: u32,
    text: String,
}

/// Flat and cumulative amount.
type Amounts = (f64, f64);

struct Annotated<'a> {
    routine: &'a Routine,
    instructions: Vec<Instruction>,
    amounts: Vec<Amounts>,
}

impl<'a> Annotated<'a> {
    fn new(routine: &'a Routine, view: &Locations) -> Outcome<Self> {
        let instructions = parse(&objdump(routine)?);
        let mut amounts = vec![(0.0, 0.0); instructions.len()];
        for (id, address) in &routine.locations {
            // A call site is an address inside its instruction.
            let after = instructions.partition_point(|instruction| instruction.address <= address.0);
            if let Some((flat, cum)) = after.checked_sub(1).and_then(|at| amounts.get_mut(at)) {
                *flat += view.flat[id.index()];
                *cum += view.cum[id.index()];
            }
        }
        Ok(Self { routine, instructions, amounts })
    }

    fn text(&self, totals: &Totals, style: &TextOptions) -> String {
        let amount = |value: f64| style.amounts.format(value, totals.unit);
        let or_dot = |value: f64| if value == 0.0 { ".".to_owned() } else { amount(value) };
        let sum = |part: fn(&Amounts) -> f64| self.amounts.iter().map(part).sum::<f64>();
        let (flat, cum) = (sum(|amounts| amounts.0), sum(|amounts| amounts.1));
        let mut out = format!(
            "ROUTINE ====================== {}\n{:>6} {:>6} {} (flat, cumulative) {} of total\n",
            name::jeprof_short(&self.routine.name),
            amount(flat),
            amount(cum),
            style.amounts.unit(totals.unit),
            percent(cum, totals.total.value),
        );
        let mut sources = Sources::default();
        let mut file = "";
        let runs: Vec<(&Instruction, Amounts)> =
            self.instructions.iter().zip(self.amounts.iter().copied()).collect();
        for run in runs.chunk_by(|one, next| one.0.line == next.0.line && one.0.file == next.0.file) {
            let first = run[0].0;
            if first.file != file {
                file = &first.file;
                let _ = writeln!(out, "-------------------- {}", shortened(file));
            }
            if let Some(source) = sources.line(file, first.line) {
                let (flat, cum) = run.iter().fold((0.0, 0.0), |(flat, cum), (_, (f, c))| (flat + f, cum + c));
                let _ = writeln!(
                    out,
                    "{:>6} {:>6} {:>5}: {}",
                    or_dot(flat),
                    or_dot(cum),
                    first.line,
                    source.trim_start()
                );
            }
            for (instruction, (flat, cum)) in run {
                let _ = writeln!(
                    out,
                    "{:>6} {:>6}    {:>8x}: {:>6}",
                    or_dot(*flat),
                    or_dot(*cum),
                    instruction.address,
                    instruction.text
                );
            }
        }
        out
    }
}

/// Runs `objdump` over one function.
fn objdump(routine: &Routine) -> Outcome<String> {
    let output = Command::new("objdump")
        .args(["-C", "-d", "-l", "--no-show-raw-insn"])
        .arg(format!("--start-address={:#x}", routine.start.0))
        .arg(format!("--stop-address={:#x}", routine.end.0))
        .arg(&routine.binary)
        .output()
        .map_err(|error| input_error!("disassembly needs objdump (binutils): {}", error))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(input_error!("objdump {}: {}", routine.binary.display(), said.trim()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The instructions in objdump's output: `  1139:\tpush   %rbp` behind lines `file:line`.
fn parse(text: &str) -> Vec<Instruction> {
    let (mut file, mut line) = (String::new(), 0);
    let mut instructions = Vec::new();
    for row in text.lines() {
        if let Some((address, rest)) = row.trim_start().split_once(":\t")
            && row.starts_with(' ')
            && let Ok(address) = u64::from_str_radix(address, 16)
        {
            let text = rest.trim_end().to_owned();
            instructions.push(Instruction { address, file: file.clone(), line, text });
        } else if let Some((path, number)) = row.rsplit_once(':')
            && let Ok(number) = number.split(' ').next().unwrap_or_default().parse()
        {
            (file, line) = (path.to_owned(), number);
        }
    }
    instructions
}

fn shortened(file: &str) -> String {
    let file = file.strip_prefix("./").unwrap_or(file);
    let length = file.chars().count();
    match length {
        0..LONGEST_FILE => file.to_owned(),
        _ => format!("...{}", file.chars().skip(length - SHORTENED_FILE).collect::<String>()),
    }
}

/// Source files, read once.
#[derive(Default)]
struct Sources(BTreeMap<String, Option<Vec<String>>>);

impl Sources {
    fn line(&mut self, file: &str, number: u32) -> Option<&str> {
        let lines = self.0.entry(file.to_owned()).or_insert_with(|| {
            let text = heapwise_symbolize::source_text::read(file)?;
            Some(text.lines().map(str::to_owned).collect())
        });
        lines.as_ref()?.get((number as usize).checked_sub(1)?).map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objdumps_output() {
        let text = "\nx:     file format elf64-x86-64\n\nDisassembly of section .text:\n\n\
                    0000000000001139 <main>:\nmain():\n/src/x.c:4\n    1139:\tpush   %rbp\n\
                    \x20   113a:\tcall   1030 <malloc@plt>\n/src/x.c:5 (discriminator 2)\n    113f:\tret\n";
        let found: Vec<_> = parse(text).into_iter().map(|it| (it.address, it.line, it.text)).collect();
        assert_eq!(
            found,
            [
                (0x1139, 4, "push   %rbp".to_owned()),
                (0x113a, 4, "call   1030 <malloc@plt>".to_owned()),
                (0x113f, 5, "ret".to_owned()),
            ]
        );
        assert_eq!(shortened(&format!("./{}", "x".repeat(70))), format!("...{}", "x".repeat(55)));
    }
}
