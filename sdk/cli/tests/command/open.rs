//! `gpustall open`: what a browser gets.

use crate::program::{command, folder, gpustall, stderr};
use crate::recording::finished;
use gpustall_diagnose::{Report, diagnose};
use gpustall_trace::vocab::cat;
use gpustall_trace::{read_any, write_finished};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

/// The command, and the link that it printed.
fn open(trace: &Path) -> (Child, String) {
    let mut child = command()
        .args(["open", "--no-browser", "--port", "0"])
        .arg(trace)
        .stdout(Stdio::piped())
        .spawn()
        .expect("the command is built");
    let mut link = String::new();
    let output = child.stdout.take().expect("it is a pipe");
    BufReader::new(output)
        .read_line(&mut link)
        .expect("it prints the link");
    (child, link.trim().to_owned())
}

/// The file that the page of the link fetches; the command ends then.
fn fetched((mut child, link): (Child, String)) -> Vec<u8> {
    let got = fetch(&link);
    let ended = child.wait().expect("it was started here");
    assert!(ended.success());
    got
}

fn fetch(link: &str) -> Vec<u8> {
    let (_, rest) = link
        .split_once("url=http%3A%2F%2F")
        .expect("the link names a file");
    let file = rest
        .split('&')
        .next()
        .unwrap_or_default()
        .replace("%3A", ":")
        .replace("%2F", "/");
    let (at, path) = file.split_once('/').expect("the file has an address");
    let mut stream = TcpStream::connect(at).expect("it is served");
    write!(
        stream,
        "GET /{path} HTTP/1.1\r\nHost: {at}\r\nConnection: close\r\n\r\n"
    )
    .expect("it listens");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("it answers");
    let end = answer
        .windows(4)
        .position(|at| at == b"\r\n\r\n")
        .expect("the answer has a head");
    assert!(
        answer.starts_with(b"HTTP/1.1 200"),
        "{}",
        String::from_utf8_lossy(&answer[..end])
    );
    answer.split_off(end + 4)
}

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/fixtures")
        .join(name)
}

#[test]
fn a_file_of_torch_profiler_shows_with_its_starvation_chains() {
    let path = fixture("kineto/loader_inprocess_cpu.pt.trace.json.gz");
    let (child, link) = open(&path);
    let pinned = link
        .find("starvation%20chains")
        .zip(link.find("device%20state"));
    assert!(
        pinned.is_some_and(|(chains, device)| chains < device),
        "{link}"
    );
    assert!(
        link.contains("&ts=") && link.contains("&visStart="),
        "{link}"
    );

    let directory = folder();
    let got = directory.path().join("got.trace.json.gz");
    std::fs::write(&got, fetched((child, link))).expect("the directory is writable");

    let trace = read_any(&got).expect("it is a trace").trace;
    let chains = trace
        .slices
        .iter()
        .filter(|slice| trace.text(slice.cat) == cat::FINDING);
    assert!(chains.count() > 10);
    let carried: Report =
        serde_json::from_value(trace.report.clone().expect("it carries a report"))
            .expect("the report is one of this version");
    let of_file = diagnose(&read_any(&path).expect("it is a trace").trace);
    assert_eq!(carried.verdict, of_file.verdict);
}

#[test]
fn a_finished_trace_is_served_as_it_is() {
    let dir = folder();
    let (path, _) = finished(dir.path(), "mlp");
    let (child, link) = open(&path);
    assert!(
        link.starts_with("https://ui.perfetto.dev/#!/?url="),
        "{link}"
    );
    assert_eq!(
        fetched((child, link)),
        std::fs::read(&path).expect("it was written")
    );
}

#[test]
fn a_trace_with_the_chains_of_other_rules_is_served_with_those_of_this_one() {
    let dir = folder();
    let (path, report) = finished(dir.path(), "mlp");
    let mut trace = read_any(&path).expect("it was written").trace;
    let carried = trace.report.as_mut().expect("it carries a report");
    carried["rules"] = "0.0.9 12345678".into();
    carried["verdict"] = "said by others".into();
    write_finished(&path, &trace).expect("the directory is writable");
    let (child, link) = open(&path);
    let got = dir.path().join("got.trace.json.gz");
    std::fs::write(&got, fetched((child, link))).expect("the directory is writable");
    let served = read_any(&got).expect("it is a trace").trace;
    let served: Report = serde_json::from_value(served.report.expect("it carries a report"))
        .expect("the report is one of this version");
    assert_eq!(served, report);
}

#[test]
fn what_is_no_trace_is_an_error_at_once() {
    let output = gpustall(&["open", "--port", "0", "Cargo.toml"], &[]);
    assert_eq!(output.status.code(), Some(1));
    let said = stderr(&output);
    assert!(
        said.starts_with("error: ") && said.contains("Cargo.toml"),
        "{said}"
    );
}
