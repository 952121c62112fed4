//! `quorlock demo`: watch it survive, with nothing to install.

mod checker;
mod dice;
mod ink;
mod plan;
mod scene;
mod screen;
mod terminal;
mod world;

use std::io::{self, IsTerminal};
use std::time::Duration;

use clap::Args;
use serde::Serialize;
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval};

use crate::Outcome;
use crate::context::Context;
use crate::exit::{Exit, Failure};
use crate::output::{Output, Paint};
use crate::signals::Signals;
use crate::table::Table;
use checker::Findings;
pub(crate) use dice::Dice;
use plan::{Act, Deed, plan};
use scene::{Line, Scene, Tone};
use screen::{Titles, picture};
use terminal::Terminal;
use world::{News, World};

const NODES: usize = 5;
const WORKERS: usize = 12;
const NAMES: [&str; 3] = ["deploy", "report", "invoices/42"];
/// Short constants, so that a quarantine can be watched from its beginning to its end.
const TTL: Duration = Duration::from_secs(1);
const MAX_TTL: Duration = Duration::from_secs(3);
const MAX_CLOCK_SKEW: Duration = Duration::from_secs(1);
const MAX_CLOCK_STEP_BACK: Duration = Duration::from_secs(1);
/// The longest ttl and a tenth.
const QUARANTINE: Duration = Duration::from_millis(3_300);
/// How often the picture is drawn.
const FRAME: Duration = Duration::from_millis(80);
/// Typed by those who have seen enough.
const QUIT: u8 = b'q';
/// How many violations are told in words.
const VIOLATIONS_SHOWN: usize = 10;

/// Watch locks survive crashes, freezes and cuts, with nothing to install.
///
/// Twelve workers want three names on five nodes, all in this process. Nodes are frozen, cut off, and restarted with an
/// empty memory; now and then a majority stops. At the end a checker looks at the whole history: that no two leases of a
/// name were valid at a time, and that fences only grew.
#[derive(Args, Debug)]
#[command(after_help = "\
Exit codes:
  0 nothing was violated   70 the checker found something   130/143 interrupted

Example:
  quorlock demo --seconds 60 --seed 7")]
pub(crate) struct DemoArgs {
    /// How long it runs.
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: u64,

    /// Decides what the workers want and what is done to the nodes [default: a random one].
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
}

/// Runs the demonstration, shows it, and says what the checker found.
pub(crate) async fn demo(context: &Context, args: DemoArgs) -> Outcome {
    let output = context.output;
    let (seed, length) = (args.seed.unwrap_or_else(Dice::any_seed), Duration::from_secs(args.seconds));
    let plan = plan(seed, length);
    let (tell, news) = mpsc::unbounded_channel();
    let world = World::start(seed, plan.clone(), &tell).await?;
    drop(tell);
    let titles = Titles { seed, length };
    let mut show = Show { scene: Scene::new(), titles, output, lines: false };
    let ended = if output.json {
        output.note(format_args!("the demonstration takes {} s, with seed {seed}", args.seconds));
        show.run(world, news, None).await?
    } else if io::stdout().is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb") {
        let (keys, typed) = mpsc::unbounded_channel();
        let terminal = Terminal::open(keys).map_err(undrawn)?;
        show.run(world, news, Some((terminal, typed))).await?
    } else {
        show.lines = true;
        show.run(world, news, None).await?
    };
    let findings = &show.scene.findings;
    if output.json {
        let done = Report { seed, seconds: args.seconds, nodes: NODES, workers: WORKERS, findings, plan: &plan };
        output.json(&done)?;
    } else {
        report(output, seed, &show.scene)?;
    }
    Ok(exit(findings, ended))
}

/// What must not be comes before everything else.
fn exit(findings: &Findings, signal: Option<i32>) -> Exit {
    match signal {
        _ if !findings.is_good() => Exit::INTERNAL,
        Some(signal) => Exit::signal(signal),
        None => Exit::OK,
    }
}

/// What `--json` prints.
#[derive(Serialize)]
struct Report<'a> {
    seed: u64,
    seconds: u64,
    nodes: usize,
    workers: usize,
    #[serde(flatten)]
    findings: &'a Findings,
    plan: &'a [Deed],
}

/// The scene, and how it is shown.
struct Show {
    scene: Scene,
    titles: Titles,
    output: Output,
    lines: bool,
}

type Drawn = (Terminal, mpsc::UnboundedReceiver<u8>);

