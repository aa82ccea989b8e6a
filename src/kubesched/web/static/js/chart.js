// A small chart of the last minutes, by uPlot, in the colours of the theme.
import { html, useEffect, useLayoutEffect, useRef } from "./core.js";
import { theme, variable } from "./colours.js";

export function Chart({ data, series, height = 110, format = (value) => value, label, least = 0.001 }) {
  const box = useRef(), made = useRef();
  useLayoutEffect(() => {
    const axis = { stroke: variable("--faint"), grid: { stroke: variable("--line"), width: 1 }, ticks: { show: false }, font: `11px ${variable("--font")}` };
    const plot = new uPlot({
      width: box.current.clientWidth, height, cursor: { y: false, points: { size: 6 } }, legend: { show: false },
      padding: [8, 26, 0, 0],  // the last time of day is centred under the right edge
      scales: { y: { range: (_, low, high) => [0, Math.max(high || 0, least) * 1.15] } },
      axes: [
        { ...axis, grid: { show: false }, size: 22, space: 70, values: (_, splits) => splits.map((at) => new Date(at * 1000).toLocaleTimeString([], { hour12: false, hour: "2-digit", minute: "2-digit", second: "2-digit" })) },
        { ...axis, size: 46, space: 28, values: (_, splits) => splits.map(format) },
      ],
      series: [{}, ...series.map(({ name, colour, fill, bars }) => ({
        label: name, stroke: variable(colour), width: 1.6, points: { show: false }, spanGaps: true,
        fill: fill ? `${variable(colour)}26` : undefined,
        paths: bars ? uPlot.paths.bars({ size: [0.8, 12], radius: 0.2 }) : undefined,
      }))],
    }, data, box.current);
    made.current = plot;
    const watcher = new ResizeObserver(() => plot.setSize({ width: box.current.clientWidth, height }));
    watcher.observe(box.current);
    return () => { watcher.disconnect(); plot.destroy(); };
  }, [theme(), series.length]);
  useEffect(() => { made.current?.setData(data); });
  return html`<div class="chart" ref=${box} role="img" aria-label=${label} />`;
}
