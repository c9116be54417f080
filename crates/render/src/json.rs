//! Views as JSON: a contract other programs rely on. Amounts are integers, in bytes or objects.

pub mod coverage;
mod ledger;
mod memory_calls;
pub mod missing;

pub use ledger::{fragmentation, ledger};
pub use memory_calls::{memfds, memory_calls};

use heapwise_profile::metric::Unit;
use heapwise_profile::view::graph::Graph;
use heapwise_profile::view::leaks::{LeakClass, Leaks};
use heapwise_profile::view::list::List;
use heapwise_profile::view::modules::Modules;
use heapwise_profile::view::peek::{Neighbour, Neighbourhoods};
use heapwise_profile::view::sizes::{SizeClass, SizeSource, Sizes};
use heapwise_profile::view::threads::Threads;
use heapwise_profile::view::top::Top;
use heapwise_profile::view::traces::{Trace, Traces};
use heapwise_profile::view::{OwnPlace, Row, Totals};
use heapwise_profile::{Frame, Weight, weight};
use serde_json::{Map, Value, json};

/// `{"sample_type", "unit", "grand_total", "total", "rows": [{"name", "file", "line", "module",
/// "flat", "flat_percent", "sum_percent", "cum", "cum_percent", …}]}`.
#[must_use]
pub fn top(view: &Top) -> Value {
    let whole = view.totals.whole();
    let mut sum = 0.0;
    let rows: Vec<Value> = view
        .rows
        .iter()
        .map(|row| {
            sum += row.flat.value;
            let mut fields = row_fields(row, &view.totals);
            fields.insert("sum_percent".into(), rounded_percent(sum, whole));
            insert_own(&mut fields, row.own.as_ref());
            Value::Object(fields)
        })
        .collect();
    with_totals(&view.totals, json!({ "rows": rows, "dropped": view.dropped }))
}

/// Frames with `callers` and `callees`.
#[must_use]
pub fn tree(view: &Neighbourhoods) -> Value {
    let neighbours = |list: &[Neighbour]| -> Vec<Value> {
        let one = |n: &Neighbour| json!({ "name": n.label, "value": integer(n.weight.value) });
        list.iter().map(one).collect()
    };
    let entries: Vec<Value> = view
        .entries
        .iter()
        .map(|entry| {
            let mut fields = row_fields(&entry.row, &view.totals);
            fields.insert("callers".into(), neighbours(&entry.callers).into());
            fields.insert("callees".into(), neighbours(&entry.callees).into());
            Value::Object(fields)
        })
        .collect();
    with_totals(&view.totals, json!({ "rows": entries, "dropped": view.dropped }))
}

/// Nodes and edges; edges name nodes by index.
#[must_use]
pub fn graph(view: &Graph) -> Value {
    let nodes: Vec<Value> =
        view.nodes.iter().map(|row| Value::Object(row_fields(row, &view.totals))).collect();
    let edges: Vec<Value> = view
        .edges
        .iter()
        .map(|edge| {
            json!({
                "from": edge.from,
                "to": edge.to,
                "value": integer(edge.weight.value),
                "residual": edge.residual,
            })
        })
        .collect();
    let dropped = json!({ "nodes": view.dropped.nodes, "edges": view.dropped.edges });
    with_totals(&view.totals, json!({ "nodes": nodes, "edges": edges, "dropped": dropped }))
}

/// Sites with their stacks, and what the numbers mean.
#[must_use]
pub fn leaks(view: &Leaks) -> Value {
    let verdict = match view.class {
        LeakClass::Live => "live",
        LeakClass::StillHeld => "still_held",
        LeakClass::NeverFreed => "never_freed",
    };
    let groups: Vec<Value> = view
        .groups
        .iter()
        .map(|group| {
            let mut fields = frame_fields(&group.site);
            insert_weight(&mut fields, "value", &group.weight);
            fields.insert("objects".into(), integer(group.weight.objects));
            fields.insert("stacks".into(), group.stacks.iter().map(stack).collect());
            fields.insert("more_stacks".into(), (group.stack_count - group.stacks.len()).into());
            insert_own(&mut fields, group.own.as_ref());
            Value::Object(fields)
        })
        .collect();
    with_totals(&view.totals, json!({ "verdict": verdict, "groups": groups, "dropped": view.dropped }))
}

