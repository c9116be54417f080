// Pan by dragging, zoom by wheel or + and -, 0 shows all; pointing at a box lights its arrows.
(function () {
  "use strict";
  var svg = document.documentElement;
  if (svg.nodeName.toLowerCase() !== "svg") svg = document.currentScript.ownerSVGElement;
  var view = svg.viewBox.baseVal;
  var home = { x: view.x, y: view.y, width: view.width, height: view.height };
  var drag = null;

  function at(event) {
    var matrix = svg.getScreenCTM().inverse();
    return new DOMPoint(event.clientX, event.clientY).matrixTransform(matrix);
  }
  function show(x, y, width) {
    view.x = x;
    view.y = y;
    view.width = width;
    view.height = (width * home.height) / home.width;
  }
  function zoom(factor, centre) {
    var width = Math.min(Math.max(view.width * factor, home.width / 60), home.width * 4);
    factor = width / view.width;
    show(centre.x - (centre.x - view.x) * factor, centre.y - (centre.y - view.y) * factor, width);
  }
  function middle() {
    return { x: view.x + view.width / 2, y: view.y + view.height / 2 };
  }
  svg.addEventListener("wheel", function (event) {
    event.preventDefault();
    zoom(Math.pow(1.0015, event.deltaY), at(event));
  }, { passive: false });
  svg.addEventListener("pointerdown", function (event) {
    if (event.button === 0) drag = at(event);
  });
  svg.addEventListener("pointermove", function (event) {
    if (!drag) return;
    var here = at(event);
    show(view.x + drag.x - here.x, view.y + drag.y - here.y, view.width);
  });
  ["pointerup", "pointerleave"].forEach(function (name) {
    svg.addEventListener(name, function () { drag = null; });
  });
  svg.addEventListener("dblclick", function () { show(home.x, home.y, home.width); });
  window.addEventListener("keydown", function (event) {
    var step = view.width / 12;
    if (event.key === "+" || event.key === "=") zoom(0.8, middle());
    else if (event.key === "-") zoom(1.25, middle());
    else if (event.key === "0") show(home.x, home.y, home.width);
    else if (event.key === "ArrowLeft") show(view.x - step, view.y, view.width);
    else if (event.key === "ArrowRight") show(view.x + step, view.y, view.width);
    else if (event.key === "ArrowUp") show(view.x, view.y - step, view.width);
    else if (event.key === "ArrowDown") show(view.x, view.y + step, view.width);
    else return;
    event.preventDefault();
  });
  svg.querySelectorAll(".node").forEach(function (node) {
    var id = node.getAttribute("id");
    var near = svg.querySelectorAll('[data-from="' + id + '"],[data-to="' + id + '"]');
    node.addEventListener("pointerenter", function () {
      svg.classList.add("lit");
      near.forEach(function (edge) { edge.classList.add("near"); });
    });
    node.addEventListener("pointerleave", function () {
      svg.classList.remove("lit");
      near.forEach(function (edge) { edge.classList.remove("near"); });
    });
  });
})();
