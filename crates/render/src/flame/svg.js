// Click a box to zoom, the root or "show all" to go back; / searches; Esc clears.
(function () {
  "use strict";
  var svg = document.currentScript.ownerSVGElement;
  var side = +svg.dataset.side, room = svg.viewBox.baseVal.width - 2 * side;
  var total = +svg.dataset.total;
  var reset = svg.querySelector("#reset"), details = svg.querySelector("#details");
  var matched = svg.querySelector("#matched");
  var boxes = Array.prototype.map.call(svg.querySelectorAll(".f"), function (g) {
    return {
      g: g, rect: g.querySelector("rect"), text: g.querySelector("text"),
      title: g.querySelector("title").textContent, name: g.dataset.n, amount: g.dataset.a,
      start: +g.dataset.s, width: +g.dataset.w, depth: +g.dataset.d,
    };
  });
  var pen = document.createElementNS("http://www.w3.org/1999/xhtml", "canvas").getContext("2d");
  pen.font = svg.getAttribute("font-size") + "px " + svg.getAttribute("font-family");
  function widthOf(text) { return pen.measureText(text).width; }

  var head = +svg.dataset.head, row = +svg.dataset.row, foot = +svg.dataset.foot;
  // As high as the levels with a box that can be seen.
  function resize(levels) {
    var height = head + levels * row + foot;
    svg.setAttribute("height", height);
    svg.viewBox.baseVal.height = height;
    details.setAttribute("y", height - 10);
    matched.setAttribute("y", height - 10);
  }

  function zoom(target) {
    var levels = 1;
    var from = target ? target.start : 0, span = target ? target.width : total;
    reset.setAttribute("visibility", target ? "visible" : "hidden");
    boxes.forEach(function (b) {
      var above = target && b.depth < target.depth &&
        b.start <= from + 0.5 && b.start + b.width >= from + span - 0.5;
      var inside = b.start >= from - 0.5 && b.start + b.width <= from + span + 0.5 &&
        (!target || b.depth >= target.depth);
      b.g.style.display = above || inside ? "" : "none";
      if (!above && !inside) return;
      var x = above ? side : side + (b.start - from) / span * room;
      var width = above ? room : b.width / span * room;
      if (width >= 4) levels = Math.max(levels, b.depth + 1);
      b.g.classList.toggle("dim", !!above);
      b.rect.setAttribute("x", x);
      b.rect.setAttribute("width", Math.max(width - 0.4, 0.2));
      b.text.setAttribute("x", x + 3);
      b.text.textContent = fitLabel(b.name, b.amount, width - 6, widthOf);
    });
    boxes.forEach(function (b) { if (b.depth >= levels) b.g.style.display = "none"; });
    resize(levels);
  }
  function search(text) {
    var pattern = null;
    try { pattern = text ? new RegExp(text, "i") : null; } catch (_) { return; }
    var sum = 0, end = -1;
    boxes.forEach(function (b) {
      var hit = !!pattern && pattern.test(b.name);
      b.g.classList.toggle("hit", hit);
      // Depth first order: a hit inside an earlier one is already counted.
      if (hit && b.start >= end - 0.5) { sum += b.width; end = b.start + b.width; }
    });
    matched.textContent = pattern ? "matched " + (sum * 100 / total).toFixed(1) + "%" : "\u00a0";
  }
  function ask() { search(window.prompt("Search for (regular expression):") || ""); }

  boxes.forEach(function (b) {
    b.g.addEventListener("click", function () { zoom(b.width >= total - 0.5 ? null : b); });
    b.g.addEventListener("mouseenter", function () { details.textContent = b.title; });
    b.g.addEventListener("mouseleave", function () { details.textContent = "\u00a0"; });
  });
  reset.addEventListener("click", function () { zoom(null); });
  // Tools show where a script runs: a PNG or an <img> has none of them.
  var tool = svg.querySelector("#search");
  tool.setAttribute("visibility", "visible");
  tool.addEventListener("click", ask);
  window.addEventListener("keydown", function (event) {
    if (event.key === "/" || (event.ctrlKey && event.key === "f")) { event.preventDefault(); ask(); }
    else if (event.key === "Escape") { search(""); zoom(null); }
  });
})();
