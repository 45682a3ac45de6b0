//! Numbers for the places in a program where spans are opened, so that a span's id holds its place.

use std::sync::OnceLock;
use tracing::Metadata;

/// Bits of a number, and how many there are; a program has a few hundred such places.
const BITS: u32 = 13;
const MOST: usize = 1 << BITS;

/// Places that are looked at for one that is free: few even in a table that is nearly full.
const PROBES: usize = 64;

static PLACES: [OnceLock<&'static Metadata<'static>>; MOST] = [const { OnceLock::new() }; MOST];

/// The number of a place, always the same; `None` when there are no more.
#[inline]
pub(super) fn number(metadata: &'static Metadata<'static>) -> Option<u16> {
    let address = std::ptr::from_ref(metadata) as u64;
    // Neighbours in memory are told apart by their upper bits after this.
    let first = (address >> 3).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - BITS);
    for probe in 0..PROBES {
        let number = (first as usize + probe) % MOST;
        let known = *PLACES[number].get_or_init(|| metadata);
        if std::ptr::eq(known, metadata) {
            return Some(number as u16);
        }
    }
    None
}

/// The place with this number.
#[inline]
pub(super) fn metadata(number: u16) -> Option<&'static Metadata<'static>> {
    PLACES.get(usize::from(number))?.get().copied()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use tracing::Level;
    use tracing::callsite::{Callsite, Identifier};
    use tracing::field::FieldSet;
    use tracing::metadata::Kind;
    use tracing::subscriber::Interest;

    struct Site;

    impl Callsite for Site {
        fn set_interest(&self, _: Interest) {}

        fn metadata(&self) -> &Metadata<'_> {
            &PLACE
        }
    }

    static SITE: Site = Site;

    const fn place(name: &'static str) -> Metadata<'static> {
        let fields = FieldSet::new(&[], Identifier(&SITE));
        Metadata::new(
            name,
            "here",
            Level::INFO,
            None,
            None,
            None,
            fields,
            Kind::SPAN,
        )
    }

    pub(in crate::subscriber) static PLACE: Metadata<'static> = place("place");
    static OTHER: Metadata<'static> = place("other");

    #[test]
    fn a_place_keeps_its_number_and_no_other_has_it() {
        assert_ne!(number(&PLACE), number(&OTHER));
        for place in [&PLACE, &OTHER] {
            let found = number(place);
            assert_eq!(number(place), found);
            let back = metadata(found.expect("room for two"));
            assert!(back.is_some_and(|back| std::ptr::eq(back, place)));
        }
    }
}
