//! Patterns for names: `*` matches any text, `?` matches any single character.

/// A pattern, split at the first `*` or `?`: the literal prefix, and the rest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Glob {
    prefix: String,
    rest: String,
}

impl Glob {
    pub(super) fn new(pattern: &str) -> Self {
        let (prefix, rest) = pattern.split_at(pattern.find(['*', '?']).unwrap_or(pattern.len()));
        Self { prefix: prefix.into(), rest: rest.into() }
    }

    /// Returns a pattern for all names with this prefix. Stars and question marks in the prefix are ordinary
    /// characters.
    pub(super) fn beginning_with(prefix: &str) -> Self {
        Self { prefix: prefix.into(), rest: "*".into() }
    }

    /// Returns the prefix that every matching name has.
    pub(super) fn prefix(&self) -> &str {
        &self.prefix
    }

    pub(super) fn matches(&self, name: &str) -> bool {
        let Some(mut text) = name.strip_prefix(&self.prefix) else { return false };
        let mut pattern = self.rest.as_str();
        // The pattern after the last star, and the text that the star has not matched yet. When this pattern does not
        // match the text, the star matches one more character.
        let mut star: Option<(&str, &str)> = None;
        loop {
            let (mut text_chars, mut pattern_chars) = (text.chars(), pattern.chars());
            match (text_chars.next(), pattern_chars.next()) {
                (_, Some('*')) => {
                    pattern = pattern_chars.as_str();
                    star = Some((pattern, text));
                    continue;
                }
                (None, None) => return true,
                (Some(actual), Some(expected)) if expected == '?' || expected == actual => {
                    (text, pattern) = (text_chars.as_str(), pattern_chars.as_str());
                    continue;
                }
                _ => {}
            }
            let Some((after_star, unmatched)) = star else { return false };
            let mut unmatched = unmatched.chars();
            if unmatched.next().is_none() {
                return false;
            }
            (pattern, text) = (after_star, unmatched.as_str());
            star = Some((after_star, text));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Matches by the definition, in exponential time.
    fn matches_slowly(pattern: &[char], name: &[char]) -> bool {
        match (pattern, name) {
            ([], []) => true,
            (['*', pattern @ ..], _) => (0..=name.len()).any(|matched| matches_slowly(pattern, &name[matched..])),
            (['?', pattern @ ..], [_, name @ ..]) => matches_slowly(pattern, name),
            ([expected, pattern @ ..], [actual, name @ ..]) => expected == actual && matches_slowly(pattern, name),
            _ => false,
        }
    }

    #[test]
    fn a_star_matches_any_text_and_a_question_mark_any_single_character() {
        for (pattern, name, matches) in [
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
            assert_eq!(Glob::new(pattern).matches(name), matches, "{pattern} {name}");
        }
    }

    #[test]
    fn stars_and_question_marks_in_a_prefix_match_only_themselves() {
        let glob = Glob::beginning_with("a*?");
        assert_eq!(["a*?", "a*?b", "abc", "a*"].map(|name| glob.matches(name)), [true, true, false, false]);
        assert_eq!(glob.prefix(), "a*?");
    }

    #[test]
    fn a_pattern_with_many_stars_does_not_take_exponential_time() {
        let pattern = "*a".repeat(100);
        assert!(!Glob::new(&format!("{pattern}b")).matches(&"a".repeat(512)));
    }

    proptest! {
        #[test]
        fn a_pattern_matches_the_same_names_as_by_the_definition(
            pattern in "[ab\u{e9}*?]{0,8}",
            name in "[ab\u{e9}]{0,8}",
        ) {
            let chars = |text: &str| text.chars().collect::<Vec<_>>();
            let glob = Glob::new(&pattern);
            prop_assert_eq!(glob.matches(&name), matches_slowly(&chars(&pattern), &chars(&name)));
            prop_assert!(!glob.matches(&name) || name.starts_with(glob.prefix()));
        }
    }
}
