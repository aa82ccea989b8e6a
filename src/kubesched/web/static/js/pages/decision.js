// The Decision page: one pod, nodes by plugins, scores, victims, what-ifs, and earlier attempts.
import { Failed, ICONS, Icon, Loading, age, amount, clock, counted, duration, get, html, podLink, resourceName, unpack, useAsync,
  useEffect, useMemo, useRef, useState } from "../core.js";
import { live, useLive } from "../data.js";
import { kindColour } from "../colours.js";
import { PodPicker } from "./cluster.js";
import { Suggestions } from "./pending.js";

const BARS = 12, ROWS = 60;

export function DecisionPage({ params }) {
  const key = params.length >= 2 ? `${params[0]}/${params[1]}` : "";
  if (!key) return html`<${Choose} />`;
  return html`<${Decision} key=${key} pod=${key} />`;
}

function Choose() {
  const { value } = useAsync((signal) => get("pods", {}, signal), []);
  const go = (key) => { if (key.includes("/")) location.hash = podLink(key).slice(1); };
  return html`<div class="page"><header><div class="page-title"><h1>A decision</h1><p>Choose a pod: where it went or would go, and why.</p></div>
    <${PodPicker} pod="" onPick=${go} /></header>
    <section class="card"><div class="body">${!value ? html`<span class="spinner" />` : value.pod.length === 0 ? html`<p class="empty">The cluster has no pods.</p>`
      : html`<ul class="rows choose">${value.pod.map((pod, at) => html`<li><a class="name" href=${podLink(pod)}>${pod}</a><span></span>
        <span class=${`badge ${value.node[at] ? "" : "warn"}`}>${value.node[at] || "pending"}</span></li>`)}</ul>`}</div></section></div>`;
}

function Decision({ pod }) {
  const [requests, setRequests] = useState(null);
  const [attempt, setAttempt] = useState(null);
  const asked = requests && Object.fromEntries(Object.entries(requests).map(([name, value]) => [name, name === "cpu" ? `${value}m` : `${value}`]));
  const today = useAsync((signal) => get("decision", { pod }, signal), [pod]);
  const supposed = useAsync(async (signal) => {
    if (!asked) return null;
    await new Promise((resolve) => setTimeout(resolve, 150));
    return signal.aborted ? null : get("decision", { pod, requests: JSON.stringify(asked) }, signal);
  }, [JSON.stringify(asked)]);
  const history = useAsync((signal) => get("attempts", { pod }, signal), [pod]);
  const earlier = useAsync(async (signal) => (attempt === null ? null : get("attempt", { pod, number: history.value.items[attempt].number }, signal)), [attempt]);
  const recorded = history.value?.items || [];
  useEffect(() => {
    const onKey = (event) => {
      if (/INPUT|TEXTAREA|SELECT/.test(document.activeElement.tagName) || !recorded.length) return;
      if (event.key === "[") setAttempt((old) => Math.min(recorded.length - 1, old === null ? 0 : old + 1));
      if (event.key === "]") setAttempt((old) => (old === null || old === 0 ? null : old - 1));
    };
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  }, [recorded.length]);
  useEffect(() => { if (today.error && recorded.length) setAttempt(0); }, [today.error, recorded.length]);
  const shown = attempt !== null ? earlier : requests ? supposed : today;
  const value = shown.value || (attempt === null ? today.value : null);
  if (today.error && attempt === null && !recorded.length) {
    return html`<div class="page"><${Failed} error=${today.error} /><p><a href="#/decision">Choose another pod</a></p></div>`;
  }
  if (!value) return html`<div class="page"><${Loading} what=${`Deciding about ${pod}…`} /></div>`;
  const bound = value.state === "bound", fits = value.columns.fitting;
  return html`<div class="page decision-page">
    <header><div class="page-title"><h1 class="pod-title">${pod} <${StateBadge} state=${value.state} /></h1><p>${value.headline}</p></div>
      ${shown.loading && html`<span class="spinner" />`}
      <${Stepper} items=${recorded} at=${attempt} onStep=${setAttempt} /></header>
    ${shown.error && html`<${Failed} error=${shown.error} />`}
    ${requests && attempt === null && html`<p class="notice what-if">What if: ${Object.entries(requests).map(([name, each]) => `${resourceName(name)} ${amount(name, each)}`).join(", ")}.
      ${supposed.value ? (supposed.value.columns.fitting ? ` It would fit on ${counted(supposed.value.columns.fitting, "node")} and go to ${supposed.value.again || supposed.value.node}.` : " It would fit nowhere.") : ""}
      <button class="plain" onClick=${() => setRequests(null)}>Back to what it asks for</button></p>`}
    ${attempt !== null && html`<p class="notice recorded">The scheduler's own record of try ${value.tries}${value.time ? `, at ${new Date(value.time).toLocaleString()}` : ""}.
      ${value.partial ? " It names the best nodes, and some of the others." : ""}</p>`}
    <div class="with-side">
      <div class="column">
        <${Facts} value=${value} />
        ${value.suggestions?.length > 0 && html`<section class="card"><header><h2>What would help</h2><span class="badge good">tried</span></header>
          <div class="body"><${Suggestions} items=${value.suggestions} /></div></section>`}
        ${value.victims?.length > 0 && html`<${Victims} value=${value} />`}
        ${fits > 0 && value.columns.scorePlugins.length > 0 && html`<${Scores} value=${value} />`}
        <${Matrix} columns=${value.columns} chosen=${bound ? value.node : value.again || value.node} />
        ${value.influence?.length > 0 && html`<${Influence} items=${value.influence} />`}
      </div>
      <aside class="side">
        ${today.value?.requests && html`<${WhatIf} value=${today.value} requests=${requests} onChange=${(next) => { setAttempt(null); setRequests(next); }} />`}
        <${Attempts} items=${recorded} at=${attempt} onStep=${setAttempt} loading=${history.loading} />
        ${value.queued && html`<${Queued} queued=${value.queued} />`}
      </aside>
    </div></div>`;
}

