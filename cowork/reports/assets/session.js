"use strict";
// One session: its events in, the conversation, the timeline, the spending and the search out.

const GROUP = 30; // entries that are drawn together when they come near the screen
const GLYPH = { success: "✓", partial: "◐", error: "✗", completed: "✓", incomplete: "◐", aborted: "■", interrupted: "■", running: "…" };

// What the events say, indexed; `feed` takes one more at any time.
class Session {
  constructor(about) {
    this.about = about;
    this.stretches = []; // an agent from one start to its end; a child that was taken up again has several
    this.current = new Map(); // agent path -> its newest stretch
    this.calls = new Map(); // agent + tool_use_id -> {start, end, reply}
    this.children = new Map(); // parent + tool_use_id -> stretches
    this.questions = new Map();
    this.charges = [];
    this.counts = { requests: 0, tools: 0, failed: 0, asked: 0 };
    this.last = 0;
    this.main = this.open({ agent: "main", parent: "", at: about.started, description: "" });
  }

  open(start) {
    const stretch = { path: start.agent, start, end: null, entries: [], bars: [], from: start.at, to: start.at };
    this.stretches.push(stretch);
    this.current.set(start.agent, stretch);
    if (start.type) {
      const key = callKey(start.parent, start.tool_use_id), known = this.children.get(key);
      if (known) known.push(stretch); else this.children.set(key, [stretch]);
    }
    return stretch;
  }

  feed(event) {
    this.last = Math.max(this.last, event.at);
    if (event.type === "agent.started") { this.open(event); return; }
    if (event.type === "session.rewound" && event.conversation) this.rewind(event);
    const stretch = this.current.get(event.agent) || this.open({ agent: event.agent, parent: "main", at: event.at });
    stretch.from = Math.min(stretch.from || event.at, event.at);
    stretch.to = Math.max(stretch.to, event.at);
    const take = this[event.type];
    if (take) take.call(this, event, stretch);
  }

  rewind(event) { // the export leaves those out already; a live page learns of it here
    for (const stretch of this.stretches) stretch.entries = stretch.entries.filter((e) => e.id < event.to || e.gone);
    this.redraw = true;
  }

  add(event, stretch) { event.stretch = stretch; if (!event.gone) stretch.entries.push(event); }
  "prompt.added"(event, stretch) { this.add(event, stretch); }
  "context.compacted"(event, stretch) { this.add(event, stretch); }
  notice(event, stretch) { this.add(event, stretch); }
  "session.rewound"(event, stretch) { this.add(event, stretch); }

  "turn.ended"(event, stretch) {
    if (event.reason !== "completed") this.add(event, stretch);
  }

  "reply.added"(event, stretch) {
    this.add(event, stretch);
    this.counts.requests++;
    const said = event.content.find((b) => b.type === "text" && b.text.trim());
    const from = event.at - event.duration_ms / 1000;
    stretch.from = Math.min(stretch.from, from);
    stretch.bars.push({ kind: "request", from, to: event.at, title: said ? said.text : event.model, entry: event });
    for (const block of event.content) if (block.type === "tool_use") this.call(event.agent, block.id).reply = event;
  }

  call(agent, id) {
    const key = callKey(agent, id);
    if (!this.calls.has(key)) this.calls.set(key, { start: null, end: null, reply: null });
    return this.calls.get(key);
  }

  "tool.started"(event, stretch) {
    const call = this.call(event.agent, event.tool_use_id);
    call.start = event;
    call.bar = { kind: "tool", from: event.at, to: event.at, title: `${event.name} ${event.line}`, call, open: true };
    stretch.bars.push(call.bar);
    this.counts.tools++;
    this.changed(call);
  }

  "tool.ended"(event, stretch) {
    const call = this.call(event.agent, event.tool_use_id);
    call.end = event;
    if (call.bar) { call.bar.to = event.at; call.bar.open = false; }
    if (event.record.status === "error") this.counts.failed++;
    this.changed(call);
  }

  changed(call) { if (call.node) call.node.replaceWith(callNode(this, call.block, call.agent)); }

