//! `serve`: sessions of the SDK get the kernel events of their own process, as they happen.
//!
//! One set of probes serves all clients. Each is authenticated by the socket itself, gets its own
//! process and what it forks, and its own book; a thread belongs to all clients above it.
//! Nothing is tracked while there is no client.

mod admission;
mod client;
mod outbox;
mod owners;
mod peer;
mod report;
mod routing;
mod socket;

pub use report::{Report, ServeError, Status};
pub use socket::SocketOptions;

use crate::give_up::give_up;
use crate::host::Host;
use crate::privilege;
use crate::probes::{Options, Probes};
use crate::programs::Programs;
use crate::recorder;
use crate::symbols::KernelSymbols;
use admission::Admitted;
use client::{Client, Wish};
use gpustall_protocol::Greeting;
use gpustall_trace::{Clock, MonotonicClock, TraceTime};
use owners::{ClientId, Owners};
use peer::Peer;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket::Listener;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often clients are sent what was recorded.
const DELIVER_EVERY: Duration = Duration::from_millis(250);

/// Most connections at one time, those included that have not said hello.
const MAX_CONNECTIONS: usize = 300;

/// Most connections of one user, root excepted.
const MAX_CONNECTIONS_OF_A_USER: usize = MAX_CONNECTIONS / 4;

/// How long clients may take for their last events when the server ends.
const END_WITHIN: Duration = Duration::from_secs(1);

/// Most events of one kind that are held for a client that does not take them: about 15 MB.
pub const DEFAULT_MAX_HELD: usize = 100_000;

/// Serves clients over a socket.
pub struct Server {
    listener: Listener,
    probes: Probes,
    options: Options,
    symbols: Arc<KernelSymbols>,
    notes: Vec<String>,
    programs: Programs,
    clients: Vec<Client>,
    owners: Owners,
    lost: recorder::LossCounts,
    next_id: ClientId,
    delivered: Instant,
    events: u64,
    reports: Vec<Report>,
    host: Host,
}

impl Server {
    /// Listens, loads the probes, and gives up the privileges of the calling thread that are not
    /// needed any more: it should be the only one of the process.
    ///
    /// # Errors
    /// [`ServeError`] says what is missing, or who serves there already.
    pub fn start(socket: &SocketOptions, options: &Options) -> Result<Self, ServeError> {
        privilege::require()?;
        let listener = Listener::bind(socket)?;
        let probes = Probes::attach(options)?;
        let (symbols, notes) = recorder::symbols(&probes);
        give_up(|| probes.can_look_up()).map_err(ServeError::Privileges)?;
        Ok(Self {
            listener,
            lost: probes.losses(),
            probes,
            options: *options,
            symbols,
            notes,
            programs: Programs::new(),
            clients: Vec::new(),
            owners: Owners::default(),
            next_id: 0,
            delivered: Instant::now(),
            events: 0,
            reports: Vec::new(),
            host: Host::start(),
        })
    }

    /// Serves until `stop` is readable; calls `tell` with what happened, and now and then while
    /// clients are served.
    ///
    /// # Errors
    /// When the kernel no longer lets it wait for clients.
    pub fn run(
        mut self,
        stop: BorrowedFd<'_>,
        mut tell: impl FnMut(Status, Vec<Report>),
    ) -> io::Result<()> {
        while !self.wait(stop)? {
            self.turn();
            tell(self.status(), std::mem::take(&mut self.reports));
        }
        self.end();
        tell(self.status(), std::mem::take(&mut self.reports));
        Ok(())
    }

