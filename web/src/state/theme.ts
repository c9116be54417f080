// Light or dark: the system's choice unless the user made one.

export function applyTheme(): void {
  const chosen = localStorage.getItem("heapwise-theme");
  if (chosen) document.documentElement.dataset["theme"] = chosen;
}

export function isDark(): boolean {
  const chosen = document.documentElement.dataset["theme"];
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

export function toggleTheme(): void {
  const next = isDark() ? "light" : "dark";
  document.documentElement.dataset["theme"] = next;
  localStorage.setItem("heapwise-theme", next);
}
