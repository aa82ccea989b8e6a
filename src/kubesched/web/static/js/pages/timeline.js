// The Timeline page: what happened, and the cluster at any earlier time.
import { Failed, ICONS, Icon, Loading, clock, counted, get, html, podLink, stopwatch, unpack, useAsync, useEffect, useLayoutEffect, useMemo, useRef, useState } from "../core.js";
import { ABSENT, labelColumn, live, readMoments, useLive } from "../data.js";
import { NodeMap, grouped } from "../map.js";
import { theme, variable } from "../colours.js";
import { Legend } from "./cluster.js";

const LANES = [
  ["created", "Created", "--faint"], ["failed", "Failed attempts", "--bad"], ["woken", "Wake-ups", "--warn"], ["bound", "Bound", "--accent"],
  ["preempted", "Preempted", "--bad"], ["ended", "Ended", "--good"], ["deleted", "Deleted", "--faint"], ["node added", "Nodes added", "--good"], ["node removed", "Nodes removed", "--bad"],
];
const SPANS = [["1 min", 60], ["5 min", 300], ["15 min", 900], ["1 h", 3600], ["all", Infinity]];
const LANE = 26, LEFT = 124, ZONE = "topology.kubernetes.io/zone";

// The nodes' shares at some time: every placement counts from its beginning to its end.
class Past {
  constructor(found, nodes) {
    this.nodes = nodes;
    const rows = unpack(found.rows, "u4"), classes = unpack(found.classes, "u4"), from = unpack(found.from, "f8"), until = unpack(found.until, "f8");
    this.events = [];
    for (let at = 0; at < rows.length; at++) {
      this.events.push([from[at], rows[at], found.requests[classes[at]], 1]);
      if (until[at]) this.events.push([until[at], rows[at], found.requests[classes[at]], -1]);
    }
    this.events.sort((a, b) => a[0] - b[0]);
    this.used = nodes.resources.map(() => new Float64Array(nodes.size));
    this.place = 0;
    this.version = 0;
  }
  to(time) {
    const { events, used } = this;
    while (this.place < events.length && events[this.place][0] <= time) this.step(events[this.place++], 1);
    while (this.place > 0 && events[this.place - 1][0] > time) this.step(events[--this.place], -1);
    this.version += 1;
    const columns = {};
    this.nodes.resources.forEach((name, index) => {
      const offered = this.nodes.offered[name], column = (columns[name] = new Uint16Array(this.nodes.size));
      for (let row = 0; row < this.nodes.size; row++) column[row] = offered[row] ? Math.min(ABSENT - 1, Math.round((used[index][row] / offered[row]) * 1000)) : ABSENT;
    });
    return { ...this.nodes, columns, tick: this.version };
  }
  step([, row, requests, sign], direction) {
    if (row < this.nodes.size) requests.forEach((value, index) => { this.used[index][row] += sign * direction * value; });
  }
}