impl Show {
    /// Runs to the end. A signal's number if that came first.
    async fn run(
        &mut self,
        world: World,
        mut news: mpsc::UnboundedReceiver<News>,
        mut drawn: Option<Drawn>,
    ) -> Result<Option<i32>, Failure> {
        let mut signals = Signals::listen()?;
        let mut frames = interval(FRAME);
        frames.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let mut ended = None;
        while world.age() < self.titles.length {
            tokio::select! {
                Some(news) = news.recv() => self.take(news, world.age())?,
                _ = frames.tick() => self.draw(&mut drawn, world.age()).map_err(undrawn)?,
                key = typed(&mut drawn) => if key == QUIT { break },
                signal = signals.next_fatal() => {
                    ended = Some(signal.as_raw());
                    break;
                }
            }
        }
        let age = world.age();
        world.end().await;
        while let Ok(news) = news.try_recv() {
            self.take(news, age)?;
        }
        Ok(ended)
    }

    fn draw(&self, drawn: &mut Option<Drawn>, age: Duration) -> io::Result<()> {
        let Some((terminal, _)) = drawn else { return Ok(()) };
        let rows = picture(&self.scene, self.titles, age, Terminal::size());
        terminal.draw(&rows, self.output.is_colored())
    }

    fn take(&mut self, news: News, now: Duration) -> Result<(), Failure> {
        for line in self.scene.take(news, now) {
            if self.lines {
                self.print(&line)?;
            }
        }
        Ok(())
    }

    fn print(&self, line: &Line) -> Result<(), Failure> {
        let at = self.output.paint(Paint::Dim, format_args!("{:7.3}", line.at.as_secs_f64()));
        let text = match line.tone {
            Tone::Usual => line.text.clone(),
            Tone::Good => self.output.paint(Paint::Good, &line.text),
            Tone::Bad => self.output.paint(Paint::Bad, &line.text),
        };
        self.output.line(format_args!("{at}  {text}"))
    }
}

#[expect(clippy::needless_pass_by_value, reason = "it is given to map_err")]
fn undrawn(error: io::Error) -> Failure {
    Failure::internal(format!("cannot draw: {error}"))
}

/// The next key that is typed; never, without a keyboard.
async fn typed(drawn: &mut Option<Drawn>) -> u8 {
    if let Some((_, keys)) = drawn
        && let Some(key) = keys.recv().await
    {
        return key;
    }
    std::future::pending().await
}

/// What came of it, for people.
fn report(output: Output, seed: u64, scene: &Scene) -> Result<(), Failure> {
    let findings = &scene.findings;
    let count = |act: Act| scene.deeds.iter().filter(|deed| deed.act == act).count();
    output.line(format_args!(
        "seed {seed}: {WORKERS} workers, {} names, {NODES} nodes; crashes {}, freezes {}, cuts {}\n",
        NAMES.len(),
        count(Act::Crash),
        count(Act::Freeze),
        count(Act::CutOff),
    ))?;
    let mut table = Table::new(["NAME", "GRANTS", "LOST", "OVERLAPS", "FENCES", "LAST FENCE"]);
    for name in &findings.names {
        let fences = if name.fences_increasing { "increasing" } else { "OUT OF ORDER" };
        table.row([
            name.name.clone(),
            name.grants.to_string(),
            name.losses.to_string(),
            name.overlaps.to_string(),
            fences.into(),
            name.last_fence.map_or_else(|| "-".into(), |fence| fence.to_string()),
        ]);
    }
    table.print(output)?;
    for violation in findings.violations.iter().take(VIOLATIONS_SHOWN) {
        output.line(output.paint(Paint::Bad, violation))?;
    }
    let verdict = if findings.is_good() {
        output.paint(Paint::Good, format_args!("✓ {findings}"))
    } else {
        output.paint(Paint::Bad, format_args!("✗ VIOLATED: {findings}"))
    };
    output.line(format_args!("\n{verdict}"))
}

#[cfg(test)]
mod tests {
    use super::checker::{End, Turn};
    use super::*;

    #[test]
    fn a_violation_is_not_forgotten_over_an_interrupt() {
        let turn = |fence: u64, from: u64, until: u64| Turn {
            name: NAMES[0].into(),
            holder: world::title(fence as usize),
            fence,
            from: Duration::from_millis(from),
            until: Duration::from_millis(until),
            end: End::Released,
        };
        let good = Findings::of(&NAMES, &[turn(1, 0, 10), turn(2, 10, 20)]);
        let bad = Findings::of(&NAMES, &[turn(1, 0, 11), turn(2, 10, 20)]);
        assert_eq!([exit(&good, None), exit(&good, Some(2))], [Exit::OK, Exit(130)]);
        assert_eq!([exit(&bad, None), exit(&bad, Some(2))], [Exit::INTERNAL; 2]);
    }
}
