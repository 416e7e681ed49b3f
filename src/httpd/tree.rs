//! httpd's configuration tree: the directives as they were written.

use std::marker::PhantomData;
use std::ptr::NonNull;

use super::server::text;
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
    pub fn arguments(self) -> &'t str {
        // SAFETY: a text of the tree.
        unsafe { text(self.rec().args) }.unwrap_or("")
    }

    /// The file it stands in.
    pub fn file(self) -> &'t str {
        // SAFETY: a text of the tree.
        unsafe { text(self.rec().filename) }.unwrap_or("")
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

    /// What stands before it in the same section, nearest last.
    pub fn earlier_siblings(self) -> impl Iterator<Item = Node<'t>> {
        let first = self.parent().and_then(Node::first_child);
        std::iter::successors(first, |node| node.next()).take_while(move |node| *node != self)
    }
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
