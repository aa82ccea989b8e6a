// Every node a cell on a canvas. Cells are painted colour by colour; hovering paints on a second canvas above.
import { html, natural, useEffect, useLayoutEffect, useMemo, useRef, useState } from "./core.js";
import { ABSENT, CORDONED, NOT_READY, VALID } from "./data.js";
import { STEPS, kindColour, ramp, theme, variable } from "./colours.js";

const HEADER = 22, BLOCK_GAP = 18, SMALLEST = 3, LARGEST = 64, WORDS_FROM = 44, PIXELS_BELOW = 7;

// Groups of rows, by name: [{ name, rows }]
export function grouped(nodes, column) {
  const order = [];
  for (let row = 0; row < nodes.size; row++) if (nodes.flags[row] & VALID) order.push(row);
  order.sort((a, b) => natural(nodes.names[a], nodes.names[b]));
  if (!column) return [{ name: "", rows: order }];
  const groups = new Map();
  for (const row of order) {
    const name = column.values[column.ids[row]] || "";
    if (!groups.has(name)) groups.set(name, []);
    groups.get(name).push(row);
  }
  return [...groups].map(([name, rows]) => ({ name: name || "without it", rows })).sort((a, b) => natural(a.name, b.name));
}

// The largest cells with which all groups fit into the space, in columns of blocks.
export function arrange(groups, width, height) {
  const header = groups.length > 1 ? HEADER : 0;
  let best = null;
  for (let columns = 1; columns <= Math.min(groups.length, 8); columns++) {
    const blockWidth = Math.floor((width - (columns - 1) * BLOCK_GAP) / columns);
    if (columns > 1 && blockWidth < 90) break;
    for (let size = LARGEST; size >= SMALLEST; size--) {
      if (best && size <= best.size) break;
      const placed = place(groups, columns, blockWidth, size, header);
      if (placed.height <= height) { best = placed; break; }
    }
  }
  return best || place(groups, Math.max(1, Math.min(groups.length, Math.floor(width / 160), 8)),
    Math.floor((width - (Math.max(1, Math.min(groups.length, Math.floor(width / 160), 8)) - 1) * BLOCK_GAP)
      / Math.max(1, Math.min(groups.length, Math.floor(width / 160), 8))), SMALLEST + 1, header);
}

function place(groups, columns, blockWidth, size, header) {
  const across = Math.max(1, Math.floor(blockWidth / size));
  const heights = new Array(columns).fill(0);
  const blocks = groups.map((group) => {
    const column = heights.indexOf(Math.min(...heights));
    const x = column * (blockWidth + BLOCK_GAP), y = heights[column];
    const tall = Math.ceil(group.rows.length / across) * size;
    heights[column] += header + tall + BLOCK_GAP;
    return { ...group, x, y: y + header, across, tall, width: blockWidth };
  });
  return { size, blocks, header, height: Math.max(...heights) - BLOCK_GAP };
}

// A number of a colour per row: 0 to STEPS for values, then "does not offer it", then kinds.
const NONE = STEPS + 1, FIRST_KIND = STEPS + 2;
export function painter(nodes, colouring) {
  if (colouring.kind === "resource") {
    const column = nodes.columns[colouring.name];
    return (row) => {
      const share = column[row];
      return share === ABSENT ? NONE : share >= 995 ? STEPS : Math.floor((share / 1000) * STEPS);
    };
  }
  if (colouring.kind === "score") {
    const { byRow, lowest, highest } = colouring.scores;
    const span = Math.max(1, highest - lowest);
    return (row) => (byRow.has(row) ? Math.round(((byRow.get(row) - lowest) / span) * (STEPS - 1)) : NONE);
  }
  const ids = colouring.kind === "taints" ? nodes.taints : colouring.column.ids;
  return (row) => (ids[row] ? FIRST_KIND + ids[row] - 1 : NONE);
}
function colourOf(number) {
  if (number <= STEPS) return ramp()[number];
  return number === NONE ? (theme() === "dark" ? "#191e28" : "#eef0f4") : kindColour(number - FIRST_KIND);
}

