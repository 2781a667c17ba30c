#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>

#include "parallel/plan/draw_collective.h"
#include "parallel/plan/svg.h"

namespace ringrad {
namespace {

using Json = nlohmann::ordered_json;

// The page is this text with a title, and with the plan's frames as JSON where the script looks for them.
constexpr char kBeforeTitle[] = R"html(<!DOCTYPE html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>)html";

constexpr char kBody[] = R"html(</title>
<style>
:root { color-scheme: light dark; --page: #fff; --ink: #1f2328; --dim: #59636e; --rule: #9aa4af; --face: #f6f8fa;
  --adds: #d55e00; --copies: #0072b2; --held: #0969da; --done: #2da44e; --wrong: #cf222e; }
@media (prefers-color-scheme: dark) { :root { --page: #0d1117; --ink: #f0f6fc; --dim: #9198a1; --rule: #59636e;
  --face: #21262d; --held: #58a6ff; --adds: #ff9d4d; --copies: #56b4e9; --wrong: #ff7b72; } }
body { font: 15px system-ui, "Segoe UI", Helvetica, Arial, sans-serif; margin: 24px; background: var(--page);
  color: var(--ink); }
h1 { font-size: 20px; margin: 0 0 4px; }
.dim, .legend { color: var(--dim); }
nav { display: flex; flex-wrap: wrap; align-items: center; gap: 8px; margin: 16px 0; }
button { font: inherit; min-width: 38px; padding: 3px 10px; color: var(--ink); background: var(--face);
  border: 1px solid var(--rule); border-radius: 6px; }
button:disabled { opacity: .4; }
#slider { width: 260px; }
#step { font-weight: 600; margin-left: 8px; }
main { display: flex; flex-wrap: wrap; align-items: flex-start; gap: 12px 36px; }
#table { overflow-x: auto; }
#fault { color: var(--wrong); font-weight: 600; max-width: 900px; }
.legend span:not([hidden]) { display: inline-block; margin-right: 20px; }
.legend svg { vertical-align: -4px; margin-right: 6px; }
svg text { font: 12px system-ui, "Segoe UI", Helvetica, Arial, sans-serif; fill: var(--ink); text-anchor: middle; }
svg .name { fill: var(--dim); }
.node { fill: var(--face); stroke: var(--rule); stroke-width: 1.5; }
svg .rank { font-size: 15px; font-weight: 600; }
svg .chunks { paint-order: stroke; stroke: var(--page); stroke-width: 4px; }
.cell { fill: var(--held); stroke: var(--rule); }
.scratch { stroke-dasharray: 2 3; }
.done { fill: var(--done); stroke: var(--done); fill-opacity: .45; }
.wrong { stroke: var(--wrong); stroke-width: 3; stroke-dasharray: none; }
.adds, .copies { fill: none; stroke-width: 1.8; }
.adds { stroke: var(--adds); }
.copies { stroke: var(--copies); }
.staged { stroke-dasharray: 5 3; }
.tip { stroke: none; }
.tip.adds { fill: var(--adds); }
.tip.copies { fill: var(--copies); }
</style>
<h1 id="title"></h1>
<div id="costs" class="dim"></div>
<nav>
<button id="first" title="to the start (Home)">|&lt;</button>
<button id="back" title="one step back (left arrow)">&lt;</button>
<input id="slider" type="range" min="0" aria-label="step">
<button id="next" title="one step on (right arrow)">&gt;</button>
<button id="last" title="to the end (End)">&gt;|</button>
<span id="step"></span><span id="summary" class="dim"></span>
</nav>
<p id="fault" hidden></p>
<main><div id="ring"></div><div id="table"></div></main>
<p class="legend">
<span><svg width="22" height="16"><rect class="cell" x="1" y="1" width="20" height="14" fill-opacity=".2"/></svg>{0,1}:
what ranks 0 and 1 had, summed</span>
<span><svg width="22" height="16"><rect class="cell done" x="1" y="1" width="20" height="14"/></svg>done</span>
<span id="scratch"><svg width="22" height="16"><rect class="cell scratch" x="1" y="1" width="20" height="14" fill-opacity=".1"/></svg>
not asked for</span>
<span><svg width="26" height="16"><path class="adds" d="M0 8h18"/><path class="tip adds" d="M26 8l-9-4v8z"/></svg>
is added</span>
<span><svg width="26" height="16"><path class="copies" d="M0 8h18"/><path class="tip copies" d="M26 8l-9-4v8z"/></svg>
is copied</span>
<span id="staged"><svg width="26" height="16"><path class="adds staged" d="M0 8h26"/></svg>from a copy that was kept</span></p>
<script id="plan" type="application/json">)html";

constexpr char kScript[] = R"html(</script>
<script>
"use strict";
const plan = JSON.parse(document.getElementById("plan").textContent);
const el = id => document.getElementById(id);
const n = plan.ranks, last = plan.frames.length - 1;
const states = [];  // by frame and cell: [label, how many ranks, done]; frames list what has changed
for (const { cells } of plan.frames) {
  const state = states.length ? states[states.length - 1].slice() : [];
  for (const [cell, ...held] of cells) state[cell] = held;
  states.push(state);
}
let at = 0;

// "0-2,5"
function ranges(numbers) {
  const parts = [];
  numbers.sort((a, b) => a - b).forEach((x, i) => {
    if (i && numbers[i - 1] === x - 1) parts[parts.length - 1][1] = x;
    else parts.push([x, x]);
  });
  return parts.map(([a, b]) => a === b ? a : a + "-" + b).join(",");
}

// Ranks in a circle. A message bends to its left, so that one in the other direction is beside it; it must not bend
// outward onto a rank that it passes.
function ring(messages) {
  const radius = n > 8 ? 150 : 112, centre = radius + 56, node = 20;
  const place = r => [centre + radius * Math.sin(2 * Math.PI * r / n), centre - radius * Math.cos(2 * Math.PI * r / n)];
  const pairs = new Map();
  for (const [from, to, chunk, adds, staged] of messages) {
    const key = [from, to, adds, staged].join();
    if (!pairs.has(key)) pairs.set(key, { from, to, adds, staged, chunks: [] });
    pairs.get(key).chunks.push(chunk);
  }
  let lines = "", labels = "", nodes = "";
  for (const { from, to, adds, staged, chunks } of pairs.values()) {
    const [x1, y1] = place(from), [x2, y2] = place(to), length = Math.hypot(x2 - x1, y2 - y1);
    const ux = (x2 - x1) / length, uy = (y2 - y1) / length, clockwise = (to - from + n) % n;
    const passes = clockwise > 1 && 2 * clockwise < n, bend = passes ? 0 : Math.min(36, .26 * length);
    const cx = (x1 + x2) / 2 + uy * bend, cy = (y1 + y2) / 2 - ux * bend;
    const away = (x, y, by) => {
      const d = Math.hypot(cx - x, cy - y);
      return [x + (cx - x) * by / d, y + (cy - y) * by / d];
    };
    const [ax, ay] = away(x1, y1, node + 2), [bx, by] = away(x2, y2, node + 10), [tx, ty] = away(x2, y2, node + 1);
    const wx = (ty - by) * .45, wy = -(tx - bx) * .45, kind = adds ? "adds" : "copies";
    lines += `<path class="${kind}${staged ? " staged" : ""}" d="M${ax} ${ay}Q${cx} ${cy} ${bx} ${by}"/>` +
      `<path class="tip ${kind}" d="M${tx} ${ty}L${bx + wx} ${by + wy}L${bx - wx} ${by - wy}z"/>`;
    if (pairs.size > 2 * n) continue;
    const off = passes ? 0 : 18;
    const mx = (x1 + x2) / 4 + cx / 2 + uy * off, my = (y1 + y2) / 4 + cy / 2 - ux * off;
    labels += `<text class="chunks" x="${mx}" y="${my + 4}">c${ranges(chunks)}</text>`;
  }
  for (let r = 0; r < n; ++r) {
    const [x, y] = place(r);
    nodes += `<circle class="node" cx="${x}" cy="${y}" r="${node}"/>` +
      `<text class="rank" x="${x}" y="${y + 5}">${r}</text>`;
  }
  const size = 2 * centre;
  return `<svg width="${size}" height="${size}" viewBox="0 0 ${size} ${size}">${lines}${nodes}${labels}</svg>`;
}

// Ranks are columns, chunks are rows; to the right above the row, to the left below it.
function table(state, messages, fault) {
  const longest = states.reduce((most, all) => all.reduce((m, [label]) => Math.max(m, label.length), most), 3);
  const w = 7.2 * longest + 26, h = 26, gap = plan.chunks > 32 ? 18 : 28, columns = 16, left = 64, top = 44;
  const x = r => left + r * (w + columns), y = c => top + c * (h + gap);
  let out = "";
  for (let r = 0; r < n; ++r) out += `<text class="name" x="${x(r) + w / 2}" y="16">rank ${r}</text>`;
  for (let c = 0; c < plan.chunks; ++c) {
    out += `<text class="name" x="28" y="${y(c) + h / 2 + 4}">chunk ${c}</text>`;
    for (let r = 0; r < n; ++r) {
      const cell = r * plan.chunks + c, [label, held, done] = state[cell];
      const css = (done ? " done" : "") + (plan.wanted[cell] ? "" : " scratch") + (fault === cell ? " wrong" : "");
      const middle = y(c) + h / 2 + 4, centre = x(r) + w / 2 - (done ? 5 : 0);
      out += `<rect class="cell${css}" x="${x(r)}" y="${y(c)}" width="${w}" height="${h}" rx="4" ` +
        `fill-opacity="${.35 * held / n}"/>` +
        `<text class="held" data-rank="${r}" data-chunk="${c}" x="${centre}" y="${middle}">${label}</text>`;
      if (done) out += `<text x="${x(r) + w - 9}" y="${middle}">\u2713</text>`;
    }
  }
  for (const [from, to, chunk, adds, staged] of messages) {
    const side = to > from ? -1 : 1, far = Math.abs(to - from), edge = y(chunk) + (side < 0 ? 0 : h);
    const a = x(from) + w * (side < 0 ? .65 : .35), b = x(to) + w * (side < 0 ? .35 : .65) + side * 4 * (far - 1);
    const apex = edge + side * (gap / 2 - 2) * (1 - Math.pow(.5, far)) * 1.9, kind = adds ? "adds" : "copies";
    out += `<path class="${kind}${staged ? " staged" : ""}" d="M${a} ${edge}C${a - side * 4} ${apex} ` +
      `${b + side * 4} ${apex} ${b} ${edge + side * 5}"><title>chunk ${chunk}: rank ${from} to rank ${to}</title></path>` +
      `<path class="tip ${kind}" d="M${b} ${edge}l-4 ${side * 7}h8z"/>`;
  }
  const width = x(n), height = y(plan.chunks);
  return `<svg width="${width}" height="${height}" viewBox="0 0 ${width} ${height}">${out}</svg>`;
}

function show(frame) {
  at = Math.max(0, Math.min(last, frame || 0));
  const { slot, messages } = plan.frames[at], fails = plan.fault && at === last;
  el("ring").innerHTML = ring(messages);
  el("table").innerHTML = table(states[at], messages, fails ? plan.fault.cell : -1);
  el("slider").value = at;
  el("step").textContent = at ? `step ${slot} (${at} of ${last})` : `start (${last} steps)`;
  el("summary").textContent = at ? messages.length + (messages.length === 1 ? " chunk travels" : " chunks travel") : "";
  el("fault").hidden = !fails;
  el("first").disabled = el("back").disabled = at === 0;
  el("next").disabled = el("last").disabled = at === last;
  history.replaceState(null, "", "#step=" + at);
}

// Without a step in the address: the fault, or the start.
function asked() {
  const step = parseInt(location.hash.replace("#step=", ""), 10);
  show(isNaN(step) && plan.fault ? last : step);
}
document.title = el("title").textContent = plan.title;
el("costs").textContent = plan.costs;
if (plan.fault) el("fault").textContent = "fails: " + plan.fault.text;
el("scratch").hidden = !plan.wanted.includes(0);
el("staged").hidden = !plan.frames.some(frame => frame.messages.some(([, , , , staged]) => staged));
el("slider").max = last;
el("slider").oninput = () => show(+el("slider").value);
el("first").onclick = () => show(0);
el("back").onclick = () => show(at - 1);
el("next").onclick = () => show(at + 1);
el("last").onclick = () => show(last);
onkeydown = event => {
  const to = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: last }[event.key];
  if (to === undefined) return;
  event.preventDefault();
  show(to);
};
onhashchange = asked;
asked();
</script>
)html";

std::string text_of(const CounterExample& fault) {
  std::ostringstream out;
  out << fault;
  return std::move(out).str();
}

Json json_of(const CollectiveFrames& film, int world_size) {
  Json frames = Json::array();
  std::vector<std::vector<int>> before;
  for (const CollectiveFrame& frame : film.frames) {
    Json cells = Json::array(), messages = Json::array();
    for (std::size_t cell = 0; cell < frame.ranks.size(); ++cell) {
      const std::vector<int>& held = frame.ranks[cell];
      if (!before.empty() && before[cell] == held) continue;
      const bool is_done = !held.empty() && held == film.promised[cell];
      cells.push_back({cell, ranks_label(held), held.size(), is_done ? 1 : 0});
    }
    for (const auto& [from, to, chunk, adds, staged] : frame.messages)
      messages.push_back({from, to, chunk, adds ? 1 : 0, staged ? 1 : 0});
    frames.push_back({{"slot", frame.slot}, {"messages", messages}, {"cells", cells}});
    before = frame.ranks;
  }
  const std::size_t num_chunks = film.promised.size() / static_cast<std::size_t>(world_size);
  Json wanted = Json::array();
  for (const auto& ranks : film.promised) wanted.push_back(ranks.empty() ? 0 : 1);
  Json page{{"ranks", world_size}, {"chunks", num_chunks}, {"wanted", wanted}, {"frames", frames}};
  if (film.fault) {
    const auto& [fault, rank, index, chunk, text] = *film.fault;
    const bool has_cell = rank >= 0 && chunk >= 0;
    page["fault"] = {{"cell", has_cell ? rank * static_cast<int>(num_chunks) + chunk : -1},
                     {"text", text_of(*film.fault)}};
  }
  return page;
}

}  // namespace

std::string collective_html(const CollectivePlan& plan) {
  Json page = json_of(frames_to_draw(plan), plan.world_size);
  page["title"] = collective_title(plan);
  page["costs"] = collective_costs(plan);
  std::string data = page.dump();
  // A "</script>" in a plan's name must not end the data.
  for (std::size_t at = 0; (at = data.find('<', at)) != std::string::npos;)
    data.replace(at, 1, "\\u003c");
  return kBeforeTitle + xml_escaped(collective_title(plan)) + kBody + data + kScript;
}

}  // namespace ringrad
