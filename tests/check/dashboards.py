"""dashboards.py - what the Grafana dashboard and the alert rules name is what /metrics serves.

Names of metrics are read where they are made: diag/record/counter.def, the heads of families in C,
the gauges of the pool and of towbpf, the exporter's own. Labels are a list here. The dashboard
must be JSON of a form that Grafana takes. Where promtool is installed (Debian's package prometheus)
it checks the rules, and plays tests/support/towline_rules_test.yml; else a note says so.
"""
import json
import re
import shutil
import sys

import common
from common import Fault

FOLDER = r"tools/dashboards/"
RULES_TEST = "tests/support/towline_rules_test.yml"
SUFFIXES = {"counter": ["_total"], "histogram": ["_bucket", "_count", "_sum"],
            "summary": ["_count", "_sum"], "info": ["_info"], "gauge": [""]}
# What series have beside what Prometheus adds: the exporter's, and the families' own.
LABELS = {"tow_job", "rank", "user", "runtime", "socket", "instance", "collective", "lane",
          "direction", "le", "reason", "kind", "cause", "culprit_rank", "peer_rank", "peer",
          "state", "size", "part", "method", "side", "version"}
# Panels without these cannot be drawn, or are drawn in another place than was meant.
PANEL = ["id", "type", "title", "gridPos"]
GRID_WIDTH = 24


def seconds(name):
    """The name of a family of time, as Prometheus wants it."""
    return re.sub(r"_ns$", "_seconds", name)


def served(tree):
    """The names of all series that a rank or the exporter can have."""
    names = set()
    for path in tree.match(r"diag/record/counter\.def$"):
        for name in re.findall(r"^TWI_COUNTER\(\s*(\w+)", tree.text(path), re.M):
            names.add(f"towline_{seconds(name)}_total")
    for path in tree.match(r"diag/bpf/abi/bpf_counter\.def$"):
        for name in re.findall(r"^TWI_BPF_COUNTER\(\s*(\w+)", tree.text(path), re.M):
            names.add(f"towline_bpf_{seconds(name)}")
    for path in tree.match(r"memreg/pool/\w+\.c$"):
        table = "".join(re.findall(r"\bgauges\[\w+\] = \{(.*?)\n\};", tree.text(path), re.S))
        for field in re.findall(r"^\s*GAUGE\((\w+), ", table, re.M):
            names.add(f"towline_pool_{field}_bytes")
        for name in re.findall(r'^\s*NAMED\("(\w+)", ', table, re.M):
            names.add(f"towline_pool_{name}_bytes")
        for name in re.findall(r'^\s*\{ "(\w+)", ', table, re.M):
            names.add(f"towline_{name}_bytes")
    for path in tree.match(r"(diag|transport)/.*\.c$"):
        for family, kind in re.findall(
                r'twi_emit_metric_head\(\s*\w+,\s*"(towline_\w+)",\s*"(\w+)"', tree.text(path)):
            names |= {family + suffix for suffix in SUFFIXES.get(kind, [])}
    for path in tree.match(r"tools/towstat/export_scrape\.c$"):
        for family, kind in re.findall(r"# TYPE (towline_\w+) (\w+)", tree.text(path)):
            names |= {family + suffix for suffix in SUFFIXES.get(kind, [])}
    return names


def judge_query(path, line, query, names):
    for name in sorted(set(re.findall(r"(?<![\w:])towline_\w+", query))):
        if name not in names:
            yield Fault(path, line, f"nobody serves {name}", "name a series of /metrics")
    labels = {label for list_ in re.findall(r"\b(?:by|on|without|ignoring) \(([^)]*)\)", query)
              for label in re.findall(r"\w+", list_)}
    labels |= set(re.findall(r"[{,]\s*(\w+)\s*(?:=~|!~|!=|=)", query))
    for label in sorted(labels - LABELS):
        yield Fault(path, line, f"no series has the label {label}", "use one of its own")


def judge_rules(path, text, names):
    """Line by line: comments are no queries, and annotations may name a metric as advice."""
    own = set(re.findall(r"^\s*- record: (\S+)$", text, re.M))
    for number, line in enumerate(text.splitlines(), 1):
        query = re.sub(r"(^|\s)#.*", "", line)
        for name in re.findall(r"(?<![\w:])\w+:\w+:\w+", query):
            if name not in own:
                yield Fault(path, number, f"no rule records {name}", "record it, or drop it")
        yield from judge_query(path, number, query, names)
    if not re.search(r"^\s*- alert: ", text, re.M):
        yield Fault(path, 1, "there is no alert", "write one")


