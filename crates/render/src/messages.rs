//! Messages for people in both languages: one table. `{name}` is replaced by a value.

use crate::language::Language;

/// A message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the table below is what each says")]
pub enum Text {
    Allocated,
    Peak,
    StillLive,
    Samples,
    Covers,
    CoversTitle,
    Probe,
    ProbeMemory,
    ProfileFile,
    Child,
    RunsOn,
    Resident,
    Lost,
    Events,
    Waited,
    WaitedEvents,
    Marks,
    MarksMissing,
    RecordingFile,
    Ran,
    Recorded,
    InBlocks,
    AfterMs,
    Next,
    AtPeak,
    AtPeakThenRead,
    WhenLastRead,
    NeverRead,
    Contains,
    ContainsPeak,
    EndUnknown,
    EndRunning,
    EndStatus,
    EndExited,
    EndSignal,
    EndKilled,
    EndReplaced,
    KindGrowth,
    KindHeld,
    KindUnseenFrees,
    KindPeak,
    KindGrowingSites,
    KindNeverFreed,
    KindStillHeld,
    KindTemporaries,
    KindTurnover,
    KindReallocChains,
    KindLifetimes,
    KindSizes,
    KindThreads,
    Growth,
    Held,
    HoldsShare,
    HeldShare,
    UnseenFrees,
    PeakHeld,
    PeakWhen,
    GrowingSites,
    NeverFreed,
    StillHeld,
    Temporaries,
    Turnover,
    ReallocChains,
    Lifetimes,
    Sizes,
    Threads,
    Blocks,
    HelpAbout,
    HelpCapture,
    HelpControl,
    HelpReports,
    HelpRecordings,
    HelpPictures,
    HelpOptions,
    HelpMetricOptions,
    HelpFilterOptions,
    HelpOutputOptions,
    HelpSymbolOptions,
    HelpCaptureOptions,
}

impl Text {
    /// Every message.
    pub const ALL: [Text; 79] = [
        Text::Allocated,
        Text::Peak,
        Text::StillLive,
        Text::Samples,
        Text::Covers,
        Text::CoversTitle,
        Text::Probe,
        Text::ProbeMemory,
        Text::ProfileFile,
        Text::Child,
        Text::RunsOn,
        Text::Resident,
        Text::Lost,
        Text::Events,
        Text::Waited,
        Text::WaitedEvents,
        Text::Marks,
        Text::MarksMissing,
        Text::RecordingFile,
        Text::Ran,
        Text::Recorded,
        Text::InBlocks,
        Text::AfterMs,
        Text::Next,
        Text::AtPeak,
        Text::AtPeakThenRead,
        Text::WhenLastRead,
        Text::NeverRead,
        Text::Contains,
        Text::ContainsPeak,
        Text::EndUnknown,
        Text::EndRunning,
        Text::EndStatus,
        Text::EndExited,
        Text::EndSignal,
        Text::EndKilled,
        Text::EndReplaced,
        Text::KindGrowth,
        Text::KindHeld,
        Text::KindUnseenFrees,
        Text::KindPeak,
        Text::KindGrowingSites,
        Text::KindNeverFreed,
        Text::KindStillHeld,
        Text::KindTemporaries,
        Text::KindTurnover,
        Text::KindReallocChains,
        Text::KindLifetimes,
        Text::KindSizes,
        Text::KindThreads,
        Text::Growth,
        Text::Held,
        Text::HoldsShare,
        Text::HeldShare,
        Text::UnseenFrees,
        Text::PeakHeld,
        Text::PeakWhen,
        Text::GrowingSites,
        Text::NeverFreed,
        Text::StillHeld,
        Text::Temporaries,
        Text::Turnover,
        Text::ReallocChains,
        Text::Lifetimes,
        Text::Sizes,
        Text::Threads,
        Text::Blocks,
        Text::HelpAbout,
        Text::HelpCapture,
        Text::HelpControl,
        Text::HelpReports,
        Text::HelpRecordings,
        Text::HelpPictures,
        Text::HelpOptions,
        Text::HelpMetricOptions,
        Text::HelpFilterOptions,
        Text::HelpOutputOptions,
        Text::HelpSymbolOptions,
        Text::HelpCaptureOptions,
    ];