function prepared(canvas, width, height) {
  const scale = devicePixelRatio || 1;
  if (canvas.width !== Math.round(width * scale) || canvas.height !== Math.round(height * scale)) {
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
  }
  const context = canvas.getContext("2d");
  context.setTransform(scale, 0, 0, scale, 0, 0);
  context.clearRect(0, 0, width, height);
  return context;
}

export const frames = { last: 0, worst: 0, count: 0 };

function paint(canvas, layout, nodes, colouring, width) {
  const began = performance.now();
  const context = prepared(canvas, width, layout.height);
  const number = painter(nodes, colouring);
  if (layout.size < PIXELS_BELOW) {
    pixels(context, canvas, layout, number);
    if (layout.header) headers(context, layout);
    measured(began);
    return;
  }
  const { size } = layout, gap = size > 12 ? 2 : size > 5 ? 1 : 0.5, inner = size - gap;
  const round = size >= 32 ? 6 : size >= 14 ? 3 : 0;
  const buckets = new Map();
  const marks = [];
  for (const block of layout.blocks) {
    for (let at = 0; at < block.rows.length; at++) {
      const row = block.rows[at], colour = number(row);
      let bucket = buckets.get(colour);
      if (!bucket) buckets.set(colour, (bucket = []));
      const x = block.x + (at % block.across) * size, y = block.y + Math.floor(at / block.across) * size;
      bucket.push(x, y);
      if (nodes.flags[row] & (CORDONED | NOT_READY)) marks.push(x, y, nodes.flags[row]);
    }
  }
  for (const [colour, places] of buckets) {
    context.fillStyle = colourOf(colour);
    if (round) {
      context.beginPath();
      for (let at = 0; at < places.length; at += 2) context.roundRect(places[at], places[at + 1], inner, inner, round);
      context.fill();
    } else {
      for (let at = 0; at < places.length; at += 2) context.fillRect(places[at], places[at + 1], inner, inner);
    }
  }
  if (size >= WORDS_FROM) words(context, layout, nodes, colouring, number);
  mark(context, marks, inner);
  if (layout.header) headers(context, layout);
  measured(began);
}
function measured(began) {
  frames.last = performance.now() - began;
  frames.worst = Math.max(frames.worst, frames.last);
  frames.count += 1;
}

// Tens of thousands of tiny cells are written as pixels: a rectangle each would take too long.
const parsed = new Map();
function pixelOf(colour) {
  if (!parsed.has(colour)) {
    const [red, green, blue] = colour.startsWith("#") ? [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16)) : colour.match(/\d+/g).map(Number);
    parsed.set(colour, (255 << 24) | (blue << 16) | (green << 8) | red);
  }
  return parsed.get(colour);
}
function pixels(context, canvas, layout, number) {
  const scale = devicePixelRatio || 1, wide = canvas.width, image = context.createImageData(wide, canvas.height);
  const data = new Int32Array(image.data.buffer), known = [];
  const step = layout.size * scale, inner = Math.max(1, Math.round(step - (layout.size > 5 ? 1 : 0.5) * scale));
  for (const block of layout.blocks) {
    for (let at = 0; at < block.rows.length; at++) {
      const colour = number(block.rows[at]), pixel = (known[colour] ??= pixelOf(colourOf(colour)));
      const left = Math.round(block.x * scale + (at % block.across) * step), top = Math.round(block.y * scale + Math.floor(at / block.across) * step);
      for (let y = top; y < top + inner; y++) data.fill(pixel, y * wide + left, y * wide + left + inner);
    }
  }
  context.putImageData(image, 0, 0);
}

// A name as far as there is room; zones, pools and nodes differ in their ends.
function shortened(context, whole, room) {
  let name = whole;
  for (let kept = whole.length - 1; kept >= 2 && context.measureText(name).width > room; kept--) {
    const head = Math.floor(kept / 2);
    name = `${whole.slice(0, head)}…${whole.slice(head - kept)}`;
  }
  return name;
}

