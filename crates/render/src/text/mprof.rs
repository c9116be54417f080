//! The two listings of skynet-mprof: `-top` and `-info`.

use heapwise_profile::printable::printable;
use heapwise_profile::query::Order;
use heapwise_profile::view::top::Top;
use heapwise_profile::view::{Row, Totals};
use heapwise_profile::{Profile, Sample, StackId, Weight};

const RED: &str = "\x1b[31m";
const PLAIN: &str = "\x1b[0m";
/// Rows of the ranking that are printed in red.
const RED_ROWS: usize = 5;

/// The ranking `-top=flat|cum`, from a view of all rows. `color` is what upstream always does.
#[must_use]
pub fn top(view: &Top, order: Order, color: bool) -> String {
    let total = view.totals.total.value;
    if total == 0.0 {
        return "total bytes is 0\n".to_owned();
    }
    let kind = if view.totals.metric.starts_with("alloc") { "alloc" } else { "inuse" };
    let mut out = format!("-----------{kind} space ranking----------\n");
    let flat = ["Flat(kb):", "Flat%:", "FlatObjs:"].map(str::to_owned);
    let cum = ["Cum(kb):", "Cum%:", "CumObjs:"].map(str::to_owned);
    push_row(&mut out, "No:", ordered(order, flat, cum), "FuncName:");
    for (at, row) in ranked(view, order).into_iter().enumerate() {
        let (red, plain) = if color && at < RED_ROWS { (RED, PLAIN) } else { ("", "") };
        let is_leaf = row.flat.objects != 0.0 || row.flat.value != 0.0;
        let flat = match (is_leaf, order) {
            (false, Order::Flat) => ["0"; 3].map(str::to_owned),
            _ => cells(&row.flat, &view.totals),
        };
        let columns = ordered(order, flat, cells(&row.cum, &view.totals));
        out += red;
        push_row(&mut out, &format!("{}th", at + 1), columns, &row.frame.label);
        out += plain;
    }
    out
}

/// By flat: frames that allocate by bytes then blocks, after them the others by cum. By cum: all
/// by cum. Ties by name, so that output is stable.
fn ranked(view: &Top, order: Order) -> Vec<&Row> {
    let mut rows: Vec<&Row> = view.rows.iter().collect();
    let key = |row: &Row| {
        let is_leaf = row.flat.objects != 0.0 || row.flat.value != 0.0;
        let weight = if order == Order::Flat && is_leaf { row.flat } else { row.cum };
        (order == Order::Flat && is_leaf, weight.value, weight.objects)
    };
    rows.sort_by(|a, b| {
        let ((a_leaf, a_value, a_objects), (b_leaf, b_value, b_objects)) = (key(a), key(b));
        b_leaf
            .cmp(&a_leaf)
            .then_with(|| b_value.total_cmp(&a_value))
            .then_with(|| b_objects.total_cmp(&a_objects))
            .then_with(|| a.frame.label.cmp(&b.frame.label))
    });
    rows
}

fn cells(weight: &Weight, totals: &Totals) -> [String; 3] {
    [
        format!("{:.2}", weight.value / 1024.0),
        format!("{:.2}%", weight.percent_of(totals.total.value)),
        format!("{:.0}", weight.objects),
    ]
}

fn ordered(order: Order, flat: [String; 3], cum: [String; 3]) -> [[String; 3]; 2] {
    match order {
        Order::Flat | Order::FlatThenCum => [flat, cum],
        Order::Cum => [cum, flat],
    }
}

fn push_row(out: &mut String, rank: &str, columns: [[String; 3]; 2], name: &str) {
    *out += &format!("{rank:<10}");
    for cell in columns.as_flattened() {
        *out += &format!("{cell:<10}");
    }
    *out += &format!("{:<10}\n", printable(name));
}

