//! From the probes to the clients' books.

use super::{Admitted, ClientId, Server};
use crate::event::Event;
use crate::procfs;
use crate::recorder::{Book, process_of, track_process};
use gpustall_trace::{Clock, MonoTime, MonotonicClock};
use gpustall_wire::codes::loss;

impl Server {
    /// Takes what the probes have reported since the last call.
    pub(super) fn drain(&mut self) {
        // What is reported while this runs is left for the next call, so that it always ends.
        let until = MonotonicClock.now();
        while let Some(event) = self.probes.next_event() {
            if self.route(&event) > until {
                break;
            }
        }
        let lost = self.probes.losses();
        if lost[loss::LIFE as usize] > self.lost[loss::LIFE as usize] {
            for exit in self.probes.take_dead() {
                self.route(&Event::Exit(exit));
            }
        }
        self.lost = lost;
        for client in &mut self.clients {
            if let Some(served) = client.served() {
                served.book.note_losses(&lost);
            }
        }
    }

    /// Adds an event to the books of all clients that the thread belongs to; returns when it was.
    fn route(&mut self, event: &Event) -> MonoTime {
        let tid = event.tid();
        if let Event::Fork(life) = event {
            self.owners.inherit(tid, life.other_tid);
        }
        let owners = match event {
            // The kernel's threads hand in requests for whoever waits; each book knows its own.
            Event::BlockIo(_) if !self.owners.has(tid) => {
                self.clients.iter().map(|client| client.id).collect()
            }
            _ => self.owners_of(tid),
        };
        let mut at = MonoTime::from_nanos(0);
        for client in &mut self.clients {
            if owners.contains(&client.id)
                && let Some(served) = client.served()
            {
                let tgid = process_of(&self.probes, &served.book, event);
                at = served.book.add(event, tgid);
            }
        }
        match event {
            Event::Exit(_) => self.owners.bury(tid),
            Event::Exec(life) => {
                if life.tid != tid && self.owners.inherit(life.tid, tid) {
                    self.owners.bury(tid);
                }
                self.check_rights(life.tid, life.tgid);
            }
            _ => {}
        }
        at
    }

    /// The clients of a thread. When its beginning was lost, those of its process, or of the one that
    /// forked that; a thread that is nobody's is not tracked any longer.
    fn owners_of(&mut self, tid: u32) -> Vec<ClientId> {
        if !self.owners.has(tid) {
            let elder = match self.probes.process_of(tid) {
                process if process == tid => procfs::parent(tid).unwrap_or(0),
                process => process,
            };
            if !self.owners.inherit(tid, elder) {
                self.probes.untrack(tid);
            }
        }
        self.owners.of(tid).to_vec()
    }

    /// A process may have other rights since it runs another program: then it is no longer shown to
    /// a client that has not got them.
    fn check_rights(&mut self, tid: u32, tgid: u32) {
        let status = procfs::status(tgid, tid);
        let mut orphaned = false;
        for client in &mut self.clients {
            if let Some(served) = client.served()
                && served.book.knows(tid)
                && !served.book.may_see(status.as_ref())
            {
                served.book.hide(tid);
                orphaned |= self.owners.remove(tid, client.id);
            }
        }
        if orphaned {
            self.probes.untrack(tid);
        }
    }

    /// Begins to track the process of an admitted client.
    pub(super) fn track(&mut self, index: usize, admitted: Admitted) -> Result<Book, String> {
        // So that whose the threads are is known up to now.
        self.drain();
        let Admitted { start, view } = admitted;
        let (client, symbols) = (&self.clients[index], self.symbols.clone());
        let (id, pid) = (client.id, client.peer.pid);
        let may_see = |pid| view.user.is_none() || view.may_name(procfs::status(pid, pid).as_ref());
        let mut book = Book::new(&self.options, start, view.clone(), symbols, self.lost);
        let shared = |tid| self.owners.has(tid);
        let tracked = track_process(&mut self.probes, &mut book, pid, may_see, shared);
        for tid in book.thread_ids() {
            self.owners.add(tid, id);
        }
        let outcome = match tracked {
            Err(error) => Err(error.to_string()),
            // Nobody else had its number while the threads were listed.
            Ok(()) if !self.clients[index].peer.lives() => {
                Err("the process that connected has ended".to_owned())
            }
            Ok(()) => Ok(()),
        };
        if let Err(why) = outcome {
            self.untrack(id);
            return Err(why);
        }
        self.notes.iter().for_each(|note| book.note(note.clone()));
        Ok(book)
    }

    /// Nothing is tracked for this client any longer.
    pub(super) fn untrack(&mut self, client: ClientId) {
        for tid in self.owners.threads(client) {
            if self.owners.remove(tid, client) {
                self.probes.untrack(tid);
            }
        }
    }

    /// Sends a client its last events.
    pub(super) fn finish(&mut self, index: usize, note: Option<&str>) {
        let id = self.clients[index].id;
        let threads = self.owners.threads(id);
        // First nothing changes any more, unless for others; then what was recorded is taken.
        let alone = |tid: &&u32| self.owners.of(**tid) == [id];
        for &tid in threads.iter().filter(alone) {
            self.probes.untrack(tid);
        }
        let now = MonotonicClock.now();
        self.drain();
        for tid in self.owners.threads(id) {
            if let (Some(served), Some(state)) =
                (self.clients[index].served(), self.probes.state(tid))
            {
                served.book.close_thread(tid, state, now);
            }
        }
        let in_flight = self.probes.in_flight();
        if let Some(served) = self.clients[index].served() {
            served.book.end_requests(in_flight, now);
        }
        self.untrack(id);
        self.events += self.clients[index].finish(now, note, &mut self.programs);
    }
}