// Large cells have room for their value, the largest also for the node's name.
const NAMED = 60;
function words(context, layout, nodes, colouring, number) {
  const font = getComputedStyle(document.body).fontFamily, named = layout.size >= NAMED;
  const large = `560 ${layout.size >= 52 ? 12 : 10.5}px ${font}`;
  context.font = large;
  context.textAlign = "center";
  for (const block of layout.blocks) {
    block.rows.forEach((row, at) => {
      const marked = nodes.flags[row] & (CORDONED | NOT_READY);
      const text = marked ? "" : valueText(nodes, colouring, row), shade = number(row);
      if (!text && !named) return;
      const dark = theme() === "dark" ? shade <= STEPS * 0.62 : shade > STEPS * 0.42 && shade <= STEPS;
      context.fillStyle = dark ? "#ffffffe6" : shade === NONE ? variable("--faint") : "#101830d9";
      const x = block.x + ((at % block.across) + 0.5) * layout.size - 1;
      const y = block.y + (Math.floor(at / block.across) + 0.5) * layout.size + 3;
      context.fillText(text, x, y);
      if (!named) return;
      context.font = `500 10px ${font}`;
      context.fillText(shortened(context, nodes.names[row], layout.size - 8), x, y + layout.size / 2 - 10);
      context.font = large;
    });
  }
  context.textAlign = "left";
}
function valueText(nodes, colouring, row) {
  if (colouring.kind === "resource") {
    const share = nodes.columns[colouring.name][row];
    return share === ABSENT ? "" : `${Math.round(share / 10)}%`;
  }
  return colouring.kind === "score" ? `${colouring.scores.byRow.get(row) ?? ""}` : "";
}

// Cordoned nodes have a stripe, nodes that are not ready a cross.
function mark(context, marks, inner) {
  context.lineWidth = Math.max(1, Math.min(3, inner / 9));
  for (let at = 0; at < marks.length; at += 3) {
    const [x, y, flags] = [marks[at], marks[at + 1], marks[at + 2]], pad = inner * 0.24;
    context.strokeStyle = flags & NOT_READY ? variable("--bad") : theme() === "dark" ? "#ffffffcc" : "#10183099";
    context.beginPath();
    context.moveTo(x + pad, y + inner - pad);
    context.lineTo(x + inner - pad, y + pad);
    if (flags & NOT_READY) { context.moveTo(x + pad, y + pad); context.lineTo(x + inner - pad, y + inner - pad); }
    context.stroke();
  }
}

function headers(context, layout) {
  const font = getComputedStyle(document.body).fontFamily;
  for (const block of layout.blocks) {
    context.font = `600 12px ${font}`;
    context.fillStyle = variable("--text");
    const count = block.rows.length.toLocaleString("en");
    const name = shortened(context, block.name, block.width - 46);
    context.fillText(name, block.x, block.y - 8);
    const after = block.x + context.measureText(name).width + 7;
    context.font = `500 12px ${font}`;
    context.fillStyle = variable("--faint");
    context.fillText(count, after, block.y - 8);
  }
}