  "question.asked"(event, stretch) {
    const bar = { kind: "wait", from: event.at, to: event.at, title: `${event.question.title} ${event.question.line || ""}`, entry: stretch.entries[stretch.entries.length - 1] };
    const about = stretch.bars.findLast((b) => b.call && b.open && b.call.start.name === event.question.tool);
    if (about) { bar.call = about.call; about.call.asked = bar; }
    this.questions.set(event.question_id, bar);
    bar.open = true;
    stretch.bars.push(bar);
    this.counts.asked++;
  }

  "question.answered"(event) {
    const bar = this.questions.get(event.question_id);
    if (bar) { bar.to = event.at; bar.title += ` → ${event.choice}`; bar.open = false; bar.choice = event.choice; }
    if (bar && bar.call) this.changed(bar.call);
  }

  "retry.scheduled"(event, stretch) {
    this.add(event, stretch);
    stretch.bars.push({ kind: "retry", from: event.at, to: event.at + event.delay_s, title: event.message || event.kind, entry: event });
  }

  "agent.ended"(event, stretch) { stretch.end = event; if (stretch.node) childHead(this, stretch); }

  charge([at, agent, kind, model, requests, prompt, output, cached, cost]) {
    this.charges.push({ at, agent, kind, model, requests, prompt, output, cached, cost });
  }

  sums(key) {
    const out = new Map();
    for (const c of this.charges) {
      const name = key(c);
      const sum = out.get(name) || { name, requests: 0, prompt: 0, output: 0, cached: 0, cost: 0, known: 0 };
      sum.requests += c.requests; sum.prompt += c.prompt; sum.output += c.output; sum.cached += c.cached;
      sum.cost = sum.cost === null || c.cost === null ? null : sum.cost + c.cost;
      sum.known += c.cost || 0;
      out.set(name, sum);
    }
    return [...out.values()].sort((a, b) => b.known - a.known || b.prompt - a.prompt);
  }

  spentBy(path) { // with its own children
    return this.charges.filter((c) => c.agent === path || c.agent.startsWith(path + "/"));
  }

  status(stretch) {
    if (stretch === this.main) return "";
    return stretch.end ? stretch.end.status : this.about.live ? "running" : "interrupted";
  }

  lanes() {
    const byPath = new Map();
    for (const s of this.stretches) {
      const to = s.end ? s.end.at : this.about.live ? this.last : s.to;
      for (const bar of s.bars) if (bar.open) bar.to = Math.max(bar.to, Math.min(to, this.last));
      const lane = byPath.get(s.path);
      if (lane) { lane.bars = lane.bars.concat(s.bars); lane.to = Math.max(lane.to, to); continue; }
      byPath.set(s.path, { path: s.path, label: label(s), depth: s.path.split("/").length - 1, from: s.from, to, status: this.status(s), bars: s.bars, stretch: s });
    }
    return [...byPath.values()].sort((a, b) => compare(a.path.split("/"), b.path.split("/"), byPath));
  }
}

function compare(a, b, lanes) { // a tree in order of start
  for (let n = 1; n <= Math.min(a.length, b.length); n++) {
    const one = a.slice(0, n).join("/"), other = b.slice(0, n).join("/");
    if (one !== other) return (lanes.get(one)?.from || 0) - (lanes.get(other)?.from || 0) || (one < other ? -1 : 1);
  }
  return a.length - b.length;
}

const callKey = (agent, id) => agent + "\n" + id;
const label = (stretch) => stretch.path === "main" ? "main" : `${stretch.path.split("/").pop()} ${stretch.start.description || ""}`.trim();

// ---------------------------------------------------------------- the conversation

const near = new IntersectionObserver((found) => {
  for (const f of found) if (f.isIntersecting) { near.unobserve(f.target); f.target.fill(); }
}, { rootMargin: "1200px 0px" });

function group(session, entries) {
  const node = el("div", { class: "group" });
  node.style.minHeight = 60 * entries.length + "px";
  node.entries = entries;
  node.fill = () => {
    if (node.filled) return;
    node.filled = true;
    node.style.minHeight = "";
    near.unobserve(node);
    node.append(...entries.map((entry) => entryNode(session, entry)).filter(Boolean));
  };
  for (const entry of entries) entry.group = node;
  near.observe(node);
  return node;
}

