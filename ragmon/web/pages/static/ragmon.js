"use strict";
/* Every page is whole without this. It adds: times in the reader's zone, ages that go on, parts that
   renew themselves, values and zoom on charts, and keys. */
(() => {
  const day = new Intl.DateTimeFormat(undefined, {day: "numeric", month: "short", hour: "2-digit", minute: "2-digit"});
  const exact = new Intl.DateTimeFormat(undefined, {day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", second: "2-digit"});

  function age(seconds) {
    if (seconds < 60) return Math.max(0, Math.round(seconds)) + " s ago";
    if (seconds < 3600) return Math.round(seconds / 60) + " min ago";
    if (seconds < 172800) return Math.round(seconds / 3600) + " h ago";
    return Math.round(seconds / 86400) + " days ago";
  }

  function showTimes(root) {
    for (const time of root.querySelectorAll("time[datetime]")) {
      const moment = new Date(time.dateTime);
      const form = time.dataset.form;
      const text = form === "age" ? age((Date.now() - moment) / 1000) : (form === "second" ? exact : day).format(moment);
      if (time.textContent !== text) time.textContent = text;
    }
  }

  /* Ticks of an axis of hours; one of days stays in UTC. As long as the texts in UTC, so that none
     touch: the day at midnight and at the first tick, else the clock. */
  const clock = new Intl.DateTimeFormat("en-GB", {hour: "2-digit", minute: "2-digit", hourCycle: "h23"});
  const second = new Intl.DateTimeFormat("en-GB", {hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23"});
  const date = new Intl.DateTimeFormat("en-US", {month: "short", day: "numeric"});

  function showAxes(root) {
    const ticks = root.querySelectorAll("svg text[data-at]:not([data-utc])");
    for (const tick of ticks) {
      const moment = new Date(tick.dataset.at * 1000), utc = tick.textContent;
      const time = (/:\d\d:/.test(utc) ? second : clock).format(moment);
      const full = `${date.format(moment)} ${time}`;
      tick.textContent = time.startsWith("00:00") ? date.format(moment) : utc.includes(" ") && utc.includes(":") ? full : time;
      tick.dataset.utc = utc;
      tick.append(Object.assign(document.createElementNS("http://www.w3.org/2000/svg", "title"), {textContent: moment.toISOString()}));
    }
    if (ticks.length) for (const note of document.querySelectorAll(".axes")) note.textContent = "Hours are in your time zone.";
  }

  /* Parts with data-live and an id take the place of those on the page, if they differ. */
  let renewing = false, paused = false, failures = 0;
  const main = document.querySelector("main");
  const every = Number(main.dataset.refresh) || 0;

  function busy() {
    const focus = document.activeElement;
    return paused || document.hidden || renewing || !document.getSelection().isCollapsed ||
      document.body.classList.contains("dragging") || document.querySelector("dialog[open]") ||
      (focus && focus.closest("main form")) || main.querySelector("form details[open]");
  }

  function anchor() {
    for (const element of main.querySelectorAll("[id],[data-row],h2,figure")) {
      const box = element.getBoundingClientRect();
      if (box.height && box.bottom > 0 && box.top >= 0) return [element.id, element, box.top];
    }
    return null;
  }

  async function renew() {
    renewing = true;
    try {
      const answer = await fetch(location.href, {headers: {accept: "text/html"}, cache: "no-store"});
      if (answer.redirected && new URL(answer.url).pathname === "/login") return location.reload();
      if (!answer.ok) throw new Error(answer.status);
      const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
      const before = anchor();
      const row = rows().findIndex((one) => one.classList.contains("current"));
      for (const part of main.querySelectorAll("[data-live][id]")) {
        const other = fresh.getElementById(part.id);
        if (!other) continue;
        showTimes(other);
        showAxes(other);
        if (other.innerHTML !== part.innerHTML && !part.contains(document.activeElement)) {
          const open = [...part.querySelectorAll("details[open][id]")].map((one) => one.id);
          part.replaceChildren(...other.childNodes);
          for (const id of open) document.getElementById(id)?.setAttribute("open", "");
        }
      }
      document.title = fresh.title;
      if (row >= 0) rows()[row]?.classList.add("current");
      if (before && window.scrollY > 0) {
        const element = (before[0] && document.getElementById(before[0])) || before[1];
        if (element.isConnected) window.scrollBy(0, element.getBoundingClientRect().top - before[2]);
      }
      failures = 0;
      main.classList.remove("stale");
      document.dispatchEvent(new CustomEvent("renewed"));
    } catch {
      failures += 1;
      main.classList.toggle("stale", failures > 1);
    } finally {
      renewing = false;
    }
  }

  let last = Date.now();
  setInterval(() => {
    showTimes(document);
    const due = every * 1000 * Math.min(2 ** failures, 16);
    if (every && Date.now() - last >= due && !busy()) {
      last = Date.now();
      renew();
    }
  }, 1000);

  /* Charts: values under the pointer, zoom by dragging, which changes the address. */
  let chosen = null;

  function place(figure, clientX) {
    const box = figure.querySelector("svg.chart").getBoundingClientRect();
    const left = Number(figure.dataset.left), right = Number(figure.dataset.right);
    const share = ((clientX - box.left) / box.width - left) / (right - left);
    const from = Number(figure.dataset.from), to = Number(figure.dataset.to);
    const inside = Math.min(Math.max(share, 0), 1);
    return {share: inside, moment: from + inside * (to - from), x: box.left + (left + inside * (right - left)) * box.width};
  }

  function overlay(figure, name) {
    const known = figure.querySelector("." + name);
    if (known) return known;
    const made = document.createElementNS("http://www.w3.org/2000/svg", "rect");
    made.setAttribute("class", name);
    made.setAttribute("y", "0");
    made.setAttribute("height", "100%");
    figure.querySelector("svg.chart").append(made);
    return made;
  }

  /* A stretch of the drawing, in units of its viewBox. */
  function cover(figure, name, first, last) {
    const width = figure.querySelector("svg.chart").viewBox.baseVal.width;
    const left = Number(figure.dataset.left) * width, right = Number(figure.dataset.right) * width;
    const rect = overlay(figure, name);
    const start = left + Math.min(first, last) * (right - left);
    rect.setAttribute("x", start.toFixed(1));
    rect.setAttribute("width", Math.max(Math.abs(last - first) * (right - left), 1).toFixed(1));
  }

  function hover(figure, at) {
    const step = Math.floor((at.moment - Number(figure.dataset.start)) / Number(figure.dataset.step));
    const texts = figure.dataset.values.split("|");
    const start = Number(figure.dataset.start) + step * Number(figure.dataset.step);
    const text = texts[step];
    const output = figure.querySelector("output.hover");
    output.textContent = text === undefined ? "" : day.format(new Date(start * 1000)) + "  " + text;
    output.title = text === undefined ? "" : new Date(start * 1000).toISOString();
    cover(figure, "cursor", at.share, at.share);
  }

  function leave() {
    for (const output of main.querySelectorAll("output.hover")) output.textContent = "";
    for (const rect of main.querySelectorAll("rect.cursor,rect.chosen")) rect.remove();
  }

  const chartOf = (event) => event.target.closest?.("figure[data-values]");

  main.addEventListener("pointermove", (event) => {
    const figure = chosen?.figure || chartOf(event);
    if (!figure || !event.target.closest || (!chosen && !event.target.closest("svg.chart"))) return;
    const at = place(figure, event.clientX);
    if (chosen) cover(figure, "chosen", chosen.share, at.share);
    else for (const other of main.querySelectorAll("figure[data-values]")) {
      if (other.dataset.from === figure.dataset.from && other.dataset.to === figure.dataset.to) hover(other, at);
    }
  });
  main.addEventListener("pointerleave", () => { if (!chosen) leave(); });
  main.addEventListener("pointerdown", (event) => {
    const figure = chartOf(event);
    if (!figure || event.button || event.pointerType === "touch" || !event.target.closest("svg.chart")) return;
    event.preventDefault();
    chosen = {figure, ...place(figure, event.clientX)};
    document.body.classList.add("dragging");
  });
  function drop(event, zoom) {
    if (!chosen) return;
    const {figure, moment, share} = chosen;
    const at = place(figure, event.clientX ?? 0);
    chosen = null;
    document.body.classList.remove("dragging");
    leave();
    if (!zoom || Math.abs(at.share - share) < 0.01) return;
    let from = Math.min(moment, at.moment), to = Math.max(moment, at.moment);
    if (to - from < 300) [from, to] = [(from + to) / 2 - 150, (from + to) / 2 + 150];
    const address = new URL(figure.dataset.zoom || location.href, location.href);
    for (const name of ["window", "from", "to"]) address.searchParams.delete(name);
    address.searchParams.set("from", Math.floor(from));
    address.searchParams.set("to", Math.ceil(to));
    location.assign(address);
  }
  document.addEventListener("pointerup", (event) => drop(event, true));
  document.addEventListener("pointercancel", (event) => drop(event, false));
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") drop({clientX: 0}, false); });

  /* What scrolls sideways can be reached and scrolled by keyboard. */
  function reachable() {
    for (const box of main.querySelectorAll(".chart-box,.scroll,.card")) {
      if (box.scrollWidth > box.clientWidth + 1) box.tabIndex = 0;
      else box.removeAttribute("tabindex");
    }
  }
  new ResizeObserver(reachable).observe(main);
  document.addEventListener("renewed", reachable);
  document.addEventListener("toggle", reachable, true);

  /* Keys. */
  const help = document.getElementById("help");
  const rows = () => [...main.querySelectorAll("[data-row]")].filter((row) => row.getClientRects().length);

  function step(by) {
    const all = rows();
    if (!all.length) return;
    const at = all.findIndex((row) => row.classList.contains("current"));
    all[at]?.classList.remove("current");
    const next = all[at < 0 ? (by > 0 ? 0 : all.length - 1) : Math.min(Math.max(at + by, 0), all.length - 1)];
    next.classList.add("current");
    next.scrollIntoView({block: "nearest"});
    next.querySelector("a[href]")?.focus({preventScroll: true});
  }

  const keys = {
    "/": () => document.querySelector(".search input").focus(),
    j: () => step(1),
    k: () => step(-1),
    r: () => { if (every) { paused = !paused; if (!paused) renew(); main.classList.toggle("stale", paused); } },
    "?": () => help.showModal(),
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || help.open) return;
    if (event.target.closest("input:not([type=checkbox]),select,textarea")) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    const button = main.querySelector(`[data-key="${CSS.escape(event.key)}"]`);
    if (button) {
      event.preventDefault();
      button.click();
    } else if (keys[event.key]) {
      event.preventDefault();
      keys[event.key]();
    }
  });

  document.querySelector("footer .keys").hidden = false;
  showTimes(document);
  showAxes(document);
})();
