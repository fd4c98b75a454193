"use strict";
// Time as a picture: a row an agent, a bar a request, call or wait. Long stretches in which nothing happened are cut out.

const ROW = 24, AXIS = 22, IDLE = 60; // pixels, pixels, seconds
const SECONDS = [0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400];
const BAR_KINDS = { request: "model request", tool: "tool", wait: "waits for approval", retry: "waits to try again" };

// Seconds of work for moments in time, with idle stretches shortened.
class Scale {
  constructor(spans) {
    this.parts = [];
    let end = -Infinity;
    for (const [from, to] of [...spans].sort((a, b) => a[0] - b[0])) {
      const last = this.parts[this.parts.length - 1];
      if (!last || from - end > IDLE) this.parts.push({ from, to });
      else last.to = Math.max(last.to, to);
      end = Math.max(end, to);
    }
    if (!this.parts.length) this.parts.push({ from: 0, to: 1 });
    const active = this.parts.reduce((sum, p) => sum + p.to - p.from, 0);
    this.gap = Math.max(0.5, active * 0.03);
    let at = 0;
    for (const part of this.parts) { part.at = at; at += part.to - part.from + this.gap; }
    this.length = Math.max(0.5, at - this.gap);
    this.start = this.parts[0].from;
  }
  place(moment) {
    let low = 0, high = this.parts.length - 1;
    while (low < high) { const mid = (low + high + 1) >> 1; if (this.parts[mid].from <= moment) low = mid; else high = mid - 1; }
    const part = this.parts[low], over = moment - part.to;
    if (over <= 0 || low === this.parts.length - 1) return part.at + moment - part.from;
    const next = this.parts[low + 1];
    return part.at + part.to - part.from + (this.gap * over) / (next.from - part.to);
  }
  moment(place) {
    let part = this.parts[0];
    for (const p of this.parts) if (p.at <= place) part = p;
    return Math.min(part.from + place - part.at, part.to);
  }
}

class Timeline {
  // `lanes` gives [{path, label, depth, from, to, status, bars: [{kind, from, to, title, go}]}], newest facts each time.
  constructor(lanes, jump) {
    this.lanes = lanes;
    this.jump = jump;
    this.view = null;
    this.labels = el("div", { class: "labels" });
    this.plot = svg("svg", { class: "plot", role: "img", tabindex: "0", "aria-label": "Timeline. Plus and minus zoom, arrows move, 0 shows all." });
    this.tip = el("div", { class: "tip", hidden: true });
    const tools = el("div", { class: "tools" },
      ...Object.entries(BAR_KINDS).map(([kind, name]) => el("span", { class: "key" }, el("i", { class: kind }), name)),
      el("span", { class: "gap" }),
      button("−", "Zoom out (-)", () => this.zoom(2)), button("+", "Zoom in (+)", () => this.zoom(0.5)), button("All", "Show all (0)", () => this.zoom(0)));
    this.body = el("div", { class: "lanes" }, this.labels, this.plot);
    this.node = el("div", { class: "timeline" }, tools, this.body, this.tip);
    this.listen();
    new ResizeObserver(() => this.draw()).observe(this.body);
  }