function transcript(session, stretch, into) {
  stretch.into = into;
  stretch.shown = 0;
  extend(session, stretch);
}

// Draws the entries that came since; a group that is not full takes more.
function extend(session, stretch) {
  if (!stretch.into) return;
  while (stretch.shown < stretch.entries.length) {
    const last = stretch.into.lastElementChild;
    if (last && last.entries && last.entries.length < GROUP) {
      const entry = stretch.entries[stretch.shown++];
      last.entries.push(entry);
      entry.group = last;
      const node = last.filled && entryNode(session, entry);
      if (node) last.append(node);
    } else {
      stretch.into.append(group(session, stretch.entries.slice(stretch.shown, stretch.shown + GROUP)));
      stretch.shown = Math.min(stretch.entries.length, stretch.shown + GROUP);
    }
  }
}

function entryNode(session, entry) {
  const draw = { "prompt.added": promptNode, "reply.added": replyNode, "context.compacted": compactedNode }[entry.type];
  const node = draw ? draw(session, entry) : noteNode(entry);
  if (node) { node.id = "e" + entry.id; entry.node = node; }
  return node;
}

function promptNode(session, entry) {
  if (entry.source === "system") return el("details", { class: "note" }, el("summary", null, "Message from cowork"), markdown(entry.text));
  const child = entry.agent !== "main";
  const who = child ? "Task" : entry.source === "user" ? "You" : `You (${entry.source})`;
  const node = el("article", { class: child ? "prompt task" : "prompt", tabindex: child ? null : "-1" },
    el("h3", null, who, el("time", null, moment(session, entry))), entry.label ? el("p", null, entry.label) : markdown(entry.text), ...images(entry.images));
  if (entry.label && entry.text && entry.label !== entry.text) node.append(el("details", null, el("summary", null, "Full text"), markdown(entry.text)));
  return node;
}

function replyNode(session, entry) {
  const parts = [];
  for (const block of entry.content) {
    if (block.type === "text" && block.text.trim()) parts.push(markdown(block.text));
    else if (block.type === "thinking" && block.thinking.trim()) parts.push(lazy("thinking", [el("span", { class: "what" }, "Thinking")], () => [markdown(block.thinking)]));
    else if (block.type === "tool_use") parts.push(callNode(session, block, entry.agent));
    else if (block.type === "image") parts.push(...images([block]));
  }
  const facts = [entry.model, duration(entry.duration_ms / 1000), `${tokens(promptTokens(entry.usage))} in, ${tokens(entry.usage.output_tokens)} out`, money(entry.cost_usd)];
  if (entry.stop_reason === "max_tokens") facts.push("cut off at its limit");
  return el("article", { class: "reply" }, ...parts, el("footer", null, facts.filter(Boolean).join(" · ")));
}

const promptTokens = (usage) => usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens;
const moment = (session, entry) => clock(entry.at - session.about.started);

function compactedNode(session, entry) {
  const what = entry.summary ? `Context summarised: ${tokens(entry.tokens_before)} → ${tokens(entry.tokens_after)} tokens` : "Old results cleared from the context";
  return entry.summary ? lazy("note", [what], () => [markdown(entry.summary)]) : el("p", { class: "note" }, what);
}

function noteNode(entry) {
  if (entry.type === "retry.scheduled") return el("p", { class: "note warning" }, `Try ${entry.attempt} of ${entry.max_attempts} in ${duration(entry.delay_s)}: ${entry.message || entry.kind}`);
  if (entry.type === "turn.ended") return el("p", { class: "note error" }, `Stopped: ${entry.reason}${entry.error && entry.error.message ? ` (${entry.error.message})` : ""}`);
  if (entry.type === "session.rewound") return el("p", { class: "note" }, entry.conversation ? "Rewound: what came between was taken back" : `Files restored: ${(entry.files || []).length}`);
  return entry.text ? el("p", { class: `note ${entry.level}` }, entry.text) : null;
}

function images(list) {
  return (list || []).filter((i) => /^image\/(png|jpeg|gif|webp)$/.test(i.media_type) && /^[A-Za-z0-9+/=\s]*$/.test(i.data))
    .map((i) => el("img", { src: `data:${i.media_type};base64,${i.data}`, alt: "image", loading: "lazy" }));
}

