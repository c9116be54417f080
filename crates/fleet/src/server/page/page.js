// The page of the fleet: questions, their options, their rows. The address has the question and its
// options, so that links, the back button and bookmarks work: `#growth?service=web&since=2h`.
import { chart } from "./chart.js";
import { cell, time } from "./format.js";
import { COLUMNS, OPTIONS, QUESTIONS, RESOLUTIONS, TEXT } from "./strings.js";

const COMMON = ["service", "since", "resolution", "limit"];
const FIELDS = {
  top: COMMON, growth: COMMON, diff: ["old", "new", ...COMMON], outliers: COMMON, history: ["site", ...COMMON],
  oom: ["service", "since", "limit"], processes: ["service", "host"], moments: ["host", "pid"], sql: ["sql"],
};
const HINTS = { since: "24h", limit: "50" };
// Rows of a history: a day of minutes.
const HISTORY_ROWS = "1440";
const LISTS = { service: "services", old: "releases", new: "releases" };
const at = (id) => document.getElementById(id);
const [head, body] = [document.querySelector("thead"), document.querySelector("tbody")];
let releases = [];
let asked = 0;

const quoted = (text) => `'${text.replaceAll("'", "''")}'`;

// The SQL of lists that are not questions.
function listSql(question, options) {
  if (question === "sql") return options.sql;
  if (question === "processes") {
    const conditions = ["service", "host"].filter((name) => options[name]).map((name) => `${name} = ${quoted(options[name])}`);
    return (
      "SELECT host, pid, max(time_ns) AS time_ns, max(service) AS service, max(release) AS release, " +
      "max(program) AS program, max(\"end\") AS \"end\" FROM profiles " +
      `${conditions.length ? `WHERE ${conditions.join(" AND ")} ` : ""}GROUP BY host, pid, start_ns ` +
      "ORDER BY time_ns DESC, host, pid LIMIT 200"
    );
  }
  if (question === "moments") {
    return (
      "SELECT host, pid, time_ns, service, release, CAST(inuse_bytes AS DOUBLE) AS live_bytes, \"end\" FROM profiles " +
      `WHERE host = ${quoted(options.host)} AND pid = ${Number(options.pid)} ORDER BY time_ns DESC LIMIT 500`
    );
  }
  return undefined;
}

// What has to be given before a question can be asked.
function missing(question, options) {
  if (question === "history" && !options.site) return TEXT.noSite;
  if (question === "diff" && !(options.old && options.new)) return TEXT.noReleases;
  if (question === "moments" && !(options.host && options.pid)) return TEXT.noProcess;
  return question === "sql" && !options.sql ? TEXT.noSql : "";
}

function element(name, text = "", className = "") {
  const made = document.createElement(name);
  made.textContent = text;
  if (className) made.className = className;
  return made;
}

function linked(text, href) {
  const link = element("a", text);
  link.href = href;
  return link;
}

const address = (question, options) => `#${question}?${new URLSearchParams(Object.entries(options).filter(([, value]) => value))}`;

// Question and options of the address.
function current() {
  const [name, query = ""] = location.hash.slice(1).split(/\?(.*)/s);
  return { question: name in QUESTIONS ? name : "top", options: Object.fromEntries(new URLSearchParams(query)) };
}

// The profile of a row: the newest up to the second after its time, which a number cannot hold
// exactly.
function profileLink(row) {
  const query = new URLSearchParams({ host: row.host, pid: row.pid });
  if (row.time_ns) query.set("at", time((Math.floor(row.time_ns / 1e9) + 1) * 1e9));
  return linked(TEXT.open, `/v1/profile?${query}`);
}

const isAmount = (name, row) => typeof row[name] === "number" && !name.endsWith("time_ns");

function filledCell(name, row, options) {
  const made = element("td", cell(name, row[name]), isAmount(name, row) ? "number" : "text");
  made.title = made.textContent;
  const { service } = options;
  if (name === "site") made.replaceChildren(linked(row.site, address("history", { site: row.site, service: row.service ?? service })));
  if (name === "host") made.replaceChildren(linked(row.host, address("processes", { host: row.host, service })));
  return made;
}

function show(rows, question, options) {
  at("chart").replaceChildren(...(question === "history" && rows.length ? [chart(rows)] : []));
  const names = Object.keys(rows[0] ?? {});
  head.replaceChildren(
    ...names.map((name) => element("th", question === "sql" ? name : (COLUMNS[name] ?? name), isAmount(name, rows[0]) ? "number" : "")),
  );
  const lines = rows.map((row) => {
    const line = element("tr");
    line.append(...names.map((name) => filledCell(name, row, options)));
    if (names.includes("host") && names.includes("pid")) {
      const opens = element("td");
      opens.append(profileLink(row), " · ", linked(TEXT.moments, address("moments", { host: row.host, pid: row.pid })));
      line.append(opens);
    }
    return line;
  });
  body.replaceChildren(...lines);
}

