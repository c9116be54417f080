//! The source of functions beside their numbers, as the command `list` shows it.

use std::path::Path;

use heapwise_capture::report_input::Report;
use heapwise_profile::view::list::{self, Listing};
use heapwise_profile::{Query, view};
use heapwise_render::json;
use heapwise_symbolize::source_text;
use serde_json::{Value, json};

use crate::error::{HttpError, Result};
use crate::http::Request;
use crate::query_params::pattern;

/// Functions of an answer.
const MOST_FUNCTIONS: usize = 20;
/// Lines of one function.
const MOST_LINES: usize = 1_000;
/// Lines shown around those that count.
const CONTEXT: u32 = 5;
/// Endings of the names of source files. A profile names files, and the server reads for others: no
/// other file is shown.
const ENDINGS: [&str; 26] = [
    "c", "cc", "cpp", "cxx", "c++", "h", "hh", "hpp", "hxx", "inc", "ipp", "tcc", "rs", "go", "py", "pyx",
    "lua", "js", "ts", "java", "d", "f90", "m", "mm", "swift", "zig",
];

/// `GET …/list?function=RE`: functions with the text of their lines, where the file is here.
pub(super) fn listing(request: &Request, report: &Report) -> Result<Value> {
    let text = request.query.given("function");
    let text = text.ok_or_else(|| HttpError::bad("function: a regular expression is needed"))?;
    let limit = report.query.limit.unwrap_or(MOST_FUNCTIONS).min(MOST_FUNCTIONS);
    let query = Query { limit: Some(limit), ..report.query.clone() };
    let base = report.baseline.as_deref();
    let view = view::list::list(&report.profile, base, &pattern("function", text)?, &query);
    let mut answer = json::list(&view);
    let functions = answer["functions"].as_array_mut().into_iter().flatten();
    for (function, value) in view.functions.iter().zip(functions) {
        let text = is_source(&function.file).then(|| source_text::read(&function.file)).flatten();
        if let Some(text) = text {
            value["lines"] = lines(function, &text);
        }
    }
    Ok(answer)
}

fn is_source(file: &str) -> bool {
    let ending = Path::new(file).extension().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    ENDINGS.contains(&&*ending)
}

fn lines(function: &Listing, text: &str) -> Value {
    let one = |line: &list::AnnotatedLine<'_>| {
        json!({
            "line": line.number, "text": line.text,
            "flat": line.flat.value.round() as i64, "cum": line.cum.value.round() as i64,
        })
    };
    function.annotate(text, CONTEXT).iter().take(MOST_LINES).map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_source_files_are_read() {
        for (file, expected) in [
            ("/src/a.c", true),
            ("/src/A.CPP", true),
            ("/app/x.py", true),
            ("/home/u/.ssh/id_rsa", false),
            ("/etc/shadow", false),
            ("", false),
        ] {
            assert_eq!(is_source(file), expected, "{file}");
        }
    }
}
