//! Which clients a tracked thread belongs to.

use std::collections::HashMap;

/// Number of a client, never given twice.
pub(super) type ClientId = u64;

/// The clients of each tracked thread: one, or more where a client is a child of another.
#[derive(Debug, Default)]
pub(super) struct Owners(HashMap<u32, Vec<ClientId>>);

impl Owners {
    /// The clients of a thread.
    pub(super) fn of(&self, tid: u32) -> &[ClientId] {
        self.0.get(&tid).map_or(&[], Vec::as_slice)
    }

    /// Whether the thread is anybody's.
    pub(super) fn has(&self, tid: u32) -> bool {
        self.0.contains_key(&tid)
    }

    /// The thread belongs to this client too.
    pub(super) fn add(&mut self, tid: u32, client: ClientId) {
        let clients = self.0.entry(tid).or_default();
        if !clients.contains(&client) {
            clients.push(client);
        }
    }

    /// The thread belongs to whom the other belongs. False when that is nobody.
    pub(super) fn inherit(&mut self, tid: u32, from: u32) -> bool {
        let clients = self.of(from).to_vec();
        let any = !clients.is_empty();
        if any {
            self.0.insert(tid, clients);
        }
        any
    }

    /// The thread is gone.
    pub(super) fn bury(&mut self, tid: u32) {
        self.0.remove(&tid);
    }

    /// The thread is no longer this client's. True when it is nobody's any more.
    pub(super) fn remove(&mut self, tid: u32, client: ClientId) -> bool {
        let Some(clients) = self.0.get_mut(&tid) else {
            return false;
        };
        clients.retain(|&id| id != client);
        let orphaned = clients.is_empty();
        if orphaned {
            self.0.remove(&tid);
        }
        orphaned
    }

    /// All threads of a client.
    pub(super) fn threads(&self, client: ClientId) -> Vec<u32> {
        let of = |(tid, clients): (&u32, &Vec<ClientId>)| clients.contains(&client).then_some(*tid);
        self.0.iter().filter_map(of).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_thread_makes_belongs_to_all_to_whom_it_belongs() {
        let mut owners = Owners::default();
        owners.add(10, 1);
        owners.add(10, 2);
        owners.add(20, 2);
        assert!(owners.inherit(11, 10));
        assert!(!owners.inherit(31, 30));
        assert_eq!((owners.of(11), owners.of(31)), (&[1, 2][..], &[][..]));
        assert!(!owners.remove(11, 1));
        assert!(owners.remove(20, 2));
        let mut left = owners.threads(2);
        left.sort_unstable();
        assert_eq!(left, [10, 11]);
    }
}
