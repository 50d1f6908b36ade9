"""trace_tools.py - what other people's tools make of our traces, through their public entry points.

  trace_tools.py XSPACE PERFETTO EXPECTED.json

  xprof      lists the tools, renders them, and compares the table of Megascale Stats
  notebook   jax.profiler.ProfileData, and an analysis on it
  perfetto   Perfetto's own schema, and its trace processor where its binary is

EXPECTED.json is what the model says (test_trace_tools.c). Exit 0: all agree; 77: a tool is not
here, with the reason; 1: one does not agree.
"""
import collections
import glob
import gzip
import json
import os
import sys

NEAR = 0.01  # slack, stall and bandwidth: XProf cuts off to microseconds
RECEIVE = "MegaScale: Communication Transport Receive"
SEND = "MegaScale: Communication Transport Send"


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


def expect(truth, what):
    if not truth:
        print(f"does not agree: {what}")
        sys.exit(1)


def near(one, other):
    return abs(one - other) <= max(NEAR * max(abs(one), abs(other)), 0.0021)


# --- XProf ---

def table_rows(text):
    """The rows of a Google chart table, by the ids of its columns."""
    table = json.loads(text)[0]
    names = [column["id"] for column in table["cols"]]
    for row in table["rows"]:
        yield dict(zip(names, (cell["v"] for cell in row["c"])))


def compare_slack(rows, expected):
    """XProf analyses the first device only; rows of one collective may be several."""
    sums = collections.defaultdict(lambda: collections.defaultdict(float))
    for row in rows:
        name = row["rendezvous_name"].rpartition("_")[0]
        count = row["occurrences"]
        total = sums[name, row["transfer_type"]]
        total["occurrences"] += count
        for key in ("slack_time", "observed_duration", "stall_duration"):
            total[key] += row[key] * count
        total["net_tx_bytes"] = row["net_tx_bytes"]
        total["required_bandwidth"] = row["required_bandwidth"]
        total["rows"] += 1
    expect(len(sums) == len(expected), f"{len(sums)} collectives, {len(expected)} in the model")
    for want in expected:
        got = sums.get((want["name"], want["transfer"]))
        expect(got, f"no row for {want['name']} {want['transfer']} among {list(sums)}")
        count = got["occurrences"]
        expect(count == want["occurrences"], f"{want['name']}: {count} occurrences, {want}")
        for key, mean in (("slack_time", "slack_ms"), ("observed_duration", "observed_ms"),
                          ("stall_duration", "stall_ms")):
            expect(near(got[key] / count, want[mean]),
                   f"{want['name']}: {key} {got[key] / count}, the model has {want[mean]}")
        expect(near(got["net_tx_bytes"], want["wire_bytes"]),
               f"{want['name']}: {got['net_tx_bytes']} bytes, the model has {want['wire_bytes']}")
        if got["rows"] == 1 and want["required_gbps"] is not None:
            expect(near(got["required_bandwidth"], want["required_gbps"]),
                   f"{want['name']}: {got['required_bandwidth']} Gb/s, the model has "
                   f"{want['required_gbps']}")


