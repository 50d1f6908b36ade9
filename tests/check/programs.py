"""programs.py - one rule for every installed program, and the completions of shells.

--version says "NAME VERSION" and --help says what it does, both on the standard output with status
0. An option that there is not is named on the standard error, with the program's name and status 2;
also behind a command of a program that has options of its own. Which programs there are, meson
says.
"""
import concurrent.futures
import json
import os
import re
import shutil
import subprocess
import sys

import common
from common import Fault

WRONG = "--no-such-option"


def described(build, name):
    """A document in which meson says what it has set up."""
    with open(os.path.join(build, "meson-info", f"intro-{name}.json"), encoding="utf-8") as f:
        return json.load(f)


def settings(build):
    return {o["name"]: o["value"] for o in described(build, "buildoptions")}


def installed(build):
    """{name: path in the build} of what is installed into bindir."""
    options = settings(build)
    bindir = os.path.join(options["prefix"], options["bindir"])
    return {os.path.basename(to): path for path, to in described(build, "installed").items()
            if os.path.dirname(to) == bindir}


def run(command):
    """A finished process, as text; one that does not end is a status of its own."""
    try:
        return common.run(command, timeout=30)
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, "none in 30 s", "", "")


def judge(command, demands):
    """What is wrong with a run. demands: status, pattern of stdout, pattern of stderr."""
    done = run(command)
    status, out, err = demands
    shown = " ".join([os.path.basename(command[0]), *command[1:]])
    if done.returncode != status:
        yield f"{shown}: the status is {done.returncode}, not {status}"
    elif not re.fullmatch(out, done.stdout, flags=re.S):
        yield f"{shown}: the standard output is '{done.stdout[:80].strip()}'"
    elif not re.fullmatch(err, done.stderr, flags=re.S):
        yield f"{shown}: the standard error is '{done.stderr[:80].strip()}'"


def commands_of(name, path):
    """The commands that have a --help of their own."""
    text = run([path, "--help"]).stdout
    words = set(re.findall(rf"^  {re.escape(name)} ([a-z][a-z0-9-]*)\b", text, flags=re.M))
    return [w for w in sorted(words) if run([path, w, "--help"]).stdout not in ("", text)]


def check_program(item):
    """The rule, for a program and for its commands."""
    name, path, version = item
    wrong = rf".*{re.escape(name)}\b.*{WRONG[2:]}.*"
    wanted = [(["--version"], (0, rf"{re.escape(name)} {version}\n", "")),
              (["--help"], (0, rf".*{re.escape(name)}\b.*--version.*\n", "")),
              (["-h"], (0, rf".*{re.escape(name)}\b.*\n", "")), ([WRONG], (2, "", wrong))]
    for command in commands_of(name, path):
        wanted.append(([command, WRONG], (2, "", wrong)))
    return [f for words, demands in wanted for f in judge([path, *words], demands)]


def check_rule(found, version):
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        items = [(name, path, version) for name, path in sorted(found.items())]
        for said in pool.map(check_program, items):
            for what in said:
                yield Fault("docs/style.md", 1, what, "keep to the rule under Programs")


ASK = """
source "$1"
declare -F "_${2//-/_}" >/dev/null || exit 3
COMP_WORDS=("$2" "${@:3}")
COMP_CWORD=$(($# - 2))
"_${2//-/_}"
printf '%s\\n' "${COMPREPLY[@]}"
"""


def offers(file, name, words):
    """What bash offers for the last of the words."""
    done = run(["bash", "-c", ASK, "bash", file, name, *words])
    return done.stdout.split() if done.returncode == 0 and not done.stderr else None


