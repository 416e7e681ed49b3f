//! What the tests of the status page look at, as bodies of functions that run in it.

use serde_json::Value;

/// Each number that names its place in the JSON: place, value, text.
pub const NUMBERS: &str = "
return [...document.querySelectorAll('[data-json]')]
    .map(e => [e.dataset.json, e.getAttribute('value'), e.textContent])";

/// Elements that only a text could have made, and what a script in one would have done.
pub const STRANGERS: &str = "
const known = new Set('DIV SECTION H2 H3 P DL DT DD DATA SVG RECT LINE POLYGON POLYLINE TITLE DESC FIGURE FIGCAPTION \
    SPAN B UL LI CODE TABLE CAPTION THEAD TBODY TR TH TD DETAILS SUMMARY TIME WBR'.split(' '));
const strange = [...document.querySelectorAll('main *')]
    .filter(e => !known.has(e.nodeName.toUpperCase())
        || [...e.attributes].some(a => a.name.startsWith('on') || a.name === 'style'))
    .map(e => e.outerHTML);
if (document.scripts.length !== 1) strange.push('scripts: ' + document.scripts.length);
return strange";

/// Opens a part, goes to it and chooses a text there.
pub const SETTLE: &str = "
document.querySelector('details').open = true;
const summary = document.querySelector('summary');
summary.focus();
const term = document.querySelector('details dt');
getSelection().setBaseAndExtent(term.firstChild, 2, term.firstChild, 8);
scrollTo({ top: document.querySelector('#frozen').offsetTop - 40, behavior: 'instant' });
return { focus: document.activeElement.outerHTML, selection: String(getSelection()), open: true,
    top: Math.round(document.querySelector('#frozen').getBoundingClientRect().top), scrolled: scrollY }";

/// The same afterwards.
pub const SETTLED: &str = "
return { focus: document.activeElement.outerHTML, selection: String(getSelection()),
    open: document.querySelector('details').open,
    top: Math.round(document.querySelector('#frozen').getBoundingClientRect().top), scrolled: scrollY }";

/// Pauses and goes on.
pub const GO_ON: &str = "
const b = document.getElementById('pause'); b.click(); if (b.textContent === 'Go on') b.click()";

/// Of when the numbers are, and how the page fares.
pub const SHOWN: &str = "
return { as_of: document.getElementById('as-of').textContent,
    state: document.getElementById('state').textContent, hidden: document.hidden }";

/// The rows of all tables here, and those of a page that is asked for now.
pub const ROWS: &str = "
const rows = d => [...d.querySelectorAll('main [data-key]')].map(e => e.getAttribute('data-key'));
return fetch(location.href).then(answer => answer.text())
    .then(text => [rows(document), rows(new DOMParser().parseFromString(text, 'text/html'))])";

/// Texts whose contrast with what is behind them is less than 4.5 (WCAG 2.2, 1.4.3).
pub const FAINT: &str = "
const parse = c => { const m = c.match(/[\\d.]+/g).map(Number); return { rgb: m.slice(0, 3), a: m.length > 3 ? m[3] : 1 } };
const light = rgb => { const [r, g, b] = rgb.map(v => v / 255).map(v => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4);
    return .2126 * r + .7152 * g + .0722 * b };
const behind = e => { for (; e; e = e.parentElement) { const c = parse(getComputedStyle(e).backgroundColor);
    if (c.a === 1) return c.rgb } return [255, 255, 255] };
const faint = []; let texts = 0;
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walker.nextNode()) {
    const e = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || e.closest('script, style, noscript, svg, .unseen') || !e.checkVisibility()) continue;
    texts++;
    const [a, b] = [light(parse(getComputedStyle(e).color).rgb), light(behind(e))].sort((x, y) => y - x);
    if ((a + .05) / (b + .05) < 4.5) faint.push([walker.currentNode.data, (a + .05) / (b + .05)]);
}
for (const e of document.querySelectorAll('td[data-label]')) {
    const [a, b] = [light(parse(getComputedStyle(e, '::before').color).rgb), light(behind(e))].sort((x, y) => y - x);
    if ((a + .05) / (b + .05) < 4.5) faint.push([e.dataset.label, (a + .05) / (b + .05)]);
}
return { faint, texts }";

