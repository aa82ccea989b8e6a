// The Cluster page: every node, and the queue beside it.
import { Failed, ICONS, Icon, age, amount, counted, duration, get, html, percent, podLink, resourceName, useAsync, useEffect,
  useMemo, usePreference, useState } from "../core.js";
import { ABSENT, CORDONED, NOT_READY, TAINTED, VALID, labelColumn, live, useLive } from "../data.js";
import { NodeMap, grouped, painter } from "../map.js";
import { STEPS, kindColour, ramp } from "../colours.js";
import { Chart } from "../chart.js";
import { QueueCard } from "../queue.js";
import { unpack } from "../core.js";

const ZONE = "topology.kubernetes.io/zone";
const POOLS = ["node.kubernetes.io/pool", "cloud.google.com/gke-nodepool", "eks.amazonaws.com/nodegroup", "agentpool", "pool", "node.kubernetes.io/instance-type"];

function useColumn(key, structure) {
  const [column, set] = useState(null);
  useEffect(() => {
    let current = true;
    if (!key) { set(null); return; }
    labelColumn(key).then((found) => current && set({ key, ...found }), () => current && set(null));
    return () => { current = false; };
  }, [key, structure]);
  return column && column.key === key ? column : null;
}

function useScores(choice, nodes) {
  const [pod, plugin] = choice;
  const { value, error } = useAsync(async (signal) => (pod ? get("decision", { pod }, signal) : null), [pod]);
  return useMemo(() => {
    if (!value?.columns) return { error };
    const { columns } = value;
    const count = columns.fitting, totals = unpack(columns.totals, "i4"), all = unpack(columns.scores, "i4");
    const index = columns.scorePlugins.indexOf(plugin);
    const chosen = index < 0 ? totals : all.subarray(index * count, (index + 1) * count);
    const rowOf = new Map(nodes.names.map((name, row) => [name, row]));
    const byRow = new Map();
    for (let at = 0; at < count; at++) byRow.set(rowOf.get(columns.names[at]), chosen[at]);
    return {
      byRow, lowest: Math.min(...chosen), highest: Math.max(...chosen), plugins: columns.scorePlugins,
      fitting: count, evaluated: columns.names.length,
    };
  }, [value, error, plugin, nodes.structure]);
}

export function ClusterPage({ params }) {
  const { nodes } = useLive("nodes");
  if (!nodes) return html`<div class="page"><p class="empty"><span class="spinner" /> Reading nodes…</p></div>`;
  return html`<${Cluster} nodes=${nodes} params=${params} />`;
}

