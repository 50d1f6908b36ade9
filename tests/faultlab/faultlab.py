"""faultlab.py - plants faults in jobs of many shapes, asks for the verdict, and prints a score.

    faultlab.py                        every fault and every healthy shape, twice
    faultlab.py --rounds 10            more of it
    faultlab.py --only "wrong tag"     one fault (several with commas between them); "healthy":
                                       jobs without one, "healthy pipe": of one shape
    faultlab.py --seed 7 --only "wrong tag" --run 3     plays run 3 of that again
    faultlab.py --way call             in all jobs a callback tells of ends; else it is drawn how
                                       ranks hear of them (lab_way.c), but with --short
    faultlab.py --short                what the suite runs: some clear faults, some healthy jobs

Exit: 0; 1 when a healthy job was accused, with --short also when a clear fault was not told in any
of the asks; 77 when nothing could be run. A verdict that is wrong is told with the command that
plays it again.

Environment: TOW_TEST_BUILD, TOW_TEST_SOURCE (meson sets them), TOW_TEST_SEED.
"""
import argparse
import dataclasses
import multiprocessing
import os
import random
import signal
import sys
import time

import faults
import jobs
import samples
from jobs import BEFORE, FAULT, MENDED, Job, Skip

ANSWERS = ("right", "other", "nobody", "silent", "disturbed", "wrong", "none")
# A healthy rank has its CPU: one that wanted it for this share of the time and had none, since the
# machine is busy with something else, is late in earnest. Who says so accuses nobody falsely.
DISTURBED = 0.03
BY_THE_MACHINE = {"late", "cpu", "throttled"}
SKIP = 77
HISTORY_S = 4
PAUSE_S = 1.1  # a rank gives an answer again that is not older
BESIDE = 3     # of the short run's jobs with a fault, which mostly sleep, run at once


@dataclasses.dataclass
class How:
    """How long and how often it is looked."""
    asks: int
    seconds: float
    until_told: bool = False  # no ask more once one was right
    ranks_most: int = 8
    way: str = ""             # how ranks hear of ends; "": it is drawn
    beside: int = 1           # jobs with a fault at once


class Run:
    """One job and what was seen of it."""

    def __init__(self, name, number, seed, how):
        self.name, self.number, self.seed = name, number, seed
        usual = SHORT.way if how.until_told else ""
        self.more = (" --short" if how.until_told else "") + \
            (f" --way {how.way}" if how.way != usual else "")
        self.answers = []     # of each ask
        self.wrong = []       # documents that accuse somebody else
        self.first_s = None   # from the fault to the first right answer
        self.history = None   # what --since said afterwards
        self.advice = False
        self.others = set()   # causes that were told in place of the right one
        self.before = self.during = self.after = None  # ms of a step
        self.hung = False
        self.skipped = None
        self.why = None       # whether `towstat why` told it; None: not asked
        self.recommended = ""
        self.load = os.getloadavg()[0]
        self.waits = None     # of a healthy job: the share of a step in which it does nothing
        self.complains = None  # whether `towstat why` does so still, after its advice was followed

    def replay(self):
        return (f'faultlab.py --seed {self.seed} --only "{self.name}" --run {self.number}'
                f"{self.more}")

    def factor(self):
        if self.hung:
            return "hangs"
        usual = self.before or self.after  # of a fault from the start: once it was mended
        if not usual or not self.during:
            return "-"
        return f"{self.during / usual:.2f}"


def draw_way(fault, name, number, seed, how, chosen):
    """By numbers of its own, so that a seed's jobs are otherwise what they were without ways."""
    rng = random.Random(f"{seed}/{name}/{number}/way")
    chosen["options"]["way"] = faults.draw_way(fault, rng, how.way)


def answerable(job, fault, chosen):
    mute = {chosen.get("victim")} if fault and fault.mute else set()
    return [rank for rank in job.ranks if job.alive(rank) and rank not in mute]


