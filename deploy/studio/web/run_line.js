// One line that says how a run is doing.

import {count} from "./dom.js";

export function showRun(node, run) {
  const facts = run.is_running ? [run.activity, `step ${count(run.step)}`, `version ${run.version}`, `${count(run.games)} games`,
    `${Math.round(run.seconds / 60)} of ${Math.round(run.minutes)} minutes`, run.limit && `limit: ${run.limit}`, ...(run.troubles ?? [])] : ["The run does not go on now; what it left is shown."];
  const text = facts.filter(Boolean).join(" · ");
  if (node.textContent !== text) node.textContent = text;
  node.classList.toggle("live", run.is_running);
}
