//! Layered drawing of directed graphs, after Gansner, Koutsofios, North and Vo, "A Technique for
//! Drawing Directed Graphs" (1993), the method of Graphviz's `dot`: assign ranks, order within
//! ranks, choose coordinates, route splines. Sizes in, positions out; it does not depend on
//! profiles.
//!
//! Reading order: [`network_simplex`] solves both the ranks and the coordinates; [`layers`] turns
//! long edges into chains; [`order`] removes crossings; [`place`] and [`route`] make geometry.

mod layers;
mod network_simplex;
mod order;
mod place;
mod rank;
mod route;

/// A box to place.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BoxSize {
    /// Width.
    pub width: f64,
    /// Height.
    pub height: f64,
}

/// An arrow to route.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Link {
    /// Index of the box it leaves.
    pub from: usize,
    /// Index of the box it enters; must differ from `from`.
    pub to: usize,
    /// Weight of its length and straightness, from 1.
    pub weight: u32,
    /// Room for its label.
    pub label: BoxSize,
}

/// A point; y grows downwards.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Point {
    /// Horizontal.
    pub x: f64,
    /// Vertical.
    pub y: f64,
}

/// A routed arrow: a cubic Bézier spline, `points[0]`, then three points a piece.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Curve {
    /// Start, then control, control, end of each piece, from tail to head.
    pub points: Vec<Point>,
    /// Left end of the label's middle line.
    pub label: Point,
}

/// A drawing; its upper left corner is the origin.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Drawing {
    /// Width of all.
    pub width: f64,
    /// Height of all.
    pub height: f64,
    /// Centres of the boxes.
    pub centres: Vec<Point>,
    /// Routes of the links.
    pub curves: Vec<Curve>,
}

/// Draws `boxes` and `links`, links downwards except those that close a cycle.
#[must_use]
pub fn draw(boxes: &[BoxSize], links: &[Link]) -> Drawing {
    if boxes.is_empty() {
        return Drawing::default();
    }
    let forward = rank::break_cycles(boxes.len(), links);
    let ranks = rank::assign(boxes.len(), links, &forward);
    let mut layers = layers::Layers::new(boxes, links, &forward, &ranks);
    order::minimize_crossings(&mut layers);
    let placed = place::place(&layers);
    route::route(boxes, &forward, &layers, &placed)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOX: BoxSize = BoxSize { width: 80.0, height: 40.0 };
    const LABEL: BoxSize = BoxSize { width: 30.0, height: 10.0 };

    fn links(ends: &[(usize, usize)]) -> Vec<Link> {
        let link = |&(from, to)| Link { from, to, weight: 1, label: LABEL };
        ends.iter().map(link).collect()
    }

    fn assert_no_overlap(drawing: &Drawing) {
        for (at, a) in drawing.centres.iter().enumerate() {
            for b in &drawing.centres[at + 1..] {
                let apart = (a.x - b.x).abs() >= BOX.width - 1e-6 || (a.y - b.y).abs() >= BOX.height - 1e-6;
                assert!(apart, "{a:?} overlaps {b:?}");
            }
        }
    }

    #[test]
    fn a_chain_is_straight() {
        let drawing = draw(&[BOX; 3], &links(&[(0, 1), (1, 2)]));
        let [a, b, c] = drawing.centres[..] else { panic!("three boxes") };
        assert!(a.x == b.x && b.x == c.x && a.y < b.y && b.y < c.y);
        let first = &drawing.curves[0].points;
        assert_eq!(first[0], Point { x: a.x, y: a.y + BOX.height / 2.0 });
        assert_eq!(first[first.len() - 1], Point { x: b.x, y: b.y - BOX.height / 2.0 });
    }

    #[test]
    fn crossings_that_can_be_avoided_are() {
        // 0 and 1 call 3 and 2: drawn in index order the arrows would cross.
        let ends = [(0, 3), (1, 2), (4, 0), (4, 1)];
        let drawing = draw(&[BOX; 5], &links(&ends));
        let x = |at: usize| drawing.centres[at].x;
        assert_eq!(x(0) < x(1), x(3) < x(2));
        assert_no_overlap(&drawing);
    }

    #[test]
    fn cycles_and_loose_boxes_are_drawn() {
        let ends = [(0, 1), (1, 2), (2, 0), (1, 0), (3, 2)];
        let drawing = draw(&[BOX; 5], &links(&ends));
        assert_no_overlap(&drawing);
        for (curve, (from, to)) in drawing.curves.iter().zip(ends) {
            let (tail, head) = (curve.points[0], curve.points[curve.points.len() - 1]);
            assert!((tail.y - drawing.centres[from].y).abs() <= BOX.height / 2.0 + 1e-6);
            assert!((head.y - drawing.centres[to].y).abs() <= BOX.height / 2.0 + 1e-6);
            assert_eq!(curve.points.len() % 3, 1);
        }
        assert!(drawing.centres.iter().all(|c| c.x < drawing.width && c.y < drawing.height));
    }

    #[test]
    fn a_long_link_goes_around_boxes_in_its_way() {
        let ends = [(0, 1), (1, 2), (2, 3), (0, 3), (0, 4), (4, 3)];
        let drawing = draw(&[BOX; 5], &links(&ends));
        for (curve, (from, to)) in drawing.curves.iter().zip(ends) {
            for (at, centre) in drawing.centres.iter().enumerate() {
                if at == from || at == to {
                    continue;
                }
                for point in sampled(curve) {
                    let inside = (point.x - centre.x).abs() < BOX.width / 2.0 - 0.5
                        && (point.y - centre.y).abs() < BOX.height / 2.0 - 0.5;
                    assert!(!inside, "{from}→{to} crosses box {at} at {point:?}");
                }
            }
        }
    }

    fn sampled(curve: &Curve) -> Vec<Point> {
        let mut out = Vec::new();
        for piece in curve.points.windows(4).step_by(3) {
            for step in 0..=20 {
                let t = f64::from(step) / 20.0;
                let s = 1.0 - t;
                let at = |f: fn(&Point) -> f64| {
                    s * s * s * f(&piece[0])
                        + 3.0 * s * s * t * f(&piece[1])
                        + 3.0 * s * t * t * f(&piece[2])
                        + t * t * t * f(&piece[3])
                };
                out.push(Point { x: at(|p| p.x), y: at(|p| p.y) });
            }
        }
        out
    }
}