// A section whose inside is drawn when it is first opened.
function lazy(name, summary, inside) {
  const node = el("details", { class: name }, el("summary", null, ...summary));
  node.fill = () => { if (!node.filled) { node.filled = true; node.append(el("div", { class: "inside" }, ...inside())); } };
  node.addEventListener("toggle", () => { if (node.open) node.fill(); });
  return node;
}

function callNode(session, block, agent) {
  const call = session.call(agent, block.id);
  call.block = block;
  call.agent = agent;
  const children = session.children.get(callKey(agent, block.id));
  call.node = children ? childrenNode(session, call, children) : toolNode(session, call);
  return call.node;
}

function took(session, call) {
  if (!call.start || !call.end) return "";
  return duration(call.end.at - call.start.at);
}

function answerTo(call) {
  if (!call.asked) return "";
  if (!call.asked.choice) return "waits for approval";
  return `${call.asked.choice === "no" ? "denied" : "approved"} after ${duration(call.asked.to - call.asked.from)}`;
}

function toolNode(session, call) {
  const { start, end, block } = call, status = end ? end.record.status : session.about.live ? "running" : "interrupted";
  const said = end && end.display.summary;
  return lazy("call " + status, [
    el("span", { class: "glyph" }, GLYPH[status] || "·"), el("b", null, block.name), " ",
    el("span", { class: "what" }, oneLine(start ? start.line : "", 200)), el("span", { class: "facts" }, [answerTo(call), said, took(session, call)].filter(Boolean).join(" · "))],
  () => callBody(session, call));
}

function callBody(session, call) {
  const { end, block } = call, parts = [], shown = end ? end.display : {};
  const given = Object.entries(block.input || {});
  if (shown.kind === "terminal" && shown.command) parts.push(code("$ " + shown.command, "sh"));
  else if (given.length && shown.kind !== "diff" && shown.kind !== "todos") parts.push(inputNode(given));
  if (block.malformed) parts.push(el("p", { class: "note error" }, block.malformed));
  if (!end) parts.push(el("p", { class: "note" }, "No result yet."));
  else if (shown.kind === "diff" && shown.diff) parts.push(diff(shown.diff));
  else if (shown.kind === "markdown") parts.push(markdown(shown.text));
  else if (shown.kind === "todos") parts.push(todos(shown.todos || []));
  if (end && end.record.text) parts.push(plainText(end.record.text, ""));
  if (end) parts.push(...images(end.images));
  return parts;
}

function inputNode(given) {
  return el("dl", { class: "input" }, ...given.flatMap(([key, value]) => {
    const text = typeof value === "string" ? value : JSON.stringify(value, null, 1);
    return [el("dt", null, key), el("dd", null, text.length > 120 || text.includes("\n") ? plainText(text) : el("code", null, text))];
  }));
}

const todos = (list) => el("ul", { class: "todos" }, ...list.map((todo) => el("li", { class: String(todo.status || "") },
  (todo.status === "completed" ? "☑ " : todo.status === "in_progress" ? "▸ " : "☐ ") + String(todo.content || ""))));

function childrenNode(session, call, children) {
  return el("div", { class: "children" }, ...children.map((stretch) => childNode(session, call, stretch)));
}

function childNode(session, call, stretch) {
  const node = lazy("child", [""], () => {
    const into = el("div", { class: "transcript" }), parts = [into];
    transcript(session, stretch, into);
    if (!stretch.entries.length) into.append(markdown(stretch.start.prompt || ""), el("p", { class: "note" }, "Its conversation was not kept."));
    if (call.end && call.end.record.text) parts.push(lazy("call", [el("b", null, "Result"), " for the agent that sent it"], () => [markdown(call.end.record.text)]));
    return parts;
  });
  node.dataset.agent = stretch.path;
  stretch.node = node;
  childHead(session, stretch);
  return node;
}

