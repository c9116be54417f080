// Sentences of the page in English and Chinese, as the browser prefers.
const isChinese = navigator.language.toLowerCase().startsWith("zh");
const pick = (english, chinese) => (isChinese ? chinese : english);

export const QUESTIONS = {
  top: [
    pick("Top", "占用排行"),
    pick("Functions that hold most memory now: the last profile of every process that runs.", "当前占用内存最多的函数：取每个运行中进程的最新剖面。"),
  ],
  growth: [
    pick("Growth", "增长"),
    pick(
      "Sites whose live memory grows on at least half of the hosts of a release, by slope × correlation.",
      "在某版本至少一半主机上持续增长的位置，按斜率 × 相关系数排序。",
    ),
  ],
  diff: [
    pick("Releases", "版本对比"),
    pick("Live memory by site, on average per host, of two releases.", "两个版本每台主机平均的活跃内存，按位置比较。"),
  ],
  outliers: [
    pick("Outliers", "异常主机"),
    pick(
      "Hosts that hold far more of a site than other hosts of the release; distance in robust standard deviations.",
      "某位置占用远多于同版本其他主机的主机；距离以稳健标准差计。",
    ),
  ],
  history: [pick("History", "历史"), pick("Live memory of one site over time, by release.", "一个位置的活跃内存随时间的变化，按版本区分。")],
  oom: [
    pick("OOM kills", "OOM 终止"),
    pick("Processes that the kernel killed because memory was short, and the largest sites they held.", "因内存不足被内核终止的进程，及其占用最多的位置。"),
  ],
  processes: [pick("Processes", "进程"), pick("Newest processes. Open one to see its profile.", "最新的进程。打开即可查看其剖面。")],
  moments: [pick("Profiles of a process", "进程的剖面"), pick("Every stored profile of one process, newest first.", "一个进程的所有已存剖面，最新在前。")],
  sql: [
    "SQL",
    pick(
      "SELECT over the tables functions, stacks, frames, profiles, samples, samples_hour and samples_day.",
      "对表 functions、stacks、frames、profiles、samples、samples_hour、samples_day 执行 SELECT。",
    ),
  ],
};

export const OPTIONS = {
  service: pick("service", "服务"),
  since: pick("time covered", "时间范围"),
  resolution: pick("resolution", "精度"),
  limit: pick("rows", "行数"),
  old: pick("old release", "旧版本"),
  new: pick("new release", "新版本"),
  site: pick("site", "位置"),
  host: pick("host", "主机"),
  pid: pick("process", "进程号"),
  sql: "SQL",
};

export const RESOLUTIONS = { minute: pick("as received", "原始"), hour: pick("hours", "小时"), day: pick("days", "天") };

export const COLUMNS = {
  function: pick("function", "函数"),
  site: pick("site", "位置"),
  self_bytes: pick("self", "自身"),
  self_objects: pick("blocks", "块数"),
  total_bytes: pick("with callees", "含被调用者"),
  score: pick("score", "评分"),
  bytes_per_hour: pick("per hour", "每小时"),
  correlation: pick("correlation", "相关系数"),
  growing_hosts: pick("growing hosts", "增长的主机"),
  hosts: pick("hosts", "主机数"),
  live_bytes: pick("live", "活跃"),
  live_objects: pick("live blocks", "活跃块数"),
  largest_process_bytes: pick("largest process", "最大的进程"),
  median_bytes: pick("median of hosts", "各主机中位数"),
  distance: pick("distance", "距离"),
  change_bytes: pick("change", "变化"),
  old_bytes: pick("old", "旧"),
  new_bytes: pick("new", "新"),
  site_bytes: pick("of the site", "该位置"),
  time_ns: pick("time", "时间"),
  service: pick("service", "服务"),
  release: pick("release", "版本"),
  host: pick("host", "主机"),
  pid: pick("process", "进程号"),
  program: pick("program", "程序"),
  end: pick("end", "结束方式"),
};

export const TEXT = {
  ask: pick("Ask", "查询"),
  open: pick("open", "打开"),
  moments: pick("all profiles", "所有剖面"),
  waiting: pick("Asking…", "查询中…"),
  noRows: pick("No rows: nothing matches in the time covered.", "没有结果：该时间范围内没有匹配项。"),
  noSite: pick("Choose a site in another question, or type its name.", "请在其他问题中选择一个位置，或输入其名称。"),
  noReleases: pick("Give two releases of a service.", "请给出一个服务的两个版本。"),
  noProcess: pick("Choose a process in Processes.", "请在“进程”中选择一个进程。"),
  noSql: pick("Type a query.", "请输入查询。"),
  empty: pick("No profile is stored yet. Send some from each host:", "尚无剖面。请在每台主机上发送："),
  merged: pick("All running processes as one profile", "所有运行中进程合并为一个剖面"),
  opened: pick("Opened profiles", "已打开的剖面"),
  showSql: pick("SQL of this question", "此问题的 SQL"),
  summary: (profiles, processes, hosts, newest) =>
    pick(
      `${profiles} profiles of ${processes} processes on ${hosts} hosts, newest ${newest}`,
      `${hosts} 台主机、${processes} 个进程的 ${profiles} 个剖面，最新 ${newest}`,
    ),
};