/// Whole stacks, the allocating frame first.
#[must_use]
pub fn traces(view: &Traces) -> Value {
    let stacks: Vec<Value> = view.stacks.iter().map(stack).collect();
    with_totals(&view.totals, json!({ "stacks": stacks, "dropped": view.dropped }))
}

/// Functions with flat and cum per line.
#[must_use]
pub fn list(view: &List) -> Value {
    let functions: Vec<Value> = view
        .functions
        .iter()
        .map(|function| {
            let lines: Vec<Value> = function
                .lines
                .iter()
                .map(|(line, (flat, cum))| {
                    json!({ "line": line, "flat": integer(flat.value), "cum": integer(cum.value) })
                })
                .collect();
            json!({
                "name": function.function,
                "file": function.file,
                "flat": integer(function.flat.value),
                "cum": integer(function.cum.value),
                "lines": lines,
            })
        })
        .collect();
    with_totals(&view.totals, json!({ "functions": functions }))
}

/// Size classes, where they come from, and the sites of the largest blocks with smallest, mean and
/// largest size.
#[must_use]
pub fn sizes(view: &Sizes) -> Value {
    let class = |class: &SizeClass| {
        json!({
            "min": class.min,
            "max": class.max,
            "objects": integer(class.objects),
            "bytes": integer(class.bytes),
        })
    };
    let source = match view.source {
        SizeSource::Blocks => "blocks",
        SizeSource::Process => "process",
        SizeSource::Means => "means",
    };
    let largest: Vec<Value> = view
        .largest
        .iter()
        .map(|site| {
            let mut fields = frame_fields(&site.site);
            fields.insert("min_bytes".into(), site.sizes.map(|sizes| sizes.min).into());
            fields.insert("mean_bytes".into(), site.mean().into());
            fields.insert("max_bytes".into(), site.sizes.map(|sizes| sizes.max).into());
            fields.insert("objects".into(), integer(site.objects));
            fields.insert("bytes".into(), integer(site.bytes));
            Value::Object(fields)
        })
        .collect();
    let [classes, fine] = [&view.classes, &view.fine].map(|list| list.iter().map(class).collect::<Vec<_>>());
    let body = json!({ "source": source, "classes": classes, "fine": fine, "largest": largest });
    with_totals(&view.totals, body)
}

/// Binaries with flat, cum, path and build-id.
#[must_use]
pub fn modules(view: &Modules) -> Value {
    let rows: Vec<Value> = view
        .rows
        .iter()
        .map(|module| {
            let mut fields = row_fields(&module.row, &view.totals);
            fields.insert("path".into(), module.path.clone().into());
            fields.insert("build_id".into(), module.build_id.to_string().into());
            Value::Object(fields)
        })
        .collect();
    with_totals(&view.totals, json!({ "rows": rows }))
}

/// Threads with what they allocated.
#[must_use]
pub fn threads(view: &Threads) -> Value {
    let rows: Vec<Value> = view
        .rows
        .iter()
        .map(|row| {
            json!({
                "tid": row.tid,
                "name": row.name,
                "value": integer(row.weight.value),
                "objects": integer(row.weight.objects),
            })
        })
        .collect();
    with_totals(&view.totals, json!({ "rows": rows }))
}

fn with_totals(totals: &Totals, body: Value) -> Value {
    let mut fields = Map::new();
    fields.insert("sample_type".into(), totals.metric.clone().into());
    let unit = match totals.unit {
        Unit::Bytes => "bytes",
        Unit::Objects => "objects",
    };
    fields.insert("unit".into(), unit.into());
    insert_weight(&mut fields, "grand_total", &totals.grand_total);
    insert_weight(&mut fields, "total", &totals.total);
    missing::insert(&mut fields, totals);
    if let Value::Object(body) = body {
        fields.extend(body);
    }
    Value::Object(fields)
}