def xprof(path, expected):
    try:
        from xprof.convert import raw_to_tool_data as convert
    except ImportError as error:
        skip(f"no xprof: {error}")
    host = os.path.basename(path).removesuffix(".xplane.pb")
    tools = [tool.rstrip("@^") for tool in convert.xspace_to_tool_names([path])]
    print("xprof lists", " ".join(tools))
    expect("trace_viewer" in tools and "megascale_stats" in tools, f"tools are {tools}")
    text, _ = convert.xspace_to_tool_data([path], "megascale_stats",
                                          {"host": host, "use_saved_result": False})
    compare_slack(list(table_rows(text)), expected["slack"])
    data, _ = convert.xspace_to_tool_data([path], "trace_viewer",
                                          {"trace_viewer_options": {}, "use_saved_result": False})
    events = json.loads(data)["traceEvents"]
    names = collections.Counter(event.get("name") for event in events if event)
    expect(names[RECEIVE] == len(expected["receives"]), f"trace viewer: {names[RECEIVE]} receives")
    expect(names["MegaScale: Memory Copy"] == expected["copies"], "trace viewer: copies")
    expect(names["MapDmaBuffer"] == expected["registrations"], "trace viewer: registrations")
    processes = {event["args"]["name"] for event in events
                 if event and event.get("name") == "process_name"}
    expect({"/device:TPU:0", "/device:TPU:1"} <= processes, f"trace viewer: {processes}")
    data, kind = convert.xspace_to_tool_data(
        [path], "megascale_stats", {"host": host, "perfetto": True, "use_saved_result": False})
    if kind != "application/octet-stream":
        print("this xprof has no Megascale Viewer")
        return
    viewer(gzip.decompress(data), expected)


def viewer(trace, expected):
    """What the Megascale Viewer would open: its tracks and events, by Perfetto's schema."""
    try:
        from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as schema
    except ImportError as error:
        skip(f"the Megascale Viewer's trace cannot be read: {error}")
    message = schema.Trace()
    message.ParseFromString(trace)
    names, tracks, seen = {}, {}, collections.Counter()
    for packet in message.packet:
        for row in packet.interned_data.event_names:
            names[row.iid] = row.name
        if packet.HasField("track_descriptor"):
            tracks[packet.track_descriptor.uuid] = packet.track_descriptor.name
        if packet.HasField("track_event"):
            event = packet.track_event
            seen[event.name or names.get(event.name_iid), event.type] += 1
            seen["flows"] += len(event.flow_ids) + len(event.terminating_flow_ids)
    begin, point = schema.TrackEvent.TYPE_SLICE_BEGIN, schema.TrackEvent.TYPE_INSTANT
    received = seen["NetworkReceive END", begin] + seen["NetworkReceive END", point]
    expect(received == len(expected["receives"]), f"viewer: {received} receives")
    expect(seen["flows"] > 0, "viewer: no flows")
    for track in ("Megascale", "3. XLA Ops", "Inflight Collectives", "Outstanding Bytes RX"):
        expect(track in tracks.values(), f"viewer: no track {track} among {set(tracks.values())}")


# --- as the network analysis notebook reads a trace ---

def notebook(path, expected):
    try:
        from jax.profiler import ProfileData
    except ImportError as error:
        skip(f"no jax.profiler.ProfileData: {error}")
    rows = []
    for plane in ProfileData.from_file(path).planes:
        if plane.name != "/host:CPU":
            continue
        for line in plane.lines:
            expect(line.name.startswith("MegascaleEM2_Worker"), f"a line is {line.name}")
            for event in line.events:
                if event.name == RECEIVE:
                    stats = dict(event.stats)
                    rows.append((stats["dcn_source_slice_id"],
                                 stats["dcn_destination_slice_id"],
                                 stats["payload_size_bytes"], stats["duration_us"],
                                 event.start_ns))
    want = sorted((row["from"], row["to"], row["bytes"], row["us"]) for row in expected["receives"])
    got = sorted(row[:4] for row in rows)
    expect(got == want, "pairs, sizes and latencies of receives: only in the file "
           f"{[row for row in got if row not in want]}, only in the model "
           f"{[row for row in want if row not in got]}")
    pairs = collections.defaultdict(list)
    for source, target, size, took, _ in rows:
        pairs[source, target].append((took, size))
    for (source, target), all_rows in sorted(pairs.items()):
        took = sorted(row[0] for row in all_rows)
        moved = sum(row[1] for row in all_rows)
        print(f"{source} -> {target}: {len(took)} messages, {moved} bytes, median "
              f"{took[(len(took) - 1) // 2]} us, {moved * 8e-3 / max(sum(took), 1):.2f} Gb/s")
    expect(all(row[4] < 1e15 for row in rows), "times count from the beginning")