def check_completions(found, files):
    """An option, a command, an option of a command, and what is no option of it."""
    for name, path in sorted(found.items()):
        if name not in files or not os.path.exists(files[name]):
            yield Fault("docs/completions/meson.build", 1, f"{name} has no completion for bash",
                        "give it a row in man_programs of docs/meson.build")
            continue
        asked = [(["--vers"], ["--version"])]
        for command in commands_of(name, path)[:2]:
            asked += [([command[:-1]], [command]), ([command, "--hel"], ["--help"]),
                      ([command, command[:-1]], [])]
        for words, wanted in asked:
            got = offers(files[name], name, words)
            if got is None or (wanted and wanted[0] not in got) or (not wanted and got):
                yield Fault("docs/completions/completions.py", 1, f"bash offers {got} for "
                            f"'{name} {' '.join(words)}', not {wanted}", "mend it")


def check(tree, args=None):
    if args is None:
        found = {os.path.basename(n): tree.path(n) for n in tree.match("bin/")}
        for path in found.values():
            os.chmod(path, 0o755)
        return list(check_rule(found, "1")) + list(check_completions(
            found, {os.path.basename(n): tree.path(n) for n in tree.match("completions/")}))
    if args.sanitize not in (None, "none"):
        raise common.Skip("programs are asked in builds without a sanitizer")
    if shutil.which("bash") is None:
        raise common.Skip("bash is missing")
    found, folder = installed(args.build), os.path.join("bash-completion", "completions")
    if not found:
        return [Fault("meson.build", 1, "no program is installed", "the check is blind")]
    files = {os.path.basename(to): path for path, to in described(args.build, "installed").items()
             if os.path.dirname(to).endswith(folder)}
    version = re.escape(described(args.build, "projectinfo")["version"])
    return list(check_rule(found, version)) + list(check_completions(found, files))


GOOD = """#!/bin/sh
case $1 in
--version) echo "x 1" ;;
--help|-h) printf 'x - does\\n  x top    does more\\n  --help  --version\\n' ;;
top) case $2 in --help) echo other ;; *) echo "x top: $2 is wrong" >&2; exit 2 ;; esac ;;
*) echo "x: $1 is wrong" >&2; exit 2 ;;
esac
"""
OFFER = """_x()
{
\tcase ${COMP_WORDS[1]}:$COMP_CWORD in
\ttop:2) mapfile -t COMPREPLY < <(compgen -W '--help' -- "${COMP_WORDS[2]}") ;;
\t*) mapfile -t COMPREPLY < <(compgen -W '--version top' -- "${COMP_WORDS[1]}") ;;
\tesac
}
"""


def sample(old="", new="", offer=OFFER):
    return {"bin/x": GOOD.replace(old, new) if old else GOOD, "completions/x": offer}


SAMPLES = [
    ("good", sample(), None),
    ("no version", sample("--version)", "--versions)"), "x --version: the status is 2, not 0"),
    ("another version", sample("x 1", "x 2"), "the standard output is 'x 2'"),
    ("help on stderr", sample("\\n' ;;", "\\n' >&2 ;;"), "x --help: the standard output is ''"),
    ("help fails", sample("--version\\n' ;;", "--version\\n'; exit 2 ;;"),
     "x --help: the status is 2"),
    ("another status", sample('$1 is wrong" >&2; exit 2', '$1 is wrong" >&2; exit 64'),
     "x --no-such-option: the status is 64, not 2"),
    ("unnamed option", sample('"x: $1 is wrong"', '"x: wrong"'),
     "the standard error is 'x: wrong'"),
    ("on stdout", sample('$1 is wrong" >&2', '$1 is wrong"'), "the standard output is 'x: --no"),
    ("a command's status", sample('$2 is wrong" >&2; exit 2', '$2 is wrong" >&2; exit 1'),
     "x top --no-such-option: the status is 1"),
    ("no completion", {"bin/x": GOOD}, "x has no completion for bash"),
    ("no command offered", sample(offer=OFFER.replace(" top'", "'")), "for 'x to'"),
    ("no option offered", sample(offer=OFFER.replace("--version", "--v")), "for 'x --vers'"),
    ("a command twice", sample(offer=OFFER.replace("'--help'", "'--help top'")), "for 'x top to'"),
]

if __name__ == "__main__":
    sys.exit(common.main(check, SAMPLES, [
        ("build", "the build folder"), ("sanitize", "the option b_sanitize")]))
