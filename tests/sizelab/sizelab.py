"""sizelab.py - records programs of many shapes, sizes their pools by tow-size, runs them again
at the size named and at 90 % of it, and prints how often the size was right.

    sizelab.py                            100 programs
    sizelab.py --programs 1000 --first 500
    sizelab.py --seed 7 --only 31         plays one again; several with commas between them
    sizelab.py --kinds reduces,queue      only these kinds (programs.py)
    sizelab.py --repeat 5                 as many runs at the size named; one that is short counts
    sizelab.py --least 1                  looks for the least that works for each program, not for
                                          one in so many only
    sizelab.py --keep FOLDER              keeps programs and logs there
    sizelab.py --short                    what the suite runs

Exit: 0; 1 when a size called verified was too small for its program, or less than 90 % of the
programs got a verified size; 77 when nothing could be run. Each such size is told with the command
that plays its program again.

Environment: TOW_TEST_BUILD (meson sets it), TOW_TEST_SEED.
"""
import argparse
import collections
import concurrent.futures
import dataclasses
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

import programs
from runs import Failure, JEMALLOC, Run, size_of

SKIP = 77
MIDDLE_STEPS = 200  # of a program that was recorded in the middle, when it runs again
TENTHS = 0.9
MORE = (1.01, 1.02, 1.03, 1.05, 1.07, 1.1, 1.15, 1.2, 1.3, 1.5, 2)
FEWER = (0.85, 0.8, 0.7, 0.6, 0.5, 0.4)
POOL_MIN = programs.MIB
SHORT_OF = 48  # programs, of which the short run takes those that are the same each time
ANSWERS = ("right", "loose", "short", "unverified", "tiny", "failed")


@dataclasses.dataclass
class Answer:
    number: int
    program: programs.Program
    answer: str = ""
    named: int = 0
    why: str = ""
    needs: float = 0   # of the size named: the least that worked; 0: not looked for
    headroom: int = 0


