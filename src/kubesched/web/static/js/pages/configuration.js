// The Configuration page: what is in force, an editor, and what an edited configuration would change.
import { Failed, ICONS, Icon, Loading, counted, get, html, podLink, send, useEffect, useState } from "../core.js";
import { live } from "../data.js";
import { Editor } from "../editor.js";

export function ConfigurationPage() {
  const [force, setForce] = useState(null);
  const [text, setText] = useState("");
  const [checked, setChecked] = useState(null);
  const [compared, setCompared] = useState(null);
  const [busy, setBusy] = useState("");
  const [error, setError] = useState(null);
  const read = (found) => { setForce(found); setText(found.text); setChecked(null); setCompared(null); };
  useEffect(() => { get("configuration").then(read, setError); }, []);
  useEffect(() => {
    if (!force || text === force.text) { setChecked(null); return; }
    const stop = new AbortController();
    const timer = setTimeout(() => send("POST", "configuration/check", { text }, stop.signal).then(setChecked, (problem) => problem.name === "AbortError" || setError(problem)), 200);
    return () => { clearTimeout(timer); stop.abort(); };
  }, [text, force]);
  if (!force) return html`<div class="page">${error ? html`<${Failed} error=${error} />` : html`<${Loading} what="Reading the configuration…" />`}</div>`;
  const edited = text !== force.text;
  const valid = !edited || (checked && checked.problems.length === 0);
  const work = (name, start) => { setBusy(name); setError(null); start().catch(setError).finally(() => setBusy("")); };
  const compare = () => work("compare", async () => setCompared({ ...(await send("POST", "configuration/compare", { text })), text }));
  const apply = () => work("apply", async () => read(await send("POST", "configuration", { text })));
  const profiles = edited && checked?.profiles.length ? checked.profiles : force.profiles;
  return html`<div class="page configuration-page">
    <header><div class="page-title"><h1>Configuration</h1><p>${counted(force.profiles.length, "profile")} in force. Edit the text to see what it would change. Nothing is applied${live.about?.embedded ? " until you press Apply" : ""}.</p></div>
      ${edited && html`<button class="plain" onClick=${() => { setText(force.text); setCompared(null); }}>Discard</button>`}
      <button class="primary" disabled=${!edited || !valid || busy} onClick=${compare}>${busy === "compare" && html`<span class="spinner" />`}What would change?</button>
      ${live.about?.embedded && html`<button disabled=${!edited || !valid || busy} onClick=${apply}>${busy === "apply" && html`<span class="spinner" />`}Apply</button>`}
    </header>
    ${error && html`<${Failed} error=${error} />`}
    ${compared && html`<${Compared} compared=${compared} stale=${compared.text !== text} />`}
    <div class="two">
      <section class="card" aria-label="Editor"><header><h2>KubeSchedulerConfiguration</h2><span class="grow" />
          <span role="status">${!edited ? html`<span class="badge">in force</span>` : !checked ? html`<span class="spinner" />` : checked.problems.length ? html`<span class="badge bad">${counted(checked.problems.length, "problem")}</span>` : html`<span class="badge good">valid</span>`}</span></header>
        <div class="body"><${Editor} value=${text} onInput=${setText} label="KubeSchedulerConfiguration as YAML" marked=${new Set(checked?.problems.map((each) => each.line))} rows=${30} />
          ${edited && checked && html`<ul class="problems" aria-live="polite">${checked.problems.map((each) => html`<li>${each.line && html`<span class="badge bad">line ${each.line}</span>`}<span>${each.message}</span></li>`)}
            ${checked.warnings.map((each) => html`<li><span class="badge warn">warning</span><span>${each}</span></li>`)}</ul>`}</div></section>
      <section class="card" aria-label="Profiles"><header><h2>Which plugins run where</h2>${edited && checked?.profiles.length > 0 && html`<span class="badge accent">as edited</span>`}</header>
        <div class="body">${profiles.map((profile) => html`<${Profile} key=${profile.name} profile=${profile} before=${force.profiles.find((each) => each.name === profile.name)} />`)}</div></section>
    </div></div>`;
}

const titles = { queueSort: "QueueSort", preEnqueue: "PreEnqueue", preFilter: "PreFilter", filter: "Filter", postFilter: "PostFilter", preScore: "PreScore", score: "Score", reserve: "Reserve", permit: "Permit", preBind: "PreBind", bind: "Bind", postBind: "PostBind", placementGenerate: "Placement\u00adGenerate", placementScore: "Placement\u00adScore" };

function Profile({ profile, before }) {
  return html`<h2 class="profile">${profile.name}</h2><dl class="points">${profile.points.map(({ point, plugins, weights }) => {
    const old = before?.points.find((each) => each.point === point);
    const gone = (old?.plugins || []).filter((name) => !plugins.includes(name));
    return html`<dt>${titles[point] || point}</dt><dd>${plugins.map((name, at) => {
      const place = old ? old.plugins.indexOf(name) : -1;
      const changed = place < 0 || (weights.length && old.weights[place] !== weights[at]);
      return html`<span class=${`chip ${changed ? "changed" : ""}`}>${name}${weights.length ? html`<b title="weight">×${weights[at]}</b>` : ""}</span>`;
    })}${gone.map((name) => html`<span class="chip gone"><s>${name}</s></span>`)}</dd>`;
  })}</dl>`;
}

function Compared({ compared, stale }) {
  return html`<section class="card compared" aria-label="What would change"><header><h2>What would change</h2>${stale && html`<span class="badge warn">the text has changed since</span>`}</header><div class="body">
    ${compared.moved === 0 ? html`<p class="calm-result"><span class="tick"><${Icon} d=${ICONS.check} /></span>Nothing: all ${counted(compared.decided, "pod")} would be decided as now.</p>`
      : html`<p><b>${counted(compared.moved, "pod")}</b> of ${compared.decided.toLocaleString("en")} would be decided otherwise${compared.decided < compared.pods ? ` (${compared.pods - compared.decided} gated, ended or left out for time)` : ""}. Each is decided as if it alone had not been scheduled yet.</p>
      <div class="scroll moved"><table><thead><tr><th>Pod</th><th>Is on</th><th>With the one in force</th><th>With the edited one</th></tr></thead><tbody>${compared.items.map((each) => html`<tr>
        <td><a class="name" href=${podLink(each.pod)}>${each.pod}</a></td><td class="name">${each.on || html`<span class="faint">pending</span>`}</td><td class="name">${each.before || html`<span class="faint">nowhere</span>`}</td>
        <td class="name">${each.after ? html`<b>${each.after}</b>` : html`<span class="badge bad">nowhere</span> <span class="faint small">${each.message}</span>`}</td></tr>`)}</tbody></table></div>`}
  </div></section>`;
}