function Cluster({ nodes, params }) {
  const pool = POOLS.find((key) => nodes.labels[key] > 1);
  const [groupBy, setGroupBy] = usePreference("group", nodes.labels[ZONE] > 1 ? ZONE : "");
  const [colourBy, setColourBy] = usePreference("colour", "resource:cpu");
  const [scorePod, setScorePod] = useState("");
  const [selected, setSelected] = useState(null);
  useEffect(() => {
    const row = params[0] ? nodes.names.indexOf(params[0]) : -1;
    if (row >= 0) setSelected(row);
  }, [params[0], nodes.structure]);
  const groupKey = nodes.labels[groupBy] ? groupBy : "";
  const groupColumn = useColumn(groupKey, nodes.structure);
  const [kind, ...rest] = colourBy.split(":");
  const name = rest.join(":");
  const colourColumn = useColumn(kind === "label" ? name : "", nodes.structure);
  const scores = useScores([kind === "score" ? scorePod : "", name], nodes);
  const groups = useMemo(() => grouped(nodes, groupColumn), [nodes.structure, groupColumn, nodes.size]);
  const colouring = useMemo(() => {
    if (kind === "taints") return { kind };
    if (kind === "label" && colourColumn) return { kind, name, column: colourColumn };
    if (kind === "score" && scores.byRow) return { kind, name, scores };
    return { kind: "resource", name: nodes.columns[name] ? name : "cpu" };
  }, [kind, name, colourColumn, scores, nodes.structure]);
  const labelKeys = Object.keys(nodes.labels);
  const usual = [ZONE, pool, "topology.kubernetes.io/region"].filter((key) => key && nodes.labels[key]);
  const others = labelKeys.filter((key) => !usual.includes(key) && nodes.labels[key] > 1 && nodes.labels[key] < Math.max(2, nodes.size / 2));
  const valid = useMemo(() => nodes.flags.reduce((sum, flags) => sum + (flags & VALID), 0), [nodes.tick, nodes.structure]);
  const short = (key) => key.split("/").pop();
  return html`<div class="page cluster-page">
    <header>
      <div class="page-title"><h1>${counted(valid, "node")}</h1><p>${summary(nodes)}</p></div>
      <div class="fields"><label class="field">Group by
        <select value=${groupKey} onChange=${(event) => setGroupBy(event.target.value)}>
          <option value="">nothing</option>
          ${usual.map((key) => html`<option value=${key}>${short(key)}</option>`)}
          ${others.length > 0 && html`<optgroup label="Labels">${others.map((key) => html`<option value=${key}>${key}</option>`)}</optgroup>`}
        </select></label>
      <label class="field">Colour by
        <select value=${colourBy} onChange=${(event) => setColourBy(event.target.value)}>
          ${nodes.resources.map((each) => html`<option value=${`resource:${each}`}>${resourceName(each)}</option>`)}
          <option value="taints">taints</option>
          <optgroup label="Scores for a pod"><option value="score:">total score</option>
            ${(scores.plugins || (kind === "score" && name ? [name] : [])).map((each) => html`<option value=${`score:${each}`}>${each}</option>`)}</optgroup>
          ${labelKeys.length > 0 && html`<optgroup label="Labels">${labelKeys.filter((key) => nodes.labels[key] <= 64).map((key) => html`<option value=${`label:${key}`}>${key}</option>`)}</optgroup>`}
        </select></label>
      ${kind === "score" && html`<${PodPicker} pod=${scorePod} onPick=${setScorePod} />`}</div>
    </header>
    ${kind === "score" && scores.error && html`<${Failed} error=${scores.error} />`}
    <div class="with-side">
      <section class="card map-card" aria-label="Nodes">
        <${NodeMap} nodes=${nodes} groups=${groups} colouring=${colouring} selected=${selected} version=${nodes.tick}
          onSelect=${(row) => { setSelected(row); location.hash = `#/cluster/${encodeURIComponent(nodes.names[row])}`; }}
          describe=${(row) => described(nodes, row, colouring)} />
        <${Legend} nodes=${nodes} colouring=${colouring} groups=${groups} />
      </section>
      <aside class="side">
        ${selected !== null
          ? html`<${NodeCard} name=${nodes.names[selected]} onClose=${() => { setSelected(null); location.hash = "#/cluster"; }} />`
          : html`<${QueueCard} /><${RateCards} />`}
      </aside>
    </div>
  </div>`;
}

function summary(nodes) {
  const parts = [];
  for (const name of ["cpu", "memory"]) {
    let used = 0, whole = 0;
    for (let row = 0; row < nodes.size; row++) {
      if (!(nodes.flags[row] & VALID) || nodes.columns[name][row] === ABSENT) continue;
      whole += nodes.offered[name][row];
      used += (nodes.offered[name][row] * nodes.columns[name][row]) / 1000;
    }
    if (whole) parts.push(`${resourceName(name)}: ${percent(used / whole)} of ${amount(name, whole)} requested`);
  }
  return parts.join(" · ");
}

function described(nodes, row, colouring) {
  const rows = nodes.resources.filter((name) => nodes.columns[name][row] !== ABSENT).map((name) => {
    const share = nodes.columns[name][row] / 1000;
    return [resourceName(name), percent(share), share];
  });
  if (colouring.kind === "score") rows.push(["Score", colouring.scores.byRow.get(row) ?? "does not fit"]);
  const flags = nodes.flags[row], notes = [];
  if (flags & NOT_READY) notes.push("not ready");
  if (flags & CORDONED) notes.push("cordoned");
  if (nodes.taintSets[nodes.taints[row]]) notes.push(nodes.taintSets[nodes.taints[row]]);
  const words = `${nodes.names[row]}: ${[...rows.map(([label, value]) => `${label} ${value}`), ...notes].join(", ")}`;
  return { name: nodes.names[row], rows, notes, words };
}

export function Legend({ nodes, colouring, groups }) {
  if (colouring.kind === "resource" || colouring.kind === "score") {
    const number = painter(nodes, colouring), bins = new Array(STEPS + 1).fill(0);
    for (const group of groups) for (const row of group.rows) { const at = number(row); if (at <= STEPS) bins[at] += 1; }
    const most = Math.max(1, ...bins), colours = ramp();
    const [low, high] = colouring.kind === "score" ? [colouring.scores.lowest, colouring.scores.highest] : ["0 %", "100 %"];
    const what = colouring.kind === "score" ? `${colouring.name || "total score"}; grey nodes do not fit` : `${resourceName(colouring.name)} requested`;
    return html`<div class="legend"><span class="num">${low}</span>
      <svg viewBox=${`0 0 ${(STEPS + 1) * 3} 26`} preserveAspectRatio="none" role="img" aria-label=${`How many nodes have which share of ${what}`}>
        ${bins.map((count, at) => html`<rect x=${at * 3} width="3" y=${20 - (count / most) * 20} height=${(count / most) * 20} fill=${colours[at]} opacity="0.85" />
          <rect x=${at * 3} width="3" y="21" height="5" fill=${colours[at]} />`)}
      </svg><span class="num">${high}</span><span class="grow">${what}</span>
      <span class="key"><i class="stripe" />cordoned</span><span class="key"><i class="cross" />not ready</span></div>`;
  }
  const ids = colouring.kind === "taints" ? nodes.taints : colouring.column.ids;
  const values = colouring.kind === "taints" ? nodes.taintSets : colouring.column.values;
  const counts = new Map();
  for (const group of groups) for (const row of group.rows) counts.set(ids[row], (counts.get(ids[row]) || 0) + 1);
  const shown = [...counts].sort((a, b) => b[1] - a[1]).slice(0, 10);
  return html`<div class="legend kinds">${shown.map(([id, count]) => html`<span class="key">
    <i class="dot" style=${{ background: id ? kindColour(id - 1) : "var(--line-strong)" }} />${values[id] || "none"} <b class="num faint">${count.toLocaleString("en")}</b></span>`)}
    ${counts.size > 10 && html`<span class="faint">and ${counts.size - 10} more</span>`}</div>`;
}

export function PodPicker({ pod, onPick }) {
  const [text, setText] = useState(pod);
  const { value } = useAsync((signal) => get("pods", { text }, signal), [text]);
  return html`<label class="field">Pod
    <input type="text" list="pod-names" value=${text} placeholder="namespace/name" spellcheck="false"
      onInput=${(event) => { setText(event.target.value); if (value?.pod.includes(event.target.value)) onPick(event.target.value); }}
      onChange=${(event) => onPick(event.target.value)} />
    <datalist id="pod-names">${value?.pod.map((key) => html`<option value=${key} />`)}</datalist></label>`;
}

function NodeCard({ name, onClose }) {
  const { nodes } = live;
  useLive("nodes");
  const row = nodes.names.indexOf(name);
  const { value, error } = useAsync((signal) => get("node", { name }, signal), [name, nodes.columns.pods?.[row], nodes.columns.cpu?.[row], nodes.flags[row]]);
  const [asked, ask] = useState("");
  const explained = useAsync(async (signal) => (asked === name ? get("node/explanation", { name }, signal) : null), [asked, name]);
  const goes = new Map((explained.value?.pods || []).map((each) => [each.pod, each]));
  return html`<section class="card node-card" aria-label=${`Node ${name}`}>
    <header><h2 class="name">${name}</h2><span class="grow" /><button class="plain" aria-label="Close" onClick=${onClose}><${Icon} d=${ICONS.close} /></button></header>
    <div class="body">
      ${error && html`<${Failed} error=${error} />`}
      ${value && html`
        <p class="tags">${value.cordoned && html`<span class="badge warn">cordoned</span>`}
          ${value.taints.map((each) => html`<span class="badge warn">${each}</span>`)}</p>
        ${value.amounts.map(([resource, offered, used, free, share]) => html`<div class="amount">
          <span>${resourceName(resource)}</span><span class="bar"><i class=${share > 0.995 ? "full" : ""} style=${{ width: `${Math.min(100, (share || 0) * 100)}%` }} /></span>
          <span class="num faint">${used} of ${offered}</span></div>`)}
        <h2 class="gap">${counted(value.pods.pod.length, "pod")}
          ${value.pods.pod.length > 0 && (asked === name
            ? explained.loading && html` <span class="spinner" />`
            : html` <button class="plain" onClick=${() => ask(name)}>Where would they go today?</button>`)}</h2>
        <ul class="rows">${value.pods.pod.map((key, at) => html`<li>
          <a class="name" href=${podLink(key)}>${key}</a>
          <span class="faint">${value.pods.requests[at] || "no requests"}${value.pods.terminating[at] ? ", terminating" : ""}</span>
          ${goes.get(key) && html`<span class=${goes.get(key).wouldGo === name ? "badge good" : "badge warn"}>${goes.get(key).wouldGo === name ? "here again" : goes.get(key).wouldGo ? `→ ${goes.get(key).wouldGo}` : "nowhere"}</span>`}
        </li>`)}</ul>
        <details><summary>Labels</summary><dl class="labels">${Object.entries(value.labels).map(([key, each]) => html`<dt>${key}</dt><dd>${each}</dd>`)}</dl></details>`}
    </div></section>`;
}

function RateCards() {
  const { rates } = useLive("rates");
  const now = live.about?.mode === "live" ? Date.now() / 1000 : 0;
  const last = rates[0].length - 1;
  const recent = rates[0].map((at, index) => (now - at < 6 ? rates[1][index] : 0)).reduce((sum, each) => sum + each, 0) / 5;
  const filled = useMemo(() => {
    if (last < 0) return [[], [], [], [], []];
    const from = Math.max(rates[0][0], Math.floor(now) - 180), columns = [[], [], [], [], []];
    const index = new Map(rates[0].map((at, place) => [at, place]));
    for (let at = from; at <= Math.max(rates[0][last], Math.floor(now) - 1); at++) {
      const place = index.get(at);
      columns[0].push(at);
      for (const column of [1, 2]) columns[column].push(place === undefined ? 0 : rates[column][place]);
      for (const column of [3, 4]) columns[column].push(place === undefined ? null : rates[column][place]);
    }
    return columns;
  }, [last, rates[0][last], Math.floor(now), rates[1][last]]);
  if (live.about?.mode !== "live") return null;
  const median = rates[3].findLast?.((each) => each !== null);
  return html`<section class="card" aria-label="Throughput">
      <header><h2>Throughput</h2><span class="grow" /><span class="num soft">${recent.toFixed(recent < 10 ? 1 : 0)} pods/s</span></header>
      <div class="body">${last < 0 ? html`<p class="faint">No pod has been bound since this page was opened.</p>`
        : html`<${Chart} data=${[filled[0], filled[1], filled[2]]} label="Pods bound and failed attempts per second" least=${1}
          series=${[{ name: "bound", colour: "--accent", fill: true }, { name: "failed", colour: "--bad" }]} />
          <p class="chart-key"><i class="line accent" />bound <i class="line bad" />failed attempts</p>`}</div></section>
    <section class="card" aria-label="Latency">
      <header><h2>Latency</h2><span class="grow" /><span class="num soft">${median === undefined ? "–" : duration(median)}</span></header>
      <div class="body">${last < 0 ? html`<p class="faint">Nothing to measure yet.</p>`
        : html`<${Chart} data=${[filled[0], filled[3], filled[4]]} format=${duration} label="Median and 99th percentile of latency"
          series=${[{ name: "median", colour: "--accent" }, { name: "99th percentile", colour: "--warn" }]} />
          <p class="chart-key"><i class="line accent" />median <i class="line warn" />99th percentile
          <span class="faint">${live.about?.scheduler ? "of attempts" : "from creation to binding"}</span></p>`}</div></section>`;
}