class Lab:
    def __init__(self, arguments, folder):
        self.arguments, self.folder = arguments, folder

    def run(self, answer, sizes, steps, **more):
        return Run(answer.program, f"{self.folder}/{answer.number}", sizes, steps, **more).play()

    def is_clean(self, answer, bytes_named, steps):
        """Whether the rank that is judged had room for all; the others have more than they need."""
        judged = judged_rank(answer)
        sizes = [large_pool(answer)] * answer.program.ranks
        sizes[judged] = bytes_named
        try:
            counts = self.run(answer, sizes, steps)[judged]
        except Failure as why:  # a call without room fails, and a view waits for it
            if "TOW_EEXHAUSTED" in str(why) or "TOW_ETIMEDOUT" in str(why):
                return False
            raise
        return counts["late"] + counts["refused"] + counts["grown"] == 0

    def record(self, answer):
        program = answer.program
        middle = program.capture == "middle"
        counts = self.run(answer, [large_pool(answer)] * program.ranks, program.steps,
                          log=f"{self.folder}/{answer.number}/log", of=judged_rank(answer),
                          middle=middle)
        if not middle and counts[judged_rank(answer)]["refused"]:
            raise Failure("the pool to record it with was too small")

    def judge(self, answer):
        program = answer.program
        steps = program.steps if program.capture == "open" else MIDDLE_STEPS
        self.record(answer)
        document = size_of(f"{self.folder}/{answer.number}/log")
        answer.named = document["premap_memory_bytes"]
        answer.headroom = document["headroom"]["bytes"]
        if not document["verified"]:
            answer.answer, answer.why = "unverified", document["verified_reason"] or "?"
            return
        if answer.named <= POOL_MIN / TENTHS:
            answer.answer = "tiny"
            if not self.is_clean(answer, answer.named, steps):
                answer.answer = "short"
            return
        named_clean = all(self.is_clean(answer, answer.named, steps)
                          for _ in range(self.arguments.repeat))
        if not named_clean:
            answer.answer = "short"
            answer.needs = self.above(answer, steps)
        else:
            below = self.is_clean(answer, answer.named // 10 * 9, steps)
            answer.answer = "loose" if below else "right"
            if self.arguments.least and answer.number % self.arguments.least == 0:
                answer.needs = self.least(answer, steps, below)

    def above(self, answer, steps):
        for more in MORE:
            if self.is_clean(answer, int(answer.named * more) // 4096 * 4096, steps):
                return more
        return MORE[-1]

    def least(self, answer, steps, below):
        """The least part of the size named that works, by halves; to an eightieth of it."""
        works, fails = (TENTHS, 0) if below else (1, TENTHS)
        for part in FEWER if below else ():
            if answer.named * part < POOL_MIN or \
                    not self.is_clean(answer, int(answer.named * part) // 4096 * 4096, steps):
                fails = part
                break
            works = part
        while works - fails > 0.0125 and answer.named * works > POOL_MIN * 1.02:
            middle = (works + fails) / 2
            if answer.named * middle >= POOL_MIN and \
                    self.is_clean(answer, int(answer.named * middle) // 4096 * 4096, steps):
                works = middle
            else:
                fails = middle
        return works


def judged_rank(answer):
    return answer.number // len(programs.KINDS) % answer.program.ranks


def large_pool(answer):
    """What it is recorded with: all of its blocks twice, and what the library may take of it."""
    return (4 * answer.program.peak + 32 * programs.MIB) // 4096 * 4096


def one(lab, seed, number):
    answer = Answer(number, programs.draw(seed, number))
    folder = f"{lab.folder}/{number}"
    os.makedirs(folder, exist_ok=True)
    with open(f"{folder}/program", "w", encoding="utf-8") as file:
        file.write(answer.program.text)
    try:
        lab.judge(answer)
    except Failure as why:
        answer.answer, answer.why = "failed", str(why)
    if not lab.arguments.keep:
        shutil.rmtree(folder, ignore_errors=True)
    return answer


def tell_one(answer, arguments):
    program = answer.program
    where = f"{program.kind}, {program.lane}, {program.arena}, {program.moves}, " \
        f"{program.threads} threads, from the {program.capture}"
    more = {"short": f"needs {answer.needs:.2f} of it", "loose": f"{answer.needs:.2f} of it does"}
    print(f"{answer.number}: {answer.answer}: {where}: {answer.named / programs.MIB:.2f} MiB"
          f" (headroom {answer.headroom / programs.MIB:.2f}); "
          f"{answer.why or more.get(answer.answer, '')}\n"
          f"    sizelab.py --seed {arguments.seed} --only {answer.number}", flush=True)


def tell_table(answers, title, key):
    groups = collections.defaultdict(list)
    for answer in answers:
        groups[key(answer)].append(answer)
    print(f"{title:14}" + "".join(f"{name:>11}" for name in ANSWERS) + "  N / least")
    for name in sorted(groups):
        counts = collections.Counter(answer.answer for answer in groups[name])
        ratios = [1 / a.needs for a in groups[name] if a.needs and a.answer != "short"]
        print(f"{name:14}" + "".join(f"{counts[word] or '':>11}" for word in ANSWERS) +
              (f"  {statistics.median(ratios):9.3f} (of {len(ratios)})" if ratios else ""))


def tell(answers, seed):
    program = "program"
    for title, key in (("kind", "kind"), ("lane", "lane"), ("arena", "arena"), ("moves", "moves"),
                       ("capture", "capture"), ("threads", "threads")):
        tell_table(answers, title, lambda a, key=key: str(getattr(getattr(a, program), key)))
        print()
    tell_table(answers, "all", lambda a: f"seed {seed}")


def options_of():
    parser = argparse.ArgumentParser(add_help=True)
    parser.add_argument("--seed", type=int, default=int(os.environ.get("TOW_TEST_SEED", "1")))
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--programs", type=int, default=100)
    parser.add_argument("--only", default="")
    parser.add_argument("--kinds", default="")
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--least", type=int, default=8)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--keep", default="")
    parser.add_argument("--short", action="store_true")
    arguments = parser.parse_args()
    if arguments.short:
        arguments.programs, arguments.least, arguments.seed = SHORT_OF, 0, 1
    return arguments


def numbers_of(arguments):
    if arguments.only:
        return [int(word) for word in arguments.only.split(",")]
    numbers = range(arguments.first, arguments.first + arguments.programs)
    kinds = arguments.kinds.split(",") if arguments.kinds else programs.KINDS
    return [n for n in numbers if is_wanted(programs.draw(arguments.seed, n), kinds, arguments)]


def is_wanted(program, kinds, arguments):
    if program.kind not in kinds or program.arena == "jemalloc" and not JEMALLOC:
        return False
    # Nothing of these hangs on when a thread runs, so that none of them may be wrong.
    return not arguments.short or program.kind in programs.PATTERNS and program.threads == 1 and \
        program.capture == "open"


def main():
    arguments = options_of()
    folder = arguments.keep or tempfile.mkdtemp(prefix="tow-sizelab-")
    os.makedirs(folder, exist_ok=True)
    lab = Lab(arguments, folder)
    answers = []
    try:
        with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
            for answer in pool.map(lambda n: one(lab, arguments.seed, n), numbers_of(arguments)):
                answers.append(answer)
                if answer.answer in ("short", "loose", "unverified", "failed"):
                    tell_one(answer, arguments)
    finally:
        if not arguments.keep:
            shutil.rmtree(folder, ignore_errors=True)
    print()
    tell(answers, arguments.seed)
    counts = collections.Counter(answer.answer for answer in answers)
    judged = len(answers) - counts["failed"]
    if judged == 0:
        return SKIP
    verified = judged - counts["unverified"]
    print(f"\n{len(answers)} programs: {verified} verified, of these {counts['short']} too small, "
          f"{counts['loose']} run at 90 % of the size as well; {counts['failed']} could not be run")
    return 1 if counts["short"] or verified < 0.9 * judged else 0


if __name__ == "__main__":
    sys.exit(main())