def tested_alerts(tree):
    if RULES_TEST not in tree.names:
        return set()
    return set(re.findall(r"alertname: (\w+)", tree.text(RULES_TEST)))


def judge_panels(path, board, names):
    seen, places = set(), []
    for panel in board.get("panels", []):
        what = panel.get("title") or f"panel {panel.get('id')}"
        for key in PANEL:
            if key not in panel:
                yield Fault(path, 1, f"{what}: has no {key}", "give it one")
                return
        if panel["id"] in seen:
            yield Fault(path, 1, f"{what}: its id is another's", "number panels")
        seen.add(panel["id"])
        grid = panel["gridPos"]
        for other, at in places:
            if (grid["x"] < at["x"] + at["w"] and at["x"] < grid["x"] + grid["w"] and
                    grid["y"] < at["y"] + at["h"] and at["y"] < grid["y"] + grid["h"]):
                yield Fault(path, 1, f"{what}: lies upon {other}", "move it")
        places.append((what, grid))
        if grid["x"] + grid["w"] > GRID_WIDTH:
            yield Fault(path, 1, f"{what}: is beyond the {GRID_WIDTH} columns", "move it")
        if panel["type"] == "row":
            continue
        if not panel.get("targets"):
            yield Fault(path, 1, f"{what}: asks for nothing", "give it a target")
        for target in panel.get("targets", []):
            yield from judge_query(path, 1, target.get("expr", ""), names)


def judge_board(path, text, names):
    try:
        board = json.loads(text)
    except ValueError as wrong:
        yield Fault(path, getattr(wrong, "lineno", 1), f"is no JSON: {wrong}", "mend it")
        return
    for key in ("schemaVersion", "title", "uid", "panels", "templating"):
        if key not in board:
            yield Fault(path, 1, f"has no {key}, which Grafana wants", "add it")
    variables = {v["name"] for v in board.get("templating", {}).get("list", [])}
    used = set(re.findall(r"\$\{?(\w+)\}?", text)) - {"__rate_interval"}
    for name in sorted(used - variables):
        yield Fault(path, 1, f"there is no variable {name}", "declare it, or drop it")
    for variable in board.get("templating", {}).get("list", []):
        if variable.get("type") == "query":
            yield from judge_query(path, 1, variable.get("definition", ""), names)
    yield from judge_panels(path, board, names)


def ask_promtool(tree):
    promtool = shutil.which("promtool")
    rules = tree.match(FOLDER + r".*\.rules\.yml$")
    if promtool is None:
        return
    runs = [(name, ["check", "rules", tree.path(name)]) for name in rules]
    if RULES_TEST in tree.names:
        runs.append((RULES_TEST, ["test", "rules", tree.path(RULES_TEST)]))
    for name, arguments in runs:
        done = common.run([promtool, *arguments], timeout=100)
        if done.returncode != 0:
            yield Fault(name, 1, "promtool: " + (done.stderr + done.stdout).strip()[-1500:],
                        "mend the rule, or what is expected of it")


def check(tree):
    names, faults = served(tree), []
    tested = tested_alerts(tree)
    for path in tree.match(FOLDER + r".*\.rules\.yml$"):
        text = tree.text(path)
        faults += judge_rules(path, text, names)
        for alert in re.findall(r"^\s*- alert: (\w+)", text, re.M):
            if alert not in tested:
                faults.append(Fault(path, 1, f"nothing plays {alert}", f"add it to {RULES_TEST}"))
    for path in tree.match(FOLDER + r".*\.json$"):
        faults += judge_board(path, tree.text(path), names)
    return faults + list(ask_promtool(tree))


def board(**more):
    whole = {"schemaVersion": 41, "title": "t", "uid": "t", "panels": [],
             "templating": {"list": [{"name": "job", "type": "query",
                                      "definition": "label_values(towline_up, tow_job)"}]}}
    whole.update(more)
    return json.dumps(whole)


def panel(expr, **more):
    whole = {"id": 1, "type": "timeseries", "title": "p",
             "gridPos": {"x": 0, "y": 0, "w": 12, "h": 8}, "targets": [{"expr": expr}]}
    whole.update(more)
    return whole


