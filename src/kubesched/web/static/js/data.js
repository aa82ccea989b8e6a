// The live cluster: columns of all nodes, kept up to date by the stream, and the queue beside them.
import { get, unpack, useLayoutEffect, useState } from "./core.js";

export const ABSENT = 65535;
export const VALID = 1, CORDONED = 2, NOT_READY = 4, TAINTED = 8;

export const live = {
  about: null, nodes: null, queue: null, rates: [[], [], [], [], []], moments: [], connected: false, streams: 0, problem: null,
};
const listeners = new Map();
let structureTimer = 0;

export function changed(topic) {
  for (const each of listeners.get(topic) || []) each();
}

export function useLive(...topics) {
  const [, tick] = useState(0);
  // Before anything else can run: what arrives between drawing and an ordinary effect would be missed.
  useLayoutEffect(() => {
    let frame = 0;
    const onChange = () => { frame ||= requestAnimationFrame(() => { frame = 0; tick((old) => old + 1); }); };
    for (const topic of topics) {
      if (!listeners.has(topic)) listeners.set(topic, new Set());
      listeners.get(topic).add(onChange);
    }
    return () => {
      cancelAnimationFrame(frame);
      for (const topic of topics) listeners.get(topic).delete(onChange);
    };
  }, []);
  return live;
}

let waiting = [];
let reading = false;

export async function readNodes() {
  if (reading) return;
  reading = true;
  try {
    const found = await get("nodes");
    const { size, resources } = found;
    const shares = unpack(found.shares, "u2");
    const allocatable = unpack(found.allocatable, "f8");
    const columns = {}, offered = {};
    resources.forEach((name, index) => {
      columns[name] = shares.slice(index * size, (index + 1) * size);
      offered[name] = allocatable.slice(index * size, (index + 1) * size);
    });
    live.nodes = {
      tick: found.tick, size, names: found.names, resources, columns, offered, flags: unpack(found.flags, "u1"),
      taints: unpack(found.taints, "u2"), taintSets: found.taintSets, labels: found.labels, labelColumns: new Map(),
      structure: (live.nodes?.structure || 0) + 1,
    };
    for (const each of waiting) apply(each);
    waiting = [];
    changed("nodes");
  } finally {
    reading = false;
  }
}

function apply(delta) {
  const nodes = live.nodes;
  if (delta.tick <= nodes.tick) return;
  const rows = unpack(delta.rows, nodes.size <= 65536 ? "u2" : "u4");
  const shares = unpack(delta.shares, "u2");
  const flags = unpack(delta.flags, "u1");
  nodes.resources.forEach((name, index) => {
    const column = nodes.columns[name], from = index * rows.length;
    for (let at = 0; at < rows.length; at++) column[rows[at]] = shares[from + at];
  });
  for (let at = 0; at < rows.length; at++) nodes.flags[rows[at]] = flags[at];
  nodes.tick = delta.tick;
}

export async function labelColumn(key) {
  const known = live.nodes.labelColumns;
  if (!known.has(key)) {
    const found = await get("label", { key });
    known.set(key, { values: found.values, ids: unpack(found.ids, "u4") });
  }
  return known.get(key);
}

export function readMoments(found) {
  const time = unpack(found.time, "f8"), what = unpack(found.what, "u1");
  const pod = unpack(found.pod, "u4"), node = unpack(found.node, "u4"), text = unpack(found.text, "u4");
  return Array.from(time, (at, index) => ({
    time: at, what: found.kinds[what[index]], pod: found.texts[pod[index]], node: found.texts[node[index]],
    text: found.texts[text[index]],
  }));
}

function addRates(rows) {
  const columns = live.rates;
  for (const row of rows) {
    const last = columns[0].length - 1;
    let at = columns[0].lastIndexOf(row[0]);
    if (at < 0 && (last < 0 || columns[0][last] < row[0])) at = last + 1;
    if (at >= 0) row.forEach((value, index) => { columns[index][at] = value; });
  }
  while (columns[0].length > 300) for (const each of columns) each.shift();
}

// How much the stream brings; the test reads it.
export const traffic = { events: 0, bytes: 0, largest: 0, smallest: Infinity };

// A browser opens only six connections to a server, for all tabs together: the stream of a hidden page would block the others.
export function connect() {
  let source = null;
  const close = () => { source?.close(); source = null; };
  const follow = () => { if (document.hidden) close(); else source ||= openStream(); };
  addEventListener("visibilitychange", follow);
  addEventListener("pageshow", follow);
  addEventListener("pagehide", close);
  follow();
}

function openStream() {
  const source = new EventSource("/api/events");
  const on = (name, handle) => source.addEventListener(name, (event) => handle(JSON.parse(event.data), event.data.length));
  source.onopen = () => {
    live.connected = true;
    live.streams += 1;
    changed("state");
    readNodes().catch((error) => { live.problem = error; changed("state"); });
    get("rates").then((found) => { live.rates = found.columns; live.exactRates = found.exact; changed("rates"); });
  };
  source.onerror = () => { live.connected = false; changed("state"); };
  on("nodes", (delta, bytes) => {
    traffic.events += 1;
    traffic.bytes += bytes;
    traffic.largest = Math.max(traffic.largest, bytes);
    traffic.smallest = Math.min(traffic.smallest, bytes);
    if (reading || !live.nodes) waiting.push(delta);
    else { apply(delta); changed("nodes"); }
  });
  on("structure", () => {
    // Nodes may come by the hundred: wait until it is quiet for a moment.
    clearTimeout(structureTimer);
    structureTimer = setTimeout(readNodes, 400);
  });
  on("queue", (queue) => { live.queue = queue; changed("queue"); });
  on("rate", ({ rows }) => { addRates(rows); changed("rates"); });
  on("moments", (found) => {
    live.moments = [...live.moments, ...readMoments(found)].slice(-2000);
    changed("moments");
  });
  return source;
}