    /// English, then Chinese.
    #[must_use]
    #[rustfmt::skip]
    pub fn pair(self) -> (&'static str, &'static str) {
        match self {
            Text::Allocated => ("allocated", "已分配"),
            Text::Peak => ("peak", "峰值"),
            Text::StillLive => ("still live", "仍存活"),
            Text::Samples => ("samples", "样本数"),
            Text::Covers => ("covers", "覆盖范围"),
            Text::CoversTitle => ("Covers", "覆盖范围"),
            Text::Probe => ("probe", "探针"),
            Text::ProbeMemory => ("{bytes} of memory", "占用内存 {bytes}"),
            Text::ProfileFile => ("profile", "剖析文件"),
            Text::Child => ("child", "子进程"),
            Text::RunsOn => ("; it runs on", "；它仍在运行"),
            Text::Resident => ("resident", "常驻内存"),
            Text::Lost => ("lost", "丢失"),
            Text::Events => ("{n} events", "{n} 个事件"),
            Text::Waited => ("waited", "等待"),
            Text::WaitedEvents => ("{n} events, for room in the log", "{n} 个事件，等待日志空间"),
            Text::Marks => ("marks", "标记"),
            Text::MarksMissing => ("{n} had no room and are missing", "{n} 个没有空间，已缺失"),
            Text::RecordingFile => ("recording", "录制文件"),
            Text::Ran => ("{program} ran {time}, {end}", "{program} 运行了 {time}，{end}"),
            Text::Recorded => ("recorded {ms} ms", "已录制 {ms} ms"),
            Text::InBlocks => (" in {n} blocks", "，共 {n} 个块"),
            Text::AfterMs => ("{bytes} after {ms} ms", "{bytes}，{ms} ms 之后"),
            Text::Next => ("next: {command}", "下一步：{command}"),
            Text::AtPeak => ("{bytes} at the peak", "峰值 {bytes}"),
            Text::AtPeakThenRead => ("{peak} at the peak; when last read, {bytes}", "峰值 {peak}；最后一次读取时 {bytes}"),
            Text::WhenLastRead => ("{bytes} when last read, {age} before the end", "最后一次读取时 {bytes}，在结束前 {age}"),
            Text::NeverRead => ("{bytes} at the peak; the program ended before its lines were read", "峰值 {bytes}；程序在读取各项之前已结束"),
            Text::Contains => ("{program}: {held} held in {blocks} blocks{peak}, {allocated} allocated in {allocations} blocks", "{program}：{blocks} 个块持有 {held}{peak}，{allocations} 个块共分配 {allocated}"),
            Text::ContainsPeak => (", {bytes} at the peak", "，峰值 {bytes}"),
            Text::EndUnknown => ("end unknown", "结束方式未知"),
            Text::EndRunning => ("still running", "仍在运行"),
            Text::EndStatus => ("exit status {status}", "退出状态 {status}"),
            Text::EndExited => ("exited", "已退出"),
            Text::EndSignal => ("killed by signal {signal}", "被信号 {signal} 杀死"),
            Text::EndKilled => ("killed", "被杀死"),
            Text::EndReplaced => ("replaced by exec", "被 exec 替换"),
            Text::KindGrowth => ("growth", "增长"),
            Text::KindHeld => ("held", "持有"),
            Text::KindUnseenFrees => ("unseen frees", "未观测到的释放"),
            Text::KindPeak => ("peak", "峰值"),
            Text::KindGrowingSites => ("growing sites", "持续增长之处"),
            Text::KindNeverFreed => ("never freed", "从未释放"),
            Text::KindStillHeld => ("still held", "仍被持有"),
            Text::KindTemporaries => ("temporaries", "临时块"),
            Text::KindTurnover => ("turnover", "周转"),
            Text::KindReallocChains => ("realloc chains", "连续 realloc"),
            Text::KindLifetimes => ("lifetimes", "寿命"),
            Text::KindSizes => ("sizes", "大小"),
            Text::KindThreads => ("threads", "线程"),
            Text::Growth => ("the functions that grew hold {bytes} more; the whole program changed by {total}", "增长的函数多持有 {bytes}；整个程序的变化为 {total}"),
            Text::Held => ("{bytes} in {blocks} blocks are held{share}", "{blocks} 个块共 {bytes} 被持有{share}"),
            Text::HoldsShare => ("; {function} holds {percent} % of them", "；其中 {function} 占 {percent} %"),
            Text::HeldShare => ("; {function} held {percent} % of them", "；其中 {function} 占 {percent} %"),
            Text::UnseenFrees => ("{n} blocks were freed by a call that is not hooked; each was noticed when its address was used again", "{n} 个块被未挂钩的调用释放；在其地址再次被使用时才发现"),
            Text::PeakHeld => ("{bytes} were live at the peak{when}{share}", "峰值时存活 {bytes}{when}{share}"),
            Text::PeakWhen => (", {ms} ms after the start", "，启动后 {ms} ms"),
            Text::GrowingSites => ("{sites} places grew steadily until {ms} ms after the start, by {bytes}", "{sites} 处在启动后 {ms} ms 内持续增长，共 {bytes}"),
            Text::NeverFreed => ("{bytes} in {blocks} blocks were never freed", "{blocks} 个块共 {bytes} 从未释放"),
            Text::StillHeld => ("{bytes} in {blocks} blocks were still held at the end", "{blocks} 个块共 {bytes} 在结束时仍被持有"),
            Text::Temporaries => ("{n} of {all} blocks ({percent} %) were temporary: freed by the next call of the thread that had allocated them", "{all} 个块中有 {n} 个（{percent} %）是临时的：被分配它的线程的下一次调用释放"),
            Text::Turnover => ("{bytes} were allocated, {times} times the peak", "共分配 {bytes}，为峰值的 {times} 倍"),
            Text::ReallocChains => ("{steps} steps of realloc on blocks that realloc had made; at the place with most, a block was resized {length} times on average", "对 realloc 所得的块又进行了 {steps} 次 realloc；次数最多之处每块平均调整 {length} 次"),
            Text::Lifetimes => ("freed blocks had lived {ms} ms on average; {percent} % less than a millisecond", "已释放的块平均存活 {ms} ms；{percent} % 不足一毫秒"),
            Text::Sizes => ("{percent} % of all blocks were of {min} to {max} bytes", "{percent} % 的块大小为 {min} 至 {max} 字节"),
            Text::Threads => ("{threads} threads allocated {blocks} blocks", "{threads} 个线程分配了 {blocks} 个块"),
            Text::Blocks => ("{n} blocks", "{n} 个块"),
            Text::HelpAbout => ("Heap profiler for Linux: who is holding the memory?", "Linux 堆剖析器：内存被谁占用？"),
            Text::HelpCapture => ("Capture", "采集"),
            Text::HelpControl => ("Control", "控制"),
            Text::HelpReports => ("Reports", "报告"),
            Text::HelpRecordings => ("Recordings", "录制"),
            Text::HelpPictures => ("Pictures, files, checks", "图形、文件、检查"),
            Text::HelpOptions => ("Options", "选项"),
            Text::HelpMetricOptions => ("Metric options", "数值选项"),
            Text::HelpFilterOptions => ("Filter options", "筛选选项"),
            Text::HelpOutputOptions => ("Output options", "输出选项"),
            Text::HelpSymbolOptions => ("Symbol options", "符号选项"),
            Text::HelpCaptureOptions => ("Capture options", "采集选项"),
        }
    }

