//! Tables for people, and lines that fit on a terminal.

use crate::exit::Outcome;
use crate::output::{Output, Paint};

/// A text, and its colour.
pub(crate) type Cell = (String, Option<Paint>);

/// Rows of cells under a heading, each column as wide as its widest cell.
#[derive(Debug)]
pub(crate) struct Table {
    /// The heading, and the rows below it.
    rows: Vec<Vec<Cell>>,
}

impl Table {
    /// Creates a table with these column titles and without rows.
    pub(crate) fn new(head: impl IntoIterator<Item = &'static str>) -> Self {
        let head = head.into_iter().map(|title| (title.to_owned(), Some(Paint::DIM)));
        Self { rows: vec![head.collect()] }
    }

    /// Adds a row of cells without colour.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.painted_row(cells.into_iter().map(|cell| (cell, None)));
    }

    /// Adds a row of cells, each with an optional colour.
    pub(crate) fn painted_row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        self.rows.push(cells.into_iter().map(|(cell, paint)| (one_line(&cell), paint)).collect());
    }

    /// Returns the lines, without trailing blanks.
    pub(crate) fn lines(&self, output: Output) -> Vec<String> {
        let width = |column: usize| self.rows.iter().filter_map(|row| Some(row.get(column)?.0.chars().count())).max();
        let widths: Vec<usize> = (0..).map_while(width).collect();
        let line = |row: &Vec<Cell>| {
            let mut text = String::new();
            for (column, (cell, paint)) in row.iter().enumerate() {
                text += &paint.map_or_else(|| cell.clone(), |paint| output.paint(paint, cell));
                if column + 1 < row.len() {
                    text += &" ".repeat(widths[column].saturating_sub(cell.chars().count()) + 2);
                }
            }
            text.trim_end().to_owned()
        };
        self.rows.iter().map(line).collect()
    }

    pub(crate) fn print(&self, output: Output) -> Outcome {
        output.line(self.lines(output).join("\n"))
    }
}

/// Makes an untrusted text safe to print: replaces characters that could move the cursor or break the line.
pub(crate) fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

/// Returns each character of a line, and whether the character takes a column. Characters of colour codes take none.
fn columns_of(line: &str) -> impl Iterator<Item = (char, bool)> {
    line.chars().scan(false, |in_colour, c| {
        *in_colour |= c == '\u{1b}';
        let is_shown = !*in_colour;
        *in_colour &= c != 'm';
        Some((c, is_shown))
    })
}

/// Cuts a line, which may be coloured, to this many columns.
pub(crate) fn cut_painted(line: &str, columns: usize) -> String {
    let mut width = 0;
    let kept = columns_of(line).filter(|(_, is_shown)| {
        width += usize::from(*is_shown);
        // Keep all colour codes, so that the last colour ends.
        !is_shown || width <= columns
    });
    kept.map(|(c, _)| c).collect()
}

/// Returns the number of columns of a line, which may be coloured.
pub(crate) fn width_painted(line: &str) -> usize {
    columns_of(line).filter(|(_, is_shown)| *is_shown).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut table = Table::new(["NAME", "FENCE"]);
        table.row(["backup".into(), "7".into()]);
        table.row(["a".into(), "12".into()]);
        let lines = table.lines(Output::new(false, false, false, "never"));
        assert_eq!(lines, ["NAME    FENCE", "backup  7", "a       12"]);
    }

    #[test]
    fn colours_do_not_widen_a_column() {
        let mut table = Table::new(["A", "B"]);
        table.painted_row([("up".into(), Some(Paint::GOOD)), ("x".into(), None)]);
        let lines = table.lines(Output::new(false, false, false, "always"));
        assert_eq!(lines[1], "\u{1b}[32mup\u{1b}[0m  x");
    }

    #[test]
    fn colour_codes_do_not_count_when_a_line_is_cut() {
        assert_eq!(cut_painted("abc", 5), "abc");
        assert_eq!(cut_painted("abcdef", 3), "abc");
        assert_eq!(cut_painted("a\u{1b}[31mbcd\u{1b}[0me", 2), "a\u{1b}[31mb\u{1b}[0m");
    }

    #[test]
    fn a_cell_cannot_move_the_cursor() {
        let mut table = Table::new(["A"]);
        table.row(["evil\u{1b}[2J\nname".into()]);
        assert_eq!(table.lines(Output::new(false, false, false, "never"))[1], "evil\u{fffd}[2J\u{fffd}name");
    }
}
