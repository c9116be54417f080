//! The graph as SVG that works alone in a browser: boxes by flat, arrows by weight, tooltips.

use heapwise_profile::view::graph::{Call, Graph};
use heapwise_profile::view::{Row, Totals};

use super::boxes::{NodeBox, node_box};
use super::{GraphOptions, legend};
use crate::amount::percent;
use crate::layout::{self, BoxSize, Curve, Drawing, Link, Point};
use crate::svg::{Short, escape};
use crate::{color, font};

const MARGIN: f64 = 16.0;
const LEGEND_FONT: f64 = 13.0;
const LEGEND_LINE: f64 = 18.0;
const LABEL_FONT: f64 = 9.5;
const SCRIPT: &str = include_str!("pan_zoom.js");
const STYLE: &str = ".node{cursor:default}.node:hover rect{stroke-width:2.4}\
.edge.near path{stroke:#1d1d1b}.edge.near polygon{fill:#1d1d1b}.edge.near text{font-weight:bold}\
.lit .edge:not(.near){opacity:.25}";

/// The graph as a stand-alone SVG document.
#[must_use]
pub fn svg(graph: &Graph, options: &GraphOptions) -> String {
    let boxes: Vec<NodeBox> = graph.nodes.iter().map(|row| node_box(row, &graph.totals, options)).collect();
    let drawing = arrange(graph, &boxes, options);
    let legend = legend::lines(graph, options);
    let legend_width = legend.iter().map(|line| font::width(line, LEGEND_FONT)).fold(0.0, f64::max) + 20.0;
    let legend_height = legend.len() as f64 * LEGEND_LINE + 14.0;
    let offset =
        Point { x: MARGIN, y: MARGIN + room_for_legend(&drawing, &boxes, legend_width, legend_height) };
    let width = (drawing.width + 2.0 * MARGIN).max(legend_width + 2.0 * MARGIN);
    let height = (drawing.height + offset.y + MARGIN).max(legend_height + 2.0 * MARGIN);
    let mut out = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<svg xmlns=\"http://www.w3.org/2000/svg\" \
         width=\"100%\" height=\"100%\" viewBox=\"0 0 {0} {1}\" \
         preserveAspectRatio=\"xMinYMin meet\" font-family=\"{2}\">\n\
         <title>{3}</title>\n<style>{STYLE}</style>\n\
         <rect x=\"-{0}\" y=\"-{1}\" width=\"{4}\" height=\"{5}\" fill=\"#fff\"/>\n",
        Short(width.ceil()),
        Short(height.ceil()),
        font::FAMILY,
        escape(&options.program),
        Short(3.0 * width.ceil()),
        Short(3.0 * height.ceil()),
    );
    push_legend(&mut out, &legend, legend_width, legend_height);
    out += &format!("<g transform=\"translate({} {})\">\n", Short(offset.x), Short(offset.y));
    for (call, curve) in graph.edges.iter().zip(&drawing.curves).rev() {
        push_edge(&mut out, graph, options, call, curve);
    }
    for (at, (node, centre)) in boxes.iter().zip(&drawing.centres).enumerate() {
        push_node(&mut out, graph, options, at, node, *centre);
    }
    out += "</g>\n";
    out += &format!("<script><![CDATA[\n{SCRIPT}]]></script>\n</svg>\n");
    out
}

fn share(value: f64, totals: &Totals) -> f64 {
    let whole = totals.whole().abs();
    if whole == 0.0 { 0.0 } else { (value / whole).clamp(-1.0, 1.0) }
}

fn arrange(graph: &Graph, boxes: &[NodeBox], options: &GraphOptions) -> Drawing {
    let sizes: Vec<BoxSize> = boxes.iter().map(|node| node.size).collect();
    let links: Vec<Link> = graph
        .edges
        .iter()
        .map(|call| {
            let text = options.label(call.weight.value, graph.totals.unit);
            let label = BoxSize { width: font::width(&text, LABEL_FONT) + 4.0, height: LABEL_FONT * 1.2 };
            // Heavy calls are drawn short and straight.
            let weight = 1 + (share(call.weight.value, &graph.totals).abs() * 60.0) as u32;
            Link { from: call.from, to: call.to, weight, label }
        })
        .collect();
    layout::draw(&sizes, &links)
}

/// How far the graph must move down so that nothing of it lies under the legend.
fn room_for_legend(drawing: &Drawing, boxes: &[NodeBox], width: f64, height: f64) -> f64 {
    let under = |point: Point, half: BoxSize| {
        point.x - half.width < width + MARGIN && point.y - half.height < height + MARGIN
    };
    let box_under = drawing.centres.iter().zip(boxes).any(|(centre, node)| {
        under(*centre, BoxSize { width: node.size.width / 2.0, height: node.size.height / 2.0 })
    });
    let none = BoxSize { width: 0.0, height: 0.0 };
    let curve_under = drawing.curves.iter().flat_map(|curve| &curve.points).any(|point| under(*point, none));
    if box_under || curve_under { height + MARGIN } else { 0.0 }
}

fn push_legend(out: &mut String, lines: &[String], width: f64, height: f64) {
    *out += &format!(
        "<g><rect x=\"{MARGIN}\" y=\"{MARGIN}\" width=\"{}\" height=\"{}\" rx=\"4\" fill=\"#f8f8f6\" \
         stroke=\"#c9c6bf\"/>\n",
        Short(width),
        Short(height),
    );
    for (at, line) in lines.iter().enumerate() {
        let y = MARGIN + 21.0 + at as f64 * LEGEND_LINE;
        *out += &format!(
            "<text x=\"{}\" y=\"{}\" font-size=\"{LEGEND_FONT}\" fill=\"#333\">{}</text>\n",
            Short(MARGIN + 10.0),
            Short(y),
            escape(line),
        );
    }
    *out += "</g>\n";
}

