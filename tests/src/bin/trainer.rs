//! Trainers that end in every way a training job ends: `trainer MODE OUTPUT`.
//!
//! What the training itself has to say goes to standard output, and must be the same with and
//! without gpustall. What gpustall has to say goes to standard error.

#![allow(clippy::unwrap_used, reason = "a test program")]

use gpustall::{Session, SessionError, instrument};
use gpustall_tests::{Numbers, numbers_loader};
use gpustall_trace::MonotonicClock;
use std::error::Error;
use std::io::Read;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

const ITEMS: usize = 64;

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let mode = args.next().ok_or("trainer MODE OUTPUT")?;
    let output = args.next().ok_or("trainer MODE OUTPUT")?;
    let output = Path::new(&output);
    let session = || report_error(gpustall::session(&*mode).output(output).start());
    match &*mode {
        "train" => finish(train_in(session())),
        "dots" => finish(dots(session())),
        "disk-at-finish" => disk_at_finish(session()),
        "held" => held(session()),
        "twice" => twice(session(), output),
        "broken" => broken(session(), 2),
        "broken-in-process" => broken(session(), 0),
        "panic" => panic_in_worker(session()),
        "panic-in-process" => panic_in_process(session()),
        "return-early" => return_early(session())?,
        "main-panics" => main_panics(session()),
        "exit" => exit(session()),
        "forever" => forever(session()),
        "hang" => hang(session()),
        _ => return Err(format!("no mode {mode}").into()),
    }
    Ok(ExitCode::from(7))
}

/// A trainer that can do without its trace goes on without it.
fn report_error<T>(outcome: Result<T, SessionError>) -> Option<T> {
    outcome.map_err(|error| eprintln!("ERROR {error}")).ok()
}

fn finish(session: Option<Session>) {
    if let Some(summary) = session.and_then(|s| report_error(s.finish())) {
        eprintln!("{summary}");
    }
}

/// One pass over all numbers.
fn train() {
    let loader = numbers_loader("train", Numbers::new(ITEMS), 2);
    let (mut batches, mut sum) = (0, 0);
    for batch in loader.iter() {
        let _forward = instrument::phase("forward");
        batches += 1;
        sum += batch.unwrap().iter().sum::<usize>();
    }
    println!("{batches} batches, {sum} in all");
}

fn train_in(session: Option<Session>) -> Option<Session> {
    train();
    session
}

/// Records more than a small disk takes, and trains on.
fn dots(session: Option<Session>) -> Option<Session> {
    train();
    for round in 0..40 {
        for _ in 0..500 {
            let _dot = gpustall::span("dot");
        }
        // Longer than the writer needs to look again.
        std::thread::sleep(Duration::from_millis(25));
        if round % 10 == 0 {
            println!("round {round}");
        }
    }
    train();
    session
}

fn disk_at_finish(session: Option<Session>) {
    train();
    // From here on no file can grow beyond this: a disk that filled up during training.
    let limit = rustix::process::Rlimit {
        current: Some(512),
        maximum: None,
    };
    rustix::process::setrlimit(rustix::process::Resource::Fsize, limit).unwrap();
    finish(session);
}

/// Says whether it records, waits until told to go on, and trains.
fn held(session: Option<Session>) {
    println!("{}", session.as_ref().is_some_and(Session::is_recording));
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
    train();
    finish(session);
}

fn twice(first: Option<Session>, output: &Path) {
    let second = gpustall::session("the second")
        .output(output.with_file_name("second.trace.json"))
        .start();
    let second = report_error(second);
    train();
    finish(second);
    finish(first);
}

fn broken(session: Option<Session>, workers: usize) {
    let numbers = Numbers {
        broken: Some(13),
        ..Numbers::new(ITEMS)
    };
    let loader = numbers_loader("train", numbers, workers);
    for batch in loader.iter() {
        if let Err(error) = batch {
            let source = error.source().map(ToString::to_string);
            println!("error: {error}; its source: {source:?}");
            break;
        }
    }
    finish(session);
}

fn panic_in_worker(session: Option<Session>) {
    let numbers = Numbers {
        panics: Some(13),
        ..Numbers::new(ITEMS)
    };
    let loader = numbers_loader("train", numbers, 1);
    println!("{} batches before the panic", loader.iter().count());
    let panic = gpustall_tests::first_panic(|| loader.iter().count());
    println!("then: {panic}");
    finish(session);
}

fn panic_in_process(session: Option<Session>) {
    let numbers = Numbers {
        panics: Some(13),
        ..Numbers::new(ITEMS)
    };
    let loader = numbers_loader("train", numbers, 0);
    let panic = gpustall_tests::first_panic(|| {
        loader.iter().for_each(|batch| println!("{batch:?}"));
    });
    println!("{panic}");
    finish(session);
}

/// The session is dropped, not finished.
fn return_early(_session: Option<Session>) -> Result<(), Box<dyn Error>> {
    let loader = numbers_loader("train", Numbers::new(ITEMS), 2);
    for batch in loader.iter().take(3) {
        println!("{}", batch?.len());
    }
    Err("the loss is NaN".into())
}

fn main_panics(_session: Option<Session>) {
    let loader = numbers_loader("train", Numbers::new(ITEMS), 2);
    let mut batches = loader.iter();
    println!("{}", batches.next().unwrap().unwrap().len());
    let _forward = instrument::phase("forward");
    panic!("the loss is NaN");
}

/// Neither finishes nor drops the session.
fn exit(_session: Option<Session>) {
    train();
    // Longer than what is recorded may take to be on disk.
    std::thread::sleep(Duration::from_millis(1000));
    std::process::exit(3);
}

/// Trains until killed; prints the clock after each step.
fn forever(_session: Option<Session>) {
    let numbers = Numbers::slow(usize::MAX / 8, Duration::from_millis(1));
    let batcher = instrument::batcher(gpustall_tests::Collect::default());
    let inner = burn_core::data::dataloader::DataLoaderBuilder::new(batcher)
        .batch_size(4)
        .build(instrument::dataset(numbers));
    let loader = instrument::loader("train", inner);
    for batch in loader.iter() {
        drop(batch);
        println!("{}", MonotonicClock::read().as_nanos());
    }
}

/// Waits for a batch that never comes; prints the clock before each wait.
fn hang(_session: Option<Session>) {
    let numbers = Numbers {
        hangs: Some(13),
        ..Numbers::new(ITEMS)
    };
    let loader = numbers_loader("train", numbers, 1);
    let mut batches = loader.iter();
    loop {
        println!("{}", MonotonicClock::read().as_nanos());
        if batches.next().is_none() {
            break;
        }
    }
}
