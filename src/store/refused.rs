//! Why memory is no segment of ours.

use std::{error, fmt};

/// Why a mapping is not a segment of ours.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SegmentError {
    /// No address, or one that no mapping has.
    Address,
    /// Shorter than a header.
    Short,
    /// Something else, or a segment that was never finished.
    Magic,
    /// Sizes that no segment can have.
    Size,
    /// Made by a program that places its words elsewhere.
    Layout,
    /// Not as long as its sizes need.
    Length,
}

impl fmt::Display for SegmentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SegmentError::Address => "the shared memory has no usable address",
            SegmentError::Short => "the shared memory is shorter than its header",
            SegmentError::Magic => "the memory is not a finished segment of this module",
            SegmentError::Size => "no shared memory can have these sizes",
            SegmentError::Layout => "the shared memory was laid out by another version",
            SegmentError::Length => "the shared memory is not as long as its sizes need",
        })
    }
}

impl error::Error for SegmentError {}
