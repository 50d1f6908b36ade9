// charts.js - the charts of /v1/timeline, as the report has them (docs/analysis.md).
"use strict";

const LEFT = 78, RIGHT = 1048, WIDTH = 1216, GAP = 34;
const CLASS_TOPS = [64, 512, 4096, 32768, 262144, 2097152, 16777216];

function sizeClass(row) {
  const index = row.bytes_max === null ? 7 : CLASS_TOPS.indexOf(row.bytes_max);
  return "s" + (index < 0 ? 7 : index);
}

function sizeWords(row) {
  return row.bytes_max === null ? "over " + words(row.bytes_min - 1, "bytes") : "to " + words(row.bytes_max, "bytes");
}

function xOf(t, ns) {
  return LEFT + Math.min(Math.max(ns / t.end_ns, 0), 1) * (RIGHT - LEFT);
}

const xOfBin = (t, bin) => xOf(t, bin * t.bin_ns);
const at = (t, bin) => "at " + words((bin * t.bin_ns - t.end_ns) / -1, "ns") + " before now: ";
const legend = (row, top, kind, text) => key(RIGHT + 14, top + 4 + row * 17, kind, text);
const title = (text, top) => svg("text", { class: "h", x: LEFT, y: top - 7 }, text);

// Values, one for each bin, as a line in steps; filled: down to the bottom.
function staircase(t, s, values, kind, filled, bottom) {
  let path = "M" + LEFT + " " + bottom, last = null;
  values.forEach((value, bin) => {
    const y = s.at(value).toFixed(1);
    if (y !== last) path += "H" + xOfBin(t, bin).toFixed(1) + "V" + y;
    last = y;
  });
  return svg("path", { class: kind, d: path + "H" + RIGHT + (filled ? "V" + bottom : "") });
}

function hovers(t, top, height, text) {
  const group = svg("g", { "fill-opacity": 0 });
  for (let bin = 0; bin < t.bins; bin++) {
    const line = text(bin);
    if (line) group.append(bar("", xOfBin(t, bin), top, xOfBin(t, bin + 1) - xOfBin(t, bin), height, at(t, bin) + line));
  }
  return group;
}

const panels = [];

panels.push({
  height: t => t.steps.length > 0 ? 18 : 0,
  draw: (t, top, height) => [title("Steps", top), t.steps.map((step, i) => {
    const from = xOf(t, step.start_ns), to = xOf(t, step.start_ns + step.max_ns);
    if (to - from < 0.1) return [];
    return [bar(i % 2 ? "step odd" : "step", from, top, to - from, height, "step " + step.step + ", " + words(step.max_ns, "ns")),
      to - from > 34 ? svg("text", { class: "m", x: (from + to) / 2, y: top + height - 5 }, String(step.step)) : null];
  }).flat()].flat(),
});

function linkPanel(path, name) {
  const link = t => t.links.find(row => row.path === path);
  return {
    height: t => link(t) ? 104 : 0,
    draw: (t, top, height) => {
      const row = link(t), rates = t.bin_ns > 0 ? 8e9 / t.bin_ns : 0, bottom = top + height;
      const sent = row.ranks[0].sent_bytes.map(bytes => bytes * rates);
      const received = row.ranks[0].received_bytes.map(bytes => bytes * rates);
      const s = scale(0, row.limit_bits_per_second * 1.08, bottom, top, "bps");
      const limit = s.at(row.limit_bits_per_second);
      return [title("Throughput, " + name, top),
        t.bandwidth_bound.filter(region => region.path === path).map(region =>
          bar("band", xOf(t, region.start_ns), top, xOf(t, region.end_ns) - xOf(t, region.start_ns), height)),
        axis(s, LEFT, RIGHT, 4),
        staircase(t, s, sent, "fill tx", true, bottom), staircase(t, s, received, "rx", false, bottom),
        staircase(t, s, sent, "tx", false, bottom),
        svg("line", { class: "limit", x1: LEFT, x2: RIGHT, y1: limit, y2: limit }),
        legend(0, top, "tx", "sent"), legend(1, top, "rx", "received"),
        svg("text", { class: "limit", x: RIGHT + 14, y: top + 52 }, "limit " + words(row.limit_bits_per_second, "bps")),
        svg("text", { class: "limit", x: RIGHT + 14, y: top + 66 }, row.limit_given ? "(given)" : "(best rate seen)"),
        t.bandwidth_bound.length ? legend(4, top + 3, "band", "full, and waited for") : [],
        hovers(t, top, height, bin => sent[bin] + received[bin] > 0
          ? "sent " + words(sent[bin], "bps") + ", received " + words(received[bin], "bps") : null)].flat();
    },
  };
}
panels.push(linkPanel("network", "network"), linkPanel("host", "within the host"));

