//! The status page: one HTML document that needs nothing else, and works without scripts.
//!
//! Everything is escaped by the templates. Style and script stand in the page itself; its
//! policy names them by their hashes and allows nothing more. Each number carries its place
//! in the JSON, so that the two can be compared.

mod history;
mod numbers;
mod pool;
mod rules;
mod table;
mod tables;
mod totals;

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::snapshot::Snapshot;
use numbers::clock;

/// The policy that the page is to be sent with.
pub const POLICY: &str = concat!(
    "default-src 'none'; style-src ",
    env!("PAGE_STYLE"),
    "; script-src ",
    env!("PAGE_SCRIPT"),
    "; img-src data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
);

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");
/// Three bars, of which one is full.
const ICON: &str = "data:image/svg+xml,<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'>\
    <path fill='%231d6f92' d='M1 9h4v6H1zM6 5h4v10H6z'/><path fill='%23a3261c' d='M11 1h4v14h-4z'/></svg>";

/// The whole page.
pub fn page(snapshot: &Snapshot) -> String {
    let pool = &snapshot.pool;
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (pool.busy) "/" (pool.max_workers) " busy - limits per client" }
                link rel="icon" href=(ICON);
                style { (PreEscaped(STYLE)) }
            }
            body {
                a class="skip" href="#pool" { "Skip to the numbers" }
                header {
                    h1 { "Limits per client" }
                    div class="live" {
                        span id="state" role="status" {
                            noscript { "Without scripts the page stays as it is: reload it" }
                        }
                        button id="pause" type="button" hidden { "Pause" }
                    }
                    (contents(snapshot))
                }
                main { (sections(snapshot)) }
                footer {
                    span { "As JSON: " a href="?format=json" { "?format=json" } }
                    span { "For Prometheus: " a href="?format=openmetrics" { "?format=openmetrics" } }
                }
                script { (PreEscaped(SCRIPT)) }
            }
        }
    };
    page.into_string()
}

fn contents(snapshot: &Snapshot) -> Markup {
    let places = [
        ("pool", "Workers"),
        ("history", "Ten minutes"),
        ("holders", "Who holds them"),
        ("rules", "Rules"),
        ("flight", "In flight"),
        ("frozen", "Frozen"),
        ("totals", "Table and counters"),
    ];
    html! {
        p {
            "mod_limitipconn " (snapshot.version) ", " (snapshot.httpd)
        }
        nav aria-label="Parts of this page" {
            ul {
                @for (id, name) in places {
                    li { a href={ "#" (id) } { (name) } }
                }
            }
        }
    }
}

/// The parts that the script keeps up to date.
fn sections(snapshot: &Snapshot) -> Markup {
    html! {
        div class="top" {
            (pool::section(snapshot))
            (history::section(snapshot))
        }
        (tables::holders(snapshot))
        (rules::section(snapshot))
        (tables::flight(snapshot))
        (tables::frozen(snapshot))
        (totals::section(snapshot))
        p class="soft" { "As of " time id="as-of" { (clock(snapshot.unix_milliseconds)) " UTC" } }
    }
}

#[cfg(test)]
mod tests;
