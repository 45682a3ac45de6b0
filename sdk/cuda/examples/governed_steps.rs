//! What capturing costs steps of 1, 10 and 50 ms with 120 device operations each: `governed_steps`, or
//! `governed_steps ROUNDS`.
//!
//! Processes of each way stay alive and take turns, one computing at a time:
//!
//! - `none`: CUPTI is not loaded.
//! - `closed`: a window was open once, and none is any more.
//! - `open`: everything is captured.
//! - `governed`: windows as a budget of 1 % of its own turns allows, with a process for each length of step.
//!
//! Prints the median step of each, what the governed one measured of its own cost, the ratio of the mean steps of a way to those of `none` over all rounds,
//! the interval in which that lies for 95 of 100 resamples of the rounds, and the share of the steps
//! that were captured.
#![allow(
    unsafe_code,
    reason = "kernels are launched without the compiler knowing their arguments"
)]

#[path = "governed_steps/job.rs"]
mod job;

use std::error::Error;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

/// Lengths of the steps, milliseconds.
const STEPS_MS: [u64; 3] = [1, 10, 50];
/// Seconds of a turn of all ways but the governed one, and of that one.
const TURN: f64 = 0.35;
const GOVERNED_TURN: f64 = 3.0;
/// What a governed job may spend of the time in which it computes.
const BUDGET_PERCENT: f64 = 1.0;

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let [serve, way] = words.as_slice()
        && serve == "serve"
    {
        return job::serve(way);
    }
    let rounds = words.first().map_or(Ok(10), |rounds| rounds.parse())?;
    compare(rounds)
}

/// A process that computes when it is asked to.
struct Job {
    child: Child,
    ask: ChildStdin,
    answers: BufReader<ChildStdout>,
}

/// The steps of one turn, milliseconds, and how many of them were captured.
#[derive(Clone, Default)]
struct Turn {
    steps: Vec<f64>,
    captured: usize,
}

impl Job {
    fn start(way: &str) -> Result<Self, Box<dyn Error>> {
        let mut command = Command::new(std::env::current_exe()?);
        command
            .args(["serve", way])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        match way {
            "closed" => command.envs([("GPUSTALL_CUDA_BUDGET", "0"), ("GPUSTALL_CUDA_WHOLE", "2")]),
            "open" => command.env("GPUSTALL_CUDA_BUDGET", "all"),
            "governed" => {
                // It saves while others compute, so it is given less.
                let share = GOVERNED_TURN / (GOVERNED_TURN + TURN);
                let budget = (BUDGET_PERCENT * share).to_string();
                command.envs([
                    ("GPUSTALL_CUDA_BUDGET", budget.as_str()),
                    ("GPUSTALL_CUDA_WHOLE", "0"),
                ])
            }
            _ => &mut command,
        };
        let mut child = command.spawn()?;
        let ask = child.stdin.take().ok_or("no stdin")?;
        let answers = BufReader::new(child.stdout.take().ok_or("no stdout")?);
        let mut job = Self {
            child,
            ask,
            answers,
        };
        job.answer()?;
        Ok(job)
    }

    fn answer(&mut self) -> Result<String, Box<dyn Error>> {
        let mut line = String::new();
        match self.answers.read_line(&mut line)? {
            0 => Err("a job ended early".into()),
            _ => Ok(line),
        }
    }

    fn turn(&mut self, ms: u64, seconds: f64) -> Result<Turn, Box<dyn Error>> {
        writeln!(self.ask, "{ms} {seconds}")?;
        self.ask.flush()?;
        let answer = self.answer()?;
        let mut words = answer.split_whitespace();
        let captured = words.next().ok_or("no answer")?.parse()?;
        let steps = words.map(str::parse).collect::<Result<_, _>>()?;
        Ok(Turn { steps, captured })
    }

    /// What it measured of the cost of capturing.
    fn cost(&mut self) -> Result<String, Box<dyn Error>> {
        writeln!(self.ask, "cost")?;
        self.ask.flush()?;
        Ok(self.answer()?.trim_end().to_owned())
    }

    fn end(mut self) {
        drop(self.ask);
        let _ = self.child.wait();
    }
}

fn compare(rounds: usize) -> Result<(), Box<dyn Error>> {
    let ways = ["none", "closed", "open"];
    let mut jobs = ways
        .map(Job::start)
        .into_iter()
        .collect::<Result<Vec<_>, _>>()?;
    for job in &mut jobs {
        job.turn(10, 0.3)?;
    }
    // Until the window of `closed` has closed.
    std::thread::sleep(Duration::from_millis(2_500));
    println!("step   way       median      ratio of means      captured");
    for ms in STEPS_MS {
        let mut turns: Vec<Vec<Turn>> = vec![Vec::new(); ways.len()];
        for round in 0..rounds {
            for at in 0..ways.len() {
                let way = (at + round) % ways.len();
                let turn = jobs[way].turn(ms, TURN)?;
                turns[way].push(turn);
            }
        }
        for (way, turns_of) in ways.iter().zip(&turns) {
            row(ms, way, turns_of, &turns[0]);
        }
        let mut governed = Job::start("governed")?;
        let mut pairs: [Vec<Turn>; 2] = Default::default();
        for _ in 0..rounds {
            pairs[0].push(jobs[0].turn(ms, TURN)?);
            pairs[1].push(governed.turn(ms, GOVERNED_TURN)?);
        }
        row(ms, "governed", &pairs[1], &pairs[0]);
        println!("       {}", governed.cost()?);
        governed.end();
    }
    jobs.into_iter().for_each(Job::end);
    Ok(())
}

fn row(ms: u64, way: &str, turns: &[Turn], none: &[Turn]) {
    let mut all: Vec<f64> = turns.iter().flat_map(|turn| turn.steps.clone()).collect();
    all.sort_by(f64::total_cmp);
    let median = all.get(all.len() / 2).copied().unwrap_or(f64::NAN);
    let captured: usize = turns.iter().map(|turn| turn.captured).sum();
    let captured = 100.0 * captured as f64 / all.len().max(1) as f64;
    let (low, ratio, high) = interval(turns, none);
    println!(
        "{ms:>2} ms  {way:<9} {median:>7.3} ms  x{ratio:.4} [{low:.4} {high:.4}]  {captured:>5.1} %  ({} steps)",
        all.len()
    );
}

/// The ratio of the mean steps, and the interval for 95 of 100 resamples of the rounds.
fn interval(turns: &[Turn], none: &[Turn]) -> (f64, f64, f64) {
    let mean = |turns: &[Turn], rounds: &[usize]| {
        let of = |pick: fn(&Turn) -> f64| -> f64 {
            rounds.iter().filter_map(|&i| turns.get(i)).map(pick).sum()
        };
        of(|turn| turn.steps.iter().sum()) / of(|turn| turn.steps.len() as f64)
    };
    let ratio = |rounds: &[usize]| mean(turns, rounds) / mean(none, rounds);
    let rounds = turns.len().max(1);
    let mut state = 1_u64;
    let mut random = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % rounds
    };
    let mut draws: Vec<f64> = (0..2_000)
        .map(|_| ratio(&(0..rounds).map(|_| random()).collect::<Vec<_>>()))
        .collect();
    draws.sort_by(f64::total_cmp);
    let all: Vec<usize> = (0..rounds).collect();
    (draws[50], ratio(&all), draws[1_949])
}
