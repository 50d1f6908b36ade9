"""megascale.py - XProf's table of a job with planted slack, held against what the job did.

  megascale.py [--tell] BUILD FOLDER LANE...      --tell prints all figures

Two ranks of slack_program run over each lane while towtrace captures them. Of its collectives,
alone, one over another, fused and in a batch, XProf's own conversion (megascale_stats) must give
the names, occurrences and bytes that the program has, and slack, observed duration and stall within
what its clock says: a lower bound is what it slept, an upper one adds what its calls took.

Exit 0: all agree; 77: a tool is not here, with the reason; 1: something does not agree.
"""
import collections
import json
import os
import sys

import notebook
from notebook import expect, skip
from trace_tools import table_rows

ROUND_MS = 0.003  # XProf cuts off to microseconds, and its means again
TRIES = 3
NOISE_MS = 1.0  # between the clock of the program and what the library reads a moment later


def capture(build, folder, lane):
    """A file, and what the job did. It is played again where the machine was too slow for it."""
    for attempt in range(TRIES):
        place = os.path.join(folder, f"slack-{lane}-{attempt}")
        os.makedirs(place)
        path, _, _ = notebook.capture_whole(build, place, lane, "slack_program", lambda _: None)
        with open(os.path.join(os.path.dirname(path.partition("log.d")[0]), "truth.json"),
                  encoding="ascii") as file:
            truth = json.load(file)
        early = sum(row["early"] for row in truth)
        if early == 0:
            return path, truth
        print(f"{lane}: {early} collectives were over before rank 0 waited for them; again")
    raise TimeoutError(f"{lane}: collectives were over before rank 0 waited, {TRIES} times")


def table(path):
    """XProf's rows of one name, with their number cut off: their sums."""
    from xprof.convert import raw_to_tool_data as convert
    host = os.path.basename(path).removesuffix(".xplane.pb")
    text, _ = convert.xspace_to_tool_data([path], "megascale_stats",
                                          {"host": host, "use_saved_result": False})
    sums = {}
    for row in table_rows(text):
        name, _, number = row["rendezvous_name"].rpartition("_")
        expect(number.isdigit(), f"a row is {row['rendezvous_name']}")
        got = sums.setdefault(name, collections.Counter())
        got["rows"] += 1
        got["count"] += row["occurrences"]
        for key in ("slack_time", "observed_duration", "stall_duration"):
            got[key] += row[key] * row["occurrences"]
        fixed = (row["transfer_type"], row["net_tx_bytes"])
        expect(got.setdefault("fixed", fixed) == fixed, f"{name} has {fixed} and {got['fixed']}")
    return sums


def check(want, got, lane):
    count = want["count"]
    expect(got["count"] == count, f"{lane}: {want['name']}: {got['count']} of {count}")
    expect(got["fixed"] == (want["transfer"], want["bytes"]), f"{lane}: {want}: {got['fixed']}")
    slack, observed, stall = (got[key] / count for key in (
        "slack_time", "observed_duration", "stall_duration"))
    least, calls, woken, shortest, longest = (want[key] / count / 1e6 for key in (
        "outside_ns", "calls_ns", "woken_ns", "least_ns", "most_ns"))
    most = least + calls + woken + NOISE_MS
    if TELL:
        print(f"{lane} {want['name']}: {count} in {got['rows']} rows, slack {slack:.3f} in "
              f"{least:.3f}..{most:.3f} ms, observed {observed:.3f} in {shortest:.3f}.."
              f"{longest:.3f}, stall {stall:.3f}, {want['bytes']} bytes")
    expect(least - ROUND_MS <= slack <= most,
           f"{lane}: {want['name']}: slack {slack} ms, {least} to {most} in the job")
    expect(shortest - ROUND_MS <= observed <= longest + ROUND_MS,
           f"{lane}: {want['name']}: observed {observed} ms, {shortest} to {longest} in the job")
    if want["only"]:
        expect(abs(observed - slack - stall) <= 3 * ROUND_MS,
               f"{lane}: {want['name']}: {observed} ms are not slack {slack} and stall {stall}")


def main(build, folder, lanes):
    try:
        from xprof.convert import raw_to_tool_data  # noqa: F401 pylint: disable=unused-import
    except ImportError as error:
        skip(f"no xprof: {error}")
    for lane in lanes:
        path, truth = capture(build, folder, lane)
        got = table(path)
        expect(set(got) == {want["name"] for want in truth}, f"{lane}: rows of {sorted(got)}")
        for want in truth:
            check(want, got[want["name"]], lane)
        print(f"{lane}: {sum(int(row['count']) for row in got.values())} collectives in "
              f"{sum(row['rows'] for row in got.values())} rows are what the job did")


TELL = notebook.TELL
if __name__ == "__main__":
    main(sys.argv[1], os.path.abspath(sys.argv[2]), sys.argv[3:])
    print("all agree")
