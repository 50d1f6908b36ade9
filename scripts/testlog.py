"""testlog.py [--undecided] TESTLOG_JSON - what a run of meson's tests came to, for scripts/test.

First line: passed, failed, skipped. Then, indented, each failed test with the end of its output,
and each skipped one with its reason.

--undecided takes the tests out of the file that have failed by nothing but the end of
LeakSanitizer's own tracer, and prints their names: they are to be run again (docs/testing.md).
"""
import contextlib
import io
import json
import sys
import tempfile

PASSED = {"OK", "EXPECTEDFAIL"}
SKIPPED = {"SKIP"}
TAIL = 25
TRACER = "LeakSanitizer has encountered a fatal error"
FOUND = ("ERROR: AddressSanitizer", "ERROR: LeakSanitizer", "runtime error:")


def name(test):
    """meson writes "project:suite / name" when several suites ran."""
    return test["name"].split(":")[-1]


def said(test):
    return (test.get("stdout", "") + test.get("stderr", "")).strip().split("\n")


def read(path):
    with open(path, encoding="utf-8", errors="replace") as f:
        return [json.loads(line) for line in f if line.strip()]


def is_undecided(test):
    text = test.get("stdout", "") + test.get("stderr", "")
    return test["result"] == "FAIL" and TRACER in text and not any(f in text for f in FOUND)


def take_undecided(path):
    tests = read(path)
    names = {name(t).split(" / ")[-1] for t in tests if is_undecided(t)}
    with open(path, "w", encoding="utf-8") as f:
        for test in tests:
            if name(test).split(" / ")[-1] not in names:
                f.write(json.dumps(test) + "\n")
    print(*sorted(names))


def main(path):
    tests = read(path)
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


def self_test():
    rows = [{"name": f"towline:unit / {n}", "result": r, "duration": 1.0, "stdout": out}
            for n, r, out in (("good", "OK", TRACER), ("tracer", "FAIL", f"==1=={TRACER}."),
                              ("bug", "FAIL", f"{TRACER}, ERROR: AddressSanitizer: x"),
                              ("wrong", "FAIL", "0x1 != 0"), ("late", "TIMEOUT", TRACER))]
    with tempfile.NamedTemporaryFile("w+", encoding="utf-8") as f:
        f.write("".join(json.dumps(row) + "\n" for row in rows))
        f.flush()
        heard = io.StringIO()
        with contextlib.redirect_stdout(heard):
            take_undecided(f.name)
        left = [name(t).split(" / ")[-1] for t in read(f.name)]
    assert heard.getvalue() == "tracer\n", heard.getvalue()
    assert left == ["good", "bug", "wrong", "late"], left


if sys.argv[1] == "--self-test":
    self_test()
elif sys.argv[1] == "--undecided":
    take_undecided(sys.argv[2])
else:
    main(sys.argv[1])
