//! Patterns for names: `*` matches any text, `?` any one character.

/// A pattern: its literal prefix, and the rest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Glob {
    beginning: String,
    rest: String,
}

impl Glob {
    pub(super) fn new(pattern: &str) -> Self {
        let (beginning, rest) = pattern.split_at(pattern.find(['*', '?']).unwrap_or(pattern.len()));
        Self { beginning: beginning.into(), rest: rest.into() }
    }

    /// Matches every name with this prefix, in which stars and question marks are ordinary characters.
    pub(super) fn beginning_with(beginning: &str) -> Self {
        Self { beginning: beginning.into(), rest: "*".into() }
    }

    /// Returns the prefix that every matching name has.
    pub(super) fn beginning(&self) -> &str {
        &self.beginning
    }

    pub(super) fn fits(&self, name: &str) -> bool {
        let Some(behind) = name.strip_prefix(&self.beginning) else { return false };
        let (mut pattern, mut rest) = (self.rest.as_str(), behind);
        // The pattern after the last star, and the text that the star has not matched yet. When the rest fails to match,
        // the star takes one more character.
        let mut star: Option<(&str, &str)> = None;
        loop {
            let (mut letters, mut wanted) = (rest.chars(), pattern.chars());
            match (letters.next(), wanted.next()) {
                (_, Some('*')) => {
                    pattern = wanted.as_str();
                    star = Some((pattern, rest));
                    continue;
                }
                (None, None) => return true,
                (Some(letter), Some(wants)) if wants == '?' || wants == letter => {
                    (rest, pattern) = (letters.as_str(), wanted.as_str());
                    continue;
                }
                _ => {}
            }
            let Some((behind, swallowed)) = star else { return false };
            let mut letters = swallowed.chars();
            if letters.next().is_none() {
                return false;
            }
            (pattern, rest) = (behind, letters.as_str());
            star = Some((behind, rest));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Matches by the definition, in exponential time.
    fn fits_slowly(pattern: &[char], name: &[char]) -> bool {
        match (pattern, name) {
            ([], []) => true,
            (['*', rest @ ..], _) => (0..=name.len()).any(|taken| fits_slowly(rest, &name[taken..])),
            (['?', pattern @ ..], [_, name @ ..]) => fits_slowly(pattern, name),
            ([wants, pattern @ ..], [letter, name @ ..]) => wants == letter && fits_slowly(pattern, name),
            _ => false,
        }
    }

    #[test]
    fn stars_and_question_marks_stand_for_letters() {
        for (pattern, name, fits) in [
            ("*", "", true),
            ("*", "anything at all", true),
            ("a", "a", true),
            ("a", "ab", false),
            ("invoices/*", "invoices/42", true),
            ("invoices/*", "orders/42", false),
            ("*/42", "invoices/42", true),
            ("?", "\u{9501}", true),
            ("?", "", false),
            ("a?c", "abc", true),
            ("*a*b", "xaxab", true),
            ("[a]", "a", false),
            ("", "a", false),
        ] {
            assert_eq!(Glob::new(pattern).fits(name), fits, "{pattern} {name}");
        }
    }

    #[test]
    fn a_beginning_stands_for_itself() {
        let glob = Glob::beginning_with("a*?");
        assert_eq!(["a*?", "a*?b", "abc", "a*"].map(|name| glob.fits(name)), [true, true, false, false]);
        assert_eq!(glob.beginning(), "a*?");
    }

    #[test]
    fn a_pattern_of_many_stars_takes_no_longer() {
        let pattern = "*a".repeat(100);
        assert!(!Glob::new(&format!("{pattern}b")).fits(&"a".repeat(512)));
    }

    proptest! {
        #[test]
        fn it_fits_what_the_definition_fits(pattern in "[ab\u{e9}*?]{0,8}", name in "[ab\u{e9}]{0,8}") {
            let letters = |text: &str| text.chars().collect::<Vec<_>>();
            let glob = Glob::new(&pattern);
            prop_assert_eq!(glob.fits(&name), fits_slowly(&letters(&pattern), &letters(&name)));
            prop_assert!(!glob.fits(&name) || name.starts_with(glob.beginning()));
        }
    }
}
