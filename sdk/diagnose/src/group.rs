//! Several threads or devices in few words.

/// Several threads in few words: their names if there are at most two, else how many and the
/// common beginning of their names, if that tells something, and of which ranks they are. Devices are
/// counted.
pub(crate) fn group(names: &[String]) -> String {
    match names {
        [] => "unknown thread".to_owned(),
        [one] => one.clone(),
        [one, two] if one == two => format!("2 threads {one}"),
        [one, two] => format!("{one} and {two}"),
        names if names.iter().all(|name| name.starts_with("GPU ")) => {
            format!("{} GPUs", names.len())
        }
        names => {
            let (bases, ranks): (Vec<&str>, Vec<Option<u32>>) =
                names.iter().map(|name| apart(name)).unzip();
            let ranks: Option<Vec<u32>> = ranks.into_iter().collect();
            let of = ranks.map_or(String::new(), |ranks| format!(" ({})", list(ranks)));
            format!("{} threads{}{of}", names.len(), common(&bases))
        }
    }
}

/// What a rank's thread is called.
pub(crate) fn of_rank(name: &str, rank: u32) -> String {
    format!("{name} (rank {rank})")
}

/// A name and the rank that it ends with.
fn apart(name: &str) -> (&str, Option<u32>) {
    let parts = || {
        let (base, rest) = name.rsplit_once(" (rank ")?;
        Some((base, rest.strip_suffix(')')?.parse().ok()?))
    };
    parts().map_or((name, None), |(base, rank)| (base, Some(rank)))
}

/// `ranks 0 to 3`, `ranks 0, 2, 5`, `rank 1`; of many the number.
fn list(mut ranks: Vec<u32>) -> String {
    const LISTED: usize = 5;
    ranks.sort_unstable();
    ranks.dedup();
    match ranks.as_slice() {
        [one] => format!("rank {one}"),
        [first, .., last] if ranks.len() > 2 && (last - first) as usize + 1 == ranks.len() => {
            format!("ranks {first} to {last}")
        }
        ranks if ranks.len() > LISTED => format!("{} ranks", ranks.len()),
        ranks => {
            let ranks: Vec<String> = ranks.iter().map(u32::to_string).collect();
            format!("ranks {}", ranks.join(", "))
        }
    }
}

/// What names have in common, behind a blank; nothing if that tells nothing.
fn common(names: &[&str]) -> String {
    let Some((first, rest)) = names.split_first() else {
        return String::new();
    };
    if rest.iter().all(|name| name == first) {
        return format!(" {first}");
    }
    let common = rest.iter().fold(*first, |common, name| {
        let same = common.chars().zip(name.chars()).take_while(|(a, b)| a == b);
        &common[..same.map(|(a, _)| a.len_utf8()).sum()]
    });
    match common.trim_end_matches(|c: char| c.is_ascii_digit()) {
        "thread " => String::new(),
        short if short.chars().count() < 2 => String::new(),
        common => format!(" {common}*"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_threads_are_named_by_what_their_names_share() {
        let names = |list: &[&str]| list.iter().map(|&n| n.to_owned()).collect::<Vec<_>>();
        let of = |list: &[&str]| group(&names(list));
        assert_eq!(of(&["main"]), "main");
        assert_eq!(of(&["a-0", "a-1"]), "a-0 and a-1");
        assert_eq!(of(&["python3", "python3"]), "2 threads python3");
        assert_eq!(of(&["a-10", "a-11", "a-12"]), "3 threads a-*");
        assert_eq!(of(&["x", "y", "z"]), "3 threads");
        assert_eq!(of(&["python3", "pt_0", "p"]), "3 threads");
        assert_eq!(of(&["thread 1", "thread 2", "thread 3"]), "3 threads");
        assert_eq!(of(&["GPU 0", "GPU 1", "GPU 2"]), "3 GPUs");
        assert_eq!(
            of(&["p (rank 0)", "p (rank 1)"]),
            "p (rank 0) and p (rank 1)"
        );
        assert_eq!(
            of(&["main (rank 0)", "main (rank 1)", "main (rank 2)"]),
            "3 threads main (ranks 0 to 2)"
        );
        assert_eq!(
            of(&["w-0 (rank 0)", "w-1 (rank 0)", "w-0 (rank 2)"]),
            "3 threads w-* (ranks 0, 2)"
        );
        assert_eq!(
            of(&["GPU 0 (rank 0)", "GPU 1 (rank 1)", "GPU 2 (rank 2)"]),
            "3 GPUs"
        );
    }
}
