"use strict";
// Markdown as nodes: what models write, nothing more. Raw HTML stays text, and only http links are links.
// No pattern may try a long run of characters from each of its places: such a line would stop the page.

const FENCE = /^ {0,3}(`{3,}(?=[^`]*$)|~{3,})(.*)$/;
const ITEM = /^( {0,3})([-*+]|\d{1,9}[.)])( {1,4}|\t|$)/;
const RULE = /^ {0,3}([-*_])( *\1){2,} *$/;
const HEADING = /^ {0,3}(#{1,6})\s(.*)$/;
const DELIMITER = /^ {0,3}\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?\s*$/;
const DEEPEST = 10, LONGEST_MARKDOWN = 200000, LONGEST_SHOWN = 20000;

function markdown(text) {
  const root = el("div", { class: "md" });
  if (text.length > LONGEST_MARKDOWN) root.append(plainText(text));
  else blocks(text.replace(/\r\n?/g, "\n").split("\n"), root, 0);
  return root;
}

function blocks(lines, into, depth) {
  let at = 0;
  while (at < lines.length) {
    const line = lines[at];
    let found;
    if (!line.trim()) at++;
    else if ((found = FENCE.exec(line))) at = fence(lines, at, found, into);
    else if ((found = HEADING.exec(line))) { into.append(inline(withoutEnd(found[2].trim(), "#").trim(), el("h" + Math.min(6, found[1].length + 2)))); at++; }
    else if (RULE.test(line)) { into.append(el("hr")); at++; }
    else if (/^ {0,3}>/.test(line) && depth < DEEPEST) at = quote(lines, at, into, depth);
    else if (ITEM.test(line) && depth < DEEPEST) at = list(lines, at, into, depth);
    else if (line.includes("|") && at + 1 < lines.length && lines[at + 1].includes("-") && DELIMITER.test(lines[at + 1])) at = table(lines, at, into);
    else if (/^( {4}|\t)/.test(line)) at = indented(lines, at, into);
    else at = paragraph(lines, at, into);
  }
}

function fence(lines, at, found, into) {
  const body = [], mark = found[1], language = /^[\w+#.-]*/.exec(found[2].trim())[0];
  for (at++; at < lines.length; at++) {
    const end = /^ {0,3}(`{3,}|~{3,})\s*$/.exec(lines[at]);
    if (end && end[1][0] === mark[0] && end[1].length >= mark.length) { at++; break; }
    body.push(lines[at]);
  }
  into.append(/^(diff|patch)$/.test(language) ? diff(body.join("\n")) : code(body.join("\n"), language));
  return at;
}

function indented(lines, at, into) {
  const body = [];
  while (at < lines.length && (/^( {4}|\t)/.test(lines[at]) || !lines[at].trim())) body.push(lines[at++].replace(/^( {1,4}|\t)/, ""));
  into.append(code(body.join("\n").trimEnd(), ""));
  return at;
}

function quote(lines, at, into, depth) {
  const body = [];
  while (at < lines.length && /^ {0,3}>/.test(lines[at])) body.push(lines[at++].replace(/^ {0,3}> ?/, ""));
  const node = el("blockquote");
  blocks(body, node, depth + 1);
  into.append(node);
  return at;
}

function list(lines, at, into, depth) {
  const ordered = /\d/.test(ITEM.exec(lines[at])[2]);
  const start = ordered ? parseInt(ITEM.exec(lines[at])[2], 10) : 1;
  const node = el(ordered ? "ol" : "ul", start === 1 ? null : { start: String(start) });
  while (at < lines.length) {
    const found = ITEM.exec(lines[at]);
    if (!found || /\d/.test(found[2]) !== ordered || RULE.test(lines[at])) break;
    const width = found[1].length + found[2].length + 1, body = [lines[at].slice(found[0].length)];
    for (at++; at < lines.length; at++) {
      const line = lines[at], indent = line.length - line.trimStart().length;
      if (!line.trim()) { if (at + 1 < lines.length && /^\s{2,}\S/.test(lines[at + 1])) body.push(""); else break; }
      else if (indent >= Math.min(width, 2)) body.push(line.slice(Math.min(indent, width)));
      else if (ITEM.test(line) || HEADING.test(line) || FENCE.test(line) || /^ {0,3}>/.test(line) || !body[body.length - 1].trim()) break;
      else body.push(line);
    }
    node.append(item(body, depth));
    while (at < lines.length && !lines[at].trim() && at + 1 < lines.length && ITEM.test(lines[at + 1])) at++;
  }
  into.append(node);
  return at;
}

function item(body, depth) {
  const node = el("li"), box = /^\[([ xX])\]\s+/.exec(body[0]);
  if (box) {
    body[0] = body[0].slice(box[0].length);
    node.className = "todo";
    node.append(el("span", { class: "box", "aria-hidden": "true" }, box[1] === " " ? "☐" : "☑"), " ");
  }
  const inner = el("div");
  blocks(body, inner, depth + 1);
  const only = inner.children.length && inner.firstElementChild.tagName === "P" ? inner.firstElementChild : null;
  if (only) only.replaceWith(...only.childNodes); // a tight list
  node.append(...inner.childNodes);
  return node;
}

function cells(line) {
  return line.trim().replace(/^\||\|$/g, "").split(/(?<!\\)\|/).map((cell) => cell.trim().replace(/\\\|/g, "|"));
}

function table(lines, at, into) {
  const head = cells(lines[at]), sides = cells(lines[at + 1]).map((d) => (/^:-+:$/.test(d) ? "centre" : /-:$/.test(d) ? "number" : ""));
  const rows = [];
  for (at += 2; at < lines.length && lines[at].includes("|") && lines[at].trim(); at++) rows.push(cells(lines[at]));
  const row = (values, name) => el("tr", null, ...head.map((_, n) => inline(values[n] || "", el(name, { class: sides[n] || "" }))));
  into.append(el("div", { class: "scroll" }, el("table", null,
    el("thead", null, row(head, "th")), el("tbody", null, ...rows.map((values) => row(values, "td"))))));
  return at;
}

function paragraph(lines, at, into) {
  const body = [lines[at++]];
  while (at < lines.length && lines[at].trim() && !FENCE.test(lines[at]) && !HEADING.test(lines[at]) && !RULE.test(lines[at]) && !/^ {0,3}>/.test(lines[at]) && !ITEM.test(lines[at])) body.push(lines[at++]);
  into.append(inline(body.join("\n"), el("p")));
  return at;
}

// One token at a time; an opening mark without its partner is plain text.
const TOKEN = /\\([!-/:-@[-`{-~])|(`+)|(\*\*|__|\*|_|~~)|!?\[|<?https?:\/\/[^\s<>"'`]+|\n/g;

function inline(text, into, depth = 0) {
  let at = 0, plain = "";
  const put = () => { if (plain) into.append(visible(plain)); plain = ""; };
  const token = new RegExp(TOKEN);
  for (let found; (token.lastIndex = at, found = token.exec(text)); ) {
    plain += text.slice(at, found.index);
    const [whole, escaped, ticks, mark] = found, start = found.index, after = start + whole.length;
    let taken = null;
    if (escaped) { plain += escaped; at = after; continue; }
    if (ticks) taken = codeSpan(text, after, ticks);
    else if (mark) taken = depth < DEEPEST ? emphasis(text, start, mark, depth) : null;
    else if (/\[$/.test(whole)) taken = depth < DEEPEST ? link(text, start, whole.length, depth) : null;
    else if (whole.includes("://")) taken = bareLink(whole, after);
    else if (/ {2}$|\\$/.test(plain.slice(-2))) { taken = [el("br"), after]; plain = withoutEnd(plain, "\\").trimEnd(); }
    if (taken) { put(); into.append(taken[0]); at = taken[1]; } else { plain += whole; at = after; }
  }
  plain += text.slice(at);
  put();
  return into;
}

function codeSpan(text, after, ticks) {
  for (let end = text.indexOf(ticks, after); end >= 0; end = text.indexOf(ticks, end)) {
    let run = end;
    while (text[run] === "`") run++;
    if (run - end === ticks.length) {
      const inside = text.slice(after, end).replace(/\n/g, " "), padded = inside[0] === " " && inside.endsWith(" ") && inside.trim();
      return [el("code", null, padded ? inside.slice(1, -1) : inside), run];
    }
    end = run;
  }
  return null;
}

const NAMES = { "**": "strong", __: "strong", "*": "em", _: "em", "~~": "del" };
function emphasis(text, start, mark, depth) {
  const inside = start + mark.length, word = /[\p{L}\p{N}]/u;
  if (!text[inside] || /\s/.test(text[inside])) return null;
  if (mark[0] === "_" && start && word.test(text[start - 1])) return null;
  for (let end = text.indexOf(mark, inside + 1), tries = 0; end > 0 && tries < 50; end = text.indexOf(mark, end + 1), tries++) {
    const next = text[end + mark.length] || "";
    if (/\s/.test(text[end - 1]) || text[end - 1] === "\\" || (mark.length === 1 && (next === mark || text[end - 1] === mark))) continue;
    if (mark[0] === "_" && word.test(next)) continue;
    return [inline(text.slice(inside, end), el(NAMES[mark]), depth + 1), end + mark.length];
  }
  return null;
}

const LINK = /\[((?:[^\[\]\\]|\\.){0,2000})\]\(\s*<?([^\s<>()]{0,2000}(?:\([^\s<>()]{0,200}\)[^\s<>()]{0,200})?)>?(?:\s+["'(][^"')\n]{0,400}["')])?\s*\)/y;
function link(text, start, length, depth) {
  LINK.lastIndex = start + length - 1;
  const found = LINK.exec(text);
  if (!found) return null;
  const image = length === 2, label = found[1] || found[2];
  return [anchor(found[2], inline(image ? `image: ${label}` : label, el("span"), depth + 1)), LINK.lastIndex];
}

function withoutEnd(text, characters) {
  let end = text.length;
  while (end && characters.includes(text[end - 1])) end--;
  return text.slice(0, end);
}

function bareLink(whole, after) {
  const angle = whole[0] === "<", url = angle ? whole.slice(1) : withoutEnd(whole, ".,;:!?)]}*_~");
  return [anchor(url, el("span", null, url)), angle ? after + 1 : after - (whole.length - url.length)];
}

function anchor(target, label) {
  let url = null;
  try { url = new URL(target); } catch { /* not a whole address: shown, not linked */ }
  if (!url || !/^https?:$/.test(url.protocol)) { label.title = visible(target); return label; }
  return el("a", { href: url.href, rel: "noopener noreferrer nofollow", target: "_blank" }, label);
}

// ---------------------------------------------------------------- code, diffs and long text

function plainText(text, language) {
  const node = el("pre");
  const show = (part) => { node.textContent = ""; const inner = el("code"); colour(part, language, inner); node.append(inner); };
  if (text.length <= LONGEST_SHOWN) show(text);
  else {
    show(text.slice(0, LONGEST_SHOWN));
    const more = button(`Show all ${bytes(text.length)}`, "Show the whole text", () => { node.textContent = visible(text); }, { class: "more" });
    node.append("\n", more);
  }
  return node;
}

function code(text, language) {
  const node = plainText(text, language);
  if (language) node.dataset.language = language;
  return node;
}

const WORDS = new Set(("and as assert async await break case catch class const continue def del do elif else enum except export extends extern false " +
  "False final finally fn for from func function if impl import in interface is lambda let match mod mut new nil none None not null or package pass pub " +
  "public private raise return self static struct super switch this throw trait true True try type typeof use using val var void when where while with yield").split(" "));
const SPOKEN = new Set(["", "text", "txt", "plain", "console", "output", "markdown", "md"]);

function colour(text, language, into) {
  if (SPOKEN.has((language || "").toLowerCase())) { into.append(visible(text)); return; }
  const slashes = /^(c|cc|cpp|cs|css|go|java|js|jsx|kotlin|php|rs|rust|scala|swift|ts|tsx|javascript|typescript|json|proto)$/i.test(language);
  const pattern = slashes
    ? /(\/\/[^\n]*|\/\*[\s\S]*?\*\/)|("(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|`(?:[^`\\]|\\.)*`)|\b(\d[\w.]*)|([A-Za-z_]\w*)/g
    : /(#[^\n]*|--\s[^\n]*)|("""[\s\S]*?"""|'''[\s\S]*?'''|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')|\b(\d[\w.]*)|([A-Za-z_]\w*)/g;
  let at = 0;
  for (const found of text.matchAll(pattern)) {
    const kind = found[1] ? "comment" : found[2] ? "string" : found[3] ? "digit" : WORDS.has(found[4]) ? "word" : "";
    if (!kind) continue;
    into.append(visible(text.slice(at, found.index)), el("span", { class: kind }, found[0]));
    at = found.index + found[0].length;
  }
  into.append(visible(text.slice(at)));
}

const MOST_DIFF_LINES = 400;
function diff(text) {
  const node = el("div", { class: "diff", role: "img", "aria-label": "Changes" }), lines = text.split("\n");
  const show = (part) => {
    let old = 0, now = 0;
    part.forEach((line, n) => {
      const hunk = /^@@ -(\d+)(?:,\d+)? \+(\d+)/.exec(line);
      if (hunk) { [old, now] = [Number(hunk[1]), Number(hunk[2])]; node.append(diffRow("hunk", "", "", line)); return; }
      if (/^(---|\+\+\+|diff |index )/.test(line) && !(old || now)) { node.append(diffRow("hunk", "", "", line)); return; }
      if (line[0] === "-") node.append(diffRow("gone", old++, "", line, part[n + 1]));
      else if (line[0] === "+") node.append(diffRow("new", "", now++, line, part[n - 1]));
      else if (line || n + 1 < part.length) node.append(diffRow("", old && old++, now && now++, line));
    });
  };
  show(lines.slice(0, MOST_DIFF_LINES));
  if (lines.length > MOST_DIFF_LINES) {
    const more = button(`Show all ${lines.length.toLocaleString("en")} lines`, "Show the whole diff", () => { node.textContent = ""; show(lines); }, { class: "more" });
    node.append(more);
  }
  return node;
}

function diffRow(kind, old, now, line, partner) {
  const body = el("span", { class: "body" });
  if (partner && partner[0] !== line[0] && /^[+-]/.test(partner) && line.length < 2000) changedPart(body, line, partner);
  else body.append(visible(line.length > LONGEST_SHOWN ? line.slice(0, LONGEST_SHOWN) + " …" : line));
  return el("div", { class: "row " + kind }, el("span", { class: "line" }, String(old || "")), el("span", { class: "line" }, String(now || "")), body);
}

function changedPart(into, line, partner) {
  let head = 1, tail = 0;
  while (head < line.length && head < partner.length && line[head] === partner[head]) head++;
  while (tail < line.length - head && tail < partner.length - head && line[line.length - 1 - tail] === partner[partner.length - 1 - tail]) tail++;
  const middle = line.slice(head, line.length - tail);
  if (!middle || middle.length > 0.7 * line.length) { into.append(visible(line)); return; }
  into.append(visible(line.slice(0, head)), el("mark", null, middle), visible(tail ? line.slice(-tail) : ""));
}