/// What is missing for those who do not see the page, or read it by its parts.
pub const STRUCTURE: &str = "
const faults = [];
const tables = document.querySelectorAll('table');
for (const t of tables) {
    if (!t.caption?.textContent.trim()) faults.push('no caption: ' + t.id);
    for (const th of t.querySelectorAll('thead th')) if (th.scope !== 'col' || !th.textContent.trim()) faults.push(th.outerHTML);
    for (const tr of t.querySelectorAll('tbody tr')) {
        if (tr.cells[0].scope !== 'row') faults.push(tr.outerHTML);
        if (tr.cells.length !== t.tHead.rows[0].cells.length) faults.push(tr.outerHTML);
    }
    for (const e of t.querySelectorAll('tr, th, td')) if (!e.getAttribute('role')) faults.push(e.outerHTML);
}
const drawings = document.querySelectorAll('svg[role=img]');
for (const d of drawings) if (!d.querySelector('title')?.textContent || !d.querySelector('desc')?.textContent) faults.push(d.outerHTML);
for (const d of document.querySelectorAll('svg:not([role=img])')) if (d.getAttribute('aria-hidden') !== 'true') faults.push(d.outerHTML);
for (const s of document.querySelectorAll('section')) if (!document.getElementById(s.getAttribute('aria-labelledby'))) faults.push(s.id);
for (const a of document.querySelectorAll('a[href^=\"#\"]')) if (!document.querySelector(a.getAttribute('href'))) faults.push(a.outerHTML);
const ids = [...document.querySelectorAll('[id]')].map(e => e.id);
if (new Set(ids).size !== ids.length) faults.push('an id twice');
if (document.documentElement.lang !== 'en' || !document.title) faults.push('no language or title');
if (document.querySelectorAll('h1').length !== 1) faults.push('h1');
return { faults, tables: tables.length, drawings: drawings.length }";

/// All that can be used, in order.
pub const INTERACTIVE: &str = "
const name = e => e.nodeName + ':' + (e.getAttribute('href') || e.textContent);
return [...document.querySelectorAll('a[href], button, summary, input, select, [tabindex]')]
    .filter(e => e.checkVisibility()).map(name)";

/// What has the focus, and whether that is to be seen.
pub const FOCUS: &str = "
const name = e => e.nodeName + ':' + (e.getAttribute('href') || e.textContent);
const e = document.activeElement, style = getComputedStyle(e), box = e.getBoundingClientRect();
return { name: name(e), ring: style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2
    && box.left >= 0 && box.width > 0 }";

/// The places at which the page says what the JSON says; `Err` is where it does not. Ages may
/// have gone on by some seconds meanwhile.
pub fn compare(page: &Value, json: &Value) -> Result<Vec<String>, Vec<String>> {
    let mut compared = vec![];
    let mut differ = vec![];
    for number in page.as_array().expect("numbers") {
        let at = number[0].as_str().expect("a place");
        let shown: u64 = number[1]
            .as_str()
            .and_then(|text| text.parse().ok())
            .expect("a number");
        let said = json.pointer(at).and_then(Value::as_u64);
        let goes_on = at.ends_with("_seconds") || at.ends_with("seconds_left") || at == "/audits";
        let is_so = said.is_some_and(|said| said == shown || goes_on && said.abs_diff(shown) < 20);
        let digits: String = number[2]
            .as_str()
            .expect("a text")
            .chars()
            .filter(char::is_ascii_digit)
            .collect();
        let is_plain = goes_on || at.contains("bytes") || digits == shown.to_string();
        if is_so && is_plain {
            compared.push(at.to_owned());
        } else {
            differ.push(format!("{at}: {number} but {said:?}"));
        }
    }
    if differ.is_empty() {
        Ok(compared)
    } else {
        Err(differ)
    }
}