    /// Waits until there is something to do; true when it is to end. Without clients it sleeps.
    fn wait(&self, stop: BorrowedFd<'_>) -> io::Result<bool> {
        let mut fds = vec![
            PollFd::from_borrowed_fd(stop, PollFlags::IN),
            PollFd::new(&self.listener.socket, PollFlags::IN),
        ];
        let processes: Vec<_> = self.clients.iter().map(|c| c.peer.pidfd()).collect();
        for (client, process) in self.clients.iter().zip(&processes) {
            let mut wanted = PollFlags::IN;
            if client.outbox.waiting() > 0 {
                wanted |= PollFlags::OUT;
            }
            fds.push(PollFd::new(&client.socket, wanted));
            fds.push(PollFd::new(process, PollFlags::IN));
        }
        let drain = Timespec {
            tv_sec: 0,
            tv_nsec: Options::DRAIN_EVERY.as_nanos() as i64,
        };
        let limit = (!self.clients.is_empty() || self.probes.has_untracked()).then_some(&drain);
        match poll(&mut fds, limit) {
            Ok(_) => Ok(!fds[0].revents().is_empty()),
            Err(rustix::io::Errno::INTR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    fn turn(&mut self) {
        self.accept();
        self.drain();
        self.probes.sweep();
        for index in 0..self.clients.len() {
            match self.clients[index].listen() {
                Wish::Nothing => {}
                Wish::Hello(greeting) => self.greet(index, &greeting),
                Wish::Goodbye => self.finish(index, None),
                Wish::Gone => self.clients[index].hang_up(),
            }
        }
        self.look_at_the_machine();
        if self.delivered.elapsed() >= DELIVER_EVERY {
            self.delivered = Instant::now();
            self.deliver();
        }
        self.send();
    }

    /// One look for all clients.
    fn look_at_the_machine(&mut self) {
        if !self.clients.iter().any(Client::is_served) {
            return;
        }
        let now = MonotonicClock.now();
        if let Some(sample) = self.host.look(Host::EVERY, || TraceTime::ZERO) {
            for served in self.clients.iter_mut().filter_map(Client::served) {
                served.book.host_sample(sample.clone(), now);
            }
        }
    }

    fn accept(&mut self) {
        while let Ok((socket, _)) = self.listener.socket.accept() {
            let Ok(peer) = Peer::of(&socket) else {
                continue;
            };
            // Connections that have said nothing count too: no user keeps the others out with them.
            let of_user = self.clients.iter().filter(|c| c.peer.user == peer.user);
            let room = self.clients.len() < MAX_CONNECTIONS
                && (peer.user == 0 || of_user.count() < MAX_CONNECTIONS_OF_A_USER);
            if room && socket.set_nonblocking(true).is_ok() {
                self.next_id += 1;
                self.clients.push(Client::new(self.next_id, peer, socket));
            }
        }
    }

    fn greet(&mut self, index: usize, greeting: &Greeting) {
        let client = &self.clients[index];
        let (pid, user) = (client.peer.pid, client.peer.user);
        let outcome = admission::admit(greeting, &client.peer, &self.clients)
            .and_then(|admitted| self.track(index, admitted));
        match outcome {
            Ok(book) => {
                if !self.clients.iter().any(Client::is_served) {
                    self.host = Host::start();
                }
                self.clients[index].serve(book);
                self.reports.push(Report::Served { pid, user });
            }
            Err(why) => {
                self.clients[index].refuse(&why);
                self.reports.push(Report::Refused { pid, user, why });
            }
        }
    }

    fn deliver(&mut self) {
        let now = MonotonicClock.now();
        for index in 0..self.clients.len() {
            let served = self.clients[index].served();
            match served.and_then(|served| served.is_too_much()) {
                Some(why) => self.finish(index, Some(why)),
                None => self.events += self.clients[index].deliver(now, &mut self.programs),
            }
        }
    }

    /// Sends what waits, and forgets clients that are gone.
    fn send(&mut self) {
        let mut gone = Vec::new();
        for client in &mut self.clients {
            if !client.send() || !client.peer.lives() {
                gone.push(client.id);
            }
        }
        for id in gone {
            self.untrack(id);
            if let Some(position) = self.clients.iter().position(|c| c.id == id) {
                let client = self.clients.remove(position);
                let pid = client.peer.pid;
                self.reports.push(Report::Left { pid });
            }
        }
        if self.clients.is_empty() {
            self.programs.forget();
        }
    }

    /// Sends everybody the last events.
    fn end(&mut self) {
        let until = Instant::now() + END_WITHIN;
        self.drain();
        for index in 0..self.clients.len() {
            if self.clients[index].is_served() {
                self.finish(index, None);
            }
        }
        while Instant::now() < until {
            self.send();
            if self.clients.iter().all(|c| c.outbox.waiting() == 0) {
                break;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn status(&mut self) -> Status {
        let mut status = Status {
            events: self.events,
            ..Status::default()
        };
        for client in &mut self.clients {
            if let Some(served) = client.served() {
                status.clients += 1;
                status.threads += served.book.living();
                status.lost += served.book.lost();
            }
        }
        status
    }
}
