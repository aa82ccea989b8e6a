// What every part of the page uses: the view library, calls to the server, numbers as people write them.
import { html, render, useEffect, useLayoutEffect, useMemo, useRef, useState } from "../vendor/htm-preact.js";

export { html, render, useEffect, useLayoutEffect, useMemo, useRef, useState };

export class Problem extends Error {
  constructor(message, status) {
    super(message);
    this.status = status;
  }
}

async function answer(response) {
  const text = await response.text();
  let body = {};
  try { body = text ? JSON.parse(text) : {}; } catch { body = { error: text }; }
  if (!response.ok) throw new Problem(body.error || `${response.status} ${response.statusText}`, response.status);
  return body;
}

export async function get(path, query = {}, signal) {
  const search = new URLSearchParams(Object.entries(query).filter(([, value]) => value !== undefined && value !== ""));
  const text = search.toString();
  return answer(await fetch(`/api/${path}${text ? `?${text}` : ""}`, { signal }));
}

export async function send(method, path, body, signal) {
  const headers = { "X-Kubesched": "1", "Content-Type": "application/json" };
  return answer(await fetch(`/api/${path}`, { method, headers, body: JSON.stringify(body), signal }));
}

// Columns come as base64 of little-endian numbers.
const VIEWS = { u1: Uint8Array, u2: Uint16Array, u4: Uint32Array, i4: Int32Array, f8: Float64Array };
export function unpack(text, kind) {
  const bytes = Uint8Array.from(atob(text), (each) => each.charCodeAt(0));
  return new VIEWS[kind](bytes.buffer);
}

const BINARY = [["Ti", 2 ** 40], ["Gi", 2 ** 30], ["Mi", 2 ** 20], ["Ki", 2 ** 10]];
const tidy = (number, digits) => Number(number.toFixed(digits)).toLocaleString("en");
export function amount(resource, value) {
  if (resource === "cpu") return tidy(value / 1000, 2);
  if (resource === "memory" || resource === "ephemeral-storage" || resource.startsWith("hugepages-")) {
    for (const [suffix, size] of BINARY) if (Math.abs(value) >= size) return tidy(value / size, 1) + suffix;
  }
  return tidy(value, 2);
}
export const resourceName = (name) =>
  ({ cpu: "CPU", memory: "Memory", pods: "Pods", "ephemeral-storage": "Disk" })[name] || name;

export function age(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  for (const [unit, size] of [["d", 86400], ["h", 3600], ["m", 60]]) {
    if (seconds >= 2 * size) return `${Math.floor(seconds / size)}${unit}`;
  }
  return `${Math.max(0, Math.floor(seconds))}s`;
}
export function duration(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  if (seconds < 0.001) return `${(seconds * 1e6).toFixed(0)} µs`;
  if (seconds < 1) return `${tidy(seconds * 1000, seconds < 0.01 ? 2 : 0)} ms`;
  return seconds < 100 ? `${tidy(seconds, 1)} s` : age(seconds);
}
// Time since the start of a simulation: 1:50, 2:03:07.
export function stopwatch(seconds) {
  const whole = Math.floor(seconds), two = (number) => String(number).padStart(2, "0");
  const minutes = Math.floor(whole / 60) % 60, hours = Math.floor(whole / 3600);
  return hours ? `${hours}:${two(minutes)}:${two(whole % 60)}` : `${minutes}:${two(whole % 60)}`;
}
export const counted = (number, noun) => `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;
export const percent = (share) => `${Math.round(share * 100)} %`;
export const clock = (seconds) => new Date(seconds * 1000).toLocaleTimeString([], { hour12: false });
export const podLink = (key) => `#/decision/${key.split("/").map(encodeURIComponent).join("/")}`;
export const natural = new Intl.Collator("en", { numeric: true }).compare;

export function useAsync(work, inputs) {
  const [state, set] = useState({ loading: true });
  useEffect(() => {
    const stop = new AbortController();
    set((old) => ({ ...old, loading: true }));
    work(stop.signal).then(
      (value) => stop.signal.aborted || set({ value, loading: false }),
      (error) => stop.signal.aborted || set({ error, loading: false }),
    );
    return () => stop.abort();
  }, inputs);
  return state;
}

export function usePreference(name, initial) {
  const key = `kubesched-${name}`;
  const [value, set] = useState(() => {
    try { return localStorage.getItem(key) ?? initial; } catch { return initial; }
  });
  return [value, (next) => {
    set(next);
    try { localStorage.setItem(key, next); } catch { /* storage may be off */ }
  }];
}

export const Icon = ({ d }) => html`<svg viewBox="0 0 20 20" fill="none" stroke="currentColor" stroke-width="1.6"
  stroke-linecap="round" stroke-linejoin="round" aria-hidden="true"><path d=${d} /></svg>`;
export const ICONS = {
  cluster: "M3 3h5v5H3zM12 3h5v5h-5zM3 12h5v5H3zM12 12h5v5h-5z",
  pending: "M10 2.5a7.5 7.5 0 1 0 0 15 7.5 7.5 0 0 0 0-15zM10 6v4l2.8 1.8",
  decision: "M3 16.5h14M5 16.5V9M10 16.5V4M15 16.5v-6",
  timeline: "M2.5 10h3l2-5.5 4 11 2.3-5.5h3.7",
  configuration: "M4 5.5h7M15 5.5h1M4 10h1M9 10h7M4 14.5h6M14 14.5h2M13 3.8v3.4M7 8.3v3.4M12 12.8v3.4",
  objects: "M10 2.5l6.5 3.7v7.6L10 17.5l-6.5-3.7V6.2zM3.5 6.2L10 10l6.5-3.8M10 10v7.5",
  moon: "M16.5 11.6A6.8 6.8 0 0 1 8.4 3.5a6.8 6.8 0 1 0 8.1 8.1z",
  sun: "M10 6.6a3.4 3.4 0 1 0 0 6.8 3.4 3.4 0 0 0 0-6.8zM10 1.8v1.6M10 16.6v1.6M1.8 10h1.6M16.6 10h1.6M4.2 4.2l1.1 1.1M14.7 14.7l1.1 1.1M4.2 15.8l1.1-1.1M14.7 5.3l1.1-1.1",
  check: "M4.5 10.5l3.6 3.6 7.4-8",
  close: "M5 5l10 10M15 5L5 15",
  play: "M6 4.2v11.6l9-5.8z",
};
export const Loading = ({ what }) => html`<p class="empty" role="status"><span class="spinner" /> ${what}</p>`;
export const Failed = ({ error }) => html`<p class="notice bad" role="alert">${error.message}</p>`;
