//! What this process may do.

use crate::error::SetupError;

/// A capability of Linux.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Capability {
    bit: u32,
    name: &'static str,
}

const SYS_ADMIN: Capability = Capability {
    bit: 21,
    name: "CAP_SYS_ADMIN",
};
const SYS_PTRACE: Capability = Capability {
    bit: 19,
    name: "CAP_SYS_PTRACE",
};
const SYSLOG: Capability = Capability {
    bit: 34,
    name: "CAP_SYSLOG",
};
/// To load programs, and to attach them to the scheduler.
const NEEDED: [Capability; 2] = [
    Capability {
        bit: 38,
        name: "CAP_PERFMON",
    },
    Capability {
        bit: 39,
        name: "CAP_BPF",
    },
];

/// The effective capabilities of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Capabilities(u64);

impl Capabilities {
    /// Those of this process.
    pub(crate) fn own() -> Self {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        Self::parse(&status).unwrap_or(Self(0))
    }

    fn parse(status: &str) -> Option<Self> {
        let line = status.lines().find_map(|l| l.strip_prefix("CapEff:"))?;
        u64::from_str_radix(line.trim(), 16).ok().map(Self)
    }

    fn has(self, capability: Capability) -> bool {
        self.0 >> capability.bit & 1 == 1
    }

    /// Names of those that recording needs and that are missing.
    pub(crate) fn missing(self) -> Vec<&'static str> {
        let lacks = |c: &&Capability| !self.has(**c) && !self.has(SYS_ADMIN);
        NEEDED.iter().filter(lacks).map(|c| c.name).collect()
    }

    /// Whether this process may read the memory maps of other users' processes.
    pub(crate) fn sees_other_programs(self) -> bool {
        self.has(SYS_PTRACE)
    }

    /// Whether the kernel may show this process the addresses of its functions.
    pub(crate) fn sees_kernel_addresses(self) -> bool {
        self.has(SYSLOG)
    }
}

/// Fails with the command that mends it when this process may not record.
pub(crate) fn require() -> Result<(), SetupError> {
    let missing = Capabilities::own().missing();
    if missing.is_empty() {
        return Ok(());
    }
    let program = program();
    let arguments = std::env::args().skip(1).map(|a| quoted(&a));
    let command: Vec<String> = ["sudo".to_owned(), quoted(&program)]
        .into_iter()
        .chain(arguments)
        .collect();
    Err(SetupError::Privilege {
        missing: missing.join(" and "),
        command: command.join(" "),
        program: quoted(&program),
    })
}

/// Path of the running program.
pub(crate) fn program() -> String {
    let path = std::env::current_exe();
    path.map_or_else(|_| "gpustall-sidecar".into(), |p| p.display().to_string())
}

/// As a shell takes it.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,@%+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn missing(effective: &str) -> Vec<&'static str> {
        let status = format!("Name:\tx\nCapEff:\t{effective}\nSeccomp:\t0\n");
        Capabilities::parse(&status).expect("a line").missing()
    }

    #[test]
    fn root_and_the_two_capabilities_suffice() {
        assert!(missing("000001ffffffffff").is_empty());
        assert!(missing("000000c000000000").is_empty());
        assert!(missing("0000000000200000").is_empty());
        assert_eq!(missing("0000008000000000"), ["CAP_PERFMON"]);
        assert_eq!(missing("0000000000000000"), ["CAP_PERFMON", "CAP_BPF"]);
    }

    #[test]
    fn the_command_can_be_pasted_into_a_shell() {
        assert_eq!(quoted("--pid=7"), "--pid=7");
        assert_eq!(quoted("it's"), "'it'\\''s'");
        assert_eq!(quoted(""), "''");
    }
}
