// How a process stands or ended, and sizes and times, in words. Pure: the time is given.

/** `ok`, `live`, `bad` or `alarm`: how much it wants to be looked at. */
export function tone(status) {
  if (status.tree && !status.tree.confirmed) return "alarm";
  if (status.state === "running") return "live";
  if (status.ended_by === "helper_lost") return "alarm";
  return status.ended_by === "command" && status.exit_code === 0 ? "ok" : "bad";
}

/** `running`, `exited with 3`, `ended by terminate`, ... */
export function state(status) {
  if (status.state === "running") return status.phase ?? "running";
  const causes = {
    command: () => itself(status),
    timeout: () => "ended by its timeout",
    terminate: () => "ended by terminate",
    workspace: () => "ended by its workspace's end",
    stop: () => "ended by the Runner's stop",
    connection: () => "ended by the end of its session",
    limit: () => `ended by the limit ${status.limit ?? ""}`.trim(),
    helper_lost: () => "ended, and how was not seen: its sandbox helper was killed",
  };
  return (causes[status.ended_by] ?? (() => "ended, and how was not seen"))();
}

/** What was seen of its tree; `undefined` while it lives. */
export function tree(status) {
  if (status.state === "running") return undefined;
  if (!status.tree) return { words: "whether anything is left was not told", confirmed: false };
  const { confirmed, leftovers, detail } = status.tree;
  if (!confirmed) {
    return { words: `NOT CONFIRMED: it was not seen that nothing is left (${detail ?? "the time for it ran out"})`, confirmed };
  }
  if (leftovers === 0) return { words: "nothing left", confirmed };
  const were = leftovers === 1 ? "was" : "were";
  return { words: `nothing left: ${processes(leftovers)} that it left running ${were} ended`, confirmed };
}

/** Both in one. */
export function ended(status) {
  return [state(status), tree(status)?.words].filter(Boolean).join(", ");
}

/** The command's own end, where something else ended what it had left in the background; else `undefined`. */
export function ownEnd(status) {
  const other = status.ended_by !== undefined && status.ended_by !== "command";
  const has = status.exit_code !== undefined || status.signal !== undefined;
  return (other || status.state === "running") && has ? `the command itself ${itself(status)}` : undefined;
}

function itself(status) {
  if (status.signal) return `died of signal ${status.signal.name ?? status.signal.number}`;
  return status.exit_code === undefined ? "ended" : `exited with ${status.exit_code}`;
}

/** How long it ran, in milliseconds. The Runner's own count, where it tells one: clocks differ. */
export function took(status, now) {
  if (status.usage) return status.usage.wall_ms;
  return Math.max(0, (status.ended_at ? Date.parse(status.ended_at) : now) - Date.parse(status.started_at));
}

/** `976ms`, `1.5s`, `12s`, `2m 3s`, `1h 5m`, `2d 3h`. */
export function duration(ms) {
  const seconds = Math.floor(ms / 1000);
  const two = (big, unit, small, rest) => (small === 0 ? `${big}${unit}` : `${big}${unit} ${small}${rest}`);
  if (seconds === 0) return `${Math.floor(ms)}ms`;
  const tenths = Math.floor((ms % 1000) / 100);
  if (seconds < 10 && tenths > 0) return `${seconds}.${tenths}s`;
  if (seconds < 60) return `${seconds}s`;
  if (seconds < 3600) return two(Math.floor(seconds / 60), "m", seconds % 60, "s");
  if (seconds < 86400) return two(Math.floor(seconds / 3600), "h", Math.floor((seconds % 3600) / 60), "m");
  return two(Math.floor(seconds / 86400), "d", Math.floor((seconds % 86400) / 3600), "h");
}

/** `26 B`, `1.5 MiB`, `64 KiB`. */
export function bytes(count) {
  let [size, unit] = [count, 0];
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
  while (size >= 1023.5 && unit < units.length - 1) [size, unit] = [size / 1024, unit + 1];
  return `${size < 100 && unit > 0 ? Number(size.toFixed(1)) : Math.round(size)} ${units[unit]}`;
}

/** `1 process`, `3 processes`. */
export const processes = (count) => (count === 1 ? "1 process" : `${count} processes`);

/** What came of the end of several. */
export function endedAll(all) {
  const unseen = all.filter((status) => !status.tree?.confirmed).length;
  const words = `${processes(all.length)} ended`;
  if (all.length === 0) return "Nothing was running.";
  return unseen === 0 ? `${words}, nothing left.` : `${words}; of ${unseen} it was NOT CONFIRMED that nothing is left.`;
}
