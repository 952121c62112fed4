//! How a figure grows, drawn as SVG: both axes by powers of ten.

use std::fmt::Write;

use super::markdown::{label, number};
use super::{Contending, Measured, Ratio};

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 360.0;
/// Left, right, top and bottom of what is drawn.
const FRAME: [f64; 4] = [70.0, 620.0, 40.0, 310.0];
const COLOURS: [&str; 2] = ["#2563eb", "#dc2626"];

/// One line of the picture: its name, and for each point how far along and what was read.
struct Line {
    name: &'static str,
    points: Vec<(f64, Ratio)>,
}

/// The picture of a case whose contenders differ in a number.
pub(super) fn plot(case: &Measured) -> Option<String> {
    let axis = case.axis.as_ref()?;
    let lines = lines(case);
    let points = || lines.iter().flat_map(|line| &line.points);
    let across = Scale::new(points().map(|(at, _)| *at), FRAME[0], FRAME[1])?;
    let up = Scale::new(points().flat_map(|(_, value)| [value.low, value.high]), FRAME[3], FRAME[2])?;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" \
         font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    let middle = f64::midpoint(FRAME[0], FRAME[1]);
    let _ = writeln!(svg, "<text x=\"{middle}\" y=\"{}\" text-anchor=\"middle\">{axis}</text>", HEIGHT - 10.0);
    let _ = writeln!(svg, "<text x=\"10\" y=\"20\">{}</text>", label(&case.figure));
    for (value, x) in across.ticks() {
        let (top, bottom) = (FRAME[2], FRAME[3]);
        let _ = writeln!(svg, "<path d=\"M{x:.1} {top}V{bottom}\" stroke=\"#ddd\"/>");
        let y = bottom + 18.0;
        let _ = writeln!(svg, "<text x=\"{x:.1}\" y=\"{y}\" text-anchor=\"middle\">{}</text>", tick(value));
    }
    for (value, y) in up.ticks() {
        let (left, right) = (FRAME[0], FRAME[1]);
        let _ = writeln!(svg, "<path d=\"M{left} {y:.1}H{right}\" stroke=\"#ddd\"/>");
        let _ =
            writeln!(svg, "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>", left - 6.0, y + 4.0, tick(value));
    }
    for (at, (line, colour)) in lines.iter().zip(COLOURS).enumerate() {
        draw(&mut svg, line, colour, &across, &up);
        let x = FRAME[1] - 70.0 * (lines.len() - at) as f64;
        let _ = writeln!(svg, "<text x=\"{x}\" y=\"20\" fill=\"{colour}\">{}</text>", line.name);
    }
    svg.push_str("</svg>\n");
    Some(svg)
}

/// Middle, lowest and highest of every point.
fn draw(svg: &mut String, line: &Line, colour: &str, across: &Scale, up: &Scale) {
    let mut path = String::new();
    for (at, value) in &line.points {
        let (x, y) = (across.place(*at), up.place(value.median));
        let _ = write!(path, "{}{x:.1} {y:.1}", if path.is_empty() { "M" } else { "L" });
        let (low, high) = (up.place(value.low), up.place(value.high));
        let _ = writeln!(svg, "<path d=\"M{x:.1} {low:.1}V{high:.1}\" stroke=\"{colour}\"/>");
        let _ = writeln!(svg, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{colour}\"/>");
    }
    let _ = writeln!(svg, "<path d=\"{path}\" fill=\"none\" stroke=\"{colour}\"/>");
}

/// What the picture says: how much the figure changes from one end to the other.
pub(super) fn in_words(case: &Measured) -> String {
    let axis = case.axis.as_deref().unwrap_or_default();
    let mut text = String::new();
    for line in lines(case) {
        let (Some((from, first)), Some((to, last))) = (line.points.first(), line.points.last()) else {
            continue;
        };
        let (change, more) = (last.median / first.median, to / from);
        let kind = match change.ln() / more.ln() {
            growth if growth.abs() < 0.1 => "it hardly depends on it",
            growth if growth.abs() < 0.9 => "it changes by less than that",
            growth if growth.abs() < 1.1 => "it changes with it",
            _ => "it changes by more than that",
        };
        let _ = write!(
            text,
            "{}: from {} to {} {axis} ({} times as many), {} becomes {} times what it was: {kind}. ",
            line.name,
            tick(*from),
            tick(*to),
            number(more),
            label(&case.figure),
            number(change)
        );
    }
    text.trim_end().to_owned()
}

fn lines(case: &Measured) -> Vec<Line> {
    let points = |fenced: bool| {
        let of = move |contender: &&Contending| contender.name.ends_with("fenced") == fenced;
        case.contenders.iter().filter(of).filter_map(|contender| {
            let at = contender.name.split(' ').next()?.parse().ok()?;
            Some((at, Ratio::of(contender.turns(&case.figure).iter().copied())?))
        })
    };
    let line = |name, fenced| Line { name, points: points(fenced).collect() };
    [line("plain", false), line("fenced", true)].into_iter().filter(|line| !line.points.is_empty()).collect()
}

/// From a range of values to one of places, by powers of ten.
struct Scale {
    from: f64,
    to: f64,
    begin: f64,
    end: f64,
}

impl Scale {
    /// `None` without a value above zero.
    fn new(values: impl Iterator<Item = f64>, begin: f64, end: f64) -> Option<Self> {
        let values: Vec<f64> = values.filter(|value| *value > 0.0).map(f64::log10).collect();
        let from = values.iter().copied().reduce(f64::min)?.floor();
        let to = values.iter().copied().reduce(f64::max)?.ceil().max(from + 1.0);
        Some(Self { from, to, begin, end })
    }

    fn place(&self, value: f64) -> f64 {
        self.begin + (value.log10() - self.from) / (self.to - self.from) * (self.end - self.begin)
    }

    /// Every power of ten.
    fn ticks(&self) -> impl Iterator<Item = (f64, f64)> {
        (self.from as i32..=self.to as i32).map(|power| {
            let value = 10_f64.powi(power);
            (value, self.place(value))
        })
    }
}

/// As short as it goes.
fn tick(value: f64) -> String {
    if value >= 1_000.0 { number(value) } else { value.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_of_ten_are_evenly_apart() {
        let scale = Scale::new([20.0, 3_000.0].into_iter(), 0.0, 300.0).unwrap();
        let ticks: Vec<(f64, f64)> = scale.ticks().collect();
        assert_eq!(ticks, [(10.0, 0.0), (100.0, 100.0), (1_000.0, 200.0), (10_000.0, 300.0)]);
        assert!(Scale::new([0.0].into_iter(), 0.0, 1.0).is_none());
    }
}
