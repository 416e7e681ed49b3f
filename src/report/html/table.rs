//! A table with a caption, heads for columns and rows, and on a narrow screen a card for
//! each row. Roles are written out, since a table that is shown as cards loses them.

use maud::{Markup, html};

/// How a column looks.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Text.
    Text,
    /// Numbers, on the right.
    Number,
    /// More than a line of it: on a narrow screen below its name.
    Wide,
}

/// A row: what tells it from the others for as long as it is there, and its cells.
pub struct Row {
    pub key: String,
    pub cells: Vec<Markup>,
}

/// The table; the first cell of each row is its head.
pub fn table(id: &str, caption: &str, columns: &[(&str, Kind)], rows: Vec<Row>) -> Markup {
    let class = |kind| match kind {
        Kind::Text => None,
        Kind::Number => Some("n"),
        Kind::Wide => Some("wide"),
    };
    html! {
        table id=(id) role="table" {
            caption { (caption) }
            thead role="rowgroup" {
                tr role="row" {
                    @for (name, kind) in columns {
                        th scope="col" role="columnheader" class=[class(*kind)] { (name) }
                    }
                }
            }
            tbody role="rowgroup" {
                @for row in rows {
                    tr role="row" data-key=(row.key) {
                        @for (at, (cell, (name, kind))) in row.cells.iter().zip(columns).enumerate() {
                            @if at == 0 {
                                th scope="row" role="rowheader" class=[class(*kind)] { (cell) }
                            } @else {
                                td role="cell" data-label=(name) class=[class(*kind)] { (cell) }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// A part of the page.
pub fn section(id: &str, title: &str, body: Markup) -> Markup {
    html! {
        section id=(id) aria-labelledby={ (id) "-title" } {
            h2 id={ (id) "-title" } { (title) }
            (body)
        }
    }
}

/// What stands there instead of an empty table.
pub fn nothing(sentence: &str) -> Markup {
    html! { p class="soft" { (sentence) } }
}

/// How many rows are not shown.
pub fn more(shown: usize, all: u64) -> Markup {
    let left_out = all.saturating_sub(shown as u64);
    html! {
        @if left_out > 0 {
            p class="soft" { (super::numbers::grouped(left_out)) " more are not shown here." }
        }
    }
}

/// The name of a rule or guard, which breaks before its place rather than in a word.
pub fn name(name: &str) -> Markup {
    let (directive, place) = name.split_at(name.find('@').unwrap_or(name.len()));
    html! { code { (directive) wbr; (place) } }
}

/// A name for a virtual host: people know the main server's by its absence.
pub fn vhost(vhost: Option<&str>) -> Markup {
    html! {
        @if let Some(vhost) = vhost {
            span class="under" { "on " code { (vhost) } }
        }
    }
}