def ask_once(job, run, fault, chosen, rng, began):
    ranks = answerable(job, fault, chosen)
    if not ranks:
        return False
    if run.answers:
        time.sleep(PAUSE_S)
    status, document = job.ask(rng.choice(ranks))
    if fault is None:
        answer = healthy_answer(status, document)
    else:
        answer = faults.judge(fault, chosen, document, status)
    if answer == "wrong" and is_disturbed(job, fault, chosen, document):
        answer = "disturbed"
    run.answers.append(answer)
    if answer == "other":
        run.others |= {finding["cause"] for finding in document["findings"]}
    if answer == "wrong":
        run.wrong.append(document)
    if answer == "right":
        run.advice = run.advice or (fault is not None and faults.is_advice_right(fault, document))
        if run.first_s is None:
            run.first_s = time.monotonic() - began
    return True


def is_disturbed(job, fault, chosen, document):
    """Whether all whom it accuses, but for those with the fault, are slow for want of a CPU."""
    truth = faults.blamed(fault, chosen) if fault else set()
    for finding in document["findings"]:
        accused = set(finding["ranks"]) - truth
        if finding["links"] or accused and finding["cause"] not in BY_THE_MACHINE or \
                any(job.starved(rank) < DISTURBED for rank in accused):
            return False
    return True


def healthy_answer(status, document):
    if document is None:
        return "none"
    if document.get("findings"):
        return "wrong"
    return "right" if document.get("state") == "healthy" and status == 0 else "nobody"


def ask_history(job, run, fault, chosen, rng):
    """The looks that a rank has taken by itself meanwhile, the best of them."""
    time.sleep(HISTORY_S)  # a rank that is asked all the time takes no looks of its own
    ranks = answerable(job, fault, chosen)
    if not ranks:
        return
    status, rows = job.ask(rng.choice(ranks), "--since", "1m")
    began = time.time_ns() - int((time.monotonic() - job.phase_began) * 1e9)
    answers = [faults.judge(fault, chosen, row, status) for row in rows or []
               if isinstance(row, dict) and row.get("to_unix_ns", began) >= began]
    for answer in ("wrong", "right", "other", "nobody", "silent"):
        if answer in answers:
            run.history = answer
            return


def settle(job, fault, seconds):
    """A healthy phase, at the end of which all are connected and steps are usual."""
    if fault is not None and fault.start:
        return
    if not job.wait_steps(4, 30):
        raise Skip("the job did not begin: " +
                   " / ".join(filter(None, (job.output(r).strip()[:200] for r in job.ranks))))
    time.sleep(seconds)


