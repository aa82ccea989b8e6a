// The Objects page: any object as YAML; on clusters of `kubesched up` also import, export and reset.
import { Failed, Loading, age, counted, get, html, send, useAsync, useEffect, useRef, useState } from "../core.js";
import { live } from "../data.js";
import { Editor } from "../editor.js";

const TEMPLATE = `apiVersion: v1
kind: Pod
metadata:
  name: example
  namespace: default
spec:
  containers:
  - name: main
    image: nginx
    resources:
      requests:
        cpu: 500m
        memory: 256Mi
`;

export function ObjectsPage() {
  if (!live.about.objects) {
    return html`<div class="page"><section class="card empty"><h2>Objects are in the files</h2><p>This page shows objects of a running cluster. Here the cluster was read from files, which cannot be changed.</p></section></div>`;
  }
  return html`<${Objects} />`;
}

function Objects() {
  const { changes, embedded } = live.about;
  const [kind, setKind] = useState("pods");
  const [chosen, choose] = useState(null);
  const [filter, setFilter] = useState("");
  const [text, setText] = useState(null);
  const [opened, setOpened] = useState(null);
  const [message, setMessage] = useState(null);
  const [turn, setTurn] = useState(0);
  const file = useRef(), asking = useRef();
  const [question, setQuestion] = useState(null);
  const marked = text !== opened;
  const kinds = useAsync((signal) => get("objects/kinds", {}, signal), []);
  const list = useAsync((signal) => get("objects", { kind }, signal), [kind, turn]);
  useEffect(() => {
    if (!chosen || chosen === "new") return;
    const stop = new AbortController();
    get("object", { kind, ...chosen }, stop.signal).then(({ text: found }) => { setText(found); setOpened(found); }, (error) => error.name === "AbortError" || setMessage({ error }));
    return () => stop.abort();
  }, [chosen]);
  useEffect(() => { if (question) asking.current.showModal(); }, [question]);
  const done = (words) => { setMessage({ words }); setTurn((old) => old + 1); };
  const attempt = (work) => { setMessage(null); work().catch((error) => setMessage({ error })); };
  const create = () => attempt(async () => { const made = await send("POST", "objects", { text }); open(null); done(`Created ${made.objects.join(", ")}`); });
  const save = () => attempt(async () => {
    const made = await send("PUT", "object", { text, opened });
    setOpened(made.text);
    setText((now) => (now === text ? made.text : now));
    done(`Saved ${made.objects.join(", ")}`);
  });
  // The old text goes at once, so that no late answer can replace what the user types.
  const open = (each) => { setMessage(null); setText(null); setOpened(null); choose(each); };
  const change = (next) => (marked ? setQuestion({ title: "Discard your changes?", note: "They have not been saved.", verb: "Discard", work: async () => next() }) : next());
  const remove = () => setQuestion({ title: `Delete ${chosen.namespace ? `${chosen.namespace}/` : ""}${chosen.name}?`, verb: "Delete", work: async () => {
    await send("DELETE", `object?${new URLSearchParams({ kind, ...chosen })}`, {}); open(null); done(`Deleted ${chosen.name}`); } });
  const exported = () => attempt(async () => {
    const content = await get("export");
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([JSON.stringify(content, null, 2)], { type: "application/json" }));
    link.download = "cluster.json";
    link.click();
    URL.revokeObjectURL(link.href);
    setMessage({ words: "Exported to cluster.json" });
  });
  const imported = async (event) => {
    const [given] = event.target.files;
    event.target.value = "";
    if (!given) return;
    const content = await given.text();
    setQuestion({ title: `Replace the whole cluster by ${given.name}?`, note: "All objects that are here now are deleted.", verb: "Import", work: async () => { await send("POST", "import", JSON.parse(content)); open(null); done(`Imported ${given.name}`); } });
  };
  const reset = () => setQuestion({ title: "Reset the cluster?", note: "It becomes what it was when kubesched up started.", verb: "Reset", work: async () => { await send("POST", "reset", {}); open(null); done("The cluster is as it was at the start"); } });
  const names = list.value ? list.value.name.map((name, at) => ({ name, namespace: list.value.namespace[at], created: list.value.created[at] })).filter((each) => `${each.namespace}/${each.name}`.includes(filter)) : [];
  return html`<div class="page objects-page">
    <header><div class="page-title"><h1>Objects</h1><p>${changes ? "Create, change and delete objects as YAML." : "Read-only: start kubesched ui with --allow-changes to change objects here."}</p></div>
      ${embedded && html`<button onClick=${exported}>Export</button><button onClick=${() => file.current.click()}>Import</button>
        <input ref=${file} id="import-file" class="hidden-label" type="file" accept=".json,application/json" aria-label="A cluster to import" onChange=${imported} /><button class="danger" onClick=${reset}>Reset</button>`}
      ${changes && html`<button class="primary" onClick=${() => change(() => { open("new"); setText(TEMPLATE); setOpened(TEMPLATE); })}>Create</button>`}</header>
    ${message?.error && html`<${Failed} error=${message.error} />`}
    ${message?.words && html`<p class="notice good" role="status">${message.words}</p>`}
    <div class="objects">
      <section class="card list" aria-label="Objects"><div class="body">
        <label class="field full"><span class="hidden-label">Kind</span><select value=${kind} onChange=${(event) => { setKind(event.target.value); open(null); }}>${(kinds.value?.name || ["pods"]).map((name) => html`<option value=${name}>${name}</option>`)}</select></label>
        <label><span class="hidden-label">Filter by name</span><input type="search" placeholder=${list.value ? `Filter ${counted(list.value.name.length, "object")}` : ""} value=${filter} onInput=${(event) => setFilter(event.target.value)} /></label>
        ${list.error && html`<${Failed} error=${list.error} />`}
        <ul class="rows">${names.slice(0, 300).map((each) => html`<li><button class="attempt" aria-pressed=${chosen && chosen.name === each.name && chosen.namespace === each.namespace}
          onClick=${() => change(() => open({ namespace: each.namespace, name: each.name }))}><span class="name">${each.name}</span><span class="faint small">${[each.namespace, each.created && `${age((Date.now() - Date.parse(each.created)) / 1000)} old`].filter(Boolean).join(", ")}</span></button></li>`)}</ul>
        ${names.length === 0 && list.value && html`<p class="faint calm">None.</p>`}</div></section>
      <section class="card" aria-label="YAML">${chosen ? html`<header><h2 class="name">${chosen === "new" ? "New object" : `${chosen.namespace ? `${chosen.namespace}/` : ""}${chosen.name}`}</h2><span class="grow" />
          ${changes && (chosen === "new" ? html`<button class="primary" onClick=${create}>Create it</button>` : html`${marked && html`<button class="plain" onClick=${() => open({ ...chosen })}>Discard</button>`}<button class="danger" onClick=${remove}>Delete</button><button class="primary" disabled=${!marked} onClick=${save}>Save</button>`)}</header>
        <div class="body">${text === null ? !message?.error && html`<${Loading} what="Reading the object…" />` : html`<${Editor} value=${text} onInput=${setText} label="The object as YAML" readOnly=${!changes} rows=${34} />`}</div>` : html`<p class="empty">Choose an object to see it.</p>`}</section>
    </div>
    <dialog ref=${asking} onClose=${() => setQuestion(null)} aria-labelledby="question">${question && html`<div class="body"><h2 id="question">${question.title}</h2><p class="soft">${question.note || "This cannot be undone."}</p>
      <div class="row"><button onClick=${() => asking.current.close()}>Cancel</button><button class="primary" onClick=${() => { asking.current.close(); attempt(question.work); }}>${question.verb}</button></div></div>`}</dialog>
  </div>`;
}
