// Before anything is painted: the theme that was chosen last, or else the system's.
(function () {
  let chosen = "";
  try { chosen = localStorage.getItem("kubesched-theme") || ""; } catch { /* storage may be off */ }
  const dark = chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = dark ? "dark" : "light";
})();