panels.push({
  height: t => t.transfers.count > 0 ? 148 : 0,
  draw: (t, top, height) => {
    const seen = t.transfers.classes.map(row => row.bins.count.map((n, bin) => n > 0 ? bin : -1).filter(bin => bin >= 0));
    const lows = t.transfers.classes.map((row, i) => seen[i].map(bin => row.bins.p50_ns[bin])).flat();
    const highs = t.transfers.classes.map((row, i) => seen[i].map(bin => row.bins.p99_ns[bin])).flat();
    const s = scale(Math.max(100, Math.min(...lows)), Math.max(...highs), top + height, top, "ns", true);
    const middle = bin => (xOfBin(t, bin) + xOfBin(t, bin + 1)) / 2;
    return [title("Transfer latency by size: p50, whisker to p99 (logarithmic)", top), axis(s, LEFT, RIGHT, 7),
      t.transfers.classes.map((row, i) => {
        const kind = sizeClass(row);
        let whiskers = "", line = "", last = -9;
        for (const bin of seen[i]) {
          const x = middle(bin).toFixed(1);
          whiskers += "M" + x + " " + s.at(row.bins.p50_ns[bin]).toFixed(1) + "V" + s.at(row.bins.p99_ns[bin]).toFixed(1);
          line += (bin - last > 4 ? "M" : "L") + x + " " + s.at(row.bins.p50_ns[bin]).toFixed(1);
          last = bin;
        }
        return [svg("path", { class: "thin " + kind, d: whiskers }), svg("path", { class: kind, d: line }),
          seen[i].map(bin => svg("circle", { class: kind, r: 2, cx: middle(bin), cy: s.at(row.bins.p50_ns[bin]) },
            svg("title", {}, at(t, bin) + count(row.bins.count[bin]) + " transfers, p50 " + words(row.bins.p50_ns[bin], "ns") +
              ", p99 " + words(row.bins.p99_ns[bin], "ns")))),
          legend(i, top, kind, sizeWords(row))].flat();
      }).flat()].flat();
  },
});

function flightPanel(mean, most, unit, name) {
  return {
    height: t => t.transfers.count > 0 ? 66 : 0,
    draw: (t, top, height) => {
      const means = t.in_flight[mean], peaks = t.in_flight[most], bottom = top + height;
      const s = scale(0, Math.max(1, ...peaks), bottom, top, unit);
      return [title(name, top), axis(s, LEFT, RIGHT, 3), staircase(t, s, means, "fill tx", true, bottom),
        staircase(t, s, peaks, "tx fine", false, bottom), legend(0, top, "tx h3", "mean"), legend(1, top, "tx", "most at once"),
        hovers(t, top, height, bin => peaks[bin] > 0
          ? "mean " + words(means[bin], unit) + ", at most " + words(peaks[bin], unit) : null)].flat();
    },
  };
}
panels.push(flightPanel("mean", "max", "count", "Transfers in flight"),
  flightPanel("bytes_mean", "bytes_max", "bytes", "Bytes in flight"));

panels.push({
  height: t => t.reasons.length > 0 ? 60 : 0,
  draw: (t, top, height) => {
    const copies = t.copies, lates = t.late_registrations, bottom = top + height;
    const s = scale(0, Math.max(1, ...copies.ns.map((ns, bin) => ns + lates.ns[bin])), bottom, top, "ns");
    const bars = [];
    for (let bin = 0; bin < t.bins; bin++) {
      const x = xOfBin(t, bin), width = xOfBin(t, bin + 1) - x - 1;
      const late = s.at(lates.ns[bin]), both = s.at(lates.ns[bin] + copies.ns[bin]);
      const text = at(t, bin) + count(copies.count[bin]) + " fallback copies, " + words(copies.ns[bin], "ns") + "; " +
        count(lates.count[bin]) + " late registrations, " + words(lates.ns[bin], "ns");
      if (lates.count[bin] > 0) bars.push(bar("late", x, Math.min(late, bottom - 2), width, Math.max(bottom - late, 2), text));
      if (copies.count[bin] > 0) bars.push(bar("copy", x, Math.min(both, late - 2), width, Math.max(late - both, 2), text));
    }
    return [title("Time in fallback copies and late registrations", top), axis(s, LEFT, RIGHT, 3), bars,
      legend(0, top, "copy", "fallback copies"), legend(1, top, "late", "late registrations")].flat();
  },
});