const STATES = { bound: ["has a node", "good"], schedulable: ["fits now", "good"], pending: ["pending", "bad"], gated: ["gated", "warn"],
  foreignScheduler: ["for another scheduler", "warn"], noSuchNode: ["no such node", "bad"], nominated: ["nominated", "accent"],
  waitingAtPermit: ["at Permit", "accent"], backoff: ["backing off", "warn"], terminating: ["terminating", ""], finished: ["finished", ""] };
const StateBadge = ({ state }) => html`<span class=${`badge ${(STATES[state] || [])[1] || ""}`}>${(STATES[state] || [state])[0]}</span>`;

function Facts({ value }) {
  const tiles = [
    [value.state === "bound" && value.source !== "recorded" ? "is on" : "goes to", value.node || "nowhere"],
    value.again && value.again !== value.node && ["today it would go to", value.again],
    value.runnerUp && ["runner-up", html`<span class="name">${value.runnerUp}</span> <span class="faint small">${value.gap ? `${value.gap} points behind` : "with the same score"}</span>`],
    ["nodes that fit", `${(value.feasible ?? value.columns.fitting).toLocaleString("en")} of ${(value.evaluated || 0).toLocaleString("en")}`],
    value.tries && ["tries", value.tries],
    value.ageSeconds && ["age", age(value.ageSeconds)],
  ].filter(Boolean);
  return html`<section class="card facts" aria-label="In short"><dl>${tiles.map(([label, each]) => html`<div><dt>${label}</dt><dd>${each}</dd></div>`)}</dl>
    ${value.words && value.state !== "bound" && html`<p class="message plain-words">${value.words}</p>`}
    ${value.message && html`<p class="message">${value.message}</p>`}</section>`;
}