  listen() {
    this.plot.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.metaKey && !event.shiftKey) return; // plain scrolling scrolls the page
      event.preventDefault();
      if (event.shiftKey) this.move((event.deltaY || event.deltaX) / 800);
      else this.zoom(event.deltaY > 0 ? 1.25 : 0.8, event.offsetX / this.width);
    }, { passive: false });
    let grabbed = null;
    this.plot.addEventListener("pointerdown", (event) => { grabbed = { x: event.clientX, view: this.view, moved: false }; });
    addEventListener("pointermove", (event) => {
      if (!grabbed) return;
      const by = grabbed.x - event.clientX;
      if (Math.abs(by) > 4) grabbed.moved = true;
      if (grabbed.moved) this.show(grabbed.view[0] + (by / this.width) * (grabbed.view[1] - grabbed.view[0]), grabbed.view[1] - grabbed.view[0]);
    });
    addEventListener("pointerup", (event) => {
      const held = grabbed;
      grabbed = null;
      const bar = held && !held.moved && event.target.closest && event.target.closest("[data-bar]");
      if (bar && this.plot.contains(bar)) this.jump(this.drawn[Number(bar.dataset.bar)]);
    });
    this.plot.addEventListener("dblclick", (event) => this.zoom(0.4, event.offsetX / this.width));
    this.plot.addEventListener("pointerover", (event) => this.explain(event));
    this.plot.addEventListener("pointerleave", () => { this.tip.hidden = true; });
    this.plot.addEventListener("keydown", (event) => { if (this.key(event.key)) event.preventDefault(); });
  }

  key(name) {
    if (name === "+" || name === "=") this.zoom(0.5);
    else if (name === "-") this.zoom(2);
    else if (name === "0") this.zoom(0);
    else if (name === "ArrowLeft") this.move(-0.2);
    else if (name === "ArrowRight") this.move(0.2);
    else return false;
    return true;
  }

  zoom(factor, around = 0.5) {
    if (!factor) { this.view = null; this.draw(); return; }
    const [from, to] = this.view || [0, this.scale.length], wide = Math.min(this.scale.length, Math.max(0.05, (to - from) * factor));
    this.show(from + (to - from - wide) * around, wide);
  }

  move(part) {
    const [from, to] = this.view || [0, this.scale.length];
    this.show(from + part * (to - from), to - from);
  }

  show(from, wide) {
    const start = Math.max(0, Math.min(from, this.scale.length - wide));
    this.view = wide >= this.scale.length ? null : [start, start + wide];
    this.draw();
  }

  explain(event) {
    const bar = event.target.closest("[data-bar]");
    this.tip.hidden = !bar;
    if (!bar) return;
    const found = this.drawn[Number(bar.dataset.bar)], edge = this.node.getBoundingClientRect();
    this.tip.textContent = "";
    this.tip.append(el("b", null, oneLine(found.title, 90)), el("br"),
      `${BAR_KINDS[found.kind]} · ${duration(found.to - found.from)} · from ${clock(found.from - this.scale.start)}` + (found.count > 1 ? ` · ${found.count} close together` : ""));
    const left = Math.min(event.clientX - edge.left + 12, edge.width - 260);
    this.tip.style.left = Math.max(0, left) + "px";
    this.tip.style.top = event.clientY - edge.top + 14 + "px";
  }

  draw() {
    const lanes = this.lanes();
    this.scale = new Scale(lanes.flatMap((lane) => [[lane.from, lane.from], ...lane.bars.map((bar) => [bar.from, bar.to])]));
    this.width = Math.max(120, this.plot.clientWidth || this.body.clientWidth - 190);
    const [from, to] = this.view || [0, this.scale.length];
    this.x = (moment) => ((this.scale.place(moment) - from) / (to - from)) * this.width;
    this.drawn = [];
    this.labels.textContent = "";
    this.plot.textContent = "";
    this.plot.setAttribute("viewBox", `0 0 ${this.width} ${AXIS + ROW * lanes.length}`);
    this.plot.style.height = AXIS + ROW * lanes.length + "px";
    this.axis(from, to, ROW * lanes.length);
    lanes.forEach((lane, n) => {
      const label = button(lane.label, lane.label, () => this.jump(lane), { class: "lane " + (lane.status || "") });
      label.style.paddingLeft = 6 + 12 * Math.min(lane.depth, 5) + "px";
      this.labels.append(label);
      this.lane(lane, AXIS + ROW * n);
    });
  }

  axis(from, to, height) {
    const step = roundStep(to - from, Math.max(2, this.width / 90), SECONDS);
    for (const [n, part] of this.scale.parts.entries()) {
      const end = part.at + part.to - part.from;
      if (n) {
        const x = ((part.at - this.scale.gap / 2 - from) / (to - from)) * this.width, gone = part.from - this.scale.parts[n - 1].to;
        this.plot.append(svg("line", { x1: x, x2: x, y1: 0, y2: AXIS + height, class: "cut" }), svg("title", {}, duration(gone) + " idle"));
      }
      for (let at = Math.max(part.at, part.at + Math.ceil((from - part.at) / step) * step); at <= Math.min(end, to); at += step) {
        const x = ((at - from) / (to - from)) * this.width, moment = part.from + at - part.at - this.scale.start;
        this.plot.append(svg("line", { x1: x, x2: x, y1: AXIS - 5, y2: AXIS + height, class: "grid" }));
        if (x < this.width - 30) this.plot.append(svg("text", { x: x + 3, y: AXIS - 8, class: "tick" }, step < 1 ? moment.toFixed(1) : clock(moment + 0.001)));
      }
    }
  }

  lane(lane, top) {
    const left = this.x(lane.from), right = this.x(Math.max(lane.to, lane.from));
    this.plot.append(svg("rect", { x: Math.max(-2, left), y: top + 4, width: Math.max(1, Math.min(right, this.width + 2) - Math.max(-2, left)), height: ROW - 8, rx: 3, class: "life " + (lane.status || "") }));
    let last = null;
    for (const kind of ["request", "tool", "retry", "wait"]) {
      for (const bar of lane.bars) {
        if (bar.kind !== kind) continue;
        const x0 = this.x(bar.from), x1 = Math.max(this.x(bar.to), x0 + 1.2);
        if (x1 < 0 || x0 > this.width) continue;
        if (last && last.kind === kind && x1 - x0 < 2 && x0 < last.x1 + 0.6) { // too close to tell apart: one bar
          last.x1 = Math.max(last.x1, x1);
          last.to = Math.max(last.to, bar.to);
          last.count++;
          last.node.setAttribute("width", last.x1 - last.x0);
          last.node.dataset.to = last.to;
          continue;
        }
        const node = svg("rect", { x: x0, width: x1 - x0, y: top + (kind === "request" ? 4 : 7), height: kind === "request" ? ROW - 8 : ROW - 14, rx: 2, class: kind });
        node.dataset.bar = this.drawn.length;
        node.dataset.from = bar.from;
        node.dataset.to = bar.to;
        last = { ...bar, x0, x1, node, count: 1 };
        this.drawn.push(last);
        this.plot.append(node);
      }
      last = null;
    }
  }
}

