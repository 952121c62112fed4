//! Draws an SVG plot of the growth of a figure, and describes it in a sentence.

use std::fmt::Write;

use super::markdown::{label, number};
use super::{CaseResult, ContenderResult, Summary};

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 360.0;
/// Left, right, top and bottom of the plot area.
const FRAME: [f64; 4] = [70.0, 594.0, 40.0, 310.0];
const COLOURS: [&str; 2] = ["#2563eb", "#dc2626"];
/// An axis is logarithmic if the largest value divided by the smallest value is greater than this.
const LOGARITHMIC_FROM: f64 = 20.0;

/// One line of the plot.
struct Line {
    name: &'static str,
    /// The number with which a contender's name begins, and the contender's figure.
    points: Vec<(f64, Summary)>,
}

/// The plot of a case whose contenders differ in a number, such as the number of callers. `None` for other cases.
pub(super) fn plot(case: &CaseResult) -> Option<String> {
    let axis = case.axis.as_ref()?;
    let lines = lines(case);
    let points = || lines.iter().flat_map(|line| &line.points);
    let x_scale = Scale::new(points().map(|(at, _)| *at), FRAME[0], FRAME[1])?;
    let y_scale = Scale::new(points().flat_map(|(_, value)| [value.low, value.high]), FRAME[3], FRAME[2])?;
    // The plot has a white background, so that it is readable on dark pages.
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" \
         font-size=\"13\" fill=\"#222\">\n<title>{}</title>\n<rect width=\"{WIDTH}\" height=\"{HEIGHT}\" rx=\"6\" \
         fill=\"white\"/>\n",
        case.title
    );
    let middle = f64::midpoint(FRAME[0], FRAME[1]);
    let _ = writeln!(svg, "<text x=\"{middle}\" y=\"{}\" text-anchor=\"middle\">{axis}</text>", HEIGHT - 12.0);
    let _ = writeln!(svg, "<text x=\"12\" y=\"24\">{}</text>", label(&case.figure));
    for (value, x) in x_scale.ticks() {
        let (top, bottom) = (FRAME[2], FRAME[3]);
        let _ = writeln!(svg, "<path d=\"M{x:.1} {top}V{bottom}\" stroke=\"#ddd\"/>");
        let y = bottom + 18.0;
        let _ = writeln!(svg, "<text x=\"{x:.1}\" y=\"{y}\" text-anchor=\"middle\">{}</text>", tick_label(value));
    }
    for (value, y) in y_scale.ticks() {
        let (left, right) = (FRAME[0], FRAME[1]);
        let _ = writeln!(svg, "<path d=\"M{left} {y:.1}H{right}\" stroke=\"#ddd\"/>");
        let _ = writeln!(
            svg,
            "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            left - 6.0,
            y + 4.0,
            tick_label(value)
        );
    }
    for (at, (line, colour)) in lines.iter().zip(COLOURS).enumerate() {
        draw_line(&mut svg, line, colour, &x_scale, &y_scale);
        if lines.len() > 1 {
            let x = FRAME[1] - 70.0 * (lines.len() - at - 1) as f64;
            let _ =
                writeln!(svg, "<text x=\"{x}\" y=\"24\" text-anchor=\"end\" fill=\"{colour}\">{}</text>", line.name);
        }
    }
    svg.push_str("</svg>\n");
    Some(svg)
}

/// Draws the median, the lowest and the highest value of every point.
fn draw_line(svg: &mut String, line: &Line, colour: &str, x_scale: &Scale, y_scale: &Scale) {
    let mut path = String::new();
    for (at, value) in &line.points {
        let (x, y) = (x_scale.place(*at), y_scale.place(value.median));
        let _ = write!(path, "{}{x:.1} {y:.1}", if path.is_empty() { "M" } else { "L" });
        let (low, high) = (y_scale.place(value.low), y_scale.place(value.high));
        let _ = writeln!(svg, "<path d=\"M{x:.1} {low:.1}V{high:.1}\" stroke=\"{colour}\"/>");
        let _ = writeln!(svg, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{colour}\"/>");
    }
    let _ = writeln!(svg, "<path d=\"{path}\" fill=\"none\" stroke=\"{colour}\"/>");
}

/// Describes how the figure changes from the first point of each line to the last, with the exponent of a fitted power law.
pub(super) fn describe_growth(case: &CaseResult) -> String {
    let axis = case.axis.as_deref().unwrap_or_default();
    let lines = lines(case);
    let mut sentences = Vec::new();
    for line in &lines {
        let (Some((from, first)), Some((to, last))) = (line.points.first(), line.points.last()) else {
            continue;
        };
        let name = if lines.len() > 1 { format!("{}: from", line.name) } else { "From".into() };
        let exponent = fitted_exponent(&line.points);
        let kind = match exponent.abs() {
            none if none < 0.05 => "constant",
            little if little < 0.1 => "nearly constant",
            less if less < 0.9 => "sublinear",
            same if same < 1.1 => "linear",
            _ => "superlinear",
        };
        sentences.push(format!(
            "{name} {} to {} {axis}, {} change from {} to {} ({} times). A power law fitted to all points has the exponent \
             {exponent:.2}: {kind}.",
            tick_label(*from),
            tick_label(*to),
            label(&case.figure),
            number(first.median),
            number(last.median),
            number(last.median / first.median),
        ));
    }
    sentences.join(" ")
}