function Scores({ value }) {
  const { columns } = value;
  const count = columns.fitting;
  const totals = useMemo(() => unpack(columns.totals, "i4"), [columns]);
  const scores = useMemo(() => unpack(columns.scores, "i4"), [columns]);
  const shown = Math.min(count, BARS);
  const plugins = columns.scorePlugins.map((name, index) => ({ name, index })).filter(({ index }) => scores.subarray(index * count, (index + 1) * count).some((each) => each > 0));
  const [apart, setApart] = useState(false);
  const lowest = plugins.map(({ index }) => (apart ? Math.min(...scores.subarray(index * count, index * count + shown)) : 0));
  const rest = (at) => plugins.map(({ index }, place) => scores[index * count + at] - lowest[place]);
  const drawn = Array.from({ length: shown }, (_, at) => rest(at));
  const most = Math.max(1, ...drawn.map((row) => row.reduce((sum, each) => sum + each, 0)));
  return html`<section class="card" aria-label="Scores"><header><h2>Scores</h2><span class="faint small">weighted, the best ${shown} of ${count.toLocaleString("en")}</span><span class="grow" />
      <div class="segmented" role="group" aria-label="What the bars show"><button aria-pressed=${!apart} onClick=${() => setApart(false)}>Scores</button><button aria-pressed=${apart} onClick=${() => setApart(true)} title="Without what all of these nodes have in common">Differences</button></div></header>
    <div class="body">
      <div class="bars" role="table" aria-label="Scores of the best nodes, by plugin">
        ${Array.from({ length: shown }, (_, at) => html`<div class="bar-row" role="row">
          <a class="name" role="rowheader" href=${`#/cluster/${encodeURIComponent(columns.names[at])}`}>${columns.names[at]}</a>
          <div class="stack" role="cell" aria-label=${plugins.map(({ name, index }) => `${name} ${scores[index * count + at]}`).join(", ")}>
            ${drawn[at].map((score, place) => score > 0 && html`<i key=${plugins[place].name} title=${`${plugins[place].name}: ${scores[plugins[place].index * count + at]}`}
              style=${{ width: `${(score / most) * 100}%`, background: kindColour(plugins[place].index) }} />`)}</div>
          <b class="num" role="cell">${totals[at]}</b>
          <span class="rank" role="cell">${at === 0 ? html`<span class="badge good">winner</span>` : columns.names[at] === value.runnerUp ? html`<span class="badge">runner-up</span>` : ""}</span>
        </div>`)}
      </div>
      <p class="legend kinds">${apart && !drawn.some((row) => row.some((each) => each > 0)) && "All of these nodes have the same scores."}${plugins.filter((_, place) => drawn.some((row) => row[place] > 0)).map(({ name, index }) => html`<span class="key"><i class="dot" style=${{ background: kindColour(index) }} />${name}</span>`)}</p>
    </div></section>`;
}

function Victims({ value }) {
  return html`<section class="card"><header><h2>${value.nominatedNode ? html`Preemption makes room on <span class="name">${value.nominatedNode}</span>` : "Without these there would be room"}</h2></header>
    <div class="body"><ul class="rows">${value.victims.map((each) => html`<li><a class="name" href=${podLink(each.pod)}>${each.pod}</a>
      <span class="faint">${each.priority === null ? "" : `priority ${each.priority}`}${each.budget ? `, budget ${each.budget} allows ${each.disruptionsAllowed}` : ""}</span>
      <span class="badge bad">must go</span></li>`)}</ul></div></section>`;
}

