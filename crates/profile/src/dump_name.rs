//! Fields in the file names of dumping allocators: process, number, reason.

/// Fields in the naming schemes of dumping allocators.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DumpName {
    /// Everything before the numbers.
    pub prefix: String,
    /// Process, in jemalloc's names.
    pub pid: Option<u32>,
    /// Number of the dump within the process.
    pub sequence: Option<u64>,
    /// Why it was dumped: `i`nterval, `m`anual, `u` (new high-water mark), `f`inal.
    pub reason: Option<char>,
}

impl DumpName {
    /// Reads `PREFIX.PID.SEQ.KIND[N].heap` (jemalloc), `PREFIX.SEQ.heap` (gperftools, mem-profiler)
    /// and `YYYYmmdd.HHMMSS.heap` (brpc), with any extension.
    #[must_use]
    pub fn parse(name: &str) -> Self {
        let parts: Vec<&str> = name.split('.').collect();
        let number = |part: &&str| part.parse::<u64>().ok();
        match parts.as_slice() {
            [prefix @ .., pid, sequence, kind, _]
                if !prefix.is_empty()
                    && number(pid).is_some()
                    && number(sequence).is_some()
                    && is_kind(kind) =>
            {
                Self {
                    prefix: prefix.join("."),
                    pid: pid.parse().ok(),
                    sequence: number(sequence),
                    reason: kind.chars().next(),
                }
            }
            [date, time, _] if date.len() == 8 && time.len() == 6 && number(date).is_some() => Self {
                sequence: number(date).zip(number(time)).map(|(date, time)| date * 1_000_000 + time),
                ..Self::default()
            },
            [prefix @ .., sequence, _] if !prefix.is_empty() && number(sequence).is_some() => {
                Self { prefix: prefix.join("."), sequence: number(sequence), ..Self::default() }
            }
            _ => Self { prefix: name.to_owned(), ..Self::default() },
        }
    }
}

/// `f`, `i12`, `m0`, `u7`.
fn is_kind(part: &str) -> bool {
    let number = part.strip_prefix(['i', 'm', 'u', 'f']);
    number.is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schemes_are_told_apart() {
        let parse = DumpName::parse;
        let jemalloc = parse("jeprof.out.1234.10.i3.heap");
        assert_eq!((jemalloc.prefix.as_str(), jemalloc.pid), ("jeprof.out", Some(1234)));
        assert_eq!((jemalloc.sequence, jemalloc.reason), (Some(10), Some('i')));
        assert_eq!(parse("jeprof.1234.0.f.heap").reason, Some('f'));
        assert_eq!(parse("prof.0007.heap").sequence, Some(7));
        assert_eq!(parse("20261115.093000.heap").sequence, Some(20_261_115_093_000));
        assert_eq!(parse("profile.heap").sequence, None);
    }
}
