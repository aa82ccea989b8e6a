// A plain text editor with line numbers; marked lines have a problem.
import { html, useEffect, useRef } from "./core.js";

export function Editor({ value, onInput, marked = new Set(), label, readOnly = false, rows = 24 }) {
  const numbers = useRef(), area = useRef();
  const count = value.split("\n").length;
  const onKey = (event) => {
    // Tab indents; Escape leaves, so that the keyboard is never caught here.
    if (event.key === "Tab" && !event.shiftKey && !readOnly) {
      event.preventDefault();
      event.target.setRangeText("  ", event.target.selectionStart, event.target.selectionEnd, "end");
      onInput(event.target.value);
    } else if (event.key === "Escape") event.target.blur();
  };
  return html`<div class="editor"><div class="numbers" ref=${numbers} aria-hidden="true">${Array.from({ length: count }, (_, at) => html`<div class=${marked.has(at + 1) ? "marked" : ""}>${at + 1}</div>`)}</div>
    <textarea ref=${area} aria-label=${label} spellcheck="false" autocapitalize="off" wrap="off" rows=${rows} value=${value} readOnly=${readOnly}
      onScroll=${(event) => { numbers.current.scrollTop = event.target.scrollTop; }} onInput=${(event) => onInput(event.target.value)} onKeyDown=${onKey} /></div>`;
}