function Matrix({ columns, chosen }) {
  const [filter, setFilter] = useState("all");
  const [text, setText] = useState("");
  const [most, setMost] = useState(ROWS);
  const refusals = useMemo(() => {
    const byNode = new Map(), node = unpack(columns.refusals.node, "u4"), plugin = unpack(columns.refusals.plugin, "u1"), words = unpack(columns.refusals.text, "u4");
    node.forEach((row, at) => {
      if (!byNode.has(row)) byNode.set(row, []);
      byNode.get(row).push([columns.refusals.plugins[plugin[at]], columns.refusals.texts[words[at]]]);
    });
    return byNode;
  }, [columns]);
  const plugins = useMemo(() => {
    const counts = new Map();
    for (const said of refusals.values()) for (const [plugin] of said) counts.set(plugin, (counts.get(plugin) || 0) + 1);
    const all = [...new Set([...columns.filters, ...counts.keys()])];
    return all.map((name) => [name, counts.get(name) || 0]);
  }, [columns, refusals]);
  const [whole, setWhole] = useState(false);
  const rejecting = plugins.filter(([, count]) => count > 0);
  const visible = whole || !rejecting.length ? plugins : rejecting;
  const rows = columns.names.map((name, row) => row).filter((row) => (filter === "all" || (filter === "fit") === row < columns.fitting) && columns.names[row].includes(text));
  return html`<section class="card matrix-card" aria-label="Nodes by plugins"><header><h2>Nodes by plugins</h2>
      <span class="count">${columns.names.length.toLocaleString("en")}</span><span class="grow" />
      <div class="segmented" role="group" aria-label="Which nodes">${[["all", "All"], ["fit", `Fit ${columns.fitting}`], ["rejected", `Rejected ${columns.names.length - columns.fitting}`]].map(([name, label]) => html`<button aria-pressed=${filter === name} onClick=${() => setFilter(name)}>${label}</button>`)}</div>
      <label><span class="hidden-label">Filter by name</span><input type="search" class="short" placeholder="Name" value=${text} onInput=${(event) => setText(event.target.value)} /></label></header>
    <div class="body scroll"><table class="matrix"><thead><tr><th>Node</th>
        ${visible.map(([name, count]) => html`<th class="turned" scope="col"><span title=${`${name} rejects ${count}`}>${name}${count ? html` <b>${count}</b>` : ""}</span></th>`)}<th class="why">Why not</th></tr></thead>
      <tbody>${rows.slice(0, most).map((row) => { const said = refusals.get(row) || []; return html`<tr class=${columns.names[row] === chosen ? "chosen" : ""}>
        <th scope="row"><a class="name" href=${`#/cluster/${encodeURIComponent(columns.names[row])}`}>${columns.names[row]}</a></th>
        ${visible.map(([name]) => { const at = said.findIndex(([plugin]) => plugin === name); return html`<td class="mark">${at < 0 ? html`<i class="pass" title=${`${name}: passes`}><span class="hidden-label">passes</span></i>`
          : html`<i class=${at === 0 ? "first" : "further"} title=${`${name}: ${said[at][1]}`}><span class="hidden-label">${at === 0 ? "first refusal" : "further refusal"}</span></i>`}</td>`; })}
        <td class="why">${said.length ? said.map(([plugin, words], at) => html`<div class=${at ? "faint" : ""}>${words}</div>`) : html`<span class="good-text">fits</span>`}</td></tr>`; })}</tbody></table>
      ${rows.length > most && html`<button class="plain" onClick=${() => setMost(most + 10 * ROWS)}>Show more of ${rows.length.toLocaleString("en")}</button>`}
      ${rows.length === 0 && html`<p class="faint calm">No such node.</p>`}
    </div>
    <p class="legend matrix-key"><span class="key"><i class="pass" />passes</span><span class="key"><i class="first" />first refusal</span><span class="key"><i class="further" />further refusal</span>
      <span class="grow" />${rejecting.length > 0 && rejecting.length < plugins.length && html`<button class="plain" onClick=${() => setWhole(!whole)}>${whole ? "Only plugins that reject" : `All ${plugins.length} plugins`}</button>`}</p>
  </section>`;
}

