// Colours for values and for kinds, in both themes. Steps are made once per theme.
const RAMPS = {
  light: ["#e9edf5", "#bcd3f2", "#7fb0ea", "#4a82dc", "#3b54c4", "#3a2c8f"],
  dark: ["#1f2633", "#22426b", "#2a66a8", "#3f8fdc", "#74b6f4", "#bfe0ff"],
};
const FULL = { light: "#e2543f", dark: "#ff7a5c" };
const KINDS = {
  light: ["#4a6fe3", "#d9822b", "#1f9d76", "#b3478c", "#7c5cd6", "#5c8a2e", "#c94f4f", "#2b8fb3", "#8a6d3b", "#6b7280"],
  dark: ["#7b9bff", "#f0a35a", "#45c79b", "#e07bbb", "#a78bfa", "#93c45a", "#f08080", "#5bbfe0", "#c9a86a", "#9ca3af"],
};
export const STEPS = 64;
const made = {};

const parse = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
const mix = (a, b, share) => a.map((each, index) => Math.round(each + (b[index] - each) * share));
export const theme = () => document.documentElement.dataset.theme;

// STEPS colours from empty to nearly full, and one more for what is full.
export function ramp() {
  const name = theme();
  made[name] ||= [
    ...Array.from({ length: STEPS }, (_, step) => {
      const stops = RAMPS[name].map(parse);
      const place = (step / (STEPS - 1)) * (stops.length - 1);
      const below = Math.min(stops.length - 2, Math.floor(place));
      return `rgb(${mix(stops[below], stops[below + 1], place - below).join(",")})`;
    }),
    FULL[name],
  ];
  return made[name];
}
export const kindColour = (number) => KINDS[theme()][number % KINDS[theme()].length];
export const variable = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
