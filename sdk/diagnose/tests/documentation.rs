//! The page that describes the report is right.

use gpustall_diagnose::{Report, rules};
use std::path::Path;

fn block<'a>(page: &'a str, language: &str) -> &'a str {
    let start = page
        .split_once(&format!("```{language}\n"))
        .map_or("", |(_, rest)| rest);
    start.split_once("\n```").map_or("", |(block, _)| block)
}

#[test]
fn the_example_in_the_documentation_is_a_report_and_its_text() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/report.md");
    // A published crate comes without the pages of the repository.
    let Ok(page) = std::fs::read_to_string(page) else {
        return;
    };
    let report: Report = serde_json::from_str(block(&page, "json")).expect("it is a report");
    assert_eq!(block(&page, "text"), report.to_string());
    assert_eq!(report.charges_ns.values().sum::<u64>(), report.device_ns);
    let fields = serde_json::to_value(&report).expect("a report is JSON");
    for field in fields.as_object().expect("it has fields").keys() {
        assert!(page.contains(&format!("`{field}`")) || page.contains(&format!("`{field}[]`")));
    }
}

#[test]
fn the_page_of_causes_has_the_table_of_the_program_and_every_cause() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/causes.md");
    let Ok(page) = std::fs::read_to_string(&path) else {
        return;
    };
    let mut written = page.clone();
    for (name, table) in [
        ("table", rules::table()),
        ("wait_table", rules::wait_table()),
        ("trainer_table", rules::trainer_table()),
    ] {
        let from = format!("<!-- the table is rules::{name}() -->\n");
        let to = "<!-- end of the table -->";
        let (head, rest) = written.split_once(&from).expect("the table has a place");
        let (_, tail) = rest.split_once(to).expect("the table has an end");
        written = format!("{head}{from}\n{table}\n{to}{tail}");
    }
    // GPUSTALL_WRITE_DOCS=1 cargo test -p gpustall-diagnose --test documentation
    if std::env::var_os("GPUSTALL_WRITE_DOCS").is_some() {
        std::fs::write(path, written).expect("the page can be written");
        return;
    }
    assert!(
        page == written,
        "write the tables anew with GPUSTALL_WRITE_DOCS=1"
    );
    for cause in gpustall_diagnose::Cause::ALL {
        assert!(page.contains(&format!("### `{cause}`\n")), "{cause}");
        let own = page.split_once(&format!("### `{cause}`\n"));
        let own = own.and_then(|(_, rest)| rest.split("\n### ").next());
        let own = own.unwrap_or_default();
        let picture = format!("images/causes/{cause}.png");
        let drawn = own.contains(&format!("]({picture})"));
        assert!(
            drawn || own.contains("Looks like ["),
            "{cause} has no picture"
        );
        assert!(
            !drawn || path.with_file_name(&picture).exists(),
            "{picture}"
        );
    }
    let charges = rules::RULES.iter().map(|rule| rule.charges);
    let charges = charges.chain(rules::WAIT_RULES.iter().map(|rule| rule.charges));
    let charges = charges.chain(rules::TRAINER_RULES.iter().map(|rule| rule.charges));
    for cause in charges.flat_map(|charges| charges.split(", ")) {
        let known = gpustall_diagnose::Cause::ALL
            .iter()
            .any(|of| of.id() == cause);
        let other = ["compute", "a row of the table of waits"].contains(&cause);
        assert!(known || other, "{cause}");
    }
}