function field(question, name, value) {
  const label = element("label", "", "choice");
  label.append(element("span", OPTIONS[name]));
  const input = element(name === "resolution" ? "select" : name === "sql" ? "textarea" : "input");
  input.name = name;
  if (name === "resolution") {
    for (const [key, text] of Object.entries(RESOLUTIONS)) input.append(new Option(text, key));
  }
  const hint = question === "top" && name === "since" ? "10m" : question === "history" && name === "limit" ? HISTORY_ROWS : HINTS[name];
  if (hint) input.placeholder = hint;
  if (LISTS[name]) input.setAttribute("list", LISTS[name]);
  if (value) input.value = value;
  label.append(input);
  return label;
}

// The newest two releases of a service, where none were given.
function withReleases(options) {
  const of = (service) => releases.filter((row) => row.service === service).map((row) => row.release);
  const service = options.service || releases.find((row) => of(row.service).length > 1)?.service;
  const [newest, older] = of(service);
  return older === undefined ? options : { ...options, service, old: options.old || older, new: options.new || newest };
}

function draw(question, options) {
  const tabs = Object.entries(QUESTIONS).filter(([name]) => name !== "moments" || name === question);
  at("questions").replaceChildren(
    ...tabs.map(([name, [title]]) => {
      const tab = linked(title, address(name, { service: options.service }));
      if (name === question) tab.ariaCurrent = "page";
      return tab;
    }),
  );
  at("about").textContent = QUESTIONS[question][1];
  at("options").replaceChildren(...FIELDS[question].map((name) => field(question, name, options[name])), element("button", TEXT.ask, "primary"));
  at("merged").href = `/v1/merged?${new URLSearchParams(options.service ? { service: options.service } : {})}`;
}

function tell(text, isTrouble = false) {
  at("state").className = isTrouble ? "trouble" : "";
  at("state").textContent = text;
}

const query = (sql) => fetch("/v1/query", { method: "POST", body: sql });

async function ask() {
  let { question, options } = current();
  if (question === "diff") options = withReleases(options);
  draw(question, options);
  at("sql-link").replaceChildren();
  show([], question, options);
  const lack = missing(question, options);
  tell(lack || TEXT.waiting);
  if (lack) return;
  const number = ++asked;
  const sql = listSql(question, options);
  const parameters = new URLSearchParams(question === "history" ? { limit: HISTORY_ROWS, ...options } : options);
  const answer = await (sql ? query(sql) : fetch(`/v1/ask/${question}?${parameters}`));
  const rows = answer.ok ? await answer.json() : [];
  const problem = answer.ok ? "" : await answer.text();
  // Another question was asked meanwhile.
  if (number !== asked) return;
  tell(problem || (rows.length ? "" : TEXT.noRows), problem !== "");
  show(rows, question, options);
  if (!sql) offerSql(question, parameters);
}

// A link to the SQL of a question, to be changed and asked.
function offerSql(question, parameters) {
  const link = linked(TEXT.showSql, "#sql");
  link.addEventListener("click", async (event) => {
    event.preventDefault();
    const answer = await fetch(`/v1/sql/${question}?${parameters}`);
    location.hash = address("sql", { sql: await answer.text() });
  });
  at("sql-link").replaceChildren(link);
}

// What is stored, and the services and releases to choose from.
async function summarize() {
  const counts = await query(
    "SELECT count(*) AS profiles, count(DISTINCT process_id) AS processes, count(DISTINCT host) AS hosts, " +
      "max(time_ns) AS newest_ns FROM profiles",
  );
  const [row] = counts.ok ? await counts.json() : [];
  if (row?.profiles) at("summary").textContent = TEXT.summary(row.profiles, row.processes, row.hosts, time(row.newest_ns));
  const found = await query(
    "SELECT service, release, min(time_ns) AS first_ns FROM profiles GROUP BY service, release ORDER BY first_ns DESC LIMIT 200",
  );
  releases = found.ok ? await found.json() : [];
  const fill = (id, values) => at(id).replaceChildren(...[...new Set(values)].map((value) => new Option("", value)));
  fill("services", releases.map((each) => each.service));
  fill("releases", releases.map((each) => each.release));
  return row?.profiles !== 0;
}

at("merged").textContent = TEXT.merged;
at("opened").textContent = TEXT.opened;
at("options").addEventListener("submit", (event) => {
  event.preventDefault();
  const next = address(current().question, Object.fromEntries(new FormData(at("options"))));
  // The same question again has the same address.
  if (next === location.hash) ask();
  else location.hash = next;
});
addEventListener("hashchange", ask);
if (await summarize()) {
  ask();
} else {
  draw(current().question, current().options);
  tell(TEXT.empty);
  at("state").append(element("code", `heapwise agent --fleet ${location.origin}`));
}
