//! The trace on a port of this machine, until a browser has fetched it.

use anyhow::{Context, bail};
use std::fs::File;
use std::path::{Path, PathBuf};
use tiny_http::{Header, Method, Response};

/// Serves one file.
pub(super) struct Server {
    http: tiny_http::Server,
    path: PathBuf,
    address: String,
    port: u16,
    /// The page that may fetch it.
    origin: Header,
}

impl Server {
    /// A server of the file at `path` for pages of `ui`, on a port of this machine or on any (0).
    ///
    /// # Errors
    ///
    /// If the port is taken, or `ui` is no address.
    pub(super) fn on(port: u16, path: &Path, ui: &str) -> anyhow::Result<Self> {
        let Some((scheme, rest)) = ui.split_once("://") else {
            bail!("--ui takes an address such as https://ui.perfetto.dev, not {ui}");
        };
        let host = rest.split('/').next().unwrap_or_default();
        let http = match tiny_http::Server::http(("127.0.0.1", port)) {
            Ok(http) => http,
            Err(error) => bail!(
                "port {port} of this machine, from which Perfetto's UI fetches the trace, cannot be taken ({error}): end the program that has it, such as another `gpustall open` or trace_processor"
            ),
        };
        let port = http.server_addr().to_ip().map_or(port, |at| at.port());
        // The name of the file is the title of the page; what else is in it does not matter.
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let plain = |c: char| {
            if c.is_ascii_alphanumeric() || "-_.".contains(c) {
                c
            } else {
                '_'
            }
        };
        let name: String = name.chars().map(plain).collect();
        Ok(Self {
            http,
            path: path.to_owned(),
            address: format!("http://127.0.0.1:{port}/{name}"),
            port,
            origin: header("Access-Control-Allow-Origin", &format!("{scheme}://{host}"))?,
        })
    }

    /// Where the file is.
    pub(super) fn address(&self) -> &str {
        &self.address
    }

    /// The port that it has.
    pub(super) fn port(&self) -> u16 {
        self.port
    }

    /// Answers until the file was fetched once.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, or no request can be taken any more.
    pub(super) fn until_fetched(&self) -> anyhow::Result<()> {
        let path = self.address.splitn(4, '/').nth(3).unwrap_or_default();
        loop {
            let request = self.http.recv()?;
            let wanted = request.url().trim_start_matches('/') == path;
            match request.method() {
                Method::Get if wanted => {
                    let file =
                        File::open(&self.path).with_context(|| self.path.display().to_string())?;
                    let response = Response::from_file(file)
                        // With its length, so that a browser can tell how far it is.
                        .with_chunked_threshold(usize::MAX)
                        .with_header(self.origin.clone())
                        .with_header(header("Cache-Control", "no-cache")?);
                    // A browser that gave up asks again.
                    if request.respond(response).is_ok() {
                        return Ok(());
                    }
                }
                Method::Options if wanted => {
                    // A page of the internet asks whether it may fetch from this machine.
                    let response = Response::empty(204)
                        .with_header(self.origin.clone())
                        .with_header(header("Access-Control-Allow-Methods", "GET")?)
                        .with_header(header("Access-Control-Allow-Private-Network", "true")?);
                    let _ = request.respond(response);
                }
                _ => {
                    let _ = request.respond(Response::empty(404));
                }
            }
        }
    }
}

fn header(name: &str, value: &str) -> anyhow::Result<Header> {
    match Header::from_bytes(name, value) {
        Ok(header) => Ok(header),
        Err(()) => bail!("{value} cannot stand in a header of HTTP"),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test stops where something is wrong")]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpStream;

    /// What the server answers to a request of `method`, its head and its body.
    fn ask(address: &str, method: &str) -> (String, Vec<u8>) {
        let (at, path) = address
            .strip_prefix("http://")
            .unwrap()
            .split_once('/')
            .unwrap();
        let mut stream = TcpStream::connect(at).unwrap();
        write!(
            stream,
            "{method} /{path} HTTP/1.1\r\nHost: {at}\r\nConnection: close\r\n\r\n"
        )
        .unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let end = answer.windows(4).position(|at| at == b"\r\n\r\n").unwrap();
        let head = String::from_utf8(answer[..end].to_vec()).unwrap();
        (head, answer[end + 4..].to_vec())
    }

    #[test]
    fn the_file_is_served_once_and_to_the_ui_alone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a trace.json");
        std::fs::write(&path, b"[]").unwrap();
        let server = Server::on(0, &path, "https://ui.example.org/some/page").unwrap();
        let address = server.address().to_owned();
        assert!(address.ends_with("/a_trace.json"), "{address}");
        std::thread::scope(|scope| {
            let served = scope.spawn(|| server.until_fetched());
            let (head, _) = ask(&address.replace("a_trace", "other"), "GET");
            assert!(head.starts_with("HTTP/1.1 404"), "{head}");
            let (head, _) = ask(&address, "OPTIONS");
            assert!(
                head.contains("Access-Control-Allow-Private-Network: true"),
                "{head}"
            );
            let (head, body) = ask(&address, "GET");
            assert!(head.starts_with("HTTP/1.1 200"), "{head}");
            assert!(
                head.contains("Access-Control-Allow-Origin: https://ui.example.org\r\n"),
                "{head}"
            );
            assert_eq!(body, b"[]");
            served.join().unwrap().unwrap();
        });
    }

    #[test]
    fn a_port_that_is_taken_is_an_error_that_says_what_to_do() {
        let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = taken.local_addr().unwrap().port();
        let error = Server::on(port, Path::new("a.json"), "https://ui.example.org")
            .err()
            .unwrap();
        assert!(
            error.to_string().contains("end the program that has it"),
            "{error}"
        );
    }
}
