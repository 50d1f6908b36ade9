// live.js - asks every second while the page is seen, and draws what came.
"use strict";

const EVERY_MS = 1000, PATIENCE_MS = 5000, VERDICT_EVERY = 5;
const WANTED = ["info", "timeline", "slack", "copies", "registrations", "peers", "coll", "latency"];
const token = new URLSearchParams(location.search).get("token");
const now = {};
let there = null, rounds = 0, timer = 0, asking = false;

function address(path) {
  const url = new URL(path, location.href);
  url.search = "";
  if (token !== null) url.searchParams.set("token", token);
  return url;
}

async function ask(path) {
  const stop = new AbortController();
  const late = setTimeout(() => stop.abort(), PATIENCE_MS);
  try {
    const reply = await fetch(address(path), { signal: stop.signal, cache: "no-store", credentials: "omit" });
    if (!reply.ok) throw new Error(path + ": status " + reply.status);
    return await reply.json();
  } finally {
    clearTimeout(late);
  }
}

function show(id, ...nodes) {
  document.getElementById(id).replaceChildren(...nodes.flat().filter(node => node));
}

function tell(text, bad) {
  const state = document.getElementById("state");
  state.textContent = text;
  state.className = bad ? "state bad" : "state";
}

function draw() {
  const t = now.timeline, info = now.info || {}, rank = t && t.ranks[0] ? t.ranks[0] : {};
  const name = "Towline" + (info.job ? " \u00b7 " + info.job : "");
  document.getElementById("title").textContent = document.title = name;
  document.getElementById("about").textContent = [rank.rank >= 0 ? "rank " + rank.rank : null,
    rank.host ? "on " + rank.host : null, info.pid ? "process " + info.pid : null,
    info.uptime_ns ? "up " + words(info.uptime_ns, "ns") : null].filter(part => part).join(" \u00b7 ");
  show("verdict", verdict(now.verdict));
  show("latency", latencyTable(now.latency));
  show("reasons", reasonsTable(now.copies, now.registrations));
  show("peers", peersTable(now.peers));
  show("groups", groupsTable(now.coll));
  show("slack", now.slack ? slackTable(now.slack) : null);
  if (!t) return;
  show("tiles", tiles(t));
  show("findings", findings(t));
  show("times", times(t));
  show("steps", stepsAndSizes(t));
  show("pairs", pairsTable(t));
  show("records", recordsTable(t));
}

async function once() {
  if (there === null) there = new Set((await ask("v1")).paths.map(row => row.path));
  const names = WANTED.filter(name => there.has("/v1/" + name));
  if (rounds % VERDICT_EVERY === 0 && there.has("/v1/verdict")) names.push("verdict");
  rounds++;
  // One after the other: the page is one client of few, and the job has better things to do.
  for (const name of names) now[name] = await ask("v1/" + name);
  draw();
}

async function round() {
  timer = 0;
  if (asking || document.hidden) return;
  asking = true;
  try {
    await once();
    tell("live, every second", false);
  } catch (error) {
    there = null;
    tell("no answer: " + (error.name === "AbortError" ? "not within 5 s" : error.message), true);
  }
  asking = false;
  if (!document.hidden) timer = setTimeout(round, EVERY_MS);
}

document.getElementById("index").href = address("v1");
document.addEventListener("visibilitychange", () => {
  if (document.hidden) {
    clearTimeout(timer);
    tell("paused while hidden", false);
  } else {
    clearTimeout(timer);
    round();
  }
});
round();
