//! Reads the JSON that `heapwise top --json` prints: enough of the language for that, in one screen.

/// A JSON value.
#[derive(Debug, PartialEq)]
pub(crate) enum Json {
    Null,
    Bool(bool),
    Number(f64),
    Text(String),
    List(Vec<Json>),
    Object(Vec<(String, Json)>),
}

impl Json {
    /// Parses one value and nothing after it.
    pub(crate) fn parse(text: &str) -> Option<Json> {
        let mut reader = Reader { rest: text };
        let value = reader.value()?;
        reader.rest.trim_start().is_empty().then_some(value)
    }

    /// A member of an object.
    pub(crate) fn get(&self, name: &str) -> Option<&Json> {
        let Json::Object(members) = self else { return None };
        members.iter().find(|(key, _)| key == name).map(|(_, value)| value)
    }

    /// A member that is a number.
    pub(crate) fn number(&self, name: &str) -> Option<f64> {
        if let Some(Json::Number(n)) = self.get(name) { Some(*n) } else { None }
    }

    /// A member that is a text.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        if let Some(Json::Text(t)) = self.get(name) { Some(t) } else { None }
    }

    /// A member that is a list.
    pub(crate) fn list(&self, name: &str) -> Option<&[Json]> {
        if let Some(Json::List(items)) = self.get(name) { Some(items) } else { None }
    }
}

struct Reader<'a> {
    rest: &'a str,
}

impl Reader<'_> {
    fn take(&mut self, token: &str) -> bool {
        let trimmed = self.rest.trim_start();
        let found = trimmed.strip_prefix(token);
        self.rest = found.unwrap_or(trimmed);
        found.is_some()
    }

    fn value(&mut self) -> Option<Json> {
        match self.rest.trim_start().chars().next()? {
            '{' => self.object(),
            '[' => self.list(),
            '"' => self.text().map(Json::Text),
            't' => self.take("true").then_some(Json::Bool(true)),
            'f' => self.take("false").then_some(Json::Bool(false)),
            'n' => self.take("null").then_some(Json::Null),
            _ => self.number(),
        }
    }

    fn number(&mut self) -> Option<Json> {
        let text = self.rest.trim_start();
        let end = text.find(|c: char| !(c.is_ascii_digit() || "+-.eE".contains(c))).unwrap_or(text.len());
        self.rest = &text[end..];
        text[..end].parse().ok().map(Json::Number)
    }

    fn list(&mut self) -> Option<Json> {
        let mut items = Vec::new();
        self.take("[");
        if self.take("]") {
            return Some(Json::List(items));
        }
        loop {
            items.push(self.value()?);
            if self.take("]") {
                return Some(Json::List(items));
            }
            self.take(",").then_some(())?;
        }
    }

    fn object(&mut self) -> Option<Json> {
        let mut members = Vec::new();
        self.take("{");
        if self.take("}") {
            return Some(Json::Object(members));
        }
        loop {
            let key = self.text()?;
            self.take(":").then_some(())?;
            members.push((key, self.value()?));
            if self.take("}") {
                return Some(Json::Object(members));
            }
            self.take(",").then_some(())?;
        }
    }

    fn text(&mut self) -> Option<String> {
        self.take("\"").then_some(())?;
        let mut text = String::new();
        let mut chars = self.rest.chars();
        loop {
            match chars.next()? {
                '"' => break,
                '\\' => match chars.next()? {
                    'n' => text.push('\n'),
                    't' => text.push('\t'),
                    'r' => text.push('\r'),
                    'u' => {
                        let code: String = chars.by_ref().take(4).collect();
                        let code = u32::from_str_radix(&code, 16).ok()?;
                        text.push(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
                    }
                    plain => text.push(plain),
                },
                plain => text.push(plain),
            }
        }
        self.rest = chars.as_str();
        Some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_read() {
        let report = Json::parse(
            r#" {"total": 12, "exact": true, "rows": [{"name": "a\"\u0062", "flat": -1.5e1}, null]} "#,
        );
        let report = report.unwrap();
        assert_eq!(report.number("total"), Some(12.0));
        assert_eq!(report.get("exact"), Some(&Json::Bool(true)));
        let rows = report.list("rows").unwrap();
        assert_eq!(rows[0].text("name"), Some("a\"b"));
        assert_eq!(rows[0].number("flat"), Some(-15.0));
        assert_eq!(rows[1], Json::Null);
    }

    #[test]
    fn a_cut_report_is_refused() {
        for text in ["", "{", "[1,", "{\"a\" 1}", "\"x", "{} {}", "[1 2]"] {
            assert_eq!(Json::parse(text), None, "{text}");
        }
    }
}