def wait_for_ends(job, victim, seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end and any(job.alive(r) for r in job.ranks if r != victim):
        time.sleep(0.05)


def judge_ended(job, run, chosen, began):
    """A fault by which the job fails: what each rank says as its last word."""
    victim = chosen["victim"]
    wait_for_ends(job, victim, 10)
    texts = [job.output(rank) for rank in job.ranks if rank != victim]
    answer = faults.judge_errors(chosen, texts)
    run.answers.append(answer)
    run.hung = True
    if answer == "right":
        run.first_s = time.monotonic() - began


def judge_why(job, run, fault, chosen):
    status, text = job.towstat("why", f"{job.name}.{chosen['victim']}")
    run.why = status is not None and fault.why in text
    run.advice = run.why
    return text


def measure(job, run, phase, attribute):
    setattr(run, attribute, job.step_ms(phase))


def follow_advice(job, plant, run, fault, seconds):
    """Does what the mend says, and looks whether steps are fast again."""
    if fault.mend == "lift":
        job.set_phase(MENDED)
        plant.end()
        # What was on its way, or waits for a timer of TCP's, may take some more.
        job.wait_steps(max(job.counted(r)[0] for r in job.ranks) + 4, 15)
        time.sleep(seconds)
        run.after = job.step_ms(MENDED)


def mend_anew(run, fault, chosen, seconds):
    """The same job with other settings, as the mend says; its steps are those while the fault
    would be there."""
    name, _, value = fault.mend.partition("=")
    if name == "TOW_PREMAP_MEMORY_BYTES":
        value = run.recommended
    elif name == "TOW_SOCKET_BUFFER_BYTES":
        value = "0"
    if not value:
        return
    spec = faults.spec_of(fault, chosen, {name: value})
    job = Job(spec)
    try:
        if not job.wait_steps(4, 30):
            return
        job.set_phase(FAULT)
        time.sleep(seconds)
        run.after = job.step_ms(FAULT)
        if fault.why:
            _, text = job.towstat("why", f"{job.name}.{chosen['victim']}")
            run.complains = fault.why in text
    finally:
        job.close()


def recommended_of(job, rank):
    _, text = job.towstat("get", "/v1/pool", f"{job.name}.{rank}", "--select",
                          "recommended_premap_memory_bytes")
    digits = "".join(c for c in text if c.isdigit())
    return digits


def run_fault(fault, number, seed, how):
    rng = random.Random(f"{seed}/{fault.name}/{number}")
    chosen = faults.draw(fault, None, rng, how.ranks_most)
    draw_way(fault, fault.name, number, seed, how, chosen)
    run = Run(fault.name, number, seed, how)
    run.chosen = chosen
    plant = None
    try:
        job = Job(faults.spec_of(fault, chosen))
    except Skip as why:
        run.skipped = str(why)
        return run
    plant = fault.plant(job, chosen["victim"], chosen)
    try:
        settle(job, fault, how.seconds)
        if not fault.start:
            measure(job, run, BEFORE, "before")
        job.set_phase(FAULT)
        began = time.monotonic()
        if not fault.start:
            plant.begin()
        play_fault(job, plant, run, fault, chosen, rng, began, how)
    except Skip as why:
        run.skipped = str(why)
    finally:
        job.close()
        if hasattr(plant, "tidy"):
            plant.tidy()
    if run.skipped is None and fault.mend.startswith("TOW_"):
        mend_anew(run, fault, chosen, how.seconds)
    return run


def play_fault(job, plant, run, fault, chosen, rng, began, how):
    try:
        if fault.ends:
            judge_ended(job, run, chosen, began)
            return
        time.sleep(max(how.seconds, 1.5))
        for _ in range(how.asks):
            if not ask_once(job, run, fault, chosen, rng, began):
                break
            if how.until_told and run.answers[-1] == "right":
                break
        run.hung = job.is_hung()
        measure(job, run, FAULT, "during")
        if fault.why:
            judge_why(job, run, fault, chosen)
        if fault.mend == "TOW_PREMAP_MEMORY_BYTES":
            run.recommended = recommended_of(job, chosen["victim"])
        if fault.history:
            ask_history(job, run, fault, chosen, rng)
        follow_advice(job, plant, run, fault, how.seconds)
    finally:
        if not fault.ends and job.phase_began:
            try:
                plant.end()
            except (OSError, AttributeError):
                pass


def run_healthy(shape, number, seed, how):
    name = f"healthy {shape}"
    rng = random.Random(f"{seed}/{name}/{number}")
    chosen = faults.draw(None, shape, rng, how.ranks_most)
    draw_way(None, name, number, seed, how, chosen)
    run = Run(name, number, seed, how)
    run.chosen = chosen
    try:
        job = Job(faults.spec_of(None, chosen))
    except Skip as why:
        run.skipped = str(why)
        return run
    try:
        settle(job, None, how.seconds)
        began = time.monotonic()
        for _ in range(2 if how.until_told else how.asks):
            ask_once(job, run, None, chosen, rng, began)
        measure(job, run, BEFORE, "before")
        run.waits = waits_of(chosen, run.before)
    except Skip as why:
        run.skipped = str(why)
    finally:
        job.close()
    return run


# Of these shapes it is known for how long a rank is busy in a step.
TIMED_SHAPES = ("coll", "fused", "ring", "pipe", "pool")
# A job that waits for so much of a step is slow, though nothing is wrong with it.
WAITS_MUCH = 0.2


def waits_of(chosen, step_ms):
    """The share of a step in which a rank neither computes nor sleeps between its calls."""
    options = chosen["options"]
    if chosen["shape"] not in TIMED_SHAPES or not step_ms:
        return None
    busy_us = options["step_us"] + options.get("gap_us", 0) * (options.get("buckets", 1) - 1)
    return max(0.0, 1 - busy_us / 1000 / step_ms)


# --- what is printed ---

def describe(run):
    chosen = run.chosen
    drawn = {k: v for k, v in chosen.items() if k not in ("options", "size", "lane", "victim",
                                                          "shape")}
    options = {k: v for k, v in chosen["options"].items() if k not in ("shape", "rank", "fault")}
    words = [f"{chosen['size']} ranks", chosen["lane"], chosen["shape"],
             f"rank {chosen['victim']}" if "victim" in chosen else "",
             " ".join(f"{k}={v}" for k, v in drawn.items()),
             " ".join(f"{k}={v}" for k, v in options.items())]
    return ", ".join(word for word in words if word)


def tell_run(run):
    if run.skipped:
        print(f"{run.name} {run.number}: skipped: {run.skipped}", flush=True)
        return
    counts = " ".join(f"{a} {run.answers.count(a)}" for a in ANSWERS if a in run.answers)
    after = f", after the mend {run.after:.1f} ms" if run.after else ""
    steps = f"a step takes {run.before:.1f}" if run.before else "a step takes ?"
    if run.hung:
        steps += ", then it hangs"
    elif run.during:
        steps += f", then {run.during:.1f} ms"
    history = f", since: {run.history}" if run.history else ""
    busy = f", load {run.load:.0f}" if run.load > os.cpu_count() else ""
    others = f" ({', '.join(sorted(run.others))})" if run.others else ""
    print(f"{run.name} {run.number} ({describe(run)}): {counts}{others}; {steps}{after}{history}"
          f"{busy}", flush=True)
    for document in run.wrong[:1]:
        for finding in document.get("findings", []):
            print(f"    {finding['cause']} {finding.get('ranks')} {finding.get('links')}: "
                  f"{' / '.join(finding.get('evidence', []))}")
        print(f"    again: {run.replay()}", flush=True)


def told(runs):
    return [run for run in runs if run.skipped is None]


def range_of(values, form):
    values = sorted(v for v in values if v is not None)
    if not values:
        return "-"
    low, high = format(values[0], form), format(values[-1], form)
    return low if low == high else f"{low} to {high}"


def helped(run):
    """What following the advice did to a step."""
    if not run.after:
        return ""
    during = "hangs" if run.hung else f"{run.during:.0f}" if run.during else "-"
    still = ", and is told again" if run.complains else ""
    return f"{during} to {run.after:.0f} ms{still}"


COLUMNS = ("right", "other", "nobody", "silent", "disturbed", "wrong")


def tell_score(table):
    print("\n| fault | slower by | asks | right | other cause | nobody named | silent | "
          "another, for want of a CPU | wrong | first right (s) | since | advice | followed |")
    print("|---|---|---|---|---|---|---|---|---|---|---|---|---|")
    for name, runs in table.items():
        runs_told = told(runs)
        if not runs_told:
            print(f"| {name} | skipped: {runs[0].skipped} |")
            continue
        fault = faults.BY_NAME[name]
        answers = [a for run in runs_told for a in run.answers]
        factors = sorted({run.factor() for run in runs_told})
        histories = [run.history for run in runs_told if run.history]
        why = [run.why for run in runs_told if run.why is not None]
        since = f"why: {sum(why)} of {len(why)}" if why else \
            f"{histories.count('right')} of {len(histories)}" if histories else "-"
        advice = "-" if not fault.advice and not why else \
            f"{sum(run.advice for run in runs_told)} of {len(runs_told)}"
        print(f"| {name} | {', '.join(factors)} | {len(answers)} | " +
              " | ".join(str(answers.count(a)) for a in COLUMNS) +
              f" | {range_of([run.first_s for run in runs_told], '.1f')} | {since} | {advice} | "
              f"{'; '.join(filter(None, map(helped, runs_told))) or '-'} |")


def tell_healthy(table):
    print("\n| healthy jobs | waits for | jobs | asks | healthy | cannot tell | late for want of "
          "a CPU | accused | no answer |")
    print("|---|---|---|---|---|---|---|---|---|")
    brisk = []  # answers about jobs that do not wait for much of their time
    for name, runs in table.items():
        answers = [a for run in told(runs) for a in run.answers]
        counts = [str(answers.count(a)) for a in ("right", "nobody", "disturbed", "wrong", "none")]
        waits = range_of([run.waits for run in told(runs)], ".0%")
        print(f"| {name} | {waits} | {len(told(runs))} | {len(answers)} | {' | '.join(counts)} |")
        brisk += [a for run in told(runs) if (run.waits or 0) < WAITS_MUCH for a in run.answers]
    if brisk:
        print(f"of those that wait for less than {WAITS_MUCH:.0%} of a step: {len(brisk)} asks, "
              f"{brisk.count('nobody')} cannot tell, {brisk.count('wrong')} accuse somebody")


def tell_ways(table, healthy):
    """The answers by how ranks hear of ends."""
    print("\n| ranks hear of ends by | asks about faults | right | other cause | nobody named | "
          "silent | wrong | asks about healthy jobs | healthy | cannot tell | accused |")
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    for way in faults.WAYS:
        ill, well = ([a for rows in rows_of.values() for run in told(rows)
                      if run.chosen["options"]["way"] == way for a in run.answers]
                     for rows_of in (table, healthy))
        if ill or well:
            print(f"| {way} | {len(ill)} | " +
                  " | ".join(str(ill.count(a))
                             for a in ("right", "other", "nobody", "silent", "wrong")) +
                  f" | {len(well)} | " +
                  " | ".join(str(well.count(a)) for a in ("right", "nobody", "wrong")) + " |")


def tell_total(table, healthy):
    runs = [run for rows in table.values() for run in told(rows)]
    answers = [a for run in runs for a in run.answers]
    counts = ", ".join(f"{a} {answers.count(a)}" for a in ANSWERS)
    silent = sorted({run.name for run in runs
                     if not any(a in ("right", "other") for a in run.answers) and not run.why and
                     run.history not in ("right", "other")})
    print(f"\n{len(runs)} jobs with a fault, {len(answers)} asks: {counts}")
    loads = sorted(run.load for rows in (*table.values(), *healthy.values()) for run in rows)
    print(f"load of the machine as a job began: median {loads[len(loads) // 2]:.1f}, at most "
          f"{loads[-1]:.1f}, with {os.cpu_count()} CPUs")
    accused = sum(run.answers.count("wrong") for rows in healthy.values() for run in told(rows))
    print(f"healthy jobs: {sum(len(told(rows)) for rows in healthy.values())}, "
          f"{accused} asks that accuse somebody")
    print("nobody named by any ask of at least one job: " + (", ".join(silent) or "none"))
    for name, why in faults.NOT_PLANTED:
        print(f"not planted: {name}: {why}")


# --- what is run ---

SHORT_SHAPES = ("coll", "pipe")
# Of a clear fault somebody has to be told within so many asks.
SHORT = How(6, 0.5, True, 4, "wait", BESIDE)


def wanted(only):
    names = [name.strip() for name in only.split(",")] if only else []
    unknown = [name for name in names if name not in faults.BY_NAME and name != "healthy" and
               name.removeprefix("healthy ") not in faults.SHAPES]
    if unknown:
        sys.exit(f"faultlab.py: no such fault: {', '.join(unknown)}; there are: healthy, "
                 f"{', '.join(faults.BY_NAME)}")
    rows = [fault for fault in faults.FAULTS if not names or fault.name in names]
    shapes = [shape for shape in faults.SHAPES
              if not names or "healthy" in names or f"healthy {shape}" in names]
    return rows, shapes


def hand_run(pipe, *said):
    """In a process of its own."""
    with pipe:
        pipe.send(run_fault(*said))


def run_faults(rows, number, seed, how):
    """One job of each fault, as many at once as are allowed, in the list's order. However this is
    ended, those that it has begun end with it, and close their jobs."""
    begun = []
    try:
        for at, fault in enumerate(rows):
            if at >= how.beside:
                yield take_run(*begun[at - how.beside])
            ours, theirs = multiprocessing.Pipe(duplex=False)
            process = multiprocessing.Process(target=hand_run,
                                              args=(theirs, fault, number, seed, how))
            process.start()
            theirs.close()
            begun.append((process, ours))
        for process, ours in begun[-how.beside:]:
            yield take_run(process, ours)
    finally:
        for process, _ in begun:
            process.terminate()
        for process, _ in begun:
            process.join()


def take_run(process, pipe):
    try:
        run = pipe.recv()
    except EOFError:
        process.join()
        sys.exit(f"faultlab.py: a job's process ended with {process.exitcode}")
    process.join()
    return run


def run_all(rows, shapes, numbers, seed, how):
    """Healthy jobs have the machine for themselves."""
    table, healthy = {}, {}
    for number in numbers:
        for shape in shapes:
            run = run_healthy(shape, number, seed, how)
            healthy.setdefault(run.name, []).append(run)
            tell_run(run)
        for run in run_faults(rows, number, seed, how):
            table.setdefault(run.name, []).append(run)
            tell_run(run)
    return table, healthy


def end_once(number, _):
    """What is being closed is closed, however often it is said."""
    for other in ENDINGS:
        signal.signal(other, signal.SIG_IGN)
    sys.exit(128 + number)


ENDINGS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def failures(table, healthy, short):
    """What ends this with 1: a false accusation; and in the short run a clear fault that no ask
    has told. Others are the score's."""
    found = [run for rows in healthy.values() for run in told(rows) if run.wrong]
    if short:
        found += [run for rows in table.values() for run in told(rows)
                  if not any(a in ("right", "other") for a in run.answers)]
    return found


def main():
    parser = argparse.ArgumentParser(description="faults in jobs, and what is told of them")
    parser.add_argument("--seed", type=int,
                        default=int(os.environ.get("TOW_TEST_SEED", 0)) or None)
    parser.add_argument("--only", default="")
    parser.add_argument("--run", type=int, help="this one alone")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--asks", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1.5, help="of each phase")
    parser.add_argument("--way", choices=faults.WAYS, default="")
    parser.add_argument("--short", action="store_true")
    said = parser.parse_args()
    # However this is ended, what it has begun ends with it.
    for number in ENDINGS:
        signal.signal(number, end_once)
    if not os.path.exists(jobs.PROGRAM) or not os.path.exists(jobs.TOWSTAT):
        print("skipped: lab_job or towstat was not built")
        sys.exit(SKIP)
    seed = said.seed or random.SystemRandom().randrange(1, 1 << 31)
    print(f"seed {seed}", flush=True)
    rows, shapes = wanted(said.only)
    numbers = [said.run] if said.run is not None else range(said.rounds)
    how = How(said.asks, said.seconds, way=said.way)
    if said.short and not said.only:
        rows = [fault for fault in faults.FAULTS if fault.plain]
        shapes, numbers = SHORT_SHAPES, [0]
    if said.short:
        how = dataclasses.replace(SHORT, way=said.way or SHORT.way)
        for wrong in samples.faulty():
            sys.exit(f"FAILED: a sample is judged wrongly: {wrong}")
    table, healthy = run_all(rows, shapes, numbers, seed, how)
    runs = [run for rows in (*table.values(), *healthy.values()) for run in rows]
    if not told(runs):
        print(f"skipped: {runs[0].skipped}")
        sys.exit(SKIP)
    tell_score(table)
    tell_healthy(healthy)
    tell_ways(table, healthy)
    tell_total(table, healthy)
    bad = failures(table, healthy, said.short)
    for run in bad:
        print(f"FAILED: {run.name}: {', '.join(run.answers)}; again: {run.replay()}")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