function childHead(session, stretch) {
  const status = session.status(stretch), spent = session.spentBy(stretch.path), s = stretch.start;
  const used = spent.reduce((sum, c) => sum + c.prompt + c.output, 0), cost = spent.reduce((sum, c) => (sum === null || c.cost === null ? null : sum + c.cost), 0);
  const until = stretch.end ? stretch.end.at : stretch.to;
  stretch.node.firstElementChild.replaceChildren(
    el("span", { class: "glyph " + status }, GLYPH[status] || "·"), el("b", { class: tone(s.subagent_type || "child") }, visible(s.subagent_type || stretch.path)), " ",
    el("span", { class: "what" }, oneLine(s.description || "", 120)),
    el("span", { class: "facts" }, [status === "completed" ? "" : status, s.model, duration(until - s.at), tokens(used) + " tok", money(cost)].filter(Boolean).join(" · ")));
}

// ---------------------------------------------------------------- going to a place

function reveal(session, entry) {
  const { stretch } = entry;
  if (stretch !== session.main) revealChild(session, stretch);
  if (entry.group) entry.group.fill();
  return entry.node;
}

function revealChild(session, stretch) {
  const call = session.call(stretch.start.parent, stretch.start.tool_use_id);
  if (call.reply) reveal(session, call.reply);
  if (stretch.node) { stretch.node.fill(); stretch.node.open = true; }
  return stretch.node;
}

function goTo(node) {
  if (!node) return;
  node.scrollIntoView({ block: "start" });
  if (!node.hasAttribute("tabindex") && node.tagName !== "DETAILS") node.tabIndex = -1;
  (node.tagName === "DETAILS" ? node.firstElementChild : node).focus({ preventScroll: true });
  node.classList.remove("flash");
  void node.offsetWidth;
  node.classList.add("flash");
}

function goToBar(session, bar) {
  if (bar.stretch) { goTo(bar.stretch === session.main ? document.getElementById("talk") : revealChild(session, bar.stretch)); return; }
  if (bar.call) {
    const reply = bar.call.reply;
    if (!reply || !reply.stretch) return;
    reveal(session, reply);
    const node = bar.call.node && bar.call.node.classList.contains("children") ? bar.call.node.firstElementChild : bar.call.node;
    if (node) { if (node.fill) node.fill(); node.open = true; goTo(node); }
  } else if (bar.entry) goTo(reveal(session, bar.entry));
}

// ---------------------------------------------------------------- search

