// One line that says how a run is doing.

import {count} from "./dom.js";

export function showRun(node, run) {
  const numbers = run.step === undefined ? [] : [`step ${count(run.step)}`, `version ${run.version}`,
    `${count(run.games)} games`, `${Math.round(run.seconds / 60)} of ${Math.round(run.minutes)} minutes`];
  const facts = run.is_running ? [run.activity, ...numbers, run.limit && `limit: ${run.limit}`, ...(run.troubles ?? [])]
    : [run.note];
  const text = facts.filter(Boolean).join(" · ");
  if (node.textContent !== text) node.textContent = text;
  node.classList.toggle("live", run.is_running);
}
