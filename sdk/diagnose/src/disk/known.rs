//! What is known about more readers at once, in words.

use super::Source;

/// What is known about more readers at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Known {
    /// Reads are held back before they reach the disk.
    HeldBack,
    /// It gives no more, whoever asks.
    AtLimit,
    /// Up to so many at once did not hold each other up.
    Scales(u64),
    /// Nothing certain beyond so many.
    UpTo(u64),
    /// Nothing certain of any other number: readers that were there at once may wait for each other, or not.
    Open,
}

impl Known {
    /// So many times the workers that there were are as many as bounds say something useful of; `None`
    /// where more readers get no more.
    pub(crate) fn reach(self) -> Option<u64> {
        match self {
            Self::HeldBack | Self::AtLimit => None,
            Self::Scales(_) | Self::UpTo(1) => Some(4),
            Self::UpTo(_) | Self::Open => Some(2),
        }
    }

    /// What is predicted with it; `open`: some steps only have bounds.
    pub(crate) fn in_words(self, source: Source, open: bool) -> String {
        let (it, askers) = (source.noun(), source.askers());
        match self {
            Self::HeldBack => "something holds the reads back before they reach the disk, so more \
                readers at once get no more"
                .to_owned(),
            Self::AtLimit => {
                let fewer = match open {
                    true => {
                        "; so few were never seen: the first if they reach the limit, too, the other if \
                         each of them waits as long as it did"
                    }
                    false => "",
                };
                format!(
                    "{it} is at its limit: {askers} that are there at once wait for each other{fewer}"
                )
            }
            _ if !open => String::new(),
            Self::UpTo(1) => {
                format!(
                    "the first if {it} serves more {askers} at once as fast as one, the \
                     other if they get no more of it: there was never more than one at once, and a \
                     recording with two workers says more"
                )
            }
            Self::Scales(most) => format!(
                "the first if {it} serves still more {askers} at once as well as up to {most}, \
                 which did not hold each other up; the other if it has a limit that was not reached"
            ),
            Self::Open => format!(
                "one bound is if {it} serves each of the {askers} as fast as now, however many there are, the \
                 other if it gives all of them together as much as now; which of the two, or what between \
                 them, does not show in how long they waited"
            ),
            Self::UpTo(most) => format!(
                "the first if {it} goes on with more {askers} at once as it did up to {most}, the \
                 other if they get no more of it"
            ),
        }
    }
}
