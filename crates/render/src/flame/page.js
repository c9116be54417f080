// The flame graph page: draws one of two trees on a canvas and lets the reader move in it.
(function () {
  "use strict";
  var views = JSON.parse(document.getElementById("data").textContent);
  var ROW = 19, FONT = "11px 'DejaVu Sans', Verdana, sans-serif";
  var byId = function (id) { return document.getElementById(id); };
  var canvas = byId("flame"), pen = canvas.getContext("2d");
  var tree, zoom, selected, pattern, hits, view = 0;
  var dark = window.matchMedia("(prefers-color-scheme: dark)");

  // Left edges, parents and subtree ends of boxes in columns.
  function load(columns) {
    var source = columns.boxes, n = source.frame.length;
    var t = { columns: columns, source: source, n: n, start: new Float64Array(n), parent: new Int32Array(n), end: new Int32Array(n), levels: 0, width: 0 };
    var open = [];
    for (var i = 0; i < n; i++) {
      var depth = source.depth[i];
      while (open.length > depth) t.end[open.pop().at] = i;
      var above = open[depth - 1];
      t.parent[i] = above ? above.at : -1;
      t.start[i] = above ? above.next : t.width;
      if (above) above.next += source.width[i]; else t.width += source.width[i];
      open.push({ at: i, next: t.start[i] });
      t.levels = Math.max(t.levels, depth + 1);
    }
    while (open.length) t.end[open.pop().at] = n;
    return t;
  }

  // All calls of one function merged: the function at the root, its callees below it.
  function everywhere(frame) {
    var s = tree.source, fields = Object.keys(s).filter(function (name) { return name !== "frame" && name !== "depth"; });
    var make = function (of) { return { frame: of, values: fields.map(function () { return 0; }), children: new Map() }; };
    var add = function (to, i) { fields.forEach(function (name, at) { to.values[at] += s[name][i]; }); };
    var root = make(frame), width = fields.indexOf("width");
    for (var i = 0; i < tree.n;) {
      if (s.frame[i] !== frame) { i++; continue; }
      add(root, i);
      var path = [root], floor = s.depth[i];
      for (var j = i + 1; j < tree.end[i]; j++) {
        var into = path[s.depth[j] - floor - 1], child = into.children.get(s.frame[j]);
        if (!child) into.children.set(s.frame[j], child = make(s.frame[j]));
        add(child, j);
        path[s.depth[j] - floor] = child;
      }
      i = tree.end[i];
    }
    var boxes = { frame: [], depth: [] };
    fields.forEach(function (name) { boxes[name] = []; });
    for (var pending = [[root, 0]]; pending.length;) {
      var next = pending.pop(), node = next[0];
      boxes.frame.push(node.frame); boxes.depth.push(next[1]);
      fields.forEach(function (name, at) { boxes[name].push(node.values[at]); });
      Array.from(node.children.values()).sort(function (a, b) { return a.values[width] - b.values[width]; })
        .forEach(function (child) { pending.push([child, next[1] + 1]); });
    }
    return Object.assign({}, tree.columns, { boxes: boxes });
  }

  function amount(value) {
    if (tree.columns.unit === "objects") return String(value);
    // As `quantity::bytes` does.
    var units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"], at = 0;
    while (Math.abs(value) >= 1024 && at < units.length - 1) { value /= 1024; at++; }
    var size = Math.abs(value);
    return value.toFixed(at === 0 || size >= 100 ? 0 : size >= 10 ? 1 : 2) + " " + units[at];
  }
  function share(value) { return (value * 100 / (tree.width || 1)).toFixed(1) + "%"; }
  function name(i) { return tree.columns.frames.name[tree.source.frame[i]]; }
  function value(i) { return (tree.source.sum || tree.source.width)[i]; }
  function signed(value) { return (tree.source.base && value > 0 ? "+" : "") + amount(value); }
  function describe(i) {
    var s = tree.source, frames = tree.columns.frames, frame = s.frame[i], change = value(i);
    var what = s.base
      ? signed(change) + " (" + amount(s.base[i]) + " before, " + amount(s.base[i] + change) + " after)"
      : amount(change) + " (" + share(change) + "), own " + amount(s.own[i]);
    var place = frames.file[frame] && frames.line[frame] ? frames.file[frame] + ":" + frames.line[frame] : frames.file[frame];
    return [frames.name[frame], what, [place, frames.module[frame]].filter(Boolean).join("  ·  ")].filter(Boolean);
  }

  function bounds() {
    return zoom < 0 ? { from: 0, span: tree.width || 1 } : { from: tree.start[zoom], span: tree.source.width[zoom] || 1 };
  }
  function onPath(i) {
    for (var at = zoom; at >= 0; at = tree.parent[at]) if (at === i) return true;
    return false;
  }
  // Calls back with every box that is at least half a pixel wide; skips whole subtrees that are not.
  function visible(draw) {
    var b = bounds(), room = canvas.clientWidth, s = tree.source;
    for (var i = 0; i < tree.n;) {
      var above = zoom >= 0 && s.depth[i] < s.depth[zoom];
      var x = (tree.start[i] - b.from) / b.span * room, width = s.width[i] / b.span * room;
      if (above ? !onPath(i) : x + width <= 0 || x >= room || width < 0.5) { i = tree.end[i]; continue; }
      if (above) { x = 0; width = room; }
      draw(i, Math.max(x, 0), Math.min(width, room - Math.max(x, 0)), s.depth[i] * ROW, above);
      i++;
    }
  }
  var widths = new Map();
  function widthOf(text) {
    if (!widths.has(text)) widths.set(text, pen.measureText(text).width);
    return widths.get(text);
  }
  function paint() {
    var ratio = window.devicePixelRatio || 1, width = canvas.parentNode.clientWidth - 20, height = tree.levels * ROW + 4;
    canvas.style.width = width + "px";
    canvas.style.height = height + "px";
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(Math.min(height, 32000 / ratio) * ratio);
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.font = FONT;
    pen.textBaseline = "middle";
    var style = getComputedStyle(document.documentElement);
    var hit = style.getPropertyValue("--hit"), ink = style.getPropertyValue("--ink"), colorOf = boxColors(tree.columns, dark.matches);
    if (widths.size > 50000) widths.clear();
    visible(function (i, x, width, y, above) {
      pen.globalAlpha = above ? 0.5 : pattern && !hits[i] ? 0.55 : 1;
      pen.fillStyle = hits && hits[i] ? hit : colorOf(i);
      pen.fillRect(x, y, Math.max(width - 0.6, 0.4), ROW - 1);
      var text = width > 20 ? fitLabel(name(i), signed(value(i)), width - 7, widthOf) : "";
      pen.globalAlpha = 1;
      if (text) { pen.fillStyle = ink; pen.fillText(text, x + 4, y + ROW / 2); }
      if (i === selected) { pen.strokeStyle = ink; pen.lineWidth = 2; pen.strokeRect(x + 1, y + 1, Math.max(width - 2.6, 1), ROW - 3); }
    });
  }
  function boxAt(event) {
    var area = canvas.getBoundingClientRect(), px = event.clientX - area.left, py = event.clientY - area.top, found = -1;
    visible(function (i, x, width, y) {
      if (px >= x && px < x + width && py >= y && py < y + ROW) found = i;
    });
    return found;
  }

  function find() {
    pattern = null;
    hits = null;
    var text = byId("search").value;
    try { pattern = text ? new RegExp(text, "i") : null; } catch (_) { byId("matched").textContent = "not a regular expression"; return; }
    var sum = 0;
    if (pattern) {
      var known = tree.columns.frames.name.map(function (label) { return pattern.test(label); });
      hits = new Uint8Array(tree.n);
      for (var i = 0, until = 0; i < tree.n; i++) {
        if (!known[tree.source.frame[i]]) continue;
        hits[i] = 1;
        if (i >= until) { sum += tree.source.width[i]; until = tree.end[i]; }
      }
    }
    byId("matched").textContent = pattern ? share(sum) : "";
    paint();
  }
  function crumbs() {
    var path = byId("path");
    path.textContent = "";
    var link = function (text, go) {
      var a = document.createElement("a");
      a.textContent = text;
      a.addEventListener("click", go);
      path.append(a);
    };
    link("all", function () { setView(view); });
    if (tree.pivot) path.append("  ▸ every call of " + tree.pivot);
    var chain = [];
    for (var at = zoom; at >= 0; at = tree.parent[at]) chain.unshift(at);
    chain.forEach(function (at) {
      path.append("  ▸ ");
      link(name(at), function () { zoomTo(at); });
    });
  }
  function zoomTo(i) { zoom = i; if (i >= 0) select(i); crumbs(); paint(); }
  function select(i) { selected = i; byId("details").textContent = i < 0 ? "" : describe(i).slice(0, 2).join("   "); }
  function show(columns, pivot) {
    tree = load(columns);
    tree.pivot = pivot;
    zoom = -1;
    select(-1);
    crumbs();
    legend();
    find();
  }
  function setView(which) {
    view = which;
    byId("down").setAttribute("aria-pressed", which === 0);
    byId("up").setAttribute("aria-pressed", which === 1);
    show(views[which], "");
  }
  function legend() {
    var colors = dark.matches ? tree.columns.palette.dark : tree.columns.palette.light;
    byId("legend").replaceChildren();
    tree.columns.palette.legend.forEach(function (entry) {
      var swatch = document.createElement("i");
      swatch.style.background = colors[entry.color];
      byId("legend").append(swatch, entry.label);
    });
  }

  function sibling(i, step) {
    var s = tree.source, up = tree.parent[i], best = -1;
    var first = up < 0 ? 0 : up + 1, last = up < 0 ? tree.n : tree.end[up];
    for (var at = first, before = -1; at < last; before = at, at = tree.end[at]) {
      if (step < 0 && at === i) best = before;
      if (step > 0 && before === i) best = at;
    }
    return best >= 0 && s.depth[best] === s.depth[i] ? best : i;
  }
  function move(key) {
    if (selected < 0) return tree.n ? 0 : -1;
    if (key === "ArrowUp") return tree.parent[selected] >= 0 ? tree.parent[selected] : selected;
    if (key === "ArrowDown") return tree.end[selected] > selected + 1 ? selected + 1 : selected;
    return sibling(selected, key === "ArrowLeft" ? -1 : 1);
  }

  canvas.addEventListener("click", function (event) {
    var i = boxAt(event);
    if (i >= 0) zoomTo(tree.source.width[i] >= tree.width ? -1 : i);
    canvas.focus();
  });
  canvas.addEventListener("mousemove", function (event) {
    var tip = byId("tip"), i = boxAt(event);
    tip.hidden = i < 0;
    if (i < 0) return;
    tip.textContent = describe(i).join("\n");
    tip.style.left = Math.min(event.clientX + 14, window.innerWidth - tip.offsetWidth - 8) + "px";
    tip.style.top = Math.min(event.clientY + 16, window.innerHeight - tip.offsetHeight - 8) + "px";
  });
  canvas.addEventListener("mouseleave", function () { byId("tip").hidden = true; });
  byId("down").addEventListener("click", function () { setView(0); });
  byId("up").addEventListener("click", function () { setView(1); });
  dark.addEventListener("change", function () { legend(); paint(); });
  byId("search").addEventListener("input", find);
  window.addEventListener("resize", paint);
  window.addEventListener("keydown", function (event) {
    if (event.target === byId("search")) {
      if (event.key === "Escape") { event.target.value = ""; find(); canvas.focus(); }
      return;
    }
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    var key = event.key;
    if (key === "/") byId("search").focus();
    else if (key === "i") setView(1 - view);
    else if (key === "0" || key === "Escape") setView(view);
    else if (key === "Backspace") zoomTo(zoom < 0 ? -1 : tree.parent[zoom]);
    else if (key === "Enter" && selected >= 0) zoomTo(selected);
    else if (key === "s" && selected >= 0) show(everywhere(tree.source.frame[selected]), name(selected));
    else if (key.indexOf("Arrow") === 0) { select(move(key)); paint(); }
    else return;
    event.preventDefault();
  });
  setView(0);
})();