# --- Perfetto ---

def trace_processor():
    """Its binary: named by TOW_TEST_TRACE_PROCESSOR, or loaded by the package some time before."""
    named = os.environ.get("TOW_TEST_TRACE_PROCESSOR")
    cached = glob.glob(os.path.expanduser("~/.local/share/perfetto/prebuilts/"
                                          "trace_processor_shell-*"))
    return named or next((name for name in sorted(cached) if not name.endswith(".tmp")), None)


# What must answer nothing, of a trace in which each rank's first thread did something.
NONE_OF = (
    ("stats", "select name, value from stats where value > 0 "
              "and severity in ('error', 'data_loss')"),
    ("slices without an end", "select name from slice where dur < 0"),
    ("slices that cross", "select a.name, b.name from slice a join slice b using (track_id) "
                          "where a.ts < b.ts and b.ts < a.ts + a.dur "
                          "and b.ts + b.dur > a.ts + a.dur"),
    ("slices of no rank", "select s.name from slice s "
                          "left join thread_track t on t.id = s.track_id "
                          "left join thread using (utid) "
                          "left join process_track p on p.id = s.track_id "
                          "left join process on process.upid = coalesce(thread.upid, p.upid) "
                          "where process.name is null or process.name not glob 'rank *'"),
    ("threads without a name", "select tid from thread where utid > 0 and name is null"),
    ("slices of another thread", "select track.name, thread.name from slice "
                                 "join track on track.id = track_id join thread on utid = "
                                 "extract_arg(slice.arg_set_id, 'legacy_event.passthrough_utid') "
                                 "where track.name not glob thread.name || ' *'"),
    ("steps without a number", "select name from slice where category = 'step' "
                               "and extract_arg(arg_set_id, 'debug.id') is null"),
    ("receives without a peer", "select name from slice where category = 'recv' and "
                                "extract_arg(arg_set_id, 'debug.bytes') > 0 and "
                                "(extract_arg(arg_set_id, 'debug.peer') is null "
                                "or extract_arg(arg_set_id, 'debug.lane') is null)"),
    ("flows that lead back", "select a.name, b.name from flow join slice a on slice_out = a.id "
                             "join slice b on slice_in = b.id where a.ts > b.ts "
                             "or a.category not in ('send', 'call')"),
    ("times that are no dates", "select 1 where abs_time_str(trace_start()) is null"),
    ("ranks of which nothing is told", "select name from process where upid > 0 and upid not in "
                                       "(select upid from slice join process_track on "
                                       "process_track.id = track_id where category = 'about')"),
)


def perfetto_sql(binary, path, expected):
    from perfetto.trace_processor import TraceProcessor, TraceProcessorConfig
    with TraceProcessor(trace=path, config=TraceProcessorConfig(bin_path=binary)) as processor:
        def ask(sql):
            return [tuple(row.__dict__.values()) for row in processor.query(sql)]
        wanted = expected["receives"]
        rows = ask("select count(*), sum(extract_arg(arg_set_id, 'debug.bytes')), sum(dur) "
                   f"from slice where name = '{RECEIVE}'")
        expect(rows == [(len(wanted), sum(row["bytes"] for row in wanted),
                         sum(row["ns"] for row in wanted))], f"SQL: receives {rows}")
        pairs = collections.defaultdict(int)
        for row in wanted:
            if row["from"] >= 0:
                pairs[row["from"], row["to"]] += row["bytes"]
        # Who is told by the flow, not by what the receiver says of its peer.
        rows = ask("select extract_arg(a.arg_set_id, 'debug.peer_rank'), "
                   "extract_arg(c.arg_set_id, 'debug.peer_rank'), count(*), "
                   "sum(extract_arg(c.arg_set_id, 'debug.bytes')) "
                   "from flow join slice a on slice_out = a.id join slice b on slice_in = b.id "
                   f"join slice c on b.parent_id = c.id where a.name = '{SEND}' "
                   f"and c.name = '{RECEIVE}' group by 1, 2")
        expect(sum(row[2] for row in rows) == expected["flows"], f"SQL: flows {rows}")
        if expected["flows"] == sum(row["from"] >= 0 for row in wanted):
            expect({(came, to): moved for to, came, _, moved in rows} == pairs,
                   f"SQL: bytes by pair {rows}, the model has {dict(pairs)}")
        for what, sql in NONE_OF:
            rows = ask(sql)
            expect(not rows, f"SQL: {what}: {rows[:5]}")


