// Stop pi inside itself when the run's turns or tokens are used up. A stop from outside (RPC abort) comes too
// late by one paid request. Limits: PI_MAX_TURNS, PI_MAX_TOKENS. Plain .mjs: nothing to transpile.

const COUNTED = new Set(["stop", "toolUse", "length"]);

function limit(name) {
  const value = Number(process.env[name] ?? "");
  return Number.isSafeInteger(value) && value > 0 ? value : Infinity;
}

export default function (pi) {
  const maxTurns = limit("PI_MAX_TURNS");
  const maxTokens = limit("PI_MAX_TOKENS");
  let turns = 0;
  let tokens = 0;
  let reason = null;

  function reached() {
    if (turns >= maxTurns) return "max_turns";
    return tokens >= maxTokens ? "max_tokens" : null;
  }

  function stop(ctx) {
    if (reason === null) {
      reason = reached();
      pi.appendEntry("pidispatch.limit", { reason, turns, tokens });
    }
    ctx.abort();
  }

  pi.on("message_end", (event) => {
    const message = event.message;
    if (message?.role !== "assistant") return;
    tokens += message.usage?.totalTokens ?? 0;
    if (COUNTED.has(message.stopReason)) turns += 1;
  });

  pi.on("session_compact", (event) => {
    tokens += event.compactionEntry?.usage?.totalTokens ?? 0;
  });

  // A turn without tool calls ends the run by itself: the last allowed turn may finish the task.
  pi.on("turn_end", (event, ctx) => {
    if ((event.toolResults?.length ?? 0) > 0 && reached() !== null) stop(ctx);
  });

  // A queued message or a compaction opens a turn that turn_end did not announce; each has a fresh signal.
  pi.on("turn_start", (_event, ctx) => {
    if (reached() !== null) stop(ctx);
  });
}
