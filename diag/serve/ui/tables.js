// tables.js - what was found, and the tables, each sorted by what it costs.
"use strict";

const L = "l", N = "";

function tiles(t) {
  const rank = t.ranks[0] || {};
  const link = t.links.find(row => row.path === "network") || t.links[0];
  const tile = (what, value) => el("div", { class: "tile" }, el("span", {}, what), el("b", {}, value));
  return [
    tile("Mean step", rank.steps ? words(rank.step_ns / rank.steps, "ns") : "\u2013"),
    tile("of it waiting for the network", rank.steps ? percent(rank.exposed_ns, rank.step_ns) : "\u2013"),
    tile(link && link.path === "host" ? "Sent, within the host" : "Sent, network",
      words(link ? link.sent_bytes * 8e9 / t.end_ns : 0, "bps")),
    tile("Transfers", count(t.transfers.count)),
    tile("Fallback copies", count(rank.copies || 0)),
    tile("Late registrations", count(rank.late_registrations || 0)),
  ];
}

function findings(t) {
  if (t.findings.length === 0)
    return section("What was found", null, el("p", { class: "fine" }, "Nothing that costs 1 % of the time or more."));
  return section("What was found", null, el("ol", { class: "findings" }, t.findings.map(row => el("li", {},
    el("div", { class: "cost" }, row.cost_ns > 0 ? words(row.cost_ns, "ns") : "",
      el("small", {}, row.cost_ns > 0 ? percent(row.cost_ns, t.end_ns) + " of the time" : "note")),
    el("div", {}, el("div", { class: "what" }, row.what), el("div", { class: "cause" }, row.cause),
      el("div", { class: "cure" }, row.cure))))));
}

function verdict(v) {
  if (!v || !Array.isArray(v.findings) || v.findings.length === 0) return null;
  const note = v.ranks_answered !== undefined ? v.ranks_answered + " of " + v.ranks_in_job + " ranks answered." : null;
  return section("Verdict: " + (v.state || ""), note, el("ol", { class: "findings" }, v.findings.map(row => el("li", {},
    el("div", { class: "cost" }, row.confidence !== undefined ? Math.round(row.confidence * 100) + " %" : "",
      el("small", {}, "certain")),
    el("div", {}, el("div", { class: "what" }, (row.says || row.cause || "") +
      (Array.isArray(row.ranks) && row.ranks.length ? ": rank " + row.ranks.join(", ") : "")),
      el("div", { class: "cause" }, Array.isArray(row.evidence) ? row.evidence.join("; ") : ""),
      row.cure ? el("div", { class: "cure" }, row.cure) : null)))));
}

function stepsAndSizes(t) {
  const pair = [];
  if (t.steps.length > 0)
    pair.push(section("Where the time of steps went", "Hidden: something was under way while the step's thread went on. " +
      "Exposed: it waited.", stepsChart(t)));
  if (t.transfers.count > 0)
    pair.push(section("Transfers by size", "How many, in powers of two; colours as in the chart of latencies.", sizesChart(t)));
  if (pair.length === 0) return null;
  return pair.length === 1 ? pair[0] : el("div", { class: "pair" }, pair);
}

const rate = bps => bps === null ? ["hot", "no slack"] : words(bps, "bps");
const collective = row => row.kind + (row.name ? " \u201c" + row.name + "\u201d" : "");

function slackTable(slack) {
  if (slack.groups.length === 0) return null;
  const ns = value => words(value, "ns");
  return section("Collectives: slack and stall", "Slack is the time the program left a collective to hide in, stall the time it " +
    "kept the program waiting. Required is the bandwidth that would have hidden it.",
  table([["Collective", L], ["Group", N], ["Ranks", N], ["Size", N], ["Count", N], ["Stall, all", N], ["mean", N], ["p50", N],
    ["p99", N], ["Slack, mean", N], ["p50", N], ["p99", N], ["Observed, mean", N], ["Required", N]],
  slack.groups.slice(0, 24).map(row => [["key", collective(row)], ["dim", String(row.group)], String(row.ranks),
    words(row.bytes, "bytes"), count(row.occurrences), ["key", ns(row.stall_total_ns)], ns(row.stall_ns.mean),
    ["dim", ns(row.stall_ns.p50)], ["dim", ns(row.stall_ns.p99)], ns(row.slack_ns.mean), ["dim", ns(row.slack_ns.p50)],
    ["dim", ns(row.slack_ns.p99)], ns(row.observed_ns.mean),
    row.network_bytes === null ? "\u2013" : rate(row.required_bits_per_second)])));
}

