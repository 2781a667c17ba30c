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
