// The page of the fleet: questions, their options, their rows. Rows with a host and a process link
// to the profile on the page of `heapwise serve`, rows with a site to its history.
const QUESTIONS = ["top", "growth", "diff", "outliers", "history", "oom", "processes", "moments"];
const PROCESSES =
  "SELECT host, pid, max(time_ns) AS time_ns, max(service) AS service, max(release) AS release, " +
  "max(program) AS program, max(\"end\") AS \"end\" FROM profiles GROUP BY host, pid " +
  "ORDER BY time_ns DESC, host, pid LIMIT 200";
const quoted = (text) => `'${text.replaceAll("'", "''")}'`;
const moments = (host, pid) =>
  "SELECT host, pid, time_ns, service, release, CAST(inuse_bytes AS DOUBLE) AS live_bytes, \"end\" FROM profiles " +
  `WHERE host = ${quoted(host)} AND pid = ${Number(pid)} ORDER BY time_ns DESC LIMIT 500`;
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

function linked(text, href) {
  const link = element("a", text);
  link.href = href;
  return link;
}

// The profile of a row: the newest up to the second after its time, which a number cannot hold
// exactly.
function profileLink(row) {
  const query = new URLSearchParams({ host: row.host, pid: row.pid });
  if (row.time_ns) query.set("at", new Date((Math.floor(row.time_ns / 1e9) + 1) * 1e3).toISOString().slice(0, 19) + "Z");
  return linked("open", `/v1/profile?${query}`);
}

// A button that asks another question about a row.
function askLink(text, next, options) {
  const link = linked(text, `#${next}`);
  link.addEventListener("click", (event) => {
    event.preventDefault();
    for (const [name, value] of Object.entries(options)) form.elements[name].value = value;
    choose(next);
  });
  return link;
}

function show(rows) {
  head.replaceChildren();
  body.replaceChildren();
  state.textContent = rows.length === 0 ? "No rows." : "";
  if (rows.length === 0) return;
  const names = Object.keys(rows[0]);
  const opens = names.includes("host") && names.includes("pid");
  for (const name of names) {
    const made = element("th", name);
    if (typeof rows[0][name] === "number") made.className = "number";
    head.append(made);
  }
  for (const row of rows) {
    const line = document.createElement("tr");
    for (const name of names) {
      const made = element("td", name === "site" ? "" : cell(name, row[name]));
      if (name === "site") made.append(askLink(row.site, "history", { site: row.site }));
      if (typeof row[name] === "number") made.className = "number";
      line.append(made);
    }
    if (opens) {
      const made = document.createElement("td");
      made.append(profileLink(row), " ", askLink("moments", "moments", { host: row.host, pid: row.pid }));
      line.append(made);
    }
    body.append(line);
  }
}

function choose(name) {
  question = name;
  location.hash = name;
  ask();
}

async function ask() {
  for (const button of nav.children) button.ariaPressed = String(button.textContent === question);
  state.textContent = "…";
  for (const label of form.querySelectorAll("[data-for]")) {
    label.hidden = !label.dataset.for.split(" ").includes(question);
  }
  const options = new URLSearchParams([...new FormData(form)].filter(([, value]) => value !== ""));
  document.getElementById("merged").href = `/v1/merged?${options}`;
  const sql = { processes: PROCESSES, moments: moments(form.elements.host.value, form.elements.pid.value) }[question];
  const answer = sql
    ? await fetch("/v1/query", { method: "POST", body: sql })
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
  button.addEventListener("click", () => choose(name));
  nav.append(button);
}
form.addEventListener("submit", (event) => {
  event.preventDefault();
  ask();
});
ask();