    /// The message in a language.
    #[must_use]
    pub fn text(self, language: Language) -> &'static str {
        let (english, chinese) = self.pair();
        match language {
            Language::English => english,
            Language::Chinese => chinese,
        }
    }

    /// The message in a language, with values by name.
    #[must_use]
    pub fn with(self, language: Language, values: &[(&str, &str)]) -> String {
        let mut out = String::new();
        let mut rest = self.text(language);
        while let Some((before, after)) = rest.split_once('{') {
            let (name, tail) = after.split_once('}').unwrap_or((after, ""));
            out += before;
            out += values.iter().find(|(known, _)| *known == name).map_or("", |(_, value)| *value);
            rest = tail;
        }
        out + rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<&str> {
        let mut names: Vec<&str> =
            text.split('{').skip(1).filter_map(|part| Some(part.split_once('}')?.0)).collect();
        names.sort_unstable();
        names
    }

    #[test]
    fn every_message_has_both_languages_and_the_same_values() {
        for text in Text::ALL {
            let (english, chinese) = text.pair();
            assert!(!english.is_empty() && english.is_ascii(), "{text:?}: {english}");
            assert!(chinese.chars().any(|c| ('\u{4e00}'..='\u{9fff}').contains(&c)), "{text:?}: {chinese}");
            assert_eq!(names(english), names(chinese), "{text:?}");
        }
    }

    #[test]
    fn values_are_inserted_once() {
        let text = Text::AfterMs.with(Language::English, &[("bytes", "{ms}"), ("ms", "2")]);
        assert_eq!(text, "{ms} after 2 ms");
    }
}