const MOST_FOUND = 500;
function find(session, words) {
  const pattern = new RegExp(words.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"), "i"), found = [];
  const look = (text, where) => {
    const at = text ? text.search(pattern) : -1;
    if (at >= 0) found.push({ ...where, snippet: text.slice(Math.max(0, at - 40), at + 120) });
  };
  for (const stretch of session.stretches) {
    look(stretch.start.description, { stretch, kind: "child" });
    for (const entry of stretch.entries) {
      if (found.length >= MOST_FOUND) return found;
      look(entry.label || entry.text || entry.summary, { entry, kind: entry.type === "prompt.added" ? "prompt" : "note" });
      for (const block of entry.content || []) {
        if (block.type === "text") look(block.text, { entry, kind: "reply" });
        else if (block.type === "thinking") look(block.thinking, { entry, kind: "thinking" });
        else if (block.type === "tool_use") {
          const call = session.call(entry.agent, block.id);
          look(`${block.name} ${Object.values(block.input || {}).map((v) => (typeof v === "string" ? v : JSON.stringify(v))).join(" ")}`, { entry, call, kind: block.name });
          if (call.end) look(call.end.record.text || call.end.display.text || call.end.display.diff, { entry, call, kind: `${block.name} result` });
        }
      }
    }
  }
  return found;
}

class Search {
  constructor(session) {
    this.session = session;
    this.found = [];
    this.at = -1;
    this.box = el("input", { type: "search", placeholder: "Search  /", "aria-label": "Search the session", spellcheck: "false" });
    this.count = el("output", { class: "count" });
    this.list = el("ol", { class: "found", hidden: true });
    this.node = el("div", { class: "search" }, this.box, this.count, this.list);
    let soon = 0;
    this.box.addEventListener("input", () => { clearTimeout(soon); soon = setTimeout(() => this.look(), 120); });
    this.box.addEventListener("keydown", (event) => {
      if (event.key === "Enter") { event.preventDefault(); clearTimeout(soon); if (this.words !== this.box.value.trim()) this.look(); this.go(this.at + (event.shiftKey ? -1 : 1)); this.list.hidden = true; }
      if (event.key === "ArrowDown" || event.key === "ArrowUp") { event.preventDefault(); this.list.hidden = !this.found.length; this.go(this.at + (event.key === "ArrowUp" ? -1 : 1)); }
      if (event.key === "Escape") { this.list.hidden = true; this.box.blur(); }
    });
    document.addEventListener("pointerdown", (event) => { if (!this.node.contains(event.target)) this.list.hidden = true; });
    this.box.addEventListener("focus", () => { this.list.hidden = !this.found.length; });
  }

  look() {
    this.words = this.box.value.trim();
    this.found = this.words.length > 1 ? find(this.session, this.words) : [];
    this.at = -1;
    this.count.textContent = this.words.length > 1 ? (this.found.length >= MOST_FOUND ? `${MOST_FOUND}+` : String(this.found.length)) : "";
    this.list.replaceChildren(...this.found.slice(0, 100).map((hit, n) => el("li", null,
      el("button", { type: "button", onclick: () => this.go(n) },
        el("small", null, `${(hit.stretch || hit.entry.stretch).path} · ${hit.kind}`), el("span", null, oneLine(hit.snippet, 140))))));
    this.list.hidden = !this.found.length;
  }

  go(to) {
    if (!this.found.length) return;
    this.at = (to + this.found.length) % this.found.length;
    const hit = this.found[this.at];
    this.count.textContent = `${this.at + 1}/${this.found.length}`;
    [...this.list.children].forEach((row, n) => row.classList.toggle("chosen", n === this.at));
    const node = hit.stretch ? revealChild(this.session, hit.stretch) : reveal(this.session, hit.entry);
    let target = node;
    if (hit.call && hit.call.node) {
      target = hit.call.node.classList.contains("children") ? hit.call.node.firstElementChild : hit.call.node;
      if (target.fill) { target.fill(); target.open = true; }
      const result = hit.kind.endsWith(" result") && target.querySelector(":scope > .inside > details.call:last-child");
      if (result && target.classList.contains("child")) { result.fill(); result.open = true; target = result; }
    }
    for (const part of (target || node).querySelectorAll(":scope > details.thinking")) if (hit.kind === "thinking") { part.fill(); part.open = true; }
    const focus = document.activeElement;
    goTo(target);
    if (focus === this.box) this.box.focus({ preventScroll: true });
    this.mark(target);
  }

  mark(root) {
    if (!root || !window.Highlight) return;
    const ranges = [], words = this.words.toLowerCase(), walk = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
    for (let node; ranges.length < 200 && (node = walk.nextNode()); ) {
      const text = node.data.toLowerCase();
      for (let at = text.indexOf(words); at >= 0 && ranges.length < 200; at = text.indexOf(words, at + words.length)) {
        const range = new Range();
        range.setStart(node, at);
        range.setEnd(node, Math.min(node.length, at + words.length));
        ranges.push(range);
      }
    }
    CSS.highlights.set("found", new Highlight(...ranges));
  }
}

// ---------------------------------------------------------------- the page

function heading(session) {
  const a = session.about, whole = session.sums(() => "all")[0] || { prompt: 0, output: 0, cost: 0, known: 0 };
  const children = session.stretches.length - 1, lanes = session.lanes();
  const busy = lanes.length ? new Scale(lanes.flatMap((lane) => lane.bars.map((bar) => [bar.from, bar.to]))) : null;
  const tiles = [["cost", whole.cost === null ? money(whole.known) + "+" : money(whole.cost)], ["tokens", `${tokens(whole.prompt + whole.output)}`],
    ["at work", busy ? duration(busy.parts.reduce((sum, p) => sum + p.to - p.from, 0)) : "0 s"], ["requests", session.counts.requests.toLocaleString("en")],
    ["tool calls", session.counts.tools.toLocaleString("en") + (session.counts.failed ? `, ${session.counts.failed} failed` : "")],
    ["children", String(children)], ["approvals", String(session.counts.asked)]];
  const when = new Date(a.started * 1000).toLocaleString([], { dateStyle: "medium", timeStyle: "short" });
  return [el("p", { class: "about" }, [`session ${a.id}`, a.cwd, a.branch, a.model, a.started ? when : "", a.redacted ? "contents left out" : ""].filter(Boolean).join(" · ")),
    el("dl", { class: "tiles" }, ...tiles.map(([name, value]) => el("div", null, el("dt", null, name), el("dd", null, value))))];
}

function spending(session, scale) {
  const byAgent = session.sums((c) => c.agent).map((row) => {
    const stretch = session.current.get(row.name);
    return { ...row, tone: session.charges.find((c) => c.agent === row.name).kind, label: stretch ? label(stretch) : row.name };
  });
  const columns = [{ name: "agent", cell: (r) => oneLine(r.label || r.name, 60) }, { name: "cost", cell: (r) => (r.cost === null ? money(r.known) + "+" : money(r.cost)) },
    { name: "requests", cell: (r) => String(r.requests) }, { name: "prompt", cell: (r) => tokens(r.prompt) }, { name: "cached", cell: (r) => (r.prompt ? Math.round((100 * r.cached) / r.prompt) + "%" : "") },
    { name: "output", cell: (r) => tokens(r.output) }];
  const size = (r) => (priced ? r.known : r.prompt + r.output), priced = byAgent.some((r) => r.known > 0);
  const models = session.sums((c) => c.model || "unknown");
  const charts = [], tables = [];
  if (session.charges.length) {
    const ordered = [...session.charges].sort((a, b) => a.at - b.at);
    if (priced) charts.push(el("div", null, el("h3", null, "Cost over time"), stackedChart(ordered.map((c) => [c.at, c.kind, c.cost || 0]), scale, money)));
    charts.push(el("div", null, el("h3", null, "Tokens over time"), stackedChart(ordered.map((c) => [c.at, c.kind, c.prompt + c.output]), scale, (n) => tokens(Math.round(n)))));
  }
  tables.push(el("div", null, barTable("By agent", columns, byAgent, size)));
  if (models.length > 1) tables.push(el("div", null, barTable("By model", [{ ...columns[0], name: "model" }, ...columns.slice(1)], models, size)));
  return [el("div", { class: "pair" }, ...charts), el("div", { class: "pair wide" }, ...tables)];
}

function outline(session) {
  const rows = session.main.entries.filter((e) => e.type === "prompt.added" && e.source !== "system").map((entry) => ({ at: entry.id, text: oneLine(entry.label || entry.text, 70), go: () => goTo(reveal(session, entry)), name: "prompt" }));
  for (const s of session.stretches) {
    if (s !== session.main) rows.push({ at: s.start.id, text: oneLine(label(s), 60), status: session.status(s), go: () => goTo(revealChild(session, s)), name: "agent", depth: s.path.split("/").length - 1 });
  }
  rows.sort((a, b) => a.at - b.at);
  return el("ol", null, ...rows.map((row) => {
    const node = el("li", { class: row.name }, button([row.status ? el("span", { class: "glyph " + row.status }, GLYPH[row.status] || "·") : null, row.text], row.text, row.go));
    if (row.depth) node.style.paddingLeft = 10 * row.depth + "px";
    return node;
  }));
}

function read() {
  const out = [];
  for (const block of document.querySelectorAll("script[type='application/json']")) { out.push(JSON.parse(block.textContent)); block.remove(); }
  return out;
}

function startSession() {
  const [about, ...parts] = read(), session = new Session(about), swap = startTheme();
  for (const part of parts) { for (const event of part.events) session.feed(event); for (const charge of part.charges) session.charge(charge); }
  session.redraw = false;
  const search = new Search(session), help = keyHelp(SESSION_KEYS), talk = el("div", { class: "transcript" });
  const head = el("div", { class: "head" }), spend = el("div", { class: "spend" }), side = el("nav", { "aria-label": "Outline" });
  const line = new Timeline(() => session.lanes(), (bar) => goToBar(session, bar));
  const redraw = () => {
    if (session.redraw) { session.redraw = false; talk.textContent = ""; transcript(session, session.main, talk); }
    head.replaceChildren(...heading(session));
    line.draw();
    spend.replaceChildren(...spending(session, line.scale));
    side.replaceChildren(outline(session));
  };
  document.body.append(
    el("header", { class: "bar" }, el("strong", null, about.title || "Session " + about.id), about.live ? el("span", { class: "live" }, "live") : null, search.node,
      button("⊞", "Open every section (e)", () => openAll(session)), button("◐", "Dark or light (t)", swap), button("?", "Keys (?)", help)),
    el("div", { class: "columns" }, side, el("main", null, el("h1", null, about.title || "Session " + about.id), head,
      el("section", { id: "timeline" }, el("h2", null, "Timeline"), line.node), el("section", { id: "spend" }, el("h2", null, "Cost and tokens"), spend),
      el("section", { id: "talk" }, el("h2", null, "Conversation"), talk))));
  redraw();
  transcript(session, session.main, talk);
  sessionKeys(session, { search, line, swap, help });
  addEventListener("beforeprint", () => { for (const node of document.querySelectorAll(".group")) node.fill(); });
  if (about.live) follow(session, redraw);
  const task = session.current.get(new URLSearchParams(location.hash.slice(1)).get("task"));
  if (task && task !== session.main) goTo(revealChild(session, task)); // a link from a report
  document.documentElement.dataset.ready = "1";
  return session;
}

function openAll(session) {
  const limit = 3000; // sections; a page of more would take minutes to draw
  let opened = 0, closing = document.querySelector("details.call[open], details.child[open]");
  if (closing) { for (const node of document.querySelectorAll("#talk details[open]")) node.open = false; return; }
  for (let again = true; again && opened < limit; ) {
    again = false;
    for (const node of document.querySelectorAll(".group")) if (!node.filled) { node.fill(); again = true; }
    for (const node of document.querySelectorAll("#talk details:not([open])")) { if (opened++ > limit) break; if (node.fill) node.fill(); node.open = true; again = true; }
  }
}

const SESSION_KEYS = [["/", "search; Enter and Shift+Enter go through what was found"], ["j  k", "next and previous prompt"], ["e", "open or close every section"], ["c", "next child"],
  ["+  −  0", "zoom the timeline in, out, show all"], ["←  →", "move the timeline"], ["g  G", "start and end"], ["t", "dark or light"], ["?", "this list"]];

function sessionKeys(session, { search, line, swap, help }) {
  const prompts = () => session.main.entries.filter((e) => e.type === "prompt.added" && e.source !== "system");
  const where = { prompt: -1, child: 0 };
  const step = (by) => { const all = prompts(); if (!all.length) return; where.prompt = Math.max(0, Math.min(all.length - 1, where.prompt + by)); goTo(reveal(session, all[where.prompt])); };
  const child = () => { if (session.stretches.length > 1) { where.child = (where.child % (session.stretches.length - 1)) + 1; goTo(revealChild(session, session.stretches[where.child])); } };
  const keys = { "/": () => search.box.focus(), j: () => step(1), k: () => step(-1), e: () => openAll(session), c: child, t: swap, "?": help,
    g: () => scrollTo(0, 0), G: () => scrollTo(0, document.body.scrollHeight) };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName) || event.target.closest("dialog")) return;
    if (keys[event.key]) { event.preventDefault(); keys[event.key](); } else if (event.target !== line.plot && line.key(event.key)) event.preventDefault();
  });
}

// A live page: the server sends what is new, and the page grows.
function follow(session, redraw) {
  const source = new EventSource("events"), sign = document.querySelector(".live");
  let waiting = false;
  source.addEventListener("message", (message) => {
    const part = JSON.parse(message.data), bottom = innerHeight + scrollY > document.body.scrollHeight - 120;
    const touched = new Set();
    for (const event of part.events) { session.feed(event); touched.add(session.current.get(event.agent)); }
    for (const charge of part.charges) session.charge(charge);
    for (const stretch of touched) if (stretch) extend(session, stretch);
    if (waiting) return;
    waiting = true;
    setTimeout(() => { waiting = false; redraw(); if (bottom) scrollTo(0, document.body.scrollHeight); }, 250);
  });
  source.addEventListener("ended", () => { source.close(); session.about.live = false; sign.textContent = "ended"; sign.classList.add("over"); redraw(); });
  source.addEventListener("error", () => { sign.textContent = "not connected"; });
  source.addEventListener("open", () => { sign.textContent = "live"; });
}

window.session = startSession();