fn push_node(
    out: &mut String,
    graph: &Graph,
    options: &GraphOptions,
    at: usize,
    node: &NodeBox,
    centre: Point,
) {
    let row = &graph.nodes[at];
    let totals = &graph.totals;
    let (left, top) = (centre.x - node.size.width / 2.0, centre.y - node.size.height / 2.0);
    let tooltip = tooltip(row, totals, options);
    let cum = share(row.cum.value, totals);
    let border = match row.flat.value {
        flat if options.marks_holders && flat != 0.0 => 4.0,
        _ => 1.2,
    };
    *out += &format!(
        "<g class=\"node\" id=\"n{at}\"><title>{}</title><rect x=\"{}\" y=\"{}\" width=\"{}\" \
         height=\"{}\" rx=\"3\" fill=\"{}\" stroke=\"{}\" stroke-width=\"{border}\"/>",
        escape(tooltip.trim_end()),
        Short(left),
        Short(top),
        Short(node.size.width),
        Short(node.size.height),
        color::fill(cum),
        color::line(cum),
    );
    for (line, baseline) in node.baselines() {
        *out += &format!(
            "<text x=\"{}\" y=\"{}\" font-size=\"{}\" text-anchor=\"middle\">{}</text>",
            Short(centre.x),
            Short(top + baseline),
            Short(line.font_size),
            escape(&line.text),
        );
    }
    *out += "</g>\n";
}

fn tooltip(row: &Row, totals: &Totals, options: &GraphOptions) -> String {
    let place = match (row.frame.file.as_str(), row.frame.line) {
        ("", _) => String::new(),
        (file, 0) => format!("\n{file}"),
        (file, line) => format!("\n{file}:{line}"),
    };
    format!(
        "{}\nflat {} ({})\ncum {} ({}){place}\n{}",
        row.frame.label,
        options.label(row.flat.value, totals.unit),
        percent(row.flat.value, totals.whole()),
        options.label(row.cum.value, totals.unit),
        percent(row.cum.value, totals.whole()),
        row.frame.module,
    )
}

fn push_edge(out: &mut String, graph: &Graph, options: &GraphOptions, call: &Call, curve: &Curve) {
    let totals = &graph.totals;
    let share = share(call.weight.value, totals);
    let width = 0.8 + 5.0 * share.abs().powf(0.8);
    let arrow = Arrow::new(curve, width);
    let mut path = format!("M{} {}", Short(curve.points[0].x), Short(curve.points[0].y));
    let mut points = curve.points.clone();
    let last = points.len() - 1;
    points[last] = arrow.base;
    for (at, point) in points.iter().enumerate().skip(1) {
        path += if at % 3 == 1 { "C" } else { " " };
        path += &format!("{} {}", Short(point.x), Short(point.y));
    }
    let amount = options.label(call.weight.value, totals.unit);
    let [from, to] = [call.from, call.to].map(|at| graph.nodes[at].frame.label.as_str());
    let tooltip = format!("{from} → {to}\n{amount} ({})", percent(call.weight.value, totals.whole()));
    let dash = if call.residual { " stroke-dasharray=\"5 4\"" } else { "" };
    let color = color::line(share);
    *out += &format!(
        "<g class=\"edge\" data-from=\"n{}\" data-to=\"n{}\"><title>{}</title>\
         <path d=\"{path}\" fill=\"none\" stroke=\"{color}\" stroke-width=\"{}\"{dash}/>\
         <polygon points=\"{}\" fill=\"{color}\"/>\
         <text x=\"{}\" y=\"{}\" font-size=\"{LABEL_FONT}\" fill=\"#333\" \
         stroke=\"#fff\" stroke-opacity=\".85\" stroke-width=\"3\" paint-order=\"stroke\">{}</text></g>\n",
        call.from,
        call.to,
        escape(&tooltip),
        Short(width),
        arrow.polygon,
        Short(curve.label.x + width / 2.0),
        Short(curve.label.y + LABEL_FONT * 0.36),
        escape(&amount),
    );
}

/// The head of an arrow, and where its line ends so as not to show beyond it.
struct Arrow {
    base: Point,
    polygon: String,
}

impl Arrow {
    fn new(curve: &Curve, width: f64) -> Self {
        let last = curve.points.len() - 1;
        let (before, tip) = (curve.points[last - 1], curve.points[last]);
        let (dx, dy) = (tip.x - before.x, tip.y - before.y);
        let length = dx.hypot(dy).max(1e-9);
        let (dx, dy) = (dx / length, dy / length);
        let (long, half) = (6.0 + 1.4 * width, 2.6 + 0.9 * width);
        let base = Point { x: tip.x - dx * long, y: tip.y - dy * long };
        let corner = |side: f64| (base.x - dy * half * side, base.y + dx * half * side);
        let (left, right) = (corner(1.0), corner(-1.0));
        let polygon = format!(
            "{},{} {},{} {},{}",
            Short(tip.x),
            Short(tip.y),
            Short(left.0),
            Short(left.1),
            Short(right.0),
            Short(right.1),
        );
        Self { base: Point { x: tip.x - dx * long * 0.7, y: tip.y - dy * long * 0.7 }, polygon }
    }
}
