//! Numbers of an event, exact: times never go through a floating-point number, which would cost
//! an epoch-sized one some hundred nanoseconds.

use super::cursor::Raw;

/// Times and lengths lie within this many nanoseconds around zero (146 years).
const LIMIT: u128 = 1 << 62;
/// Digits of a number that count.
const DIGITS: i32 = 36;

/// Nanoseconds from a number of microseconds, to the nearest; half a nanosecond is rounded away
/// from zero. A number may stand as text. `None` if it is no number, or is absurdly large.
pub(super) fn nanos(value: Raw<'_>) -> Option<i64> {
    let text = match value {
        Raw::Bare(text) => text,
        Raw::Text(text) if !text.escaped => text.raw,
        Raw::Text(_) | Raw::Nested(_) => return None,
    };
    plain(text).or_else(|| scaled(text, 3))
}

/// The form in which Kineto writes them: digits, and up to three decimals.
fn plain(text: &[u8]) -> Option<i64> {
    let point = text.iter().position(|&b| b == b'.');
    let (whole, fraction) = match point {
        Some(at) => (&text[..at], &text[at + 1..]),
        None => (text, &[][..]),
    };
    if whole.is_empty() || whole.len() > 15 || fraction.len() > 3 {
        return None;
    }
    let mut ns = 0_i64;
    for byte in whole.iter().chain(fraction) {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        ns = ns * 10 + i64::from(digit);
    }
    for _ in fraction.len()..3 {
        ns *= 10;
    }
    Some(ns)
}

/// The number times 10^`power`, to the nearest integer.
fn scaled(text: &[u8], power: i32) -> Option<i64> {
    let (negative, text) = match text.strip_prefix(b"-") {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (mut mantissa, mut exponent, mut digits) = (0_u128, power, 0);
    let (mut any, mut fraction) = (false, false);
    let mut at = 0;
    while at < text.len() {
        match text[at] {
            b @ b'0'..=b'9' => {
                any = true;
                // Digits beyond those that count only move the point.
                let counts = digits < DIGITS;
                if counts {
                    mantissa = mantissa * 10 + u128::from(b - b'0');
                    digits += i32::from(mantissa > 0);
                }
                exponent = exponent.checked_add(match (counts, fraction) {
                    (true, true) => -1,
                    (false, false) => 1,
                    _ => 0,
                })?;
            }
            b'.' if !fraction => fraction = true,
            b'e' | b'E' if any => {
                let given = std::str::from_utf8(&text[at + 1..]).ok()?;
                let given: i64 = given.parse().ok()?;
                exponent = exponent.saturating_add(given.clamp(-100_000, 100_000) as i32);
                break;
            }
            _ => return None,
        }
        at += 1;
    }
    if !any {
        return None;
    }
    let size = match exponent {
        _ if mantissa == 0 => 0,
        0.. => mantissa.checked_mul(10_u128.checked_pow(exponent as u32)?)?,
        // Less than half of the last digit that counts.
        i32::MIN..-38 => 0,
        _ => {
            let unit = 10_u128.pow(exponent.unsigned_abs());
            mantissa / unit + u128::from(mantissa % unit >= unit - unit / 2)
        }
    };
    let size = i64::try_from(size).ok().filter(|_| size <= LIMIT)?;
    Some(if negative { -size } else { size })
}

/// An integer, as a number or as text; `None` for anything else.
pub(super) fn integer(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text.strip_prefix(b"-") {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    if digits.is_empty() || digits.len() > 18 {
        return None;
    }
    let mut value = 0_i64;
    for byte in digits {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value * 10 + i64::from(digit);
    }
    Some(if negative { -value } else { value })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ns(text: &str) -> Option<i64> {
        nanos(Raw::Bare(text.as_bytes()))
    }

    #[test]
    fn epoch_sized_microseconds_keep_their_nanoseconds() {
        for (text, expected) in [
            ("1623142623460111", 1_623_142_623_460_111_000),
            ("1623142623460111.007", 1_623_142_623_460_111_007),
            ("5123476559733.9", 5_123_476_559_733_900),
            ("1623142623460111.0075", 1_623_142_623_460_111_008),
            ("1.623142623460111007e15", 1_623_142_623_460_111_007),
            ("0", 0),
            ("-1.5", -1_500),
            ("0.0004", 0),
            ("0.0005", 1),
            ("1e-400", 0),
            ("12E+2", 1_200_000),
            ("00012.50", 12_500),
        ] {
            assert_eq!(ns(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for text in [
            "",
            "-",
            ".",
            "nan",
            "inf",
            "1e300",
            "1e99999999999",
            "1..2",
            "12a",
            "0x10",
            "1e",
            "9999999999999999999",
            "+1",
        ] {
            assert_eq!(ns(text), None, "{text}");
        }
    }

    #[test]
    fn a_thousand_digits_move_the_point() {
        let long = "3".repeat(1000);
        assert_eq!(ns(&long), None);
        assert_eq!(ns(&format!("0.{long}")), Some(333));
        assert_eq!(ns(&format!("{}1", "0".repeat(1000))), Some(1000));
        assert_eq!(ns(&format!("1{}e-1000", "0".repeat(1000))), Some(1000));
    }
}
