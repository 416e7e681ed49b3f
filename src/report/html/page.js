"use strict";
// Asks the server for this page again and again, and makes the page that is here equal to
// it, node by node: what does not change stays, and with it focus, selection, scrolled and
// opened parts.
(() => {
  const EVERY = 5000, PATIENCE = 10000, LONGEST = 3600000;
  const button = document.getElementById("pause");
  const state = document.getElementById("state");
  let paused = false, timer = 0, asking = null, due = Date.now() + EVERY;

  const tell = (name, text) => {
    state.dataset.state = name;
    // Only when it says something new: readers of screens are told.
    if (state.textContent !== text) state.textContent = text;
  };

  const keyOf = (node) => node.nodeType === 1 ? node.id || node.getAttribute("data-key") : null;
  const alike = (a, b) => a.nodeType === b.nodeType && a.nodeName === b.nodeName && keyOf(a) === keyOf(b);

  // Makes `old` equal to `now`.
  const morph = (old, now) => {
    if (old.nodeType !== 1) {
      if (old.data !== now.data) old.data = now.data;
      return;
    }
    for (const { name, value } of now.attributes) {
      if (old.getAttribute(name) !== value) old.setAttribute(name, value);
    }
    for (const { name } of [...old.attributes]) {
      // What the reader has opened stays open.
      if (!now.hasAttribute(name) && !(name === "open" && old.nodeName === "DETAILS")) old.removeAttribute(name);
    }
    const keyed = new Map();
    for (const child of old.childNodes) {
      const key = keyOf(child);
      // Two rows may have one key: of two rates of one name.
      if (key) keyed.set(key, [...(keyed.get(key) || []), child]);
    }
    const wanted = new Set([...now.childNodes].map(keyOf).filter(Boolean));
    let here = old.firstChild;
    for (const next of [...now.childNodes]) {
      // What is no longer wanted goes first, so that what stays need not move.
      while (here && keyOf(here) && !wanted.has(keyOf(here))) {
        const gone = here;
        here = here.nextSibling;
        gone.remove();
      }
      const key = keyOf(next);
      const known = key ? keyed.get(key)?.shift() : null;
      if (known && known.parentNode === old && alike(known, next)) {
        if (known === here) here = here.nextSibling;
        else old.insertBefore(known, here);
        morph(known, next);
      } else if (here && !keyOf(here) && !key && alike(here, next)) {
        const same = here;
        here = here.nextSibling;
        morph(same, next);
      } else {
        old.insertBefore(document.importNode(next, true), here);
      }
    }
    while (here) {
      const gone = here;
      here = here.nextSibling;
      gone.remove();
    }
  };

  // The first thing that is in sight, and how far down it is.
  const landmark = () => {
    for (const node of document.querySelectorAll("main [data-key], main [id]")) {
      const box = node.getBoundingClientRect();
      if (box.height && box.top >= 0 && box.top < innerHeight) return { node, top: box.top };
    }
    return null;
  };

  const end = (node, offset) => Math.min(offset, node.nodeType === 3 ? node.length : node.childNodes.length);

  const show = (text) => {
    const page = new DOMParser().parseFromString(text, "text/html");
    const now = page.querySelector("main");
    // Something else may answer here, as a form to log in.
    if (!now?.querySelector("#as-of")) throw new Error("no status page");
    const mark = scrollY > 0 ? landmark() : null;
    const focus = document.activeElement;
    const chosen = getSelection();
    const kept = chosen.rangeCount && !chosen.isCollapsed
      ? [chosen.anchorNode, chosen.anchorOffset, chosen.focusNode, chosen.focusOffset] : null;
    morph(document.querySelector("main"), now);
    document.title = page.title;
    if (kept && kept[0].isConnected && kept[2].isConnected) {
      chosen.setBaseAndExtent(kept[0], end(kept[0], kept[1]), kept[2], end(kept[2], kept[3]));
    }
    if (focus && focus !== document.activeElement && focus.isConnected) focus.focus({ preventScroll: true });
    if (mark && mark.node.isConnected) {
      scrollBy({ top: mark.node.getBoundingClientRect().top - mark.top, behavior: "instant" });
    }
  };

  const asOf = () => document.getElementById("as-of").textContent;

  const refresh = async () => {
    clearTimeout(timer);
    if (asking) return;
    due = 0;
    const stop = asking = new AbortController();
    const late = setTimeout(() => stop.abort(), PATIENCE);
    try {
      const answer = await fetch(location.pathname + location.search, { cache: "no-store", signal: stop.signal });
      if (!answer.ok) {
        // A limit may refuse this page too: to ask again at once could keep it frozen.
        const wait = Number(answer.headers.get("Retry-After")) * 1000 || 0;
        due = Date.now() + Math.min(Math.max(wait, EVERY), LONGEST);
        throw new Error("the server refuses this page (status " + answer.status + "); next try in "
          + Math.round((due - Date.now()) / 1000) + " s");
      }
      const text = await answer.text();
      if (!paused) {
        show(text);
        tell("live", "Live, every 5 seconds");
      }
    } catch (error) {
      if (!paused) {
        const why = error.name === "AbortError" ? "no answer in 10 seconds"
          : error instanceof TypeError ? "the server cannot be reached" : error.message;
        tell("stale", "Stale since " + asOf() + ": " + why);
      }
    } finally {
      clearTimeout(late);
      asking = null;
      due ||= Date.now() + EVERY;
      plan();
    }
  };

  const plan = () => {
    clearTimeout(timer);
    if (!paused && !document.hidden) timer = setTimeout(refresh, due - Date.now());
  };

  button.addEventListener("click", () => {
    paused = !paused;
    button.textContent = paused ? "Go on" : "Pause";
    if (paused) {
      clearTimeout(timer);
      tell("paused", "Paused at " + asOf());
    } else {
      refresh();
    }
  });
  document.addEventListener("visibilitychange", () => { plan(); });

  button.hidden = false;
  tell("live", "Live, every 5 seconds");
  plan();
})();
