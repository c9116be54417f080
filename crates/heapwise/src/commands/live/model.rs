//! What the live view shows, and what each key changes. Nothing here touches the terminal.

use std::collections::VecDeque;

use heapwise_format::segment::{Control, Demand, Mode};
use heapwise_profile::own_code::{CodeFrames, OwnRule};
use heapwise_profile::query::{Order, QuerySpec, exactly, pattern};
use heapwise_profile::view::OwnPlaces;
use heapwise_profile::view::peek::{Neighbour, peek};
use heapwise_profile::view::top::{Top, top};
use heapwise_profile::{CallTree, Metric, Profile};
use ratatui::crossterm::event::KeyCode;

use super::feed::Reading;

/// Rows of the table.
const ROWS: usize = 200;
/// Callers shown under an expanded row.
const CALLERS: usize = 10;
/// Points of the curve.
const POINTS: usize = 512;

/// A request of the user that the model does not carry out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Command {
    /// Leave the view.
    Quit,
    /// Change what the process records.
    Record(Mode, u64),
}

/// The view.
#[derive(Default)]
pub(super) struct Model {
    /// The target as the user named it.
    pub(super) name: String,
    /// A running process; otherwise a file.
    pub(super) is_process: bool,
    profile: Option<Box<Profile>>,
    /// What the process records.
    pub(super) demand: Option<Demand>,
    /// The selected metric at each reading; of a recording, live bytes over its time.
    pub(super) history: VecDeque<u64>,
    metric: usize,
    is_by_cum: bool,
    /// Keeps stacks with a frame that matches.
    pub(super) filter: String,
    /// The filter is being typed.
    pub(super) is_typing: bool,
    /// Readings are not shown.
    pub(super) is_paused: bool,
    /// The selected row.
    pub(super) selected: usize,
    /// The ranking.
    pub(super) top: Option<Top>,
    /// The function whose callers are shown, and those.
    pub(super) expanded: Option<(String, Vec<Neighbour>)>,
    /// What happened last.
    pub(super) message: String,
    /// Which code is the program's own.
    own: OwnRule,
}

/// Metrics in the order of the `m` key.
const METRICS: [Metric; 4] =
    [Metric::InuseSpace, Metric::InuseObjects, Metric::AllocSpace, Metric::AllocObjects];

impl Model {
    /// An empty view of a target.
    pub(super) fn new(name: String, is_process: bool, own: OwnRule) -> Self {
        Self { name, is_process, own, ..Self::default() }
    }

    /// Shows a reading.
    pub(super) fn update(&mut self, reading: Reading) {
        match reading {
            Reading::End(reason) => self.message = reason,
            Reading::Curve(points) => self.history = points.into(),
            Reading::Profile(..) if self.is_paused => {}
            Reading::Profile(profile, demand) => {
                self.demand = demand;
                if self.is_process {
                    let total = profile.total().get(self.metric());
                    self.history.push_back(total.max(0.0) as u64);
                    let excess = self.history.len().saturating_sub(POINTS);
                    self.history.drain(..excess);
                }
                self.profile = Some(profile);
                self.rank();
            }
        }
    }

    /// Says what happened.
    pub(super) fn say(&mut self, message: &str) {
        message.clone_into(&mut self.message);
    }

    /// The metric of the table and the curve.
    pub(super) fn metric(&self) -> Metric {
        METRICS[self.metric]
    }

    /// The profile on the screen.
    pub(super) fn profile(&self) -> Option<&Profile> {
        self.profile.as_deref()
    }

    /// At most `width` points of the curve: the newest readings of a process, the whole time of a
    /// recording.
    pub(super) fn curve(&self, width: usize) -> Vec<u64> {
        let points = self.history.len();
        if self.is_process || points <= width {
            return self.history.iter().skip(points.saturating_sub(width)).copied().collect();
        }
        let most = |column: usize| {
            let part = self.history.range(column * points / width..(column + 1) * points / width);
            part.copied().max().unwrap_or(0)
        };
        (0..width).map(most).collect()
    }

