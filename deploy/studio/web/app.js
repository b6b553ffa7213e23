// The shell: four tabs, the message line, and the link to the studio.

import {Link} from "./link.js";
import {LearnPage} from "./learn.js";
import {PlayPage} from "./play.js";
import {SeePage} from "./see.js";
import {WatchPage} from "./watch.js";

const MESSAGE_MS = 8000;
const NAMES = ["play", "see", "watch", "learn"];

const link = new Link();
const message = document.getElementById("message");
const tabs = Object.fromEntries(NAMES.map((name) => [name, document.getElementById(`tab-${name}`)]));
const panels = Object.fromEntries(NAMES.map((name) => [name, document.getElementById(`page-${name}`)]));
const pages = {
  play: new PlayPage(panels.play, link), see: new SeePage(panels.see, link),
  watch: new WatchPage(panels.watch, link), learn: new LearnPage(panels.learn, link),
};
let shown = "";
let hello = null;
let timer = 0;

function say(text, stays = false) {
  message.textContent = text;
  message.hidden = !text;
  clearTimeout(timer);
  if (text && !stays) timer = setTimeout(() => say(""), MESSAGE_MS);
}

function show(name) {
  if (!NAMES.includes(name) || tabs[name].disabled) name = NAMES.find((other) => !tabs[other].disabled) ?? "play";
  if (shown === name) return;
  if (shown) pages[shown].hide?.();
  shown = name;
  for (const other of NAMES) {
    const isShown = other === name;
    tabs[other].setAttribute("aria-selected", isShown);
    tabs[other].tabIndex = isShown ? 0 : -1;
    panels[other].hidden = !isShown;
  }
  history.replaceState(null, "", `#${name}`);
  pages[name].show?.();
}

for (const name of NAMES) {
  tabs[name].addEventListener("click", () => show(name));
  tabs[name].addEventListener("keydown", (event) => {
    const step = {ArrowRight: 1, ArrowLeft: -1}[event.key];
    if (!step) return;
    const open = NAMES.filter((other) => !tabs[other].disabled);
    const next = open[(open.indexOf(name) + step + open.length) % open.length];
    tabs[next].focus();
    show(next);
    event.preventDefault();
  });
}
addEventListener("keydown", (event) => !event.defaultPrevented && pages[shown]?.key?.(event));
addEventListener("hashchange", () => show(location.hash.slice(1)));

link.on("hello", (content) => {
  hello = content;
  document.getElementById("title").textContent = content.title;
  document.title = `${content.title} – Shusaku studio`;
  for (const name of ["play", "see"]) tabs[name].disabled = !content.has_weights;
  for (const name of ["watch", "learn"]) tabs[name].disabled = !content.has_run;
  for (const page of Object.values(pages)) page.begin?.(content);
  say("");
  const again = shown;
  shown = "";
  show(again || location.hash.slice(1));
});
link.on("error", (content) => say(content.text));
link.on("close", () => say("The studio does not answer; trying again …", true));
link.on("open", () => say(""));
link.connect();