def perfetto_schema(path, expected):
    """Slices of each track must nest, and each flow leads from a send to where its receive ends."""
    from google.protobuf import unknown_fields
    from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as schema

    def is_known(part):
        return len(unknown_fields.UnknownFieldSet(part)) == 0 and all(
            is_known(inner)
            for field, value in part.ListFields() if field.message_type
            for inner in (value if hasattr(value, "add") else [value]))

    message = schema.Trace()
    with open(path, "rb") as file:
        message.ParseFromString(file.read())
    events, tracks = collections.defaultdict(list), set()
    for order, packet in enumerate(message.packet):
        expect(is_known(packet), "a field that Perfetto does not know")
        if packet.HasField("track_descriptor"):
            tracks.add(packet.track_descriptor.uuid)
        if packet.HasField("track_event"):
            expect(packet.track_event.track_uuid in tracks, "an event on a track that is not told")
            events[packet.track_event.track_uuid].append((packet.timestamp, order,
                                                          packet.track_event))
    slices, leaves, comes = [], {}, {}
    for rows in events.values():
        open_slices = []
        for at, _, event in sorted(rows, key=lambda row: row[:2]):
            if event.type == event.TYPE_SLICE_BEGIN:
                open_slices.append((event, at))
                for flow in event.flow_ids:
                    expect(flow not in leaves, "two sends have one flow")
                    leaves[flow] = (event.name, at)
            elif event.type == event.TYPE_SLICE_END:
                expect(open_slices, "an end without a beginning")
                begun, since = open_slices.pop()
                slices.append((begun, at - since))
                for flow in event.terminating_flow_ids:
                    comes[flow] = (begun.name, at)
            elif event.type == event.TYPE_INSTANT:
                for flow in event.terminating_flow_ids:
                    comes[flow] = ((open_slices or [(event, at)])[-1][0].name, at)
        expect(not open_slices, "a slice without an end")
    took = sorted(length for event, length in slices if event.name == RECEIVE)
    expect(took == sorted(row["ns"] for row in expected["receives"]), "durations of receives")
    both = [flow for flow in leaves if flow in comes
            and leaves[flow][0] == SEND and comes[flow][0] == RECEIVE]
    expect(len(both) == expected["flows"], f"{len(both)} flows, {expected['flows']} in the model")
    expect(all(leaves[flow][1] <= comes[flow][1] for flow in both), "a flow leads back in time")


def perfetto(path, expected):
    try:
        import perfetto.trace_processor  # noqa: F401
    except ImportError as error:
        skip(f"no perfetto: {error}")
    perfetto_schema(path, expected)
    binary = trace_processor()
    if binary is None:
        print("the trace processor was not asked: the package loads its binary from the network")
    else:
        perfetto_sql(binary, path, expected)
        print("the trace processor answers")


if __name__ == "__main__":
    with open(sys.argv[3], encoding="utf-8") as wanted_file:
        EXPECTED = json.load(wanted_file)
    notebook(sys.argv[1], EXPECTED)
    perfetto(sys.argv[2], EXPECTED)
    xprof(os.path.abspath(sys.argv[1]), EXPECTED)  # it wants a folder, too
    print("all agree")
