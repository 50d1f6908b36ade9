"""samples.py - answers made by hand, each with what the laboratory has to make of it: the judge of
the judge. faultlab.py --short begins with them, so that no score can be blind."""
import faults


def document(state="slow", *findings, **more):
    rows = [{"cause": cause, "ranks": [w for w in whom if isinstance(w, int)],
             "links": [{"from": w[0], "to": w[1]} for w in whom if not isinstance(w, int)],
             "cure": cure} for cause, whom, cure in findings]
    return dict({"state": state, "findings": rows}, **more)


# Fault, what was drawn, exit status, document, what it is.
SAMPLES = [
    ("SIGSTOP", {"victim": 1}, 3, document("stuck", ("stopped", [1], "")), "right"),
    ("SIGSTOP", {"victim": 1}, 3, document("stuck", ("silent", [1], "")), "other"),
    ("SIGSTOP", {"victim": 1}, 3, document("stuck", ("stopped", [2], "")), "wrong"),
    ("SIGSTOP", {"victim": 1}, 3, document("stuck", ("stopped", [1, 2], "")), "wrong"),
    ("SIGSTOP", {"victim": 1}, 3,
     document("stuck", ("stopped", [1], ""), ("cpu", [0], "")), "wrong"),
    ("SIGSTOP", {"victim": 1}, 4, document("stuck"), "nobody"),
    ("SIGSTOP", {"victim": 1}, 5, document("healthy"), "nobody"),
    ("SIGSTOP", {"victim": 1}, 0, document("healthy"), "silent"),
    ("SIGSTOP", {"victim": 1}, 1, None, "none"),
    ("SIGSTOP pulses", {"victim": 1}, 3, document("slow", ("held", [1], "")), "right"),
    ("SIGSTOP pulses", {"victim": 1}, 3, document("slow", ("slow_stage", [1], "")), "other"),
    ("SIGSTOP pulses", {"victim": 1}, 3, document("slow", ("slow_link", [(0, 1)], "")), "wrong"),
    ("cross receives", {"victim": 1, "other": 2}, 3,
     document("stuck", ("deadlock", [1, 2], "")), "right"),
    ("cross receives", {"victim": 1, "other": 2}, 3,
     document("stuck", ("deadlock", [0, 1], "")), "wrong"),
    ("partition of a host", {"victim": 1}, 3, document("stuck", ("link", [(0, 1)], "")), "right"),
    ("partition of a host", {"victim": 1}, 3, document("stuck", ("link", [(0, 2)], "")), "wrong"),
    ("partition of a host", {"victim": 1}, 3, document("stuck", ("silent", [1], "")), "other"),
    ("one way of a pair cut", {"victim": 0, "other": 1, "one_way": 1}, 3,
     document("stuck", ("link", [(0, 1)], "")), "right"),
    ("one way of a pair cut", {"victim": 0, "other": 1, "one_way": 1}, 3,
     document("stuck", ("link", [(1, 0)], "")), "other"),
    ("rank never comes", {"victim": 1}, 3,
     document("forming", ("not_come", [1], ""), ranks_missing=1), "right"),
    ("rank never comes", {"victim": 0}, 3,
     document("forming", ("not_come", [0], ""), ranks_missing=3), "right"),
    ("rank never comes", {"victim": 1}, 3,
     document("forming", ("not_come", [2], ""), ranks_missing=1), "wrong"),
    ("rank never comes", {"victim": 1}, 3,
     document("forming", ("not_come", [1, 2], ""), ranks_missing=2), "wrong"),
    ("rank never comes", {"victim": 1}, 3,
     document("stuck", ("silent", [1], ""), ranks_missing=1), "other"),
    ("rank never comes", {"victim": 1}, 5, document("forming", ranks_missing=1), "nobody"),
    ("rank never comes", {"victim": 1}, 5, document("forming", ranks_missing=3), "nobody"),
    ("rank never comes", {"victim": 1}, 0, document("healthy", ranks_missing=0), "silent"),
]

# What ranks have said as their last word when rank 1 had failed.
WORDS = [
    (["error: TOW_EPEER: rank 1 has gone", "error: TOW_EPEER: rank 1 has gone"], "right"),
    (["error: TOW_EPEER: rank 1 has gone", "error: TOW_EPEER: somebody has gone"], "other"),
    (["error: TOW_EPEER: rank 10 has gone", "error: TOW_EPEER: rank 2 has gone"], "nobody"),
    (["", ""], "silent"),
]


def faulty():
    """Samples that are judged in another way than they should be."""
    for name, chosen, status, sample, expected in SAMPLES:
        found = faults.judge(faults.BY_NAME[name], chosen, sample, status)
        if found != expected:
            yield f"{name}, {sample}: {found}, not {expected}"
    for texts, expected in WORDS:
        found = faults.judge_errors({"victim": 1}, texts)
        if found != expected:
            yield f"{texts}: {found}, not {expected}"
    advised = document("slow", ("throttled", [1], "raise the quota of its container"))
    if not faults.is_advice_right(faults.BY_NAME["CPU quota"], advised):
        yield "the advice to raise a quota is none"
    if faults.is_advice_right(faults.BY_NAME["SIGSTOP"], advised):
        yield "the advice to raise a quota continues a process"