function WhatIf({ value, requests, onChange }) {
  const names = Object.keys(value.requests);
  const steps = (name) => (name === "cpu" ? 100 : name === "memory" || name === "ephemeral-storage" ? 2 ** 27 : 1);
  return html`<section class="card" aria-label="What if"><header><h2>What if it asked for…</h2></header><div class="body">
    ${names.map((name) => { const now = requests?.[name] ?? value.requests[name], top = Math.max(value.largest[name], value.requests[name], steps(name)) * 1.1; return html`<label class="slider">
      <span>${resourceName(name)}</span><output class="num">${amount(name, now)}</output>
      <input type="range" min="0" max=${Math.ceil(top / steps(name)) * steps(name)} step=${steps(name)} value=${now} aria-label=${resourceName(name)} aria-valuetext=${amount(name, now)}
        onInput=${(event) => onChange({ ...(requests || {}), [name]: Number(event.target.value) })} />
      <span class="faint small">asks for ${amount(name, value.requests[name])}; the largest node has ${amount(name, value.largest[name])}</span></label>`; })}
    ${requests && html`<button onClick=${() => onChange(null)}>Reset</button>`}</div></section>`;
}

function Stepper({ items, at, onStep }) {
  if (!items.length) return null;
  return html`<div class="stepper" role="group" aria-label="Attempts">
    <button disabled=${at === items.length - 1} onClick=${() => onStep(at === null ? 0 : at + 1)} aria-label="Earlier attempt">‹ earlier</button>
    <span class="num soft">${at === null ? "today" : `try ${items[at].attempt}`}</span>
    <button disabled=${at === null} onClick=${() => onStep(at === 0 ? null : at - 1)} aria-label="Later attempt">later ›</button></div>`;
}

function Attempts({ items, at, onStep, loading }) {
  return html`<section class="card" aria-label="Attempts"><header><h2>Attempts</h2>${items.length > 0 && html`<span class="count">${items.length}</span>`}<span class="grow" /><kbd>[</kbd> <kbd>]</kbd></header>
    <div class="body"><ul class="rows attempts">
      <li><button class="attempt" aria-pressed=${at === null} onClick=${() => onStep(null)}><b>Today</b><span class="faint">decided on the cluster as it is now</span></button></li>
      ${items.map((each, index) => html`<li><button class="attempt" aria-pressed=${at === index} onClick=${() => onStep(index)}>
        <b>Try ${each.attempt}</b> <span class="faint">${new Date(each.time).toLocaleTimeString([], { hour12: false })}, ${duration(each.seconds)}</span>
        <span class=${`badge ${each.outcome === "scheduled" ? "good" : "bad"}`}>${each.outcome === "scheduled" ? each.node : each.outcome}</span></button></li>`)}
    </ul>${!loading && !items.length && html`<p class="faint small">No attempt is recorded${live.about?.scheduler ? " any more" : ". A kubesched scheduler with --decision-history, or a decision file, has them"}.</p>`}</div></section>`;
}

function Queued({ queued }) {
  return html`<section class="card"><header><h2>In the queue</h2></header><div class="body"><p>${queued.queue}${queued.place !== null && queued.place !== undefined ? `, place ${queued.place}` : ""}${queued.until ? ` until ${new Date(queued.until).toLocaleTimeString()}` : ""}</p>
    ${queued.wakes?.length > 0 && html`<p class="small soft">It is tried again after</p><p class="tags">${queued.wakes.map((each) => html`<span class="badge">${each.endsWith(" *") ? `any change of ${each.slice(0, -2).split("/").pop()}` : each}</span>`)}</p>`}</div></section>`;
}

function Influence({ items }) {
  return html`<section class="card" aria-label="Influence of plugins"><header><h2>What each Score plugin changes</h2></header><div class="body scroll"><table><thead><tr><th>Left out</th><th>Winner</th><th class="num">Best ten kept</th><th class="num">Mean shift of ranks</th><th class="num">Its scores</th></tr></thead>
    <tbody>${items.map((each) => html`<tr><td>${each.plugin}</td><td>${each.winnerChanges ? html`<span class="name">${each.winner}</span>` : html`<span class="faint">the same</span>`}</td><td class="num">${Math.round(each.overlap * 100)} %</td><td class="num">${Number(each.meanShift.toFixed(1))}</td><td class="num">${each.lowest} to ${each.highest}</td></tr>`)}</tbody></table></div></section>`;
}