fn row_fields(row: &Row, totals: &Totals) -> Map<String, Value> {
    let whole = totals.whole();
    let mut fields = frame_fields(&row.frame);
    insert_weight(&mut fields, "flat", &row.flat);
    fields.insert("flat_percent".into(), rounded_percent(row.flat.value, whole));
    insert_weight(&mut fields, "cum", &row.cum);
    fields.insert("cum_percent".into(), rounded_percent(row.cum.value, whole));
    if totals.compared {
        fields.insert("flat_base".into(), integer(row.flat.base));
        fields.insert("cum_base".into(), integer(row.cum.base));
    }
    fields
}

fn frame_fields(frame: &Frame) -> Map<String, Value> {
    let mut fields = Map::new();
    fields.insert("name".into(), frame.label.clone().into());
    fields.insert("file".into(), frame.file.clone().into());
    fields.insert("line".into(), frame.line.into());
    fields.insert("module".into(), frame.module.clone().into());
    fields
}

/// `own`: the program's own code, where the view looked for it and there is some.
fn insert_own(fields: &mut Map<String, Value>, own: Option<&OwnPlace>) {
    if let Some(OwnPlace { function, file, line, is_itself }) = own {
        let own = json!({ "function": function, "file": file, "line": line, "is_itself": is_itself });
        fields.insert("own".into(), own);
    }
}

fn stack(trace: &Trace) -> Value {
    let frames: Vec<Value> = trace.frames.iter().map(|frame| Value::Object(frame_fields(frame))).collect();
    let mut fields = Map::new();
    insert_weight(&mut fields, "value", &trace.weight);
    fields.insert("objects".into(), integer(trace.weight.objects));
    fields.insert("frames".into(), frames.into());
    Value::Object(fields)
}

/// An estimate carries its standard error beside it, as `<name>_error`.
fn insert_weight(fields: &mut Map<String, Value>, name: &str, weight: &Weight) {
    fields.insert(name.into(), integer(weight.value));
    if weight.variance > 0.0 {
        fields.insert(format!("{name}_error"), integer(weight.standard_error()));
    }
}

fn integer(value: f64) -> Value {
    Value::from(value.round() as i64)
}

/// Two decimals, so that the text stays short and does not depend on the order of summation.
fn rounded_percent(part: f64, whole: f64) -> Value {
    Value::from((weight::percent(part, whole) * 100.0).round() / 100.0)
}

#[cfg(test)]
mod tests {
    use heapwise_profile::coverage::Coverage;
    use heapwise_profile::{CallTree, Query, query, view};

    use super::*;
    use heapwise_profile::fixture::profile;

    #[test]
    fn top_is_the_documented_contract() {
        let program = profile("main:3;f:10;malloc 100 2\nmain:3;g 200 1\nother 100 1");
        let query = Query {
            filter: query::Filter { focus: query::Regex::new("main").ok(), ..Default::default() },
            limit: Some(1),
            ..Query::default()
        };
        let value = top(&view::top::top(&CallTree::new(&program, &query), &query));
        assert_eq!(
            value,
            json!({
                "sample_type": "inuse_space", "unit": "bytes", "grand_total": 400, "total": 300,
                "coverage": coverage::coverage(&Coverage::of(&program)),
                "rows": [{
                    "name": "g", "file": "", "line": 0, "module": "app",
                    "flat": 200, "flat_percent": 66.67, "sum_percent": 66.67,
                    "cum": 200, "cum_percent": 66.67,
                }],
                "dropped": 2,
            })
        );
        // Integers stay integers in the text.
        assert!(value.to_string().contains("\"grand_total\":400,"));
    }

    #[test]
    fn a_difference_carries_its_base() {
        let query = Query::default();
        let tree = CallTree::compare(&profile("f 10 1"), Some(&profile("f 4 1")), &query);
        let row = &top(&view::top::top(&tree, &query))["rows"][0];
        assert_eq!((&row["flat"], &row["flat_base"]), (&json!(6), &json!(4)));
    }
}