// Sums over time, stacked by kind of agent. `points` are [moment, kind, amount] in order.
function stackedChart(points, scale, show) {
  const wide = Math.max(300, Math.min(640, innerWidth - 40)), high = 180, left = 52, bottom = 20, kinds = [...new Set(points.map((p) => p[1]))];
  const sums = new Map(kinds.map((k) => [k, 0])), rows = [];
  const stride = Math.max(1, Math.floor(points.length / 600));
  points.forEach(([moment, kind, amount], n) => {
    sums.set(kind, sums.get(kind) + amount);
    if (n % stride === 0 || n === points.length - 1) rows.push([moment, kinds.map((k) => sums.get(k))]);
  });
  const most = Math.max(1e-9, rows.length ? rows[rows.length - 1][1].reduce((a, b) => a + b, 0) : 0);
  const x = (moment) => left + (scale.place(moment) / scale.length) * (wide - left - 8), y = (value) => high - bottom - (value / most) * (high - bottom - 10);
  const node = svg("svg", { viewBox: `0 0 ${wide} ${high}`, class: "stack", role: "img", "aria-label": "Sums over time" });
  const step = roundStep(most, 4);
  for (let value = 0; value <= most * 1.001; value += step) {
    node.append(svg("line", { x1: left, x2: wide - 8, y1: y(value), y2: y(value), class: "grid" }), svg("text", { x: left - 6, y: y(value) + 4, class: "tick end" }, show(value)));
  }
  kinds.forEach((kind, k) => {
    const below = (row) => row[1].slice(0, k).reduce((a, b) => a + b, 0);
    let path = "";
    rows.forEach((row, n) => { path += n ? `H${x(row[0]).toFixed(1)}V${y(below(row) + row[1][k]).toFixed(1)}` : `M${x(row[0]).toFixed(1)} ${y(0)}V${y(below(row) + row[1][k]).toFixed(1)}`; });
    path += `H${wide - 8}`;
    const last = rows[rows.length - 1];
    path += `V${y(below(last)).toFixed(1)}`;
    for (let n = rows.length - 1; n >= 0; n--) path += `H${x(rows[n][0]).toFixed(1)}` + (n ? `V${y(below(rows[n - 1])).toFixed(1)}` : "");
    node.append(svg("path", { d: path + "Z", class: "area " + tone(kind) }, svg("title", {}, `${kind}: ${show(sums.get(kind))}`)));
  });
  node.append(svg("text", { x: left, y: high - 5, class: "tick" }, "0:00"), svg("text", { x: wide - 8, y: high - 5, class: "tick end" }, clock(scale.parts[scale.parts.length - 1].to - scale.start)));
  return el("figure", null, node, el("figcaption", null, ...kinds.map((kind) => el("span", { class: "key" }, el("i", { class: tone(kind) }), `${kind} ${show(sums.get(kind))}`))));
}