/// The raw listing `-info`: every code address with its name, then every sample, most live bytes
/// first, its stack from root to leaf.
#[must_use]
pub fn info(profile: &Profile) -> String {
    let mut out = "----------FuncName:------------\n".to_owned();
    let mut names: Vec<(u64, String)> =
        profile.locations.iter().map(|location| (location.address, name(profile, location))).collect();
    names.sort();
    for (_, name) in names {
        out += &format!("{}\n", printable(&name));
    }
    out += "--------------------------------------------------------------------\n";
    out += "AllocBytes:\tFreeBytes:\tAllocObjs:\tFreeObjs:\tBacktrace:\n";
    let mut samples: Vec<&Sample> = profile.samples.iter().collect();
    samples.sort_by(|a, b| b.values.inuse_bytes.total_cmp(&a.values.inuse_bytes));
    for Sample { stack, values, .. } in samples {
        out += &format!(
            "{:<10.0}\t{:<9.0}\t{:<9.0}\t{:<8.0}\t{}\n",
            values.alloc_bytes,
            values.alloc_bytes - values.inuse_bytes,
            values.alloc_objects,
            values.alloc_objects - values.inuse_objects,
            printable(&backtrace(profile, *stack)),
        );
    }
    out
}

fn backtrace(profile: &Profile, stack: StackId) -> String {
    let mut addresses: Vec<String> = profile
        .stacks
        .leaf_to_root(stack)
        .map(|node| &profile.locations[profile.stacks.location(node).index()])
        .map(|location| match (location.address, location.lines.first()) {
            (0, Some(line)) => profile.functions[line.function.index()].name.clone(),
            (address, _) => format!("0x{address:x}"),
        })
        .collect();
    addresses.reverse();
    addresses.join(" -> ")
}

/// `f at file:line (inlined by) g at file:line [0xaddress]`, in the form of `addr2line -Cif`.
fn name(profile: &Profile, location: &heapwise_profile::Location) -> String {
    let lines: Vec<String> = location
        .lines
        .iter()
        .map(|line| {
            let function = &profile.functions[line.function.index()];
            match function.file.as_str() {
                "" if function.is_backtrace_text() => function.system_name.clone(),
                "" => function.name.clone(),
                file => format!("{} at {file}:{}", function.name, line.line),
            }
        })
        .collect();
    let text = match (lines.is_empty(), location.module) {
        (false, _) => lines.join(" (inlined by) "),
        (true, Some(id)) => {
            let module = &profile.modules[id.index()];
            format!("{}+0x{:x}", module.name(), module.file_offset_of(location.address))
        }
        (true, None) => "??".to_owned(),
    };
    // A name that a skynet file carries ends with its address already.
    let address = format!("[0x{:x}]", location.address);
    if location.address == 0 || text.ends_with(&address) { text } else { format!("{text} {address}") }
}

#[cfg(test)]
mod tests {
    use heapwise_profile::{CallTree, Query, view};

    use super::*;
    use heapwise_profile::fixture::profile;

    const PROGRAM: &str = "main;f 4096 4\nmain;g;f 1024 1\nmain;g 512 9";

    fn ranking(order: Order) -> String {
        let query = Query::default();
        let tree = CallTree::new(&profile(PROGRAM), &query);
        top(&view::top::top(&tree, &query), order, false)
    }

    #[test]
    fn flat_ranking_puts_callers_last_with_bare_zeros() {
        assert_eq!(
            ranking(Order::Flat),
            "-----------inuse space ranking----------\n\
             No:       Flat(kb): Flat%:    FlatObjs: Cum(kb):  Cum%:     CumObjs:  FuncName: \n\
             1th       5.00      90.91%    5         5.00      90.91%    5         f         \n\
             2th       0.50      9.09%     9         1.50      27.27%    10        g         \n\
             3th       0         0         0         5.50      100.00%   14        main      \n"
        );
    }

    #[test]
    fn cum_ranking_swaps_the_columns() {
        let text = ranking(Order::Cum);
        assert_eq!(
            text.lines().nth(2),
            Some("1th       5.50      100.00%   14        0.00      0.00%     0         main      ")
        );
    }

    #[test]
    fn colors_the_first_five() {
        let query = Query::default();
        let tree = CallTree::new(&profile(PROGRAM), &query);
        let text = top(&view::top::top(&tree, &query), Order::Flat, true);
        assert!(text.contains("\x1b[31m1th       "));
        assert!(
            top(&view::top::top(&CallTree::new(&profile(""), &query), &query), Order::Flat, true)
                == "total bytes is 0\n"
        );
    }

    #[test]
    fn info_lists_names_then_samples_root_first() {
        let text = info(&profile("main:3;f:9 100 2"));
        assert!(text.contains("\nf at app.c:9\n"), "{text}");
        assert!(text.ends_with("100       \t0        \t2        \t0       \tmain -> f\n"), "{text}");
    }
}
