//! httpd's configuration tree: the directives as they were written.

use std::borrow::Cow;
use std::marker::PhantomData;
use std::ptr::NonNull;

use super::server::{shown, text};
use crate::sys;

/// One directive, or the opening line of a section.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Node<'t>(NonNull<sys::ap_directive_t>, PhantomData<&'t ()>);

impl<'t> Node<'t> {
    /// # Safety
    /// `node` is null or part of a live tree that outlives `'t`.
    pub(super) unsafe fn from_raw(node: *mut sys::ap_directive_t) -> Option<Self> {
        NonNull::new(node).map(|node| Node(node, PhantomData))
    }

    fn rec(self) -> &'t sys::ap_directive_t {
        // SAFETY: live for 't by from_raw's contract; nobody changes it meanwhile.
        unsafe { self.0.as_ref() }
    }

    /// The name; of a section with the bracket, `<Location`.
    pub fn name(self) -> &'t str {
        // SAFETY: a text of the tree.
        unsafe { text(self.rec().directive) }.unwrap_or("")
    }

    /// The arguments; of a section with the closing bracket.
    pub fn arguments(self) -> Cow<'t, str> {
        // SAFETY: a text of the tree.
        unsafe { shown(self.rec().args) }
    }

    /// The file it stands in.
    pub fn file(self) -> Cow<'t, str> {
        // SAFETY: a text of the tree.
        unsafe { shown(self.rec().filename) }
    }

    /// The line it stands on.
    pub fn line(self) -> u32 {
        self.rec().line_num.unsigned_abs()
    }

    /// The section around it.
    pub fn parent(self) -> Option<Node<'t>> {
        // SAFETY: links of the same tree.
        unsafe { Node::from_raw(self.rec().parent) }
    }

    fn next(self) -> Option<Node<'t>> {
        // SAFETY: as above.
        unsafe { Node::from_raw(self.rec().next) }
    }

    fn first_child(self) -> Option<Node<'t>> {
        // SAFETY: as above.
        unsafe { Node::from_raw(self.rec().first_child) }
    }

    /// What stands before it in the same section, first to last. None in a .htaccess
    /// file outside sections, whose beginning cannot be reached from here.
    pub fn earlier_siblings(self) -> Option<Vec<Node<'t>>> {
        let first = match self.parent() {
            Some(parent) => parent.first_child(),
            // SAFETY: ap_conftree is null or the tree that was read last.
            None => unsafe { Node::from_raw(sys::ap_conftree) },
        };
        let mut earlier = Vec::new();
        for node in std::iter::successors(first, |node| node.next()) {
            if node == self {
                return Some(earlier);
            }
            earlier.push(node);
        }
        None
    }
}

/// All directives of the server's configuration at once, in the order of [`walk`]. What is
/// made of them cannot hold on to them.
pub fn with_all<R>(read: impl FnOnce(&[Node<'_>]) -> R) -> R {
    fn below<'t>(first: Option<Node<'t>>, all: &mut Vec<Node<'t>>) {
        for node in std::iter::successors(first, |node| node.next()) {
            all.push(node);
            below(node.first_child(), all);
        }
    }
    let mut all = Vec::new();
    // SAFETY: as in walk.
    below(unsafe { Node::from_raw(sys::ap_conftree) }, &mut all);
    read(&all)
}

/// Every directive of the server's configuration, depth first.
pub fn walk(visit: &mut impl FnMut(Node<'_>)) {
    fn below(first: Option<Node<'_>>, visit: &mut impl FnMut(Node<'_>)) {
        for node in std::iter::successors(first, |node| node.next()) {
            visit(node);
            below(node.first_child(), visit);
        }
    }
    // SAFETY: ap_conftree is null or the tree that was read last; we run between
    // reading and serving, when nobody changes it.
    below(unsafe { Node::from_raw(sys::ap_conftree) }, visit);
}