function latencyTable(latency) {
  const kinds = [["rpcs", "messages"], ["calls", "calls"], ["colls", "of collectives"]];
  const rows = kinds.flatMap(([key, name]) =>
    latency && Array.isArray(latency[key]) ? latency[key].slice(0, 40).map(row => [name, row]) : []);
  if (rows.length === 0) return null;
  const ns = value => words(value, "ns");
  return section("Latency since the start", "Of messages, calls and the messages of collectives, by lane and size.",
    table([["Of", L], ["Lane", L], ["Size", L], ["Count", N], ["p50", N], ["p90", N], ["p99", N], ["p99.9", N], ["Max", N], ["Mean", N]],
      rows.map(([name, row]) => [["key", name], ["key", row.lane], sizeWords(row), count(row.count), ns(row.p50), ns(row.p90),
        ns(row.p99), ns(row.p999), ns(row.max), ns(row.mean)])));
}

function pairsTable(t) {
  if (t.pairs.length === 0) return null;
  const ns = value => words(value, "ns");
  return section("Pairs", "Usual is what transfers of the same sizes take between other pairs; sends and receives apart.",
    table([["From \u2192 to", L], ["Transfers", N], ["Bytes", N], ["p50", N], ["p99", N], ["Max", N], ["Time together", N],
      ["Against usual", N], ["Best rate", N]],
    t.pairs.slice(0, 12).map(row => [["key", row.text], count(row.count), words(row.bytes, "bytes"), ns(row.p50_ns),
      ns(row.p99_ns), ns(row.max_ns), ns(row.sum_ns),
      [row.slow ? "hot" : "", row.usual_ns > 0 ? (row.typical_ns / row.usual_ns).toFixed(2) + " \u00d7" : "\u2013"],
      row.best_bits_per_second > 0 ? words(row.best_bits_per_second, "bps") : "\u2013"])));
}

// Since the start: from the counters, so nothing of it is lost.
function reasonsTable(copies, registrations) {
  const rows = [copies, registrations].map((part, late) => (part && part.reasons || []).map(row => [["key", row.name],
    ["dim", late ? "late" : "copy"], count(row.count), words(row.bytes, "bytes"), words(row.ns, "ns"), row.cure])).flat();
  if (rows.length === 0) return null;
  return section("Copies and late registrations since the start", "/v1/copies and /v1/registrations say from which place in the program.",
    table([["Reason", L], ["Kind", L], ["Count", N], ["Bytes", N], ["Time", N], ["Cure", L]], rows));
}

function peersTable(peers) {
  if (!peers || !Array.isArray(peers.peers) || peers.peers.length === 0) return null;
  const shown = peers.peers.slice(0, 32), rest = peers.peers.length - shown.length;
  return section("Peers", rest > 0 ? rest + " more are in /v1/peers." : null,
    table([["Peer", L], ["Lane", L], ["State", L], ["Why this lane", L]], shown.map(row => [["key", row.address || String(row.id)],
      row.lane || "", row.closed_here ? "closed" : String(row.state || "open"), ["dim", row.why || ""]])));
}

function groupsTable(coll) {
  if (!coll || !Array.isArray(coll.groups) || coll.groups.length === 0) return null;
  return section("Groups", null, table([["Group", L], ["Rank", N], ["Size", N], ["State", L], ["Started", N], ["In flight", N],
    ["Shares memory", L]],
  coll.groups.slice(0, 24).map(row => [["key", String(row.group)], String(row.rank), String(row.size),
    [row.broken ? "hot" : "", row.broken ? row.broken + ": " + (row.broken_why || "") : row.state], count(row.started),
    count(row.in_flight), ["dim", row.shares_memory ? "yes" : row.shares_memory_why_not || "no"]])));
}

function recordsTable(t) {
  if (t.spans.length === 0) return null;
  const rank = t.ranks[0] || {};
  return section("What was recorded", count(rank.spans) + " spans; " + count(rank.spans_lost) + " were overwritten before they were " +
    "read, and " + count(rank.spans_sampled_out) + " small messages were not recorded because of sampling (knob span_sample).",
  table([["Kind", L], ["Count", N], ["Failed", N], ["Bytes", N], ["Time together", N], ["p50", N], ["p99", N], ["Max", N]],
    t.spans.map(row => [["key", row.kind], count(row.count), [row.failed > 0 ? "hot" : "dim", count(row.failed)],
      row.bytes > 0 ? words(row.bytes, "bytes") : "\u2013", words(row.sum_ns, "ns"), words(row.p50_ns, "ns"), words(row.p99_ns, "ns"),
      words(row.max_ns, "ns")])));
}
