//! The tables as Markdown, as they stand in `docs/causes.md`.

use super::{RULES, TRAINER_RULES, WAIT_RULES};

/// What a moment of a recorded device is charged to: [`RULES`].
pub fn table() -> String {
    let rows = RULES.iter();
    print(rows.map(|rule| (rule.id, rule.charges, rule.definition)))
}

/// What a moment inside a loader's call is charged to: [`WAIT_RULES`].
pub fn wait_table() -> String {
    let rows = WAIT_RULES.iter();
    print(rows.map(|rule| (rule.id, rule.charges, rule.definition)))
}

/// What a moment of a thread is charged to that stands for a device: [`TRAINER_RULES`].
pub fn trainer_table() -> String {
    let rows = TRAINER_RULES.iter();
    print(rows.map(|rule| (rule.id, rule.charges, rule.definition)))
}

fn print(rows: impl Iterator<Item = (&'static str, &'static str, &'static str)>) -> String {
    let head = "| | rule | charges | when |\n|---|---|---|---|\n".to_owned();
    rows.enumerate()
        .fold(head, |table, (i, (id, charges, definition))| {
            let charges = match charges.contains(' ') && !charges.contains(", ") {
                true => charges.to_owned(),
                false => {
                    let charges = charges.split(", ").map(|cause| format!("`{cause}`"));
                    charges.collect::<Vec<_>>().join(", ")
                }
            };
            format!("{table}| {} | {id} | {charges} | {definition} |\n", i + 1)
        })
}
