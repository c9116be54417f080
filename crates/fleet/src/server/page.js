// The page of the fleet: questions, their options, their rows. Rows with a host and a process link
// to the profile on the page of `heapwise serve`.
const QUESTIONS = ["top", "growth", "diff", "outliers", "history", "oom", "processes"];
const PROCESSES =
  "SELECT host, pid, max(time_ns) AS time_ns, max(service) AS service, max(release) AS release, " +
  "max(program) AS program, max(\"end\") AS \"end\" FROM profiles GROUP BY host, pid " +
  "ORDER BY time_ns DESC, host, pid LIMIT 200";
const nav = document.getElementById("questions");
const form = document.getElementById("options");
const state = document.getElementById("state");
const [head, body] = [document.querySelector("thead"), document.querySelector("tbody")];
let question = location.hash.slice(1) || "top";

function bytes(value) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (Math.abs(value) >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${unit === 0 ? Math.round(value) : value.toFixed(1)} ${units[unit]}`;
}

function cell(name, value) {
  if (typeof value !== "number") return String(value ?? "");
  if (name.endsWith("time_ns")) return new Date(value / 1e6).toISOString().slice(0, 19) + "Z";
  if (name.endsWith("_bytes") || name === "score" || name === "bytes_per_hour") return bytes(value);
  return Number.isInteger(value) ? String(value) : value.toFixed(2);
}

function element(name, text) {
  const made = document.createElement(name);
  made.textContent = text;
  return made;
}

function profileLink(row) {
  const query = new URLSearchParams({ host: row.host, pid: row.pid });
  const link = element("a", "open");
  link.href = `/v1/profile?${query}`;
  return link;
}

function show(rows) {
  head.replaceChildren();
  body.replaceChildren();
  state.textContent = rows.length === 0 ? "No rows." : "";
  if (rows.length === 0) return;
  const names = Object.keys(rows[0]);
  const opens = names.includes("host") && names.includes("pid");
  head.append(...names.map((name) => element("th", name)));
  for (const row of rows) {
    const line = document.createElement("tr");
    for (const name of names) {
      const made = element("td", cell(name, row[name]));
      if (typeof row[name] === "number") made.className = "number";
      line.append(made);
    }
    if (opens) {
      const made = document.createElement("td");
      made.append(profileLink(row));
      line.append(made);
    }
    body.append(line);
  }
}

async function ask() {
  for (const button of nav.children) button.ariaPressed = String(button.textContent === question);
  state.textContent = "…";
  const options = new URLSearchParams(new FormData(form));
  const answer =
    question === "processes"
      ? await fetch("/v1/query", { method: "POST", body: PROCESSES })
      : await fetch(`/v1/ask/${question}?${options}`);
  if (answer.ok) {
    show(await answer.json());
  } else {
    show([]);
    state.textContent = await answer.text();
  }
}

for (const name of QUESTIONS) {
  const button = element("button", name);
  button.addEventListener("click", () => {
    question = name;
    location.hash = name;
    ask();
  });
  nav.append(button);
}
form.addEventListener("submit", (event) => {
  event.preventDefault();
  ask();
});
ask();