export function NodeMap({ nodes, groups, colouring, selected, onSelect, describe, version }) {
  const box = useRef(), base = useRef(), over = useRef();
  const [space, setSpace] = useState(null);
  const [hovered, setHovered] = useState(null);
  useLayoutEffect(() => {
    const measure = () => {
      const top = box.current.getBoundingClientRect().top;
      const narrow = innerWidth <= 760;
      setSpace({ width: box.current.clientWidth, height: Math.max(220, narrow ? innerHeight * 0.6 : innerHeight - top - 66) });
    };
    measure();
    const watcher = new ResizeObserver(measure);
    watcher.observe(box.current);
    addEventListener("resize", measure);
    return () => { watcher.disconnect(); removeEventListener("resize", measure); };
  }, []);
  const layout = useMemo(() => space && arrange(groups, space.width, space.height), [groups, space]);
  const order = useMemo(() => layout && layout.blocks.flatMap((each) => each.rows), [layout]);
  useLayoutEffect(() => {
    if (layout) paint(base.current, layout, nodes, colouring, space.width);
  }, [layout, colouring, version, theme()]);

  const cellOf = (row) => {
    for (const block of layout.blocks) {
      const at = block.rows.indexOf(row);
      if (at >= 0) return [block.x + (at % block.across) * layout.size, block.y + Math.floor(at / block.across) * layout.size];
    }
    return null;
  };
  useEffect(() => {
    if (!layout) return;
    const context = prepared(over.current, space.width, layout.height);
    const inner = layout.size - (layout.size > 12 ? 2 : 1);
    for (const [row, colour, width] of [[selected, variable("--accent"), 3], [hovered?.row, variable("--text"), 2]]) {
      const cell = row === undefined || row === null ? null : cellOf(row);
      if (!cell) continue;
      context.strokeStyle = colour;
      context.lineWidth = width;
      context.beginPath();
      context.roundRect(cell[0] - 1, cell[1] - 1, inner + 2, inner + 2, layout.size >= 32 ? 7 : layout.size >= 8 ? 4 : 1);
      context.stroke();
    }
  }, [layout, hovered, selected, theme()]);

  const rowAt = (event) => {
    const bounds = base.current.getBoundingClientRect();
    const x = event.clientX - bounds.left, y = event.clientY - bounds.top;
    for (const block of layout.blocks) {
      if (x < block.x || y < block.y || y >= block.y + block.tall) continue;
      const across = Math.floor((x - block.x) / layout.size);
      if (across >= block.across) continue;
      const row = block.rows[Math.floor((y - block.y) / layout.size) * block.across + across];
      if (row !== undefined) return row;
    }
    return null;
  };
  const onMove = (event) => {
    const row = rowAt(event);
    const bounds = box.current.getBoundingClientRect();
    setHovered(row === null ? null : { row, x: event.clientX - bounds.left, y: event.clientY - bounds.top });
  };
  const onKey = (event) => {
    const across = layout.blocks[0]?.across || 1;
    const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: across, ArrowUp: -across }[event.key];
    const now = order.indexOf(hovered?.row ?? selected);
    if (event.key === "Enter" && hovered) onSelect(hovered.row);
    else if (step) {
      const row = order[Math.max(0, Math.min(order.length - 1, now + step))];
      const [x, y] = cellOf(row);
      setHovered({ row, x, y });
    } else return;
    event.preventDefault();
  };
  const tip = hovered && describe(hovered.row);
  return html`<div class="map" ref=${box}>
    <canvas ref=${base} style=${{ width: "100%", height: layout ? `${layout.height}px` : "220px" }} aria-hidden="true" />
    <canvas ref=${over} class="over" tabindex="0" role="application"
      aria-label=${`${order ? order.length : 0} nodes. Arrow keys move from node to node, Enter opens one.`}
      style=${{ width: "100%", height: layout ? `${layout.height}px` : "220px" }}
      onMouseMove=${onMove} onMouseLeave=${() => setHovered(null)} onKeyDown=${onKey}
      onClick=${(event) => { const row = rowAt(event); if (row !== null) onSelect(row); }} />
    <p class="hidden-label" aria-live="polite">${tip ? tip.words : ""}</p>
    ${tip && html`<div class="tip" style=${{
      left: `${Math.min(hovered.x + 14, (space?.width || 0) - 236)}px`, top: `${hovered.y + 18}px` }}>
      <div class="name">${tip.name}</div>
      ${tip.rows.map(([label, value, share]) => html`<div class="tip-row"><span>${label}</span>
        ${share !== undefined && html`<span class="bar"><i style=${{ width: `${Math.min(100, share * 100)}%` }} /></span>`}
        <b class="num">${value}</b></div>`)}
      ${tip.notes.map((note) => html`<div class="tip-note">${note}</div>`)}
    </div>`}
  </div>`;
}
