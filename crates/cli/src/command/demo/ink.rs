//! Text in colours, line by line: all that a picture needs.

/// How a piece of text looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ink {
    /// Of the 256 that terminals have.
    pub(crate) color: Option<u8>,
    /// Black on the colour, instead of the colour on black.
    pub(crate) inverse: bool,
    pub(crate) bold: bool,
}

impl Ink {
    pub(crate) const PLAIN: Self = Self { color: None, inverse: false, bold: false };
    pub(crate) const BOLD: Self = Self { bold: true, ..Self::PLAIN };
    pub(crate) const DIM: Self = Self::of(244);
    pub(crate) const GREEN: Self = Self::of(77);
    pub(crate) const YELLOW: Self = Self::of(220);
    pub(crate) const RED: Self = Self::of(203);
    pub(crate) const CYAN: Self = Self::of(51);
    pub(crate) const MAGENTA: Self = Self::of(213);

    pub(crate) const fn of(color: u8) -> Self {
        Self { color: Some(color), ..Self::PLAIN }
    }

    pub(crate) const fn bold(self) -> Self {
        Self { bold: true, ..self }
    }

    pub(crate) const fn inverse(self) -> Self {
        Self { inverse: true, ..self }
    }

    fn code(self, colored: bool) -> String {
        let mut codes = vec!["0".to_owned()];
        if self.bold {
            codes.push("1".into());
        }
        match self.color.filter(|_| colored) {
            Some(color) if self.inverse => codes.push(format!("30;48;5;{color}")),
            Some(color) => codes.push(format!("38;5;{color}")),
            None if self.inverse => codes.push("7".into()),
            None => {}
        }
        codes.join(";")
    }
}

/// A line of text in several inks.
#[derive(Clone, Debug, Default)]
pub(crate) struct Row(Vec<(Ink, String)>);

impl Row {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn add(&mut self, ink: Ink, text: impl Into<String>) -> &mut Self {
        self.0.push((ink, text.into()));
        self
    }

    pub(crate) fn append(&mut self, mut other: Self) -> &mut Self {
        self.0.append(&mut other.0);
        self
    }

    /// Blanks up to this column.
    pub(crate) fn pad(&mut self, column: usize) -> &mut Self {
        let missing = column.saturating_sub(self.width());
        self.add(Ink::PLAIN, " ".repeat(missing))
    }

    /// Every character that we draw takes one column.
    pub(crate) fn width(&self) -> usize {
        self.0.iter().map(|(_, text)| text.chars().count()).sum()
    }

    /// No longer than this.
    pub(crate) fn cut(&mut self, mut columns: usize) -> &mut Self {
        for (_, text) in &mut self.0 {
            if let Some((end, _)) = text.char_indices().nth(columns) {
                text.truncate(end);
            }
            columns -= text.chars().count();
        }
        self
    }

    /// Without any ink.
    #[cfg(test)]
    pub(crate) fn text(&self) -> String {
        self.0.iter().map(|(_, text)| text.as_str()).collect()
    }

    /// With the codes that a terminal understands.
    pub(crate) fn encode(&self, colored: bool) -> String {
        let pieces = self.0.iter().filter(|(_, text)| !text.is_empty());
        pieces.map(|(ink, text)| format!("\x1b[{}m{text}", ink.code(colored))).chain(["\x1b[0m".to_owned()]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_cut_and_padded_by_columns() {
        let mut row = Row::new();
        row.add(Ink::PLAIN, "ab").add(Ink::GREEN, "░░░").add(Ink::BOLD, "cd");
        assert_eq!(row.cut(4).encode(false), "\x1b[0mab\x1b[0m░░\x1b[0m");
        assert_eq!(row.pad(6).width(), 6);
        assert_eq!(row.cut(9).width(), 6);
    }

    #[test]
    fn without_colours_a_badge_can_still_be_seen() {
        let mut row = Row::new();
        row.add(Ink::RED.inverse().bold(), "w1");
        assert_eq!(row.encode(false), "\x1b[0;1;7mw1\x1b[0m");
        assert_eq!(row.encode(true), "\x1b[0;1;30;48;5;203mw1\x1b[0m");
    }
}