function times(t) {
  const heights = panels.map(panel => panel.height(t));
  const total = sum(heights.map(height => height > 0 ? height + GAP : 0)) + 30;
  if (total === 30)
    return section("The last seconds", "No step, no transfer and no copy in the last " + words(t.end_ns, "ns") + ".");
  const drawing = svg("svg", { viewBox: "0 0 " + WIDTH + " " + total, role: "img", "aria-label": "charts over time" });
  const each = roundUp(t.end_ns / 8, "ns");
  for (let ns = 0; ns <= t.end_ns; ns += each) {
    const x = xOf(t, t.end_ns - ns);
    drawing.append(svg("line", { class: "g", x1: x, x2: x, y1: GAP - 12, y2: total - 26 }),
      svg("text", { class: "m", x, y: total - 12 }, ns === 0 ? "now" : "\u2212" + words(ns, "ns")));
  }
  let top = 0;
  panels.forEach((panel, i) => {
    if (heights[i] === 0) return;
    drawing.append(...panel.draw(t, top + GAP, heights[i]).filter(node => node));
    top += GAP + heights[i];
  });
  return section("The last " + words(t.end_ns, "ns"), "All panels share one axis of time. Point at a bar or a dot for its numbers.",
    drawing);
}

// Columns of compute, hidden and exposed communication.
function stepsChart(t) {
  const W = 568, H = 220, left = 66, top = 34, bottom = 190, right = 560;
  const s = scale(0, Math.max(...t.steps.map(step => step.step_ns)), bottom, top, "ns");
  const each = Math.min((right - left - 4) / t.steps.length, 56), width = Math.max(each * 0.84, each - 6);
  const drawing = svg("svg", { viewBox: "0 0 " + W + " " + H, role: "img", "aria-label": "time of each step, split" });
  drawing.append(...key(left, 4, "compute", "compute"), ...key(left + 90, 4, "hidden", "hidden communication"),
    ...key(left + 250, 4, "exposed", "exposed communication"), ...axis(s, left, right, 4));
  t.steps.forEach((step, i) => {
    const x = left + 4 + i * each + (each - width) / 2;
    const text = "step " + step.step + ": " + words(step.step_ns, "ns") + " = compute " + words(step.compute_ns, "ns") +
      " + hidden " + words(step.hidden_ns, "ns") + " + exposed " + words(step.exposed_ns, "ns");
    let below = 0;
    for (const [kind, ns] of [["compute", step.compute_ns], ["hidden", step.hidden_ns], ["exposed", step.exposed_ns]]) {
      if (ns > 0) drawing.append(bar(kind, x, s.at(below + ns), width, s.at(below) - s.at(below + ns), text));
      below += ns;
    }
    if (i % (Math.floor(34 / each) + 1) === 0)
      drawing.append(svg("text", { class: "m", x: x + width / 2, y: bottom + 15 }, String(step.step)));
  });
  drawing.append(svg("text", { class: "m", x: (left + right) / 2, y: H - 5 }, "step"));
  return drawing;
}

function sizesChart(t) {
  const W = 568, H = 220, left = 66, top = 14, bottom = 190, right = 560;
  const power = row => Math.round(Math.log2(row.bytes_max));
  const first = Math.max(0, Math.min(...t.transfers.sizes.map(power)) - 1);
  const columns = Math.max(8, Math.max(...t.transfers.sizes.map(power)) + 2 - first);
  const s = scale(0, Math.max(...t.transfers.sizes.map(row => row.count)), bottom, top, "count");
  const each = Math.min((right - left - 4) / columns, 56), width = Math.max(each * 0.84, each - 6);
  const drawing = svg("svg", { viewBox: "0 0 " + W + " " + H, role: "img", "aria-label": "transfers by size" });
  drawing.append(...axis(s, left, right, 4));
  const x = i => left + 4 + i * each + (each - width) / 2;
  for (let i = 0; i < columns; i += Math.floor(52 / each) + 1)
    drawing.append(svg("text", { class: "m", x: x(i) + width / 2, y: bottom + 15 }, words(2 ** (first + i), "bytes")));
  for (const row of t.transfers.sizes) {
    const y = Math.min(s.at(row.count), bottom - 1.5);
    const index = CLASS_TOPS.findIndex(limit => row.bytes_max <= limit);
    drawing.append(bar("s" + (index < 0 ? 7 : index), x(power(row) - first), y, width, bottom - y,
      count(row.count) + " transfers of at most " + words(row.bytes_max, "bytes")));
  }
  drawing.append(svg("text", { class: "m", x: (left + right) / 2, y: H - 5 }, "size at most"));
  return drawing;
}
