// The page of whoever watches an agent. Looks at the server again and again while somebody can see it, follows the output
// of the chosen process, and ends what it is told to end.
//
// What the server said last is kept in `seen`; everything shown is made from it by `render`.

import { Client } from "./mcp.mjs";
import { confirmed, prepare } from "./confirm.mjs";
import { Details } from "./details.mjs";
import { byId, say } from "./dom.mjs";
import { Follower } from "./follow.mjs";
import { listen } from "./keys.mjs";
import { List } from "./list.mjs";
import { Output } from "./output.mjs";
import { fromAddress, wrong } from "./token.mjs";
import { found, lost, notice } from "./trouble.mjs";
import { commandLine, visible } from "./visible.mjs";
import { ended, endedAll, processes as counted } from "./words.mjs";

const LOOK_EVERY_MS = 1000;
const LONGEST_WAIT_MS = 15_000;
/** Looks until the workspaces are asked for again. */
const LOOKS_OF_WORKSPACES = 30;

const client = new Client();
const output = new Output();
const list = new List({ choose, endWorkspace });
const details = new Details({ end: endChosen });

/** What the server said last; `looks` since it was reached, `ends` that it has answered. */
const seen = { workspaces: {}, processes: [], looks: 0, ends: 0 };
/** Whose output is shown, by its id, and what reads it. */
let chosen;
let follower;
/** Processes whose end was asked for. */
const ending = new Set();

/** The loop that looks: the latest one that was begun. */
let round = 0;
let wake = () => {};

async function watch() {
  round += 1;
  const mine = round;
  let failures = 0;
  seen.looks = 0;
  byId("token-form").hidden = true;
  connection("connecting");
  while (mine === round) {
    await untilVisible();
    try {
      await look();
      if (mine !== round) return;
      failures = 0;
      found();
      connection("watching");
      byId("watch").hidden = false;
      follow();
      await pause(LOOK_EVERY_MS);
    } catch (trouble) {
      if (mine !== round) return;
      if (trouble.kind === "token") return askForToken(trouble);
      follower?.stop();
      seen.looks = 0;
      const wait = Math.min(LOOK_EVERY_MS * 2 ** failures, LONGEST_WAIT_MS);
      failures += 1;
      lost(trouble, Math.round(wait / 1000));
      connection("not connected");
      await pause(wait);
    }
  }
}

async function look() {
  const ends = seen.ends;
  const [info, { processes }] = await Promise.all([
    seen.looks % LOOKS_OF_WORKSPACES === 0 ? client.call("workspace_info", {}) : undefined,
    client.call("list_processes", {}),
  ]);
  if (info) seen.workspaces = info.workspaces;
  // Older than what an end was answered with.
  if (ends !== seen.ends) return;
  const first = seen.looks === 0;
  const before = new Map(seen.processes.map((status) => [status.process_id, status.state]));
  seen.processes = processes;
  seen.looks += 1;
  if (!first) processes.filter((status) => status.state === "exited" && before.get(status.process_id) !== "exited").forEach(tell);
  render();
}

function render() {
  const now = Date.now();
  list.show(seen.workspaces, seen.processes, now);
  list.mark(chosen);
  const live = seen.processes.filter((status) => status.state === "running").length;
  byId("end-all").disabled = live === 0;
  document.title = live > 0 ? `${live} running – CodeSpace Runner` : "CodeSpace Runner";
  const status = seen.processes.find((one) => one.process_id === chosen);
  if (status) details.show(status, { ending: ending.has(chosen), unobeyed: follower?.unobeyed ?? 0, now });
  else if (chosen === undefined) details.hide();
}

/** Whoever cannot see the page hears of an end. */
function tell(status) {
  say(byId("told"), `${visible(commandLine(status.command)).slice(0, 120)}: ${ended(status)}`);
  if (status.tree && !status.tree.confirmed) notice(`${visible(commandLine(status.command)).slice(0, 120)}: ${ended(status)}.`);
}

function choose(id) {
  if (id === chosen) return;
  follower?.stop();
  chosen = id;
  output.clear();
  const status = seen.processes.find((one) => one.process_id === id);
  follower = new Follower(client, output, id, status?.output_total ?? 0);
  render();
  follow();
}

/** Goes on reading the chosen one's output, where that has been interrupted. */
async function follow() {
  const mine = follower;
  try {
    await mine?.start();
  } catch (trouble) {
    if (mine !== follower) return;
    if (trouble.kind === "token") return askForToken(trouble);
    if (trouble.code === "PROCESS_NOT_FOUND") {
      mine.ended = true;
      output.note("the server no longer keeps this process");
    } else if (trouble.kind === "gone") {
      wake();
    } else {
      notice(trouble.message, trouble.remedy);
    }
    // The next look that succeeds goes on with it.
  }
}

