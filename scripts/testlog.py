"""testlog.py TESTLOG_JSON - what a run of meson's tests came to, for scripts/test.

First line: passed, failed, skipped. Then, indented, each failed test with the end of its output,
and each skipped one with its reason.
"""
import json
import sys

PASSED = {"OK", "EXPECTEDFAIL"}
SKIPPED = {"SKIP"}
TAIL = 25


def name(test):
    """meson writes "project:suite / name" when several suites ran."""
    return test["name"].split(":")[-1]


def said(test):
    return (test.get("stdout", "") + test.get("stderr", "")).strip().split("\n")


def main(path):
    with open(path, encoding="utf-8", errors="replace") as f:
        tests = [json.loads(line) for line in f if line.strip()]
    passed = [t for t in tests if t["result"] in PASSED]
    skipped = [t for t in tests if t["result"] in SKIPPED]
    failed = [t for t in tests if t["result"] not in PASSED | SKIPPED]
    print(len(passed), len(failed), len(skipped))
    for test in skipped:
        print(f"    skipped {name(test)}: {said(test)[-1]}")
    for test in failed:
        print(f"    {test['result']} {name(test)} after {test['duration']:.1f} s")
        for line in said(test)[-TAIL:]:
            print(f"        {line}")


main(sys.argv[1])
