// The shell: navigation, search, theme, and which page is shown.
import { Failed, ICONS, Icon, get, html, podLink, render, useEffect, useLayoutEffect, useRef, useState } from "./core.js";
import { changed, connect, live, useLive } from "./data.js";
import { ClusterPage } from "./pages/cluster.js";
import { ConfigurationPage } from "./pages/configuration.js";
import { DecisionPage } from "./pages/decision.js";
import { ObjectsPage } from "./pages/objects.js";
import { PendingPage } from "./pages/pending.js";
import { TimelinePage } from "./pages/timeline.js";

const PAGES = [
  ["cluster", "Cluster", ClusterPage],
  ["pending", "Pending", PendingPage],
  ["decision", "Decision", DecisionPage],
  ["timeline", "Timeline", TimelinePage],
  ["configuration", "Configuration", ConfigurationPage],
  ["objects", "Objects", ObjectsPage],
];

function usePath() {
  const read = () => location.hash.replace(/^#\/?/, "").split("/").map(decodeURIComponent);
  const [path, set] = useState(read);
  // Before the browser shows the page: a link that is followed at once must not be missed.
  useLayoutEffect(() => {
    const onChange = () => set(read());
    addEventListener("hashchange", onChange);
    return () => removeEventListener("hashchange", onChange);
  }, []);
  return path;
}

function ThemeButton() {
  const [, tick] = useState(0);
  const root = document.documentElement;
  const dark = root.dataset.theme === "dark";
  const repaint = () => {
    tick((old) => old + 1);
    for (const topic of ["nodes", "queue", "rates", "moments", "state"]) changed(topic);
  };
  useEffect(() => {
    addEventListener("theme", repaint);
    return () => removeEventListener("theme", repaint);
  }, []);
  const turn = () => {
    root.dataset.theme = root.dataset.chosen = dark ? "light" : "dark";
    try { localStorage.setItem("kubesched-theme", root.dataset.theme); } catch { /* storage may be off */ }
    repaint();
  };
  return html`<button class="plain" onClick=${turn} aria-label=${dark ? "Light theme" : "Dark theme"} title="Theme">
    <${IconBox} d=${dark ? ICONS.sun : ICONS.moon} /></button>`;
}
const IconBox = ({ d }) => html`<span class="icon"><${Icon} d=${d} /></span>`;

function Search() {
  const [text, setText] = useState("");
  const [found, setFound] = useState([]);
  const [at, setAt] = useState(0);
  const input = useRef();
  useEffect(() => {
    const onKey = (event) => {
      if (event.key === "/" && !/INPUT|TEXTAREA|SELECT/.test(document.activeElement.tagName)) {
        event.preventDefault();
        input.current.focus();
      }
    };
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  }, []);
  useEffect(() => {
    if (!text) { setFound([]); return; }
    const stop = new AbortController();
    const timer = setTimeout(() => get("pods", { text }, stop.signal).then((pods) => {
      const nodes = (live.nodes?.names || []).filter((name) => name.includes(text)).slice(0, 6)
        .map((name) => ({ name, note: "node", link: `#/cluster/${encodeURIComponent(name)}` }));
      setFound([...pods.pod.slice(0, 12).map((name, index) => ({ name, note: pods.node[index] || "pending", link: podLink(name) })), ...nodes]);
      setAt(0);
    }, () => {}), 120);
    return () => { clearTimeout(timer); stop.abort(); };
  }, [text]);
  const go = (each) => { location.hash = each.link.slice(1); setText(""); input.current.blur(); };
  const onKey = (event) => {
    if (event.key === "ArrowDown") setAt(Math.min(found.length - 1, at + 1));
    else if (event.key === "ArrowUp") setAt(Math.max(0, at - 1));
    else if (event.key === "Enter" && found[at]) go(found[at]);
    else if (event.key === "Escape") { setText(""); input.current.blur(); }
    else return;
    event.preventDefault();
  };
  return html`<div class="search" role="search">
    <label class="hidden-label" for="search">Find a pod or a node</label>
    <input id="search" ref=${input} type="search" placeholder="Find a pod or a node" value=${text} autocomplete="off" spellcheck="false"
      role="combobox" aria-expanded=${found.length > 0} aria-controls="results"
      onInput=${(event) => setText(event.target.value)} onKeyDown=${onKey} />
    ${!text && html`<kbd>/</kbd>`}
    ${found.length > 0 && html`<div class="results" id="results" role="listbox">${found.map((each, index) => html`<button role="option"
      aria-selected=${index === at} onClick=${() => go(each)}><span class="name">${each.name}</span><span class="faint">${each.note}</span></button>`)}</div>`}
  </div>`;
}

function Shell() {
  const path = usePath();
  const { about, connected, queue } = useLive("state", "queue");
  const page = PAGES.find(([name]) => name === path[0]) || PAGES[0];
  const main = useRef();
  useEffect(() => {
    const onKey = (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || /INPUT|TEXTAREA|SELECT/.test(document.activeElement.tagName)) return;
      const chosen = PAGES[Number(event.key) - 1];
      if (chosen) location.hash = `#/${chosen[0]}`;
    };
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  }, []);
  useEffect(() => { document.title = `${page[1]} · ${about?.title || ""} · kubesched`; main.current?.scrollTo(0, 0); }, [page[0], about]);
  if (live.problem) return html`<div class="page"><${Failed} error=${live.problem} /></div>`;
  if (!about) return html`<p class="boot"><span class="spinner" /> Reading the cluster…</p>`;
  const pending = queue ? queue.unbound : 0;
  return html`<div class="shell">
    <div class="top" role="banner">
      <a class="brand" href="#/cluster"><img src="/static/icon.svg" alt="" /><span>kubesched</span></a>
      <span class="where">${about.title}</span>
      <span class=${`state ${about.mode === "live" ? (connected ? "live" : "lost") : ""}`} role="status">
        <span>${about.mode === "live" ? (connected ? "live" : "connection lost") : about.mode === "simulation" ? "a simulation" : "from files"}</span></span>
      <span class="grow" /><${Search} /><${ThemeButton} />
    </div>
    <nav class="nav" aria-label="Pages">${PAGES.map(([name, label], index) => html`<a href=${`#/${name}`}
      aria-current=${page[0] === name ? "page" : undefined}><${Icon} d=${ICONS[name]} />${label}
      ${name === "pending" && pending > 0 && html`<span class="count bad">${pending}</span>`}</a>`)}
      <p class="keys"><kbd>1</kbd>–<kbd>${PAGES.length}</kbd> pages <kbd>/</kbd> find</p></nav>
    <main class="main" ref=${main} id="main">
      ${about.notes.length > 0 && html`<div class="page notes">${about.notes.map((note) => html`<p class="notice">${note}</p>`)}</div>`}
      <${page[2]} key=${page[0]} params=${path.slice(1)} />
    </main>
  </div>`;
}

get("about").then((about) => { live.about = about; connect(); changed("state"); }, (error) => { live.problem = error; changed("state"); });
const root = document.getElementById("app");
root.replaceChildren();
render(html`<${Shell} />`, root);
