//! JSON as bytes: strings, times and numbers, appended without going through a value.

use crate::ValueRef;

/// Appends `text` as a JSON string.
pub(crate) fn string(out: &mut Vec<u8>, text: &str) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    out.push(b'"');
    let bytes = text.as_bytes();
    let mut copied = 0;
    for (i, &byte) in bytes.iter().enumerate() {
        if byte >= 0x20 && byte != b'"' && byte != b'\\' {
            continue;
        }
        out.extend_from_slice(&bytes[copied..i]);
        copied = i + 1;
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            _ => {
                out.extend_from_slice(b"\\u00");
                out.push(HEX[usize::from(byte >> 4)]);
                out.push(HEX[usize::from(byte & 15)]);
            }
        }
    }
    out.extend_from_slice(&bytes[copied..]);
    out.push(b'"');
}

/// Appends an integer.
pub(crate) fn integer(out: &mut Vec<u8>, value: impl itoa::Integer) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

/// Appends `ns` nanoseconds as microseconds with exactly three decimals.
pub(crate) fn micros(out: &mut Vec<u8>, ns: u64) {
    integer(out, ns / 1000);
    let rest = ns % 1000;
    out.push(b'.');
    for digit in [rest / 100, rest / 10 % 10, rest % 10] {
        out.push(b'0' + digit as u8);
    }
}

/// Appends a number so that it reads back bit for bit, always with a point or an exponent;
/// as the text `"NaN"`, `"Infinity"` or `"-Infinity"` what JSON has no number for.
pub(crate) fn float(out: &mut Vec<u8>, value: f64) {
    if value.is_finite() {
        serde_json::to_writer(&mut *out, &value).expect("a Vec takes every write");
    } else if value.is_nan() {
        out.extend_from_slice(b"\"NaN\"");
    } else if value > 0.0 {
        out.extend_from_slice(b"\"Infinity\"");
    } else {
        out.extend_from_slice(b"\"-Infinity\"");
    }
}

/// Appends the value of an argument. What viewers would misread stands as text in an object that
/// names its type: `{"u64":"18446744073709551615"}`, `{"f64":"NaN"}`.
pub(crate) fn value(out: &mut Vec<u8>, value: ValueRef<'_>) {
    match value {
        ValueRef::Bool(true) => out.extend_from_slice(b"true"),
        ValueRef::Bool(false) => out.extend_from_slice(b"false"),
        ValueRef::U64(v) if v > i64::MAX as u64 => {
            out.extend_from_slice(b"{\"u64\":\"");
            integer(out, v);
            out.extend_from_slice(b"\"}");
        }
        ValueRef::U64(v) => integer(out, v),
        ValueRef::I64(v) => integer(out, v),
        ValueRef::F64(v) if !v.is_finite() => {
            out.extend_from_slice(b"{\"f64\":");
            float(out, v);
            out.push(b'}');
        }
        ValueRef::F64(v) => float(out, v),
        ValueRef::Str(v) => string(out, v),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).expect("UTF-8")
    }

    #[test]
    fn every_text_reads_back_as_it_was() {
        let all: String = (0..0x3000).filter_map(char::from_u32).collect();
        for text in [
            "",
            "a\"b\\c",
            "\u{0}\u{1f}\u{7f}\u{2028}",
            "Ünïcödé 漢字 🚀",
            &all,
        ] {
            let json = written(|out| string(out, text));
            assert_eq!(serde_json::from_str::<String>(&json).expect("JSON"), text);
        }
    }

    #[test]
    fn times_have_three_decimals_and_no_rounding() {
        for (ns, text) in [
            (0, "0.000"),
            (7, "0.007"),
            (1_000, "1.000"),
            (1_234_567, "1234.567"),
            (u64::MAX, "18446744073709551.615"),
        ] {
            assert_eq!(written(|out| micros(out, ns)), text);
        }
    }

    #[test]
    fn a_whole_number_keeps_its_point() {
        assert_eq!(written(|out| float(out, 2.0)), "2.0");
        assert_eq!(written(|out| float(out, f64::NAN)), "\"NaN\"");
    }
}
