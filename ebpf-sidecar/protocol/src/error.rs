//! What can be wrong with what the other side sent.

/// Why bytes are not what they should be. The connection is of no use after it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProtocolError {
    /// The other side is no gpustall at all.
    #[error("what answers there is not gpustall")]
    NotGpustall,
    /// A length is beyond its limit.
    #[error("{what} of {bytes} bytes, where at most {limit} are allowed")]
    TooLong {
        /// What has that length.
        what: &'static str,
        /// The length that was announced.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// Bytes are no event, or no hello.
    #[error("{0} cannot be read")]
    Malformed(&'static str),
    /// A number names nothing that was sent before.
    #[error("{what} number {number} was never introduced")]
    Unknown {
        /// What the number should name.
        what: &'static str,
        /// The number.
        number: u32,
    },
}
