"""What takes a few seconds, so that each run has it: a 32 bit compiler is refused by a sentence,
and scripts/install-deps says and does what it should on a system whose packages are made up. What
demo_lines.py finds odd in a demo, it finds; and of a demo without oddities it says nothing.
packaging/first-hour types what stands in docs/install.md."""
import os

import demo_lines
import lab

MACHINE = """[binaries]
c = ['cc', '-m32']
[properties]
skip_sanity_check = true
[host_machine]
system = 'linux'
cpu_family = 'x86'
cpu = 'i686'
endian = 'little'
"""
# A demo as it should be, and what each of its lines must not become, with words of what is said.
DEMO = """
=== 2. the first
  assumed: ranks=2 (that average their gradients)
  overlap                            none: 2 ranks have 2
  exchange, fastest to slowest       0.0326 s to 0.0414 s
  kind             lane     count       p50
  all-reduce       shm        693     6.815
  size                               1014.0 MiB
  recommended premap_memory_bytes    1014.0 MiB
  fallback copies                    0 (0 B)
=== 3. the second
  size                               1024.0 MiB
  recommended premap_memory_bytes    1014.0 MiB
CURE: a pool of 1014 MiB (recommended by /v1/pool)
=== 4. a page
  xdg-open /folder/build-demo/demo-report.html
"""
ODD = [
    ("none: 2 ranks have 2", "-7 % of the shorter one", "a negative figure"),
    ("none: 2 ranks have 2", "13 % of the shorter one", "little overlap without its reason"),
    ("0.0326 s to 0.0414 s", "0.0326", "a figure without a unit"),
    ("  all-reduce       shm        693     6.815\n", "\n", "a table without rows"),
    ("memory_bytes    1014.0 MiB\n  fallback", "memory_bytes    1018.0 MiB\n  fallback",
     "more is recommended than was enough"),
    ("0 (0 B)", "1 (0.0 MiB)", "bytes that are shown as none"),
    ("ranks=2 (that", "tokens=4096 (for --intensity alone, that", "means nothing to the reader"),
    ("a pool of 1014", "a pool of 1016", "the cure is more than"),
    ("  xdg-open /folder", "  /folder", "no page to open"),
]
# These stand for dpkg-query (nothing is installed, but what INSTALLED names), apt-get and sudo.
DPKG = """#!/bin/sh
for package; do :; done
case " $INSTALLED " in *" $package "*) echo installed ;; *) exit 1 ;; esac
"""
APT = """#!/bin/sh
echo "apt-get $*" >>"$SAID"
"""
ID = """#!/bin/sh
[ "$1" = -u ] && echo "$AS"
"""
NO_SUDO = """#!/bin/sh
exit 1
"""


def refuse_32_bits():
    if os.uname().machine != "x86_64" or lab.run(["cc", "-m32", "-c", "-x", "c", "/dev/null", "-o",
                                                  lab.place("x.o")]).returncode != 0:
        print("note: this compiler has no -m32")
        return
    done = lab.run(["meson", "setup", lab.place("b32"), lab.SOURCE, "--cross-file",
                    lab.write("32.ini", MACHINE)])
    lab.check(done.returncode != 0 and "Towline needs a 64 bit machine: " in done.stdout,
              f"a 32 bit compiler: {done.stdout[-500:]!r}")


def deps(words, user="1000", installed=""):
    """(status, what it printed, calls of apt-get)"""
    calls = lab.place("calls")
    if os.path.exists(calls):
        os.unlink(calls)
    done = lab.run([os.path.join(lab.SOURCE, "scripts", "install-deps"), *words],
                   {"PATH": lab.place("bin") + ":" + os.environ["PATH"], "SAID": calls, "AS": user,
                    "INSTALLED": installed})
    made = ""
    if os.path.exists(calls):
        with open(calls, encoding="utf-8") as f:
            made = f.read()
    return done.returncode, done.stdout, made


def check_deps():
    for name, text in (("dpkg-query", DPKG), ("apt-get", APT), ("id", ID), ("sudo", NO_SUDO)):
        os.chmod(lab.write("bin/" + name, text), 0o755)
    sets = {}
    for what in ("demo", "tests", "docs"):
        status, said, made = deps([what])
        last = said.strip().split("\n")[-1]
        lab.check(status == 1 and not made, f"{what} without root: {status}, {said}, {made}")
        lab.check(last.startswith("apt-get update && apt-get install -y --no-install-recommends "),
                  f"{what} without root prints {last!r}")
        sets[what] = set(last.split("--no-install-recommends ")[1].split())
    for heavy in ("clang", "clang-14", "chromium-headless-shell", "libcmocka-dev", "man-db"):
        lab.check(heavy not in sets["demo"], f"the demo pulls {heavy}")
    lab.check({"gcc", "libc6-dev", "meson", "curl"} <= sets["demo"], f"the demo has {sets['demo']}")
    lab.check({"clang-14", "libcmocka-dev", "abigail-tools"} <= sets["tests"], "tests lack one")
    lab.check("man-db" in sets["docs"] and "clang" not in sets["docs"], f"docs has {sets['docs']}")
    status, said, _ = deps([])
    lab.check(status == 1 and sets["demo"] | sets["tests"] == set(
        said.strip().split("\n")[-1].split("--no-install-recommends ")[1].split()), "the default")

    status, said, made = deps(["demo"], "0", "gcc meson")
    lab.check(status == 0 and "update\n" in made and "--no-install-recommends" in made and
              " meson " not in made, f"as root: {status}, {said}, {made}")
    status, said, made = deps(["demo"], "1000", " ".join(sets["demo"]))
    lab.check(status == 0 and f"all {len(sets['demo'])} packages are installed" in said and
              not made, f"with all installed: {status}, {said}, {made}")
    status, said, made = deps(["everything"])
    lab.check(status == 2 and "'everything' is none of demo, tests, docs" in said, said)


def check_odd():
    lab.check(not demo_lines.odd(DEMO), demo_lines.odd(DEMO))
    for right, wrong, words in ODD:
        found = demo_lines.odd(DEMO.replace(right, wrong, 1))
        lab.check(right in DEMO and len(found) == 1 and words in found[0], f"{wrong!r}: {found}")


def check_first_hour():
    script = os.path.join(lab.SOURCE, "packaging", "first-hour")
    names = lab.must([script, "--text"]).split()
    lab.check(names == ["demo", "packages", "explain", "jax", "torch"], f"its steps are {names}")
    with open(os.path.join(lab.SOURCE, "docs", "install.md"), encoding="utf-8") as f:
        page = f.read()
    for name in names:
        text = lab.must([script, "--text", name])
        lab.check(text and "```sh\n" + text + "```\n" in page, f"{name} types {text!r}")
    lab.check(lab.must([script, "--text", "demo"]) == "./scripts/demo\n", "the demo's block")
    lab.check(lab.run([script, "--everything"]).returncode == 2, "it takes any option")


lab.need("meson", "cc", "sh")
refuse_32_bits()
check_deps()
check_odd()
check_first_hour()
print("quick: passed")