export function TimelinePage() {
  const { nodes, moments, streams } = useLive("nodes", "moments", "state");
  const [span, setSpan] = useState(300);
  const [at, setAt] = useState(null);
  const [playing, setPlaying] = useState(false);
  const [hidden, setHidden] = useState(new Set());
  const first = useAsync(async (signal) => { const found = await get("timeline", {}, signal); return { now: found.now, moments: readMoments(found) }; }, [streams]);
  const structure = nodes?.structure;
  const scrubbing = at !== null;
  const placed = useAsync(async (signal) => (nodes ? get("placements", {}, signal) : null), [structure, scrubbing, scrubbing ? 0 : Math.floor((moments.length || 0) / 50)]);
  const past = useMemo(() => placed.value && nodes && new Past(placed.value, nodes), [placed.value, structure]);
  const zones = useAsync(async () => (nodes?.labels[ZONE] > 1 ? labelColumn(ZONE) : null), [structure]);
  const groups = useMemo(() => nodes && grouped(nodes, zones.value), [structure, zones.value]);
  const all = useMemo(() => {
    if (!first.value) return [];
    const last = first.value.moments.at(-1)?.time || 0, seen = new Set(first.value.moments.slice(-600).map((each) => `${each.time}${each.what}${each.pod}`));
    const fresh = moments.filter((each) => each.time >= last - 30 && !seen.has(`${each.time}${each.what}${each.pod}`));
    return [...first.value.moments, ...fresh].sort((a, b) => a.time - b.time);
  }, [first.value, moments]);
  const simulated = live.about?.mode === "simulation", isLive = live.about?.mode === "live";
  const now = isLive ? Date.now() / 1000 : first.value?.now || 0;
  const oldest = all[0]?.time ?? now - 60;
  const end = isLive && !scrubbing ? now : Math.max(all.at(-1)?.time ?? now, simulated ? now : 0, at ?? 0);
  const begin = span === Infinity || !isLive ? oldest : Math.max(oldest, end - span);
  const time = at ?? end;
  useEffect(() => {
    if (!playing) return;
    const speed = Math.max(1, (end - begin) / 20);
    let before = performance.now(), frame = 0;
    const tick = (moment) => {
      setAt((old) => { const next = (old ?? begin) + ((moment - before) / 1000) * speed; before = moment; if (next >= end) { setPlaying(false); return isLive ? null : end; } return next; });
      frame = requestAnimationFrame(tick);
    };
    frame = requestAnimationFrame(tick);
    return () => cancelAnimationFrame(frame);
  }, [playing]);
  const shownNodes = useMemo(() => (past ? past.to(time) : nodes), [past, scrubbing ? time : Math.floor(time), structure]);
  if (first.error) return html`<div class="page"><${Failed} error=${first.error} /></div>`;
  if (!first.value) return html`<div class="page"><${Loading} what="Reading the history…" /></div>`;
  const when = (seconds) => (simulated ? stopwatch(seconds) : clock(seconds));
  const kinds = LANES.filter(([name]) => all.some((each) => each.what === name));
  const before = all.filter((each) => each.time <= time && each.time >= begin && !hidden.has(each.what));
  return html`<div class="page timeline-page">
    <header><div class="page-title"><h1>Timeline</h1><p>${scrubbing ? `The cluster ${simulated ? "after" : "at"} ${when(time)}` : `${counted(all.length, "moment")} since ${when(oldest)}`}</p></div>
      ${scrubbing && isLive && html`<button onClick=${() => { setAt(null); setPlaying(false); }}>Back to now</button>`}
      ${isLive && html`<div class="segmented" role="group" aria-label="Time span">${SPANS.map(([label, seconds]) => html`<button aria-pressed=${span === seconds} onClick=${() => setSpan(seconds)}>${label}</button>`)}</div>`}</header>
    ${all.length === 0 ? html`<section class="card empty"><h2>Nothing has happened yet</h2><p>Create a pod, and see it come, be tried and be bound.</p></section>` : html`
    <section class="card lanes-card" aria-label="What happened when">
      <${Lanes} kinds=${kinds} hidden=${hidden} onToggle=${(name) => { const next = new Set(hidden); next.has(name) ? next.delete(name) : next.add(name); setHidden(next); }}
        moments=${all} begin=${begin} end=${end} time=${time} when=${when} onScrub=${(next) => { setPlaying(false); setAt(isLive && next >= end - 0.2 ? null : next); }} />
      <div class="scrub"><button aria-label=${playing ? "Pause" : "Play"} onClick=${() => { if (!playing && (at === null || at >= end)) setAt(begin); setPlaying(!playing); }}>${playing ? "Pause" : html`<span class="icon small-icon"><${Icon} d=${ICONS.play} /></span>Play`}</button>
        <span class="num faint">${when(begin)}</span>
        <input type="range" aria-label="Time" min=${begin} max=${end} step=${Math.max(0.001, (end - begin) / 2000)} value=${time} aria-valuetext=${when(time)}
          onInput=${(event) => { setPlaying(false); const next = Number(event.target.value); setAt(isLive && next >= end - (end - begin) / 1000 ? null : next); }} />
        <span class="num faint">${isLive && !scrubbing ? "now" : when(end)}</span></div>
    </section>
    <div class="with-side">
      <section class="card map-card" aria-label="The cluster at this time">${shownNodes && groups && html`<${NodeMap} nodes=${shownNodes} groups=${groups}
        colouring=${CPU(shownNodes)} selected=${null} version=${`${shownNodes.tick}-${time}`} onSelect=${(row) => { location.hash = `#/cluster/${encodeURIComponent(nodes.names[row])}`; }}
        describe=${(row) => ({ name: nodes.names[row], notes: [], words: nodes.names[row], rows: shownNodes.resources.filter((name) => shownNodes.columns[name][row] !== ABSENT).map((name) => [name, `${Math.round(shownNodes.columns[name][row] / 10)} %`, shownNodes.columns[name][row] / 1000]) })} />
        <${Legend} nodes=${shownNodes} colouring=${CPU(shownNodes)} groups=${groups} />`}</section>
      <aside class="side"><section class="card"><header><h2>Until ${when(time)}</h2><span class="count">${before.length.toLocaleString("en")}</span></header>
        <div class="body"><ul class="moments">${before.slice(-80).reverse().map((each) => html`<li><time class="num faint">${when(each.time)}</time>
          <i class="dot" style=${{ background: `var(${(LANES.find(([name]) => name === each.what) || LANES[0])[2]})` }} /><div><b>${each.what}</b> ${each.pod ? html`<a class="name" href=${podLink(each.pod)}>${each.pod}</a>` : ""}
          ${each.node && html`<span class="faint"> ${each.what === "failed" ? "nominated to" : each.pod ? "on" : ""} <span class="name">${each.node}</span></span>`}${each.text && html`<div class="faint small">${each.text}</div>`}</div></li>`)}</ul></div></section></aside>
    </div>`}
  </div>`;
}
const CPU = (nodes) => ({ kind: "resource", name: nodes.columns.cpu?.some((each) => each !== ABSENT && each > 0) ? "cpu" : "pods" });

function Lanes({ kinds, hidden, onToggle, moments, begin, end, time, when, onScrub }) {
  const box = useRef(), canvas = useRef();
  const [width, setWidth] = useState(800);
  useLayoutEffect(() => {
    const watcher = new ResizeObserver(() => setWidth(box.current.clientWidth));
    watcher.observe(box.current);
    setWidth(box.current.clientWidth);
    return () => watcher.disconnect();
  }, []);
  const left = width < 600 ? 96 : LEFT, height = kinds.length * LANE + 4, across = Math.max(50, width - left - 6);
  const x = (seconds) => left + ((seconds - begin) / Math.max(0.001, end - begin)) * across;
  useLayoutEffect(() => {
    const scale = devicePixelRatio || 1;
    canvas.current.width = width * scale;
    canvas.current.height = height * scale;
    const context = canvas.current.getContext("2d");
    context.setTransform(scale, 0, 0, scale, 0, 0);
    kinds.forEach(([name, , colour], lane) => {
      const y = lane * LANE + LANE / 2;
      context.fillStyle = variable("--line");
      context.fillRect(left, y, across, 1);
      if (hidden.has(name)) return;
      // Moments that fall on the same place make a taller mark.
      const counts = new Map();
      for (const each of moments) if (each.what === name && each.time >= begin && each.time <= end) { const at = Math.round(x(each.time) / 3) * 3; counts.set(at, (counts.get(at) || 0) + 1); }
      context.fillStyle = variable(colour);
      for (const [at, count] of counts) {
        const tall = Math.min(LANE - 4, 5 + 4 * Math.log2(count));
        context.globalAlpha = at <= x(time) + 1 ? 0.95 : 0.28;
        context.beginPath();
        context.roundRect(at - 1.25, y - tall / 2, 2.5, tall, 1.25);
        context.fill();
      }
      context.globalAlpha = 1;
    });
    context.fillStyle = variable("--accent");
    context.fillRect(x(time) - 0.75, 0, 1.5, height);
  });
  const scrub = (event) => {
    const bounds = canvas.current.getBoundingClientRect(), place = (event.clientX - bounds.left - left) / across;
    if (place >= -0.02) onScrub(begin + Math.max(0, Math.min(1, place)) * (end - begin));
  };
  return html`<div class="lanes" ref=${box} style=${{ height: `${height}px` }}>
    <canvas ref=${canvas} style=${{ width: "100%", height: `${height}px` }} role="img" aria-label=${`${moments.length} moments between ${when(begin)} and ${when(end)}`}
      onPointerDown=${(event) => { event.target.setPointerCapture(event.pointerId); scrub(event); }} onPointerMove=${(event) => event.buttons && scrub(event)} />
    ${kinds.map(([name, label], lane) => html`<button class="lane-label" style=${{ top: `${lane * LANE}px`, height: `${LANE}px` }} aria-pressed=${!hidden.has(name)} onClick=${() => onToggle(name)}>${label}</button>`)}
  </div>`;
}
