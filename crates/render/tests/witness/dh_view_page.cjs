// Runs Valgrind's dh_view.js without a browser: `node dh_view_page.cjs dh_view.js FILE` prints the
// text of the page it makes of a DHAT file.
"use strict";
const fs = require("fs");
const vm = require("vm");

class Element {
  constructor(tag) {
    this.tag = tag;
    this.childNodes = [];
    this.className = "";
    this.text = "";
    this.classList = { add() {}, remove() {}, contains: () => false, toggle() {} };
  }
  appendChild(child) {
    this.childNodes.push(child);
    child.parentNode = this;
    return child;
  }
  removeChild(child) {
    this.childNodes = this.childNodes.filter((other) => other !== child);
  }
  replaceChild(child, old) {
    this.childNodes = this.childNodes.map((other) => (other === old ? child : other));
    child.parentNode = this;
  }
  cloneNode() {
    return new Element(this.tag);
  }
  get lastChild() {
    return this.childNodes[this.childNodes.length - 1];
  }
  get firstChild() {
    return this.childNodes[0];
  }
  get selectedIndex() {
    return Math.max(0, this.childNodes.findIndex((option) => option.selected));
  }
  set textContent(text) {
    this.text = text;
  }
  get textContent() {
    return this.text + this.childNodes.map((child) => child.textContent).join("");
  }
}

const document = {
  title: "",
  body: new Element("body"),
  location: { search: "" },
  createElement: (tag) => new Element(tag),
  createTextNode: (text) => Object.assign(new Element("#text"), { text }),
};
const [viewer, file] = process.argv.slice(2);
const context = { document, performance, console, Intl, URLSearchParams, input: fs.readFileSync(file, "utf8") };
const script = fs.readFileSync(viewer, "utf8");
vm.runInNewContext(
  `${script}
  onLoad();
  gFilename = "profile";
  gData = JSON.parse(input);
  buildTree();
  displayTree(0, 0, 0);`,
  context,
);
console.log(document.body.textContent);
