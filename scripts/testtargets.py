"""testtargets.py BUILD [--installed] [--objects] [--suite S] [--no-suite S] ... - what these tests
alone need.

Prints the targets, for ninja, that `meson test` would run or need with the same arguments; other
arguments are left out. With --installed, besides, what is installed; with --objects that and every
object file: all is compiled, not all linked.
scripts/test makes no more of its builds with clang and with sanitizers.
"""
import json
import os
import sys


def read(build, what):
    with open(os.path.join(build, "meson-info", f"intro-{what}.json"), encoding="utf-8") as f:
        return json.load(f)


def wanted(suites, only, without):
    names = {suite.split(":")[-1] for suite in suites}
    return not names & without and (not only or names & only)


def objects(build):
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as f:
        return {os.path.join(os.path.realpath(build), row["output"]) for row in json.load(f)}


def main(build, arguments):
    only, without = set(), set()
    for option, value in zip(arguments, arguments[1:]):
        if option in ("--suite", "--no-suite"):
            (only if option == "--suite" else without).add(value)
    files = {target["id"]: target["filename"] for target in read(build, "targets")}
    found = {name for test in read(build, "tests") if wanted(test["suite"], only, without)
             for target in test["depends"] for name in files[target]}
    if "--objects" in arguments:
        found |= objects(build)
    if "--objects" in arguments or "--installed" in arguments:
        found |= {name for target in read(build, "targets") if target["installed"]
                  for name in target["filename"]}
    print(" ".join(sorted(os.path.relpath(name, os.path.realpath(build)) for name in found)))


main(sys.argv[1], sys.argv[2:])