async function endChosen() {
  const id = chosen;
  if (id === undefined || ending.has(id)) return;
  ending.add(id);
  render();
  await end(async () => take([await client.call("terminate_process", { process_id: id })]));
  ending.delete(id);
  render();
}

async function endWorkspace(id) {
  const live = seen.processes.filter((status) => status.state === "running" && status.workspace_id === id).length;
  if (live === 0) return;
  if (!(await isMeant(`Stop everything in the workspace ${id}?`, live))) return;
  await end(async () => {
    const { processes } = await client.call("terminate_workspace", { workspace_id: id });
    take(processes);
    notice(`${id}: ${endedAll(processes)}`);
  });
}

async function endAll() {
  const running = seen.processes.filter((status) => status.state === "running");
  if (running.length === 0) return;
  if (!(await isMeant("Stop everything in every workspace?", running.length))) return;
  const ids = [...new Set([...Object.keys(seen.workspaces), ...running.map((status) => status.workspace_id)])];
  const endOne = async (id) => (await client.call("terminate_workspace", { workspace_id: id })).processes;
  const answers = await Promise.all(ids.map((id) => end(() => endOne(id))));
  const processes = answers.flatMap((answer) => answer ?? []);
  take(processes);
  if (answers.every(Boolean)) notice(endedAll(processes));
}

/** Asks before so many live ones are ended. */
function isMeant(question, live) {
  const what = live === 1 ? "ends now, with everything that it started" : "end now, with everything that they started";
  const after = "Whoever started them can start others afterwards.";
  return confirmed(question, `${counted(live)} ${what}. ${after}`, `Stop ${counted(live)}`);
}

/** What goes wrong with an end is told, and nothing comes back. */
async function end(act) {
  try {
    return await act();
  } catch (trouble) {
    if (trouble.kind === "token") askForToken(trouble);
    else notice(`Not stopped: ${trouble.message}`, trouble.remedy);
    return undefined;
  }
}

/** An answer is newer than the last look. */
function take(answers) {
  seen.ends += 1;
  const newer = new Map(answers.map((status) => [status.process_id, status]));
  for (const status of seen.processes) {
    const answer = newer.get(status.process_id);
    if (answer && status.state === "running") tell(answer);
  }
  seen.processes = seen.processes.map((status) => newer.get(status.process_id) ?? status);
  render();
}

/** The server has refused what it was shown. */
function askForToken(trouble) {
  showTokenForm(client.token === "" ? trouble.remedy : `${trouble.message} ${trouble.remedy}`, client.token !== "");
}

function showTokenForm(why, isWrong) {
  round += 1;
  client.token = "";
  follower?.stop();
  found();
  byId("watch").hidden = true;
  byId("token-form").hidden = false;
  byId("token-form").classList.toggle("wrong", isWrong);
  byId("end-all").disabled = true;
  connection("waiting for the token");
  say(byId("token-why"), why);
  byId("token").value = "";
  byId("token").focus();
}

function useToken(token) {
  const why = wrong(token);
  if (why !== undefined) {
    showTokenForm(why, true);
    return;
  }
  client.token = token;
  byId("token").value = "";
  watch();
}

/** How it stands with the server, in a word and in how all of it looks. */
function connection(words) {
  say(byId("connection"), words);
  document.body.classList.toggle("watching", words === "watching");
  document.body.classList.toggle("stale", words === "not connected");
}

const visibleNow = () => document.visibilityState === "visible";

async function untilVisible() {
  while (!visibleNow()) await new Promise((resolve) => document.addEventListener("visibilitychange", resolve, { once: true }));
}

/** So long, or until somebody wakes the loop. */
async function pause(ms) {
  await new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    wake = () => {
      clearTimeout(timer);
      resolve();
    };
  });
}

function start() {
  prepare();
  byId("token-form").addEventListener("submit", (event) => {
    event.preventDefault();
    useToken(byId("token").value.trim());
  });
  byId("try-now").addEventListener("click", () => wake());
  byId("end-all").addEventListener("click", endAll);
  const help = () => byId("help").showModal();
  byId("show-help").addEventListener("click", help);
  document.addEventListener("visibilitychange", () => (visibleNow() ? wake() : follower?.stop()));
  addEventListener("hashchange", () => {
    const token = fromAddress();
    if (token !== undefined) useToken(token);
  });
  listen({
    "?": help,
    l: () => list.focus(),
    o: () => byId("output").focus(),
    f: () => byId("follow").click(),
    s: () => details.focusEnd(),
    w: () => {
      const status = seen.processes.find((one) => one.process_id === chosen);
      if (status) endWorkspace(status.workspace_id);
    },
    A: endAll,
  });
  const token = fromAddress();
  // Without a token it is tried without: the server may ask for none.
  if (token === undefined) watch();
  else useToken(token);
}

start();
