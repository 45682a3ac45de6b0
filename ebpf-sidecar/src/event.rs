//! Records of the ring buffer as one enum.

use gpustall_wire::codes::kind;
use gpustall_wire::cuda::CudaCall;
use gpustall_wire::plain::read;
use gpustall_wire::record::{
    BlockIo, Exit, Life, MemoryWork, OffCpu, OffCpuStack, OomKill, Sample,
};

/// What the probes reported.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Event {
    /// An off-CPU interval, with the kernel stack of the wait, innermost first; empty without one.
    OffCpu(OffCpu, Vec<u64>),
    /// A tracked thread made another.
    Fork(Life),
    /// A process runs another program.
    Exec(Life),
    /// A thread has another name.
    Rename(Life),
    /// A thread ended.
    Exit(Exit),
    /// What a running thread ran.
    Sample(Box<Sample>),
    /// Work on memory that the kernel did on a tracked thread.
    MemoryWork(MemoryWork),
    /// A request to a disk is done.
    BlockIo(BlockIo),
    /// The kernel kills a tracked process.
    OomKill(OomKill),
    /// A call of the CUDA driver returned.
    CudaCall(CudaCall),
}

impl Event {
    /// The thread that it is about; of an execution by another thread than the first, the one that
    /// ran it.
    pub(crate) fn tid(&self) -> u32 {
        match self {
            Self::OffCpu(off, _) => off.tid,
            Self::Exec(life) => life.other_tid,
            Self::Fork(life) | Self::Rename(life) => life.tid,
            Self::Exit(exit) => exit.tid,
            Self::Sample(sample) => sample.tid,
            Self::MemoryWork(work) => work.tid,
            Self::BlockIo(request) => request.submitter.tid,
            Self::OomKill(kill) => kill.tid,
            Self::CudaCall(call) => call.tid,
        }
    }

    /// The record in `bytes`; `None` when it is of no known kind.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let word = bytes.first_chunk::<4>()?;
        Some(match u32::from_ne_bytes(*word) {
            kind::OFF_CPU => Self::OffCpu(read(bytes)?, Vec::new()),
            kind::OFF_CPU_STACK => {
                let OffCpuStack { off, stack } = read(bytes)?;
                let frames = stack.into_iter().take(off.frames as usize);
                Self::OffCpu(off, frames.take_while(|&ip| ip != 0).collect())
            }
            kind::FORK => Self::Fork(read(bytes)?),
            kind::EXEC => Self::Exec(read(bytes)?),
            kind::RENAME => Self::Rename(read(bytes)?),
            kind::EXIT => Self::Exit(read(bytes)?),
            kind::SAMPLE => Self::Sample(Box::new(read(bytes)?)),
            kind::MEMORY_WORK => Self::MemoryWork(read(bytes)?),
            kind::BLOCK_IO => Self::BlockIo(read(bytes)?),
            kind::OOM_KILL => Self::OomKill(read(bytes)?),
            kind::CUDA_CALL => Self::CudaCall(read(bytes)?),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpustall_wire::MAX_FRAMES;
    use gpustall_wire::plain::bytes_of;

    #[test]
    fn a_stack_has_the_frames_that_the_record_says() {
        let off = OffCpu {
            kind: kind::OFF_CPU_STACK,
            frames: 2,
            ..OffCpu::default()
        };
        let mut stack = [0; MAX_FRAMES];
        stack[..3].copy_from_slice(&[11, 22, 33]);
        let bytes = bytes_of(&OffCpuStack { off, stack }).to_vec();
        assert_eq!(Event::parse(&bytes), Some(Event::OffCpu(off, vec![11, 22])));
        assert_eq!(Event::parse(&bytes[..100]), None);
    }

    #[test]
    fn an_unknown_record_is_not_taken_for_another() {
        assert_eq!(Event::parse(&[99, 0, 0, 0, 1, 2, 3, 4]), None);
        assert_eq!(Event::parse(&[]), None);
    }
}