SOURCES = {
    "diag/record/counter.def": "TWI_COUNTER(sends, count, SAME,\n\t\"s\")\n"
                               "TWI_COUNTER(wait_ns, ns, SAME, \"w\")\n",
    "diag/record/x.c": 'twi_emit_metric_head(e, "towline_x_seconds", "histogram", "seconds",\n',
    "memreg/pool/p.c": "} gauges[N] = {\n\tGAUGE(mapped, \"m\"),\n"
                       "\tNAMED(\"grown_now\", g, \"g\"),\n"
                       "\t{ \"pool_resident\", \"r\", f },\n};\n",
    "diag/bpf/abi/bpf_counter.def": 'TWI_BPF_COUNTER(drops, count, drop, "d")\n',
    "tools/towstat/export_scrape.c": '"# TYPE towline_up gauge\\n"',
}
GOOD = """groups:
  - name: a
    rules:
      - record: towline:share:rate5m
        expr: rate(towline_x_seconds_sum[5m]) / rate(towline_wait_seconds_total[5m])
      - alert: A # towline_none is said in a comment
        expr: |
          sum by (tow_job, rank) (towline:share:rate5m) > 1
            and on (rank) towline_pool_mapped_bytes{rank=~"1"} + towline_pool_grown_now_bytes > 0
"""
TESTS = {RULES_TEST: "rule_files: [ '../../tools/dashboards/t.rules.yml' ]\n"
                     "tests:\n  - alert_rule_test:\n"
                     "      - alertname: A\n        eval_time: 1m\n        exp_alerts: []\n"}
BOARD = "tools/dashboards/t.json"


def sample(text, **more):
    return {"tools/dashboards/t.rules.yml": text, **SOURCES, **TESTS, **more}


SAMPLES = [
    ("good rules", sample(GOOD), None),
    ("good board", {BOARD: board(panels=[
        panel('rate(towline_sends_total{tow_job=~"$job"}[$__rate_interval])'),
        panel("histogram_quantile(0.9, sum by (le) (towline_x_seconds_bucket))", id=2,
              gridPos={"x": 12, "y": 0, "w": 12, "h": 8})]), **SOURCES}, None),
    ("a series that nobody serves",
     sample(GOOD.replace("towline_x_seconds_sum", "towline_x_total")),
     "nobody serves towline_x_total"),
    ("a counter without _total", {BOARD: board(panels=[panel("towline_sends")]),
                                  **SOURCES}, "nobody serves towline_sends"),
    ("ns", sample(GOOD.replace("wait_seconds_total", "wait_ns_total")), "towline_wait_ns_total"),
    ("a label that nobody has", sample(GOOD.replace("by (tow_job", "by (job")), "the label job"),
    ("a matcher's label", sample(GOOD.replace('{rank=~', '{ranks=~')), "the label ranks"),
    ("not recorded", sample(GOOD.replace("(towline:share:rate5m)", "(towline:other:rate5m)")),
     "no rule records towline:other:rate5m"),
    ("an alert that nobody plays", {**sample(GOOD), RULES_TEST: "tests: []\n"}, "nothing plays A"),
    ("no alert", sample("groups: []\n"), "there is no alert"),
    ("no JSON", {BOARD: "{,}", **SOURCES}, "is no JSON"),
    ("no schema", {BOARD: board().replace("schemaVersion", "version"), **SOURCES},
     "has no schemaVersion"),
    ("no such variable", {BOARD: board(panels=[
        panel('towline_up{tow_job="$jobs"}')]), **SOURCES}, "there is no variable jobs"),
    ("the variable's series", {BOARD: board().replace("towline_up", "towline_down"), **SOURCES},
     "nobody serves towline_down"),
    ("panels upon each other", {BOARD: board(panels=[
        panel("towline_up"), panel("towline_up", id=2, title="q")]), **SOURCES}, "q: lies upon p"),
    ("two of one id", {BOARD: board(panels=[
        panel("towline_up"), panel("towline_up", gridPos={"x": 12, "y": 0, "w": 12, "h": 8})]),
        **SOURCES}, "its id is another's"),
    ("too wide", {BOARD: board(panels=[
        panel("towline_up", gridPos={"x": 13, "y": 0, "w": 12, "h": 8})]), **SOURCES},
     "beyond the 24"),
    ("no target", {BOARD: board(panels=[panel("x", targets=[])]), **SOURCES},
     "asks for nothing"),
]
if shutil.which("promtool"):
    SAMPLES += [
        ("a rule that is none", sample(GOOD.replace("sum by", "sum bye")), "promtool: "),
        ("a rule that fires", sample("""groups:
  - name: a
    rules:
      - alert: A
        expr: vector(1)
"""), "promtool: "),
    ]

if __name__ == "__main__":
    if shutil.which("promtool") is None:
        print("note: promtool is missing (Debian: prometheus), so no rule was played")
    sys.exit(common.main(check, SAMPLES))
