//! What every benchmark can be asked.

/// How much to measure, and how to print it.
#[derive(clap::Args)]
pub(crate) struct TurnArgs {
    /// How often every case takes its turn.
    #[arg(long, default_value_t = 5)]
    pub(crate) turns: usize,
    /// How many measurements of each kind make up a turn.
    #[arg(long, default_value_t = 100)]
    pub(crate) each: usize,
    /// Print JSON rather than a table.
    #[arg(long)]
    pub(crate) json: bool,
}
