//! Text in columns.

use std::fmt::{self, Write};

/// Columns of the screen.
pub(crate) const WIDTH: usize = 80;

/// Longest cell of a table; longer ones are cut.
pub(super) const MAX_CELL: usize = 30;

/// Writes `text` behind `first`, broken at blanks so that lines fit the screen where words do;
/// every line but the first begins with `indent`. A number stays with its unit. Line breaks and
/// control characters are blanks.
pub(crate) fn paragraph(f: &mut String, first: &str, indent: &str, text: &str) -> fmt::Result {
    let mut line = first.to_owned();
    let mut used = line.chars().count();
    let mut empty = true;
    for word in words(text) {
        let length = word.chars().count();
        if !empty && used + 1 + length > WIDTH {
            writeln!(f, "{}", line.trim_end())?;
            line.clear();
            line.push_str(indent);
            used = indent.chars().count();
        } else if !empty {
            line.push(' ');
            used += 1;
        }
        line.push_str(&word);
        used += length;
        empty = false;
    }
    writeln!(f, "{}", line.trim_end())
}

/// The words of a text, a number and its unit as one.
fn words(text: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let blank = |c: char| c.is_whitespace() || c.is_control();
    for word in text.split(blank).filter(|word| !word.is_empty()) {
        let unit = word.trim_end_matches(|c: char| c.is_ascii_punctuation() && c != '%');
        let unit = ["%", "ns", "us", "ms", "s"].contains(&unit);
        match words.last_mut() {
            Some(last) if unit && last.ends_with(|c: char| c.is_ascii_digit()) => {
                last.push(' ');
                last.push_str(word);
            }
            _ => words.push(word.to_owned()),
        }
    }
    words
}

/// Writes a table: the first column to the left, the others to the right, the last as it is.
/// A column that is empty in every row is left out.
pub(crate) fn columns(f: &mut String, head: Vec<String>, rows: Vec<Vec<String>>) -> fmt::Result {
    let used = |column: &usize| {
        rows.iter()
            .any(|row| row.get(*column).is_some_and(|c| !c.is_empty()))
    };
    let shown: Vec<usize> = (0..head.len()).filter(used).collect();
    let all: Vec<Vec<String>> = std::iter::once(&head)
        .chain(&rows)
        .map(|row| {
            shown
                .iter()
                .map(|&i| cut(row.get(i).map_or("", String::as_str)))
                .collect()
        })
        .collect();
    let width = |column: usize| {
        let cells = all.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let last = shown.len().saturating_sub(1);
    for row in &all {
        let mut line = String::new();
        for (i, cell) in row.iter().enumerate() {
            let width = width(i);
            line.push_str(&match i {
                0 => format!("{cell:<width$}"),
                i if i == last => format!("  {cell}"),
                _ => format!("  {cell:>width$}"),
            });
        }
        writeln!(f, "{}", line.trim_end())?;
    }
    Ok(())
}

/// A name that fits `room`: the middle of a long one is left out, as its end tells more than its middle,
/// `Data~(train.py:12)`.
pub(super) fn cut_in_the_middle(name: &str, room: usize) -> String {
    let length = name.chars().count();
    if length <= room {
        return name.to_owned();
    }
    let kept = room.saturating_sub(1);
    let head = kept / 4;
    let tail = kept - head;
    let start = name.chars().take(head);
    let end = name.chars().skip(length.saturating_sub(tail));
    start.chain(['~']).chain(end).collect()
}

fn cut(cell: &str) -> String {
    let clean = cell.chars().map(|c| if c.is_control() { ' ' } else { c });
    match cell.chars().count() > MAX_CELL {
        true => clean.take(MAX_CELL - 1).chain(['~']).collect(),
        false => clean.collect(),
    }
}
