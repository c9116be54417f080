//! The live view drawn on a terminal: totals, curve, table, keys.

use heapwise_format::segment::Mode;
use heapwise_profile::printable::printable;
use heapwise_profile::quantity;
use heapwise_profile::view::top::Top;
use heapwise_render::amount::{metric_words, percent};
use heapwise_render::{Amounts, text};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Style, Stylize};
use ratatui::text::Line;
use ratatui::widgets::{Paragraph, Row, Sparkline, Table, TableState};

use super::model::Model;

const KEYS: &str = "q quit  ↑↓ select  ⏎ callers  s sort  m metric  / filter";
/// Keys that do something for a running process only.
const PROCESS_KEYS: &str = "  p pause  r record  e exact  +/- rate";

/// Draws the view.
pub(super) fn draw(frame: &mut Frame<'_>, model: &Model) {
    // A profile is one moment.
    let height = if model.is_process || model.history.len() > 1 { 3 } else { 0 };
    let rows = [Constraint::Length(2), Constraint::Length(height), Constraint::Min(3), Constraint::Length(2)];
    let [head, curve, table, foot] = Layout::vertical(rows).areas(frame.area());
    frame.render_widget(Paragraph::new(vec![title(model), totals(model)]), head);
    let points = model.curve(usize::from(curve.width));
    frame.render_widget(Sparkline::default().data(&points).cyan(), curve);
    let mut state = TableState::default().with_selected(Some(selected_line(model)));
    frame.render_stateful_widget(rows_of(model), table, &mut state);
    let keys = format!("{KEYS}{}", if model.is_process { PROCESS_KEYS } else { "" });
    frame.render_widget(Paragraph::new(vec![status(model), Line::from(keys).dim()]), foot);
}

fn title(model: &Model) -> Line<'static> {
    let recorded = match model.demand.map(|demand| (demand.mode, demand.sample_bytes)) {
        None => String::new(),
        Some((Mode::Off, _)) => "  recording is off (r starts it)".to_owned(),
        Some((Mode::Sampled, rate)) => format!("  sampled, one block per {}", quantity::bytes(rate as f64)),
        Some((mode, _)) => format!("  {}", mode.name()),
    };
    let program = model.profile().map(|profile| profile.meta.title().to_owned()).unwrap_or_default();
    let pause = if model.is_paused { "  PAUSED" } else { "" };
    Line::from(format!("{} {}{recorded}{pause}", printable(&model.name), printable(&program))).bold()
}

fn totals(model: &Model) -> Line<'static> {
    let Some(profile) = model.profile() else { return Line::from("reading …") };
    let total = profile.total();
    let bytes = quantity::bytes;
    let peak = profile.meta.peak_bytes.map(|peak| format!("  peak {}", bytes(peak as f64)));
    Line::from(format!(
        "live {} in {:.0} blocks{}  allocated {} in {:.0} blocks",
        bytes(total.inuse_bytes),
        total.inuse_objects,
        peak.unwrap_or_default(),
        bytes(total.alloc_bytes),
        total.alloc_objects
    ))
}

/// The table's line of the selected row: callers are lines too.
fn selected_line(model: &Model) -> usize {
    let opened = model.expanded.as_ref().and_then(|(label, callers)| {
        let rows = &model.top.as_ref()?.rows;
        Some((rows.iter().position(|row| row.frame.label == *label)?, callers.len()))
    });
    let above = opened.filter(|(row, _)| *row < model.selected).map_or(0, |(_, callers)| callers);
    model.selected + above
}

fn rows_of(model: &Model) -> Table<'static> {
    let mut rows: Vec<Row<'static>> = Vec::new();
    for (row, top) in model.top.iter().flat_map(|top| top.rows.iter().map(move |row| (row, top))) {
        let label = printable(&row.frame.label).into_owned();
        let own = text::own_place(row.own.as_ref());
        rows.push(line(row.flat.value, row.cum.value, label, own, top));
        if let Some((_, callers)) = model.expanded.as_ref().filter(|(open, _)| *open == row.frame.label) {
            rows.extend(callers.iter().map(|caller| {
                let label = format!("    ← {}", printable(&caller.label));
                line(0.0, caller.weight.value, label, String::new(), top).dim()
            }));
        }
    }
    let widths = [
        Constraint::Length(9),
        Constraint::Length(6),
        Constraint::Length(9),
        Constraint::Length(6),
        Constraint::Fill(3),
        Constraint::Fill(2),
    ];
    let head = Row::new(["     flat", " flat%", "      cum", "  cum%", "function", "your code"]);
    let head = head.style(Style::new().underlined());
    Table::new(rows, widths).header(head).row_highlight_style(Style::new().reversed())
}

fn line(flat: f64, cum: f64, label: String, own: String, top: &Top) -> Row<'static> {
    let (unit, whole) = (top.totals.unit, top.totals.whole());
    let amount = |value: f64| format!("{:>9}", Amounts::Human.format(value, unit));
    let share = |value: f64| format!("{:>6}", percent(value, whole));
    Row::new([amount(flat), share(flat), amount(cum), share(cum), label, own])
}

fn status(model: &Model) -> Line<'static> {
    let filter = match (model.is_typing, model.filter.is_empty()) {
        (true, _) => format!("filter: {}█  ", printable(&model.filter)),
        (false, false) => format!("filter: {}  ", printable(&model.filter)),
        (false, true) => String::new(),
    };
    let shown = format!("{} by {}  ", metric_words(model.metric().name()), model.order());
    Line::from(format!("{filter}{shown}{}", printable(&model.message)))
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use ratatui::crossterm::event::KeyCode;

    use heapwise_profile::own_code::OwnRule;

    use super::super::feed::Reading;
    use super::*;

    fn text(model: &Model, width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("no terminal is needed");
        terminal.draw(|frame| draw(frame, model)).expect("drawn");
        let buffer = terminal.backend().buffer();
        let cells: Vec<&str> = buffer.content().iter().map(|cell| cell.symbol()).collect();
        cells.chunks(usize::from(width)).map(|line| line.concat() + "\n").collect()
    }

    #[test]
    fn totals_rows_and_callers_are_on_the_screen() {
        let mut model = Model::new("4711".into(), false, OwnRule::default());
        assert!(text(&model, 80, 20).contains("reading …"));
        let profile = heapwise_profile::read(b"main;load;parse 6144\nmain;ser\x1bve 2048\n").expect("stacks");
        model.update(Reading::Profile(Box::new(profile), None));
        model.press(KeyCode::Enter);
        let screen = text(&model, 100, 20);
        for part in
            ["your code", "live 8.00 KiB", "6.00 KiB  75.0%  6.00 KiB  75.0% parse", "← load", "ser\\u{1b}ve"]
        {
            assert!(screen.contains(part), "no {part}:\n{screen}");
        }
        assert!(!text(&model, 20, 6).is_empty(), "a small terminal");
    }
}
