// Before anything is painted: the theme that was chosen last, or else the system's, also when that changes.
(function () {
  const root = document.documentElement;
  try { root.dataset.chosen = localStorage.getItem("kubesched-theme") || ""; } catch { /* storage may be off */ }
  const system = matchMedia("(prefers-color-scheme: dark)");
  const set = () => { root.dataset.theme = root.dataset.chosen || (system.matches ? "dark" : "light"); };
  set();
  system.addEventListener("change", () => { set(); dispatchEvent(new Event("theme")); });
})();
