// The Pending page: pods without a node by cause, with the changes that would help.
import { Failed, ICONS, Icon, Loading, age, counted, get, html, podLink, useEffect, useRef, useState } from "../core.js";
import { useLive } from "../data.js";
import { kindColour } from "../colours.js";

const FEW = 8;

export function PendingPage() {
  const { queue } = useLive("queue");
  const [state, set] = useState({ loading: true });
  const [namespace, setNamespace] = useState("");
  const busy = useRef(false);
  const signature = queue ? JSON.stringify([queue.counts, queue.pod]) : "";
  useEffect(() => {
    const read = () => {
      if (busy.current) return;
      busy.current = true;
      get("pending").then((value) => set({ value }), (error) => set({ error })).finally(() => { busy.current = false; });
    };
    read();
    const timer = setInterval(read, 5000);
    return () => clearInterval(timer);
  }, [signature]);
  const { value, error } = state;
  if (error) return html`<div class="page"><${Failed} error=${error} /></div>`;
  if (!value) return html`<div class="page"><${Loading} what="Deciding about every pending pod…" /></div>`;
  const spaces = [...new Set(value.groups.flatMap((group) => group.pods.map((each) => each.pod.split("/")[0])))].sort();
  const groups = value.groups.map((group) => ({ ...group, pods: group.pods.filter((each) => !namespace || each.pod.startsWith(`${namespace}/`)) }))
    .filter((group) => group.pods.length);
  if (!value.count) {
    return html`<div class="page"><section class="card empty"><${Icon} d=${ICONS.check} /><h2>No pod is pending</h2>
      <p>Every pod has a node. New ones appear here as soon as they have to wait.</p></section></div>`;
  }
  return html`<div class="page pending-page">
    <header><div class="page-title"><h1>${counted(value.count, "pod")} pending</h1>
      <p>in a cluster of ${counted(value.nodes, "node")}. Every suggested change has been tried: with it, the pod gets a node.</p></div>
      ${spaces.length > 1 && html`<label class="field">Namespace <select value=${namespace} onChange=${(event) => setNamespace(event.target.value)}>
        <option value="">all</option>${spaces.map((each) => html`<option>${each}</option>`)}</select></label>`}
    </header>
    <div class="causes" role="img" aria-label="Pending pods by cause">${value.groups.map((group, at) => html`<i title=${`${group.title}: ${group.count}`}
      style=${{ flexGrow: group.count, background: kindColour(at) }} />`)}</div>
    ${groups.map((group) => html`<${Group} key=${group.cause} group=${group} since=${value.secondsOld} colour=${kindColour(value.groups.findIndex((each) => each.cause === group.cause))} />`)}
  </div>`;
}

const reason = (each) => each.blockedBy || each.headline.replace(`${each.pod} `, "");

// Pods that wait for the same reason, with the same fix, share a row.
function alike(pods) {
  const rows = new Map();
  for (const each of pods) {
    const namespace = each.pod.slice(0, each.pod.indexOf("/"));
    const key = JSON.stringify([namespace, each.state, reason(each), each.closest, each.suggestions.map((one) => one.words)]);
    if (rows.has(key)) rows.get(key).push(each); else rows.set(key, [each]);
  }
  return [...rows.values()];
}

function Group({ group, since, colour }) {
  const [all, setAll] = useState(false);
  const rows = alike(group.pods);
  const shown = all ? rows : rows.slice(0, FEW);
  return html`<section class="card group" aria-label=${group.title}>
    <header><i class="dot" style=${{ background: colour }} /><h2>${group.title}</h2><span class="count">${group.count}</span></header>
    <div class="body pods">
      <div class="pod-row head" aria-hidden="true"><span>Pod</span><span>Blocked by</span><span>Smallest change that helps</span></div>
      ${shown.map(([each, ...others]) => html`<${PodRow} key=${each.pod} each=${each} others=${others} since=${since} />`)}
      ${rows.length > shown.length && html`<button class="plain" onClick=${() => setAll(true)}>Show ${rows.length - shown.length} more</button>`}
    </div></section>`;
}

function PodRow({ each, others, since }) {
  const [open, setOpen] = useState(false);
  const [named, setNamed] = useState(false);
  const [first] = each.suggestions;
  const details = each.suggestions.length > 1 || each.message || first?.commands.length;
  return html`<div class=${`pod-row ${open ? "open" : ""}`}>
    <div><a class="name strong" href=${podLink(each.pod)}>${each.pod}</a>
      <div class="faint small">${[each.ageSeconds !== null && `${age(each.ageSeconds + since)} old`, each.tries && `${each.tries} ${each.tries === 1 ? "try" : "tries"}`].filter(Boolean).join(", ")}</div>
      ${others.length > 0 && html`<button class="same" aria-expanded=${named} onClick=${() => setNamed(!named)}>${named ? "Hide" : "and"} ${counted(others.length, "pod")} like it</button>`}
      ${named && html`<ul class="same-pods">${others.map((other) => html`<li><a class="name" href=${podLink(other.pod)}>${other.pod}</a></li>`)}</ul>`}</div>
    <div><div>${reason(each)}</div>${each.said && html`<div class="faint small">The scheduler last said: ${each.said}</div>`}${each.closest && html`<div class="faint small">on <a class="name" href=${`#/cluster/${encodeURIComponent(each.closest)}`}>${each.closest}</a>, the closest of ${each.evaluated.toLocaleString("en")}</div>`}</div>
    <div>${first ? html`<div class="fix"><span class="tick" title="tried: with it, the pod gets a node"><${Icon} d=${ICONS.check} /></span><span>${first.words}</span></div>
        <div class="faint small indent">then it goes to <span class="name">${first.node}</span>${first.nodes > 1 ? `; ${first.nodes} nodes fit` : ""}</div>`
      : html`<span class="faint">${each.state === "schedulable" ? "none is needed" : "nothing small was found"}</span>`}
      ${details && html`<button class="plain more" aria-expanded=${open} onClick=${() => setOpen(!open)}>${open ? "Less" : "More"}</button>`}</div>
    ${open && html`<div class="pod-more">
      ${each.message && html`<p class="message">${each.message}</p>`}
      <${Suggestions} items=${each.suggestions} /></div>`}
  </div>`;
}

export function Suggestions({ items }) {
  return html`<ol class="suggestions">${items.map((each) => html`<li>
    <span><b>${each.words}</b> <span class="faint">→ <span class="name">${each.node}</span>${each.nodes > 1 ? `, ${each.nodes} nodes fit` : ""}</span></span>
    ${each.commands.map((command) => html`<${Command} text=${command} />`)}</li>`)}</ol>`;
}

export function Command({ text }) {
  const [copied, setCopied] = useState(false);
  const copy = () => navigator.clipboard?.writeText(text).then(() => { setCopied(true); setTimeout(() => setCopied(false), 1500); });
  return html`<div class="command"><code>${text}</code><button class="plain" onClick=${copy} aria-label="Copy the command">${copied ? "Copied" : "Copy"}</button></div>`;
}