/// The slope of the least-squares line through the logarithms of all points.
fn fitted_exponent(points: &[(f64, Summary)]) -> f64 {
    let all: Vec<(f64, f64)> = points.iter().map(|(at, value)| (at.ln(), value.median.ln())).collect();
    let count = all.len() as f64;
    let (x_mean, y_mean) = all.iter().fold((0.0, 0.0), |(x, y), point| (x + point.0 / count, y + point.1 / count));
    let (mut covariance, mut variance) = (0.0, 0.0);
    for (x, y) in all {
        covariance += (x - x_mean) * (y - y_mean);
        variance += (x - x_mean).powi(2);
    }
    if variance > 0.0 { covariance / variance } else { 0.0 }
}

fn lines(case: &CaseResult) -> Vec<Line> {
    let points = |fenced: bool| {
        let is_on_line = move |contender: &&ContenderResult| contender.name.ends_with("fenced") == fenced;
        case.contenders.iter().filter(is_on_line).filter_map(|contender| {
            let at = contender.name.split(' ').next()?.parse().ok()?;
            Some((at, Summary::of(contender.turns(&case.figure).iter().copied())?))
        })
    };
    let line = |name, fenced| Line { name, points: points(fenced).collect() };
    [line("Plain", false), line("Fenced", true)].into_iter().filter(|line| !line.points.is_empty()).collect()
}

/// Maps values to positions. The scale is logarithmic if the values are far apart, and otherwise linear from zero.
struct Scale {
    /// The values at both ends of the scale, or their logarithms.
    from: f64,
    to: f64,
    /// The positions of both ends of the scale.
    begin: f64,
    end: f64,
    is_logarithmic: bool,
}

impl Scale {
    /// Creates a scale for these values. `None` without a value above zero.
    fn new(values: impl Iterator<Item = f64>, begin: f64, end: f64) -> Option<Self> {
        let values: Vec<f64> = values.filter(|value| *value > 0.0).collect();
        let lowest = values.iter().copied().reduce(f64::min)?;
        let highest = values.iter().copied().reduce(f64::max)?;
        let is_logarithmic = highest / lowest > LOGARITHMIC_FROM;
        let (from, to) = if is_logarithmic {
            (lowest.log10().floor(), highest.log10().ceil())
        } else {
            let step = step(highest);
            (0.0, (highest / step).ceil() * step)
        };
        Some(Self { from, to, begin, end, is_logarithmic })
    }

    fn place(&self, value: f64) -> f64 {
        let value = if self.is_logarithmic { value.log10() } else { value };
        self.begin + (value - self.from) / (self.to - self.from) * (self.end - self.begin)
    }

    /// The tick marks: every power of ten on a logarithmic scale, four to ten on a linear scale.
    fn ticks(&self) -> impl Iterator<Item = (f64, f64)> {
        let step = if self.is_logarithmic { 1.0 } else { step(self.to) };
        let count = ((self.to - self.from) / step).round() as usize;
        (0..=count).map(move |at| {
            let value = self.from + at as f64 * step;
            let value = if self.is_logarithmic { 10_f64.powf(value) } else { value };
            (value, self.place(value))
        })
    }
}

/// A step of 1, 2 or 5 times a power of ten that gives four to ten ticks.
fn step(highest: f64) -> f64 {
    let power = 10_f64.powf(highest.log10().floor());
    match highest / power {
        low if low <= 2.0 => power / 5.0,
        middle if middle <= 5.0 => power / 2.0,
        _ => power,
    }
}

/// The text at a tick mark.
fn tick_label(value: f64) -> String {
    if value >= 1_000.0 { number(value) } else { format!("{}", (value * 100.0).round() / 100.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scale_of_distant_values_spaces_powers_of_ten_evenly() {
        let scale = Scale::new([20.0, 3_000.0].into_iter(), 0.0, 300.0).unwrap();
        let ticks: Vec<(f64, f64)> = scale.ticks().map(|(value, place)| (value.round(), place.round())).collect();
        assert_eq!(ticks, [(10.0, 0.0), (100.0, 100.0), (1_000.0, 200.0), (10_000.0, 300.0)]);
        assert!(Scale::new([0.0].into_iter(), 0.0, 1.0).is_none());
    }

    #[test]
    fn a_scale_of_close_values_begins_at_zero() {
        let scale = Scale::new([1.0, 9.0].into_iter(), 0.0, 90.0).unwrap();
        assert_eq!(scale.ticks().last(), Some((9.0, 90.0)));
        assert_eq!(scale.place(3.0).round().to_string(), "30");
        let scale = Scale::new([150.0, 420.0].into_iter(), 0.0, 90.0).unwrap();
        assert_eq!(scale.ticks().map(|(value, _)| value).last(), Some(450.0));
    }

    #[test]
    fn a_power_law_is_fitted_to_all_points() {
        let point = |at: f64, median: f64| (at, Summary { median, low: median, high: median });
        assert_eq!(fitted_exponent(&[point(1.0, 3.0), point(10.0, 30.0), point(100.0, 300.0)]).to_string(), "1");
        assert_eq!(fitted_exponent(&[point(1.0, 3.0), point(10.0, 3.0)]).to_string(), "0");
        assert_eq!(fitted_exponent(&[point(1.0, 3.0)]).to_string(), "0");
    }
}
