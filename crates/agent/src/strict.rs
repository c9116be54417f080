//! A strict decoder of protobuf for tests: it refuses unknown fields, wrong wire types, texts that
//! are not UTF-8, and single fields that come twice.
//!
//! Schemas are written after the published definitions, with all their fields, independently of
//! the messages that the agent encodes.

/// The type of a field.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind {
    /// `int32`, `int64`, `uint32`, `uint64`, `bool`.
    Varint,
    Fixed64,
    Double,
    Text,
    Bytes,
    Message(&'static Schema),
    /// Repeated varints in one field.
    PackedVarints,
    PackedFixed64,
}

/// Whether a field may come several times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Count {
    One,
    Many,
}

/// A message: number, name, type and count of each field.
#[derive(Debug)]
pub(crate) struct Schema {
    pub(crate) name: &'static str,
    pub(crate) fields: &'static [(u64, &'static str, Kind, Count)],
}

/// A decoded value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Node {
    Number(u64),
    Numbers(Vec<u64>),
    Text(String),
    Bytes(Vec<u8>),
    Message(Tree),
}

/// The fields of a message, in order.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Tree(Vec<(&'static str, Node)>);

impl Tree {
    pub(crate) fn all(&self, name: &str) -> Vec<&Node> {
        self.0.iter().filter(|(known, _)| *known == name).map(|(_, node)| node).collect()
    }

    pub(crate) fn messages(&self, name: &str) -> Vec<&Tree> {
        self.all(name)
            .into_iter()
            .map(|node| match node {
                Node::Message(tree) => tree,
                other => panic!("{name} is {other:?}"),
            })
            .collect()
    }

    pub(crate) fn message(&self, name: &str) -> &Tree {
        let all = self.messages(name);
        assert_eq!(all.len(), 1, "{name}");
        all[0]
    }

    /// A number; 0 where the field is absent, as proto3 has it.
    pub(crate) fn number(&self, name: &str) -> u64 {
        match self.all(name)[..] {
            [] => 0,
            [Node::Number(number)] => *number,
            ref other => panic!("{name} is {other:?}"),
        }
    }

    pub(crate) fn numbers(&self, name: &str) -> Vec<u64> {
        match self.all(name)[..] {
            [] => Vec::new(),
            [Node::Numbers(numbers)] => numbers.clone(),
            ref other => panic!("{name} is {other:?}"),
        }
    }

    pub(crate) fn texts(&self, name: &str) -> Vec<&str> {
        self.all(name)
            .into_iter()
            .map(|node| match node {
                Node::Text(text) => text.as_str(),
                other => panic!("{name} is {other:?}"),
            })
            .collect()
    }

    pub(crate) fn text(&self, name: &str) -> &str {
        self.texts(name).first().copied().unwrap_or_default()
    }

    pub(crate) fn bytes(&self, name: &str) -> &[u8] {
        match self.all(name)[..] {
            [Node::Bytes(bytes)] => bytes,
            ref other => panic!("{name} is {other:?}"),
        }
    }
}

/// Decodes a whole message.
pub(crate) fn decode(schema: &'static Schema, mut bytes: &[u8]) -> Result<Tree, String> {
    let mut tree = Tree::default();
    while !bytes.is_empty() {
        let key = varint(&mut bytes).ok_or("cut inside a key")?;
        let (number, wire) = (key >> 3, key & 7);
        let field = schema.fields.iter().find(|(known, ..)| *known == number);
        let Some((_, name, kind, count)) = field.copied() else {
            return Err(format!("{} has no field {number}", schema.name));
        };
        let place = format!("{}.{name}", schema.name);
        if count == Count::One && !tree.all(name).is_empty() {
            return Err(format!("{place} comes twice"));
        }
        let node = value(kind, wire, &mut bytes).map_err(|problem| format!("{place}: {problem}"))?;
        tree.0.push((name, node));
    }
    Ok(tree)
}

fn value(kind: Kind, wire: u64, bytes: &mut &[u8]) -> Result<Node, String> {
    match (kind, wire) {
        (Kind::Varint, 0) => varint(bytes).map(Node::Number).ok_or("cut".into()),
        (Kind::Fixed64 | Kind::Double, 1) => fixed(bytes).map(Node::Number).ok_or("cut".into()),
        (Kind::Varint | Kind::Fixed64 | Kind::Double, wire) | (_, wire @ (0 | 1 | 3..)) => {
            Err(format!("wire type {wire} for {kind:?}"))
        }
        (kind, _) => {
            let length = varint(bytes).and_then(|length| usize::try_from(length).ok()).ok_or("cut")?;
            let content = bytes.get(..length).ok_or("cut")?;
            *bytes = &bytes[length..];
            of_content(kind, content)
        }
    }
}

fn of_content(kind: Kind, mut content: &[u8]) -> Result<Node, String> {
    let mut many = |read: fn(&mut &[u8]) -> Option<u64>| {
        let mut numbers = Vec::new();
        while !content.is_empty() {
            numbers.push(read(&mut content).ok_or("cut")?);
        }
        Ok::<_, String>(Node::Numbers(numbers))
    };
    match kind {
        Kind::PackedVarints => many(varint),
        Kind::PackedFixed64 => many(fixed),
        Kind::Text => String::from_utf8(content.to_vec()).map(Node::Text).map_err(|_| "not UTF-8".into()),
        Kind::Bytes => Ok(Node::Bytes(content.to_vec())),
        Kind::Message(schema) => decode(schema, content).map(Node::Message),
        Kind::Varint | Kind::Fixed64 | Kind::Double => Err("not a number".into()),
    }
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (first, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(first & 127) << shift;
        if *first < 128 {
            return Some(number);
        }
    }
    None
}

fn fixed(bytes: &mut &[u8]) -> Option<u64> {
    let (first, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(u64::from_le_bytes(*first))
}

#[cfg(test)]
mod tests {
    use super::*;

    static INNER: Schema = Schema {
        name: "Inner",
        fields: &[(1, "text", Kind::Text, Count::One), (2, "n", Kind::Fixed64, Count::One)],
    };
    static OUTER: Schema = Schema {
        name: "Outer",
        fields: &[
            (1, "inner", Kind::Message(&INNER), Count::Many),
            (2, "numbers", Kind::PackedVarints, Count::One),
            (3, "flag", Kind::Varint, Count::One),
        ],
    };

    #[test]
    fn a_message_of_the_schema_is_decoded() {
        let bytes = [0x0a, 0x03, 0x0a, 0x01, b'x', 0x12, 0x03, 0x01, 0x80, 0x01, 0x18, 0x01];
        let tree = decode(&OUTER, &bytes).unwrap();
        assert_eq!(tree.message("inner").text("text"), "x");
        assert_eq!((tree.numbers("numbers"), tree.number("flag")), (vec![1, 128], 1));
    }

    #[test]
    fn anything_else_is_refused() {
        for (bytes, problem) in [
            (&[0x20, 0x00][..], "no field 4"),
            (&[0x1a, 0x00], "wire type 2"),
            (&[0x18, 0x00, 0x18, 0x00], "comes twice"),
            (&[0x10, 0x01], "wire type 0"),
            (&[0x0a, 0x03, 0x0a, 0x01, 0xff], "not UTF-8"),
            (&[0x0a, 0x05, 0x0a], "cut"),
            (&[0x0a, 0x02, 0x11, 0x00], "cut"),
            (&[0x0a, 0x02, 0x18, 0x00], "Inner has no field 3"),
        ] {
            let error = decode(&OUTER, bytes).unwrap_err();
            assert!(error.contains(problem), "{error}, not {problem}");
        }
    }
}
