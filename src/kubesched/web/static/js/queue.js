// The scheduler's queue: how many pods wait where, and the first of them.
import { html, podLink, useEffect, useState } from "./core.js";
import { useLive } from "./data.js";

const PLACES = [
  ["active", "Active", "waiting for their turn"],
  ["backoff", "Backoff", "waiting before the next try"],
  ["unschedulable", "Unschedulable", "waiting for something to change"],
  ["gated", "Gated", "held back by PreEnqueue"],
  ["inFlight", "In flight", "being scheduled or bound"],
  ["permit", "At Permit", "have a node and wait for a plugin"],
];

const ROWS = 60;

export function QueueCard() {
  const { queue } = useLive("queue");
  const [chosen, choose] = useState("");
  const [, tick] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => tick((old) => old + 1), 1000);
    return () => clearInterval(timer);
  }, []);
  if (!queue) return html`<section class="card"><header><h2>Queue</h2></header><div class="body"><span class="spinner" /></div></section>`;
  const shown = queue.pod.map((pod, at) => ({ pod, place: queue.place[at], attempts: queue.attempts[at], until: queue.until[at], plugins: queue.plugins[at] }))
    .filter((each) => !chosen || each.place === chosen).slice(0, ROWS);
  const total = PLACES.reduce((sum, [name]) => sum + (queue.counts[name] || 0), 0);
  const wanted = chosen ? queue.counts[chosen] || 0 : total;
  return html`<section class="card" aria-label="Scheduling queue">
    <header><h2>Queue</h2><span class="grow" />
      ${!queue.exact && html`<span class="faint small" title="Start with --scheduler to ask a kubesched scheduler: it knows backoff and Permit.">as the pods tell</span>`}</header>
    <div class="body">
      <div class="tiles">${PLACES.map(([name, label, title]) => html`<button class=${`tile ${queue.counts[name] ? `has ${name}` : ""}`} title=${title}
        aria-pressed=${chosen === name} onClick=${() => choose(chosen === name ? "" : name)}>
        <b class="num">${(queue.counts[name] || 0).toLocaleString("en")}</b><span>${label}</span></button>`)}</div>
      ${total === 0 ? html`<p class="faint calm">No pod waits.</p>`
        : html`<ul class="rows queue-rows">${shown.map((each) => html`<li>
          <a class="name" href=${podLink(each.pod)}>${each.pod}</a>
          <span class="faint">${[each.attempts ? `${each.attempts} ${each.attempts === 1 ? "try" : "tries"}` : "", each.plugins].filter(Boolean).join(", ")}</span>
          <${Timer} each=${each} /></li>`)}</ul>`}
      ${wanted > shown.length && html`<p class="faint small">${shown.length} of ${wanted.toLocaleString("en")} are listed</p>`}
    </div></section>`;
}

function Timer({ each }) {
  const left = each.until ? (Date.parse(each.until) - Date.now()) / 1000 : null;
  if (each.place === "backoff" && left !== null && left > -1) {
    return html`<span class="timer" title="until the next try"><i style=${{ width: `${Math.max(0, Math.min(100, left * 10))}%` }} /><b class="num">${Math.max(0, left).toFixed(0)} s</b></span>`;
  }
  const label = { inFlight: "in flight", permit: "at Permit" }[each.place] || each.place;
  return html`<span class=${`badge ${{ unschedulable: "bad", gated: "warn", backoff: "warn", permit: "accent" }[each.place] || ""}`}>${label}</span>`;
}
