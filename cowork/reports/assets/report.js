"use strict";
// Many sessions: what they cost by day, agent, model and folder, and the tasks that stand out.

const usd = (row) => (row.cost_usd === null ? money(row.known_usd) + "+" : money(row.cost_usd));
const total = (row) => row.input_tokens + row.output_tokens + row.cache_read_tokens + row.cache_write_tokens;
const seconds = (value) => (value === null || value === undefined ? "" : duration(value));
const percent = (value) => (value === null || value === undefined ? "" : Math.round(100 * value) + "%");

function dayChart(days) {
  const wide = Math.max(320, Math.min(1080, innerWidth - 60)), high = 220, left = 56, bottom = 24, priced = days.some((d) => d.known_usd > 0);
  const size = (day) => (priced ? day.known_usd : total(day)), show = priced ? money : (n) => tokens(Math.round(n));
  const most = Math.max(1e-9, ...days.map(size)), each = (wide - left - 8) / days.length, y = (value) => high - bottom - (value / most) * (high - bottom - 12);
  const node = svg("svg", { viewBox: `0 0 ${wide} ${high}`, class: "stack", role: "img", "aria-label": priced ? "Cost by day" : "Tokens by day" });
  const step = roundStep(most, 4);
  for (let value = 0; value <= most * 1.001; value += step) {
    node.append(svg("line", { x1: left, x2: wide - 8, y1: y(value), y2: y(value), class: "grid" }), svg("text", { x: left - 6, y: y(value) + 4, class: "tick end" }, show(value)));
  }
  const every = Math.ceil(days.length / Math.max(2, Math.floor(wide / 90)));
  days.forEach((day, n) => {
    const x = left + n * each + Math.min(2, each * 0.1), top = y(size(day));
    const bar = svg("rect", { x, y: top, width: Math.min(34, Math.max(1, each - Math.min(4, each * 0.2))), height: high - bottom - top, rx: 2, class: "tone0" },
      svg("title", {}, `${day.day}: ${usd(day)}, ${tokens(total(day))} tokens, ${plural(day.tasks, "task")}`));
    bar.dataset.day = day.day;
    bar.dataset.value = size(day);
    node.append(bar);
    if (n % every === 0) node.append(svg("text", { x, y: high - 6, class: "tick" }, day.day.slice(5)));
  });
  return el("figure", null, node);
}

function moneyTable(title, column, rows) {
  const priced = rows.some((r) => r.known_usd > 0), shown = rows.slice(0, 15);
  return el("div", null, barTable(title, [{ name: column, cell: (r) => r.name || "unknown" }, { name: "cost", cell: usd }, { name: "tokens", cell: (r) => tokens(total(r)) },
    { name: "tasks", cell: (r) => (r.tasks ? String(r.tasks) : "") }, { name: "failed", cell: (r) => percent(r.failure_rate) }, { name: "p50", cell: (r) => seconds(r.p50_s) }, { name: "p95", cell: (r) => seconds(r.p95_s) }],
  shown, (r) => (priced ? r.known_usd : total(r))), rows.length > 15 ? el("p", { class: "note" }, `and ${rows.length - 15} more`) : null);
}

function taskTable(title, rows, links) {
  const place = (task) => {
    const page = links[task.session_id];
    return page ? el("a", { href: `${page}#task=${encodeURIComponent(task.agent)}` }, task.id) : el("code", { title: `cowork tasks show ${visible(task.id)}` }, task.id);
  };
  return el("div", null, el("div", { class: "scroll" }, el("table", { class: "bars" }, el("caption", null, title),
    el("thead", null, el("tr", null, ...["task", "what for", "status", "took", "cost"].map((n, i) => el("th", { scope: "col", class: i > 2 ? "number" : "" }, n)))),
    el("tbody", null, ...rows.map((t) => el("tr", null, el("td", null, place(t)), el("td", null, `${t.subagent_type}: ${oneLine(t.description, 80)}`), el("td", null, t.status),
      el("td", { class: "number" }, duration(t.duration_ms / 1000)), el("td", { class: "number" }, money(t.cost_usd))))))));
}

function sessionTable(rows, links) {
  const name = (s) => (links[s.id] ? el("a", { href: links[s.id] }, s.id) : el("code", null, s.id));
  return el("div", null, el("div", { class: "scroll" }, el("table", { class: "bars" }, el("caption", null, "Dearest sessions"),
    el("tbody", null, ...rows.map((s) => el("tr", null, el("td", null, name(s)), el("td", null, oneLine(s.title, 80)), el("td", { class: "number" }, money(s.cost_usd))))))));
}

function startReport() {
  const data = JSON.parse(document.querySelector("script[type='application/json']").textContent), swap = startTheme(), t = data.tasks;
  const change = data.before && data.before.known_usd ? data.spent.known_usd / data.before.known_usd - 1 : null;
  const tiles = [["cost", usd(data.spent)], ["against before", change === null ? "–" : (change > 0 ? "▲ " : "▼ ") + percent(Math.abs(change))], ["tokens", tokens(total(data.spent))],
    ["sessions", String(data.sessions)], ["tasks", String(t.tasks)], ["failed", percent(t.failure_rate) || "–"], ["task p50", seconds(t.p50_s) || "–"], ["task p95", seconds(t.p95_s) || "–"]];
  const lists = [["Slowest tasks", data.slowest_tasks], ["Dearest tasks", data.dearest_tasks], ["Failed last", data.failed_tasks]].filter(([, rows]) => rows.length);
  document.body.append(el("header", { class: "bar" }, el("strong", null, "cowork report"), button("◐", "Dark or light (t)", swap)),
    el("main", { class: "alone" }, el("h1", null, "What the agents did"), el("p", { class: "about" }, `${data.since || "from the first session"} to ${data.until}`),
      el("dl", { class: "tiles" }, ...tiles.map(([name, value]) => el("div", null, el("dt", null, name), el("dd", null, value)))),
      el("h2", null, "By day"), dayChart(data.days), el("h2", null, "Where it went"),
      el("div", { class: "pair wide" }, moneyTable("By agent", "agent", data.by_agent), moneyTable("By model", "model", data.by_model)),
      moneyTable("By folder", "folder", data.by_repo), el("h2", null, "What stands out"), ...lists.map(([title, rows]) => taskTable(title, rows, data.links)),
      data.dearest_sessions.length ? sessionTable(data.dearest_sessions, data.links) : null));
  document.addEventListener("keydown", (event) => { if (event.key === "t" && !event.ctrlKey && !event.metaKey) swap(); });
  document.documentElement.dataset.ready = "1";
}

startReport();