    /// What the rows are sorted by.
    pub(super) fn order(&self) -> &'static str {
        if self.is_by_cum { "cum" } else { "flat" }
    }

    /// A key of the user.
    pub(super) fn press(&mut self, key: KeyCode) -> Option<Command> {
        if self.is_typing {
            self.type_filter(key);
            return None;
        }
        match key {
            KeyCode::Char('q') => return Some(Command::Quit),
            KeyCode::Esc if self.expanded.is_none() && self.filter.is_empty() => return Some(Command::Quit),
            KeyCode::Esc => self.leave(),
            KeyCode::Down | KeyCode::Char('j') => self.select(self.selected.saturating_add(1)),
            KeyCode::Up | KeyCode::Char('k') => self.select(self.selected.saturating_sub(1)),
            KeyCode::PageDown => self.select(self.selected.saturating_add(20)),
            KeyCode::PageUp => self.select(self.selected.saturating_sub(20)),
            KeyCode::Home => self.select(0),
            KeyCode::Enter => self.expand(),
            KeyCode::Char('s') => {
                self.is_by_cum = !self.is_by_cum;
                self.rank();
            }
            KeyCode::Char('m') => {
                self.metric = (self.metric + 1) % METRICS.len();
                if self.is_process {
                    self.history.clear();
                }
                self.rank();
            }
            KeyCode::Char('/') => self.is_typing = true,
            KeyCode::Char('p' | ' ') if self.is_process => self.is_paused = !self.is_paused,
            key if self.is_process => return self.record(key),
            _ => {}
        }
        None
    }

    /// Keys that change what the process records.
    fn record(&self, key: KeyCode) -> Option<Command> {
        let demand = self.demand?;
        let rate =
            if demand.mode == Mode::Sampled { demand.sample_bytes } else { Control::DEFAULT_SAMPLE_BYTES };
        match (key, demand.mode) {
            (KeyCode::Char('r'), Mode::Off) => Some(Command::Record(Mode::Sampled, rate)),
            (KeyCode::Char('r'), _) => Some(Command::Record(Mode::Off, rate)),
            (KeyCode::Char('e'), _) => Some(Command::Record(Mode::Exact, rate)),
            (KeyCode::Char('+'), Mode::Sampled) => Some(Command::Record(Mode::Sampled, (rate / 2).max(1))),
            (KeyCode::Char('-'), Mode::Sampled) => {
                Some(Command::Record(Mode::Sampled, rate.saturating_mul(2)))
            }
            _ => None,
        }
    }

    fn type_filter(&mut self, key: KeyCode) {
        match key {
            KeyCode::Char(character) => self.filter.push(character),
            KeyCode::Backspace => drop(self.filter.pop()),
            KeyCode::Esc => {
                self.filter.clear();
                self.is_typing = false;
            }
            KeyCode::Enter => self.is_typing = false,
            _ => return,
        }
        self.rank();
    }

    fn leave(&mut self) {
        if self.expanded.take().is_none() {
            self.filter.clear();
        }
        self.rank();
    }

    fn select(&mut self, row: usize) {
        let rows = self.top.as_ref().map_or(0, |top| top.rows.len());
        self.selected = row.min(rows.saturating_sub(1));
    }

    /// Shows or hides the callers of the selected row.
    fn expand(&mut self) {
        let row = self.top.as_ref().and_then(|top| top.rows.get(self.selected));
        let label = row.map(|row| row.frame.label.clone());
        let is_open = self.expanded.as_ref().map(|(open, _)| open) == label.as_ref();
        self.expanded = label.filter(|_| !is_open).map(|label| (label, Vec::new()));
        self.rank();
    }

    /// Ranks the rows of the profile again.
    fn rank(&mut self) {
        let Some(profile) = &self.profile else { return };
        let spec = QuerySpec {
            metric: Some(self.metric().name().to_owned()),
            focus: Some(self.filter.clone()).filter(|filter| !filter.is_empty()),
            order: if self.is_by_cum { Order::Cum } else { Order::FlatThenCum },
            limit: Some(ROWS),
            ..QuerySpec::default()
        };
        match spec.resolve(profile) {
            Err(error) => self.message = error.to_string(),
            Ok(query) => {
                let tree = CallTree::new(profile, &query);
                let code = CodeFrames::new(profile, &self.own);
                let places = OwnPlaces::new(profile, &code, &tree, &query);
                self.top = Some(top(&tree, &query).with_own(&places));
                if let Some((label, callers)) = &mut self.expanded
                    && let Ok(pattern) = pattern("row", &exactly(label))
                {
                    let found = peek(&tree, &pattern, &query).entries.into_iter().next();
                    *callers = found.map(|entry| entry.callers).unwrap_or_default();
                    callers.truncate(CALLERS);
                }
            }
        }
        self.select(self.selected);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model() -> Model {
        let mut model = Model::new("app".into(), true, OwnRule::default());
        let profile = heapwise_profile::read(b"main;load;parse 60\nmain;serve 30\nmain;load;read 10\n");
        let demand = Demand { mode: Mode::Sampled, sample_bytes: 4096 };
        model.update(Reading::Profile(Box::new(profile.expect("stacks")), Some(demand)));
        model
    }

    fn labels(model: &Model) -> Vec<&str> {
        model.top.iter().flat_map(|top| &top.rows).map(|row| row.frame.label.as_str()).collect()
    }

    #[test]
    fn rows_are_sorted_filtered_and_expanded() {
        let mut model = model();
        assert_eq!(labels(&model), ["parse", "serve", "read", "main", "load"]);
        model.press(KeyCode::Char('s'));
        assert_eq!(labels(&model), ["main", "load", "parse", "serve", "read"]);
        for key in "/load".chars() {
            model.press(KeyCode::Char(key));
        }
        model.press(KeyCode::Enter);
        assert_eq!(labels(&model), ["load", "main", "parse", "read"]);
        model.press(KeyCode::Enter);
        let (label, callers) = model.expanded.as_ref().expect("callers");
        assert_eq!(
            (label.as_str(), callers[0].label.as_str(), callers[0].weight.value),
            ("load", "main", 70.0)
        );
        assert_eq!(model.press(KeyCode::Esc), None, "closes the callers");
        assert_eq!(model.press(KeyCode::Esc), None, "clears the filter");
        assert_eq!(labels(&model).len(), 5);
        assert_eq!(model.press(KeyCode::Esc), Some(Command::Quit));
    }

    #[test]
    fn the_curve_of_a_recording_is_its_whole_time() {
        let mut model = Model::new("app.hwr".into(), false, OwnRule::default());
        model.update(Reading::Curve(vec![1, 5, 2, 2, 9, 3]));
        assert_eq!(model.curve(3), [5, 2, 9]);
        assert_eq!(model.curve(80), [1, 5, 2, 2, 9, 3]);
        model.press(KeyCode::Char('p'));
        assert!(!model.is_paused, "a file does not change");
    }

    #[test]
    fn a_pause_keeps_the_numbers() {
        let mut model = model();
        model.press(KeyCode::Char('p'));
        let later = heapwise_profile::read(b"main;other 5\n").expect("stacks");
        model.update(Reading::Profile(Box::new(later), None));
        assert_eq!((labels(&model)[0], model.history.len()), ("parse", 1));
    }

    #[test]
    fn keys_change_what_is_recorded() {
        let mut model = model();
        assert_eq!(model.press(KeyCode::Char('r')), Some(Command::Record(Mode::Off, 4096)));
        assert_eq!(model.press(KeyCode::Char('+')), Some(Command::Record(Mode::Sampled, 2048)));
        assert_eq!(model.press(KeyCode::Char('-')), Some(Command::Record(Mode::Sampled, 8192)));
        assert_eq!(model.press(KeyCode::Char('e')), Some(Command::Record(Mode::Exact, 4096)));
        model.is_process = false;
        assert_eq!(model.press(KeyCode::Char('r')), None);
    }
}
