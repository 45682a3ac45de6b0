//! What the devices did, added up from what was played: the shares that a report must give.

/// What an operation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    Kernel,
    /// A kernel of NCCL.
    Exchange,
    Copy,
    Set,
}

type Span = (u64, u64);

/// What happened. Times in nanoseconds.
#[derive(Debug, Default)]
pub struct Truth {
    /// Device, kind, start and end of each operation.
    pub ops: Vec<(u32, Class, u64, u64)>,
    /// When the main thread was in `next()`.
    pub waits: Vec<Span>,
    /// When the first step begins.
    pub begins: Option<u64>,
}

/// Shares of a device in percent of the window.
#[derive(Debug, Clone, Copy)]
pub struct Shares {
    pub compute: f64,
    pub exchange: f64,
    pub copies: f64,
    pub idle: f64,
    /// Idle, while the main thread was in `next()`.
    pub data: f64,
}

impl Truth {
    /// From the start of the first step to the end of the last operation.
    fn window(&self) -> Span {
        let end = self.ops.iter().map(|op| op.3).max().unwrap_or_default();
        let first = self.ops.iter().map(|op| op.2).min().unwrap_or_default();
        (self.begins.unwrap_or(first), end)
    }

    /// The shares of a device.
    pub fn shares(&self, device: u32) -> Shares {
        let window = self.window();
        let of = |classes: &[Class]| {
            let ops = self
                .ops
                .iter()
                .filter(|op| op.0 == device && classes.contains(&op.1));
            union(
                ops.map(|op| (op.2.max(window.0), op.3.min(window.1)))
                    .collect(),
            )
        };
        let kernels = of(&[Class::Kernel]);
        let kernels_too = of(&[Class::Kernel, Class::Exchange]);
        let all = of(&[Class::Kernel, Class::Exchange, Class::Copy, Class::Set]);
        let waits = union(self.waits.clone());
        let waits_busy = shared(&waits, &all);
        let waits = shared(&waits, &[window]);
        let percent = |ns: u64| ns as f64 * 100.0 / (window.1 - window.0) as f64;
        Shares {
            compute: percent(length(&kernels)),
            exchange: percent(length(&kernels_too) - length(&kernels)),
            copies: percent(length(&all) - length(&kernels_too)),
            idle: 100.0 - percent(length(&all)),
            data: percent(waits - waits_busy),
        }
    }
}

fn length(spans: &[Span]) -> u64 {
    spans.iter().map(|span| span.1 - span.0).sum()
}

fn union(mut spans: Vec<Span>) -> Vec<Span> {
    spans.retain(|span| span.0 < span.1);
    spans.sort_unstable();
    let mut union: Vec<Span> = Vec::new();
    for span in spans {
        match union.last_mut() {
            Some(last) if span.0 <= last.1 => last.1 = last.1.max(span.1),
            _ => union.push(span),
        }
    }
    union
}

/// How long both go on; each disjoint and in order.
fn shared(a: &[Span], b: &[Span]) -> u64 {
    let (mut i, mut j, mut sum) = (0, 0, 0);
    while let (Some(x), Some(y)) = (a.get(i), b.get(j)) {
        sum += x.1.min(y.1).saturating_sub(x.0.max(y.0));
        match x.1 < y.1 {
            true => i += 1,
            false => j += 1,
        }
    }
    sum
}
