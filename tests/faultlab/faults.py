"""faults.py - the faults that the laboratory can plant, each with the jobs in which it is, what the
truth is (whom and what a right verdict names), and what its mend does. What cannot be planted is
listed below, with why.

A draw is a dict of everything that the seed has chosen; `spec_of` makes the job of it.
"""
import dataclasses
import re

import planting
from jobs import Spec

# What a right verdict may call it, of the causes of docs/verdict.md.
LATE = {"late"}
STAGE = {"slow_stage", "late", "absent"}
SERVER = {"slow_server", "late", "absent"}
INPUT = {"input", "late"}
HANGS = {"never_entered", "absent", "silent"}
PATH = {"slow_link", "link", "packet_loss"}
# A process that stands still from outside: as long as it lasts it is stopped, afterwards late.
STILL = {"held", "stopped", "late"}
# What only the network is to blame for.
WAYS_ALONE = PATH | {"mtu"}


@dataclasses.dataclass
class Fault:
    name: str
    shapes: tuple         # of which one is drawn
    lanes: tuple
    causes: set           # what is right
    inside: str = ""      # what lab_job calls it; "": it comes from outside
    plant: type = planting.Nothing
    drawn: dict = dataclasses.field(default_factory=dict)    # name: choices
    options: dict = dataclasses.field(default_factory=dict)  # of lab_job, over the shape's
    sizes: tuple = (2, 3, 4)
    victim: int = -1      # a rank; -1: any, -2: any but 0
    pair: bool = False    # the rank after the victim is to blame as well, or as much
    mute: bool = False    # the victim cannot be asked
    ends: bool = False    # the job fails: what the ranks say then is judged
    start: bool = False   # there from the start: nothing is known of before
    history: bool = False  # comes and goes: what the looks of a rank have kept is asked as well
    advice: str = ""      # what a right mend speaks of
    env: dict = dataclasses.field(default_factory=dict)
    env_of_victim: dict = dataclasses.field(default_factory=dict)
    cores: bool = False
    rails: int = 1
    why: str = ""         # asked of `towstat why`, not of the verdict: what it has to speak of
    mend: str = ""        # how the advice is followed: "lift", or variables of the environment
    plain: bool = False   # so clear that the short run fails where nobody is told of it


def coll_shape(rng, size):
    buckets = rng.choice((1, 1, 2, 3, 6))
    how = "spin" if size == 2 and rng.random() < 0.5 else "sleep"
    return {"shape": "coll", "buckets": buckets, "equal": rng.choice((0, 1)),
            "bytes": rng.choice((4096, 65536, 262144)), "how": how,
            "step_us": rng.choice((8000, 20000, 40000)), "spread": rng.choice((0, 0, 1)),
            "gap_us": rng.choice((0, 200, 2000)), "marks": rng.choice((0, 1))}


def fused_shape(rng, size):
    return {"shape": "fused", "buckets": rng.choice((2, 4, 8)), "bytes": rng.choice((1024, 16384)),
            "how": "spin" if size == 2 and rng.random() < 0.5 else "sleep",
            "step_us": rng.choice((8000, 20000)), "marks": rng.choice((0, 1))}


def input_shape(rng, size):
    return dict(coll_shape(rng, size), input_kib=rng.choice((1024, 4096)), pipe=0)


def feed_shape(rng, size):
    return dict(coll_shape(rng, size), input_kib=rng.choice((64, 1024)), pipe=1)


def ring_shape(rng, size):
    return {"shape": "ring", "messages": rng.choice((1, 4, 16)), "buckets": 2,
            "bytes": rng.choice((1024, 16384, 131072)), "how": "sleep",
            "step_us": rng.choice((8000, 20000)), "marks": rng.choice((0, 1))}


def pipe_shape(rng, size):
    return {"shape": "pipe", "messages": rng.choice((4, 8)), "bytes": rng.choice((4096, 131072)),
            "how": "sleep", "step_us": rng.choice((20000, 40000)), "marks": rng.choice((0, 1))}


def rpc_shape(rng, size):
    return {"shape": "rpc", "buckets": rng.choice((1, 4)), "bytes": 4096, "how": "sleep",
            "step_us": rng.choice((5000, 20000)), "serve_us": rng.choice((100, 500)),
            "rank": 0}


def flow_shape(rng, size):
    return {"shape": "flow", "messages": 48, "bytes": 4096, "how": "sleep", "step_us": 40000,
            "serve_us": 1000 // (size - 1), "buckets": 2, "rank": 0}


def pool_shape(rng, size):
    return {"shape": "pool", "buckets": rng.choice((2, 4)), "bytes": 1 << 20, "how": "sleep",
            "step_us": 10000}


SHAPES = {"coll": coll_shape, "fused": fused_shape, "input": input_shape, "feed": feed_shape,
          "ring": ring_shape, "pipe": pipe_shape, "rpc": rpc_shape, "flow": flow_shape,
          "pool": pool_shape}
LOCAL = ("shm", "tcp")
EVERY = ("shm", "tcp", "net")
NET = ("net",)
RULES = planting.Rules

FAULTS = [
    Fault("straggler 200-300 %", ("coll", "fused"), EVERY, LATE, "slow", plain=True,
          drawn={"pct": (200, 300)}, sizes=(2, 3, 4, 8), advice="see what that rank does"),
    Fault("straggler 50-100 %", ("coll", "fused"), EVERY, LATE, "slow",
          drawn={"pct": (50, 100)}, sizes=(2, 3, 4, 8), advice="see what that rank does"),
    Fault("straggler 20-30 %", ("coll", "fused"), EVERY, LATE, "slow", history=True,
          drawn={"pct": (20, 30)}, sizes=(2, 3, 4), advice="see what that rank does"),
    Fault("straggler 10 %", ("coll", "fused"), EVERY, LATE, "slow", history=True,
          drawn={"pct": (10,)},
          advice="see what that rank does"),
    Fault("slow neighbour", ("ring",), EVERY, STAGE, "slow",
          drawn={"pct": (100, 300)}, sizes=(3, 4)),
    Fault("slow stage", ("pipe",), EVERY, STAGE, "slow", drawn={"pct": (100, 300)},
          sizes=(2, 3, 4)),
    Fault("slow server", ("rpc",), EVERY, SERVER, "slow", victim=0,
          options={"serve_us": 500}, drawn={"pct": (2000, 4000)}, sizes=(2, 3)),
    Fault("server queue", ("rpc",), EVERY, SERVER, "slow", victim=0,
          options={"buckets": 16, "serve_us": 200}, drawn={"pct": (1000,)}, sizes=(3, 4)),
    Fault("pauses", ("coll", "fused"), LOCAL, LATE, "pause", history=True,
          drawn={"ms": (200, 400), "every": (10, 20)}),
    Fault("page-cache misses", ("input",), LOCAL, INPUT, "cold",
          options={"input_kib": 16384}),
    Fault("slow input", ("feed",), LOCAL, INPUT, "feed", drawn={"ms": (50, 100)}),
    Fault("hangs in its code", ("coll", "fused", "ring", "pipe"), EVERY, HANGS, "hang", plain=True,
          sizes=(2, 3, 4, 8), advice="towstat stacks"),
    Fault("busy loop", ("coll", "ring", "pipe"), LOCAL, HANGS, "busy", advice="towstat stacks"),
    Fault("hangs, background 0", ("coll",), LOCAL, HANGS, "hang", advice="background",
          env={"TOW_BACKGROUND": "0"}, mute=True),
    Fault("handler hangs", ("rpc",), LOCAL, HANGS | SERVER, "hang_handler", victim=0,
          sizes=(2, 3), mute=True),
    Fault("SIGSTOP", ("coll", "fused", "ring", "pipe"), EVERY, {"stopped"},
          plant=planting.Stopped, mute=True, sizes=(2, 3, 4, 8), advice="CONT", mend="lift",
          plain=True),
    Fault("SIGSTOP pulses", ("coll", "fused", "ring", "pipe"), EVERY, STILL,
          plant=planting.Pulses, history=True, drawn={"stop_ms": (150, 300),
                                                      "run_ms": (300, 600)}, mend="lift"),
    Fault("short SIGSTOP pulses", ("coll", "fused", "ring", "pipe"), EVERY, STILL,
          plant=planting.Pulses, history=True, drawn={"stop_ms": (50, 100),
                                                      "run_ms": (400, 1000)}, mend="lift"),
    Fault("long SIGSTOP pulses", ("coll", "fused", "ring", "pipe"), EVERY, STILL,
          plant=planting.Pulses, history=True, drawn={"stop_ms": (500, 1000, 2000),
                                                      "run_ms": (1000, 3000)}, mend="lift"),
    Fault("cpulimit", ("coll", "fused", "ring", "pipe"), EVERY, STILL | {"cpu", "throttled"},
          plant=planting.Pulses, history=True, mend="lift", drawn={"stop_ms": (80, 50),
                                                                   "run_ms": (20, 50)}),
    Fault("CPU quota", ("coll", "fused"), LOCAL, {"throttled"}, plant=planting.Quota,
          options={"how": "spin"}, sizes=(2,), drawn={"percent": (10, 20)}, advice="quota",
          mend="lift"),
    Fault("hogs on its core", ("coll", "fused"), LOCAL, {"cpu"}, plant=planting.Hogs,
          options={"how": "spin"}, sizes=(2,), cores=True, drawn={"hogs": (4, 8)},
          advice="its cores", mend="lift"),
    Fault("rank is killed", ("coll", "ring", "pipe"), LOCAL, {"dead"}, plant=planting.Killed,
          ends=True, mute=True),
    Fault("rank leaves", ("coll", "ring", "pipe"), LOCAL, {"dead"}, "leave", ends=True, mute=True),
    Fault("rank never comes", ("coll",), LOCAL, {"not_come"}, start=True, mute=True,
          sizes=(2, 3, 4, 8), advice="launcher"),
    Fault("order swapped", ("coll",), LOCAL, {"other_operation"}, "order", ends=True,
          options={"buckets": 3, "equal": 0, "bytes": 65536}, sizes=(3, 4)),
    Fault("other size", ("coll",), LOCAL, {"other_operation"}, "size", ends=True, sizes=(3, 4)),
    Fault("other kind", ("coll",), LOCAL, {"other_operation"}, "kind", ends=True, sizes=(3, 4)),
    Fault("other root", ("coll",), LOCAL, {"other_operation"}, "root", ends=True, sizes=(3, 4),
          options={"root": 1}),
    Fault("groups swapped", ("coll",), EVERY, {"other_operation", "deadlock"}, "groups",
          sizes=(3, 4), options={"groups": 1}),
    Fault("skipped call of equal size", ("coll",), LOCAL, {"other_operation"}, "skip",
          options={"buckets": 3, "equal": 1, "root": 0}, sizes=(3, 4)),
    Fault("cross receives", ("ring",), EVERY, {"deadlock"}, "cross", pair=True, sizes=(2, 3, 4),
          advice="tow_recv_start", plain=True),
    Fault("wrong tag", ("ring",), LOCAL, {"other_tag"}, "tag", pair=True, sizes=(3, 4),
          advice="same tag"),
    Fault("late receive", ("ring",), LOCAL, STAGE | {"credit"}, "late_recv",
          drawn={"ms": (50, 100)}, sizes=(3, 4)),
    Fault("credit starvation", ("flow",), LOCAL, {"credit"}, "credit", victim=0, sizes=(2, 3),
          env={"TOW_CREDIT_BYTES": "64KiB"}, advice="credit_bytes",
          mend="TOW_CREDIT_BYTES=4MiB"),
    Fault("pool leaks until it is full", ("pool",), LOCAL, {"pool"}, "leak", advice="premap",
          env={"TOW_EXHAUST": "wait", "TOW_EXHAUST_WAIT_NS": "60s"}),
    Fault("pool too small", ("pool",), LOCAL, {"pool"}, start=True, options={"buckets": 4},
          env_of_victim={"TOW_EXHAUST": "copy", "TOW_PREMAP_MEMORY_BYTES": "2MiB",
                         "TOW_STAGING_BYTES": "0"},
          why="premap_memory_bytes", advice="premap", mend="TOW_PREMAP_MEMORY_BYTES"),
    Fault("unregistered memory", ("coll",), ("shm",), set(), "heap", why="lab_colls.c",
          options={"bytes": 1 << 20, "buckets": 1}),
    Fault("registrations fail", ("coll",), ("tcp",), set(), start=True, why="RLIMIT_MEMLOCK",
          options={"bytes": 1 << 20, "buckets": 1, "no_registration": 1}),
    Fault("rate limit of a host", ("coll", "ring"), NET, PATH, plant=RULES, sizes=(3, 4),
          options={"bytes": 262144, "step_us": 8000}, drawn={"rule": ({"kbit": 50000},),
                                                             "other": (-1,)}, mend="lift"),
    Fault("delay of a host", ("coll", "ring", "rpc"), NET, PATH, plant=RULES, sizes=(3,),
          drawn={"rule": ({"delay_us": 20000},), "other": (-1,)}, mend="lift"),
    Fault("loss of a host", ("coll", "ring"), NET, PATH, plant=RULES, sizes=(3,), history=True,
          options={"bytes": 262144}, drawn={"rule": ({"loss_ppm": 20000}, {"loss_ppm": 50000}),
                                            "other": (-1,)}, mend="lift"),
    Fault("partition of a host", ("coll", "ring", "pipe"), NET, PATH, plant=RULES, sizes=(3, 4),
          drawn={"rule": ({"cut": 1},), "other": (-1,)}, advice="path", mend="lift"),
    Fault("one way of a pair cut", ("ring", "pipe"), NET, PATH, plant=RULES, sizes=(3, 4),
          pair=True, drawn={"rule": ({"cut": 1},), "one_way": (1,)}, advice="path"),
    Fault("MTU hole of a pair", ("ring",), NET, PATH | {"mtu"}, plant=RULES, sizes=(3, 4),
          pair=True, options={"bytes": 131072}, drawn={"rule": ({"mtu": 1000},), "one_way": (1,)},
          advice="MTU"),
    Fault("SYN filter of a pair", ("ring",), NET, PATH, start=True, pair=True, sizes=(4,),
          victim=-2, plant=RULES, drawn={"rule": ({"nosyn": 1},)}, advice="path", plain=True),
    Fault("slow rail", ("ring",), NET, PATH, plant=RULES, sizes=(2,), rails=2,
          options={"bytes": 524288, "messages": 4, "address": "tow://"},
          env={"TOW_BULK_STREAMS": "2"}, drawn={"rule": ({"kbit": 30000},), "other": (-1,),
                                                "rail": (1,)}, advice="path", mend="lift"),
    Fault("wrong path", ("ring",), NET, PATH, plant=RULES, sizes=(3,), rails=2, victim=-2,
          options={"bytes": 262144}, env_of_victim={"TOW_INTERFACES": "rail1"},
          drawn={"rule": ({"kbit": 30000},), "other": (-1,), "rail": (1,)}),
    Fault("small TCP buffers", ("coll",), NET, {"tcp_buffers"}, start=True, sizes=(2, 3),
          options={"bytes": 262144, "buckets": 2},
          env={"LAB_DELAY_US": "5000"}, env_of_victim={"TOW_SOCKET_BUFFER_BYTES": "8KiB"},
          advice="socket_buffer_bytes", mend="TOW_SOCKET_BUFFER_BYTES"),
]
BY_NAME = {fault.name: fault for fault in FAULTS}

NOT_PLANTED = [
    ("faults of real devices and cards", "there are none here; tests of devices have deputies"),
    ("a clock that is wrong on one host", "all hosts here are namespaces of one kernel"),
    ("out-of-memory kills", "they end a rank like SIGKILL does, and may hit others beside it"),
]


def draw(fault, shape, rng, ranks_most=8):
    """What the seed has chosen: all that a run needs to be played again."""
    sizes = fault.sizes if fault else (2, 3, 4, 8)
    size = rng.choice([size for size in sizes if size <= ranks_most])
    if fault is None and shape == "flow":
        size = rng.choice((2, 3))
    lane = rng.choice(fault.lanes if fault else EVERY)
    shape = shape or rng.choice(fault.shapes)
    options = SHAPES[shape](rng, size)
    chosen = {"size": size, "lane": lane, "options": options, "shape": shape}
    if fault is None:
        return chosen
    chosen.update({name: rng.choice(choices) for name, choices in fault.drawn.items()})
    lowest = 1 if fault.victim == -2 else 0
    victim = fault.victim if fault.victim >= 0 else rng.randrange(lowest, size)
    if fault.name == "SYN filter of a pair":
        victim = rng.choice((1, 2))  # rank 0 has the store, to which all connect
    options.update(fault.options)
    options["rank"] = victim
    if fault.inside:
        options["fault"] = fault.inside
    for name in ("pct", "ms", "every"):
        if name in chosen:
            options[name] = chosen[name]
    chosen["victim"] = victim
    if fault.pair:
        chosen["other"] = (victim + 1) % size
    return chosen


# How ranks come to know that something has ended (lab_way.c), the usual way as often as all others.
WAYS = ("wait", "test", "fd", "call", "queue")
# Without the library's own thread nobody would call or fill a queue.
WAYS_DRIVEN = ("wait", "test", "fd")


def draw_way(fault, rng, way):
    """The way of a job's ranks; way: the one that was asked for, or "" where it is drawn."""
    ways = WAYS_DRIVEN if fault and fault.env.get("TOW_BACKGROUND") == "0" else WAYS
    if way:
        return way if way in ways else "wait"
    return "wait" if rng.random() < 0.5 else rng.choice(ways[1:])


def spec_of(fault, chosen, env=None):
    spec = Spec(chosen["size"], chosen["lane"], chosen["options"])
    if fault is None:
        return spec
    victim = chosen["victim"]
    spec.env = {**fault.env, **(env or {})}
    delay = int(spec.env.pop("LAB_DELAY_US", 0))
    if delay:
        spec.rules = ({"source": -1, "target": -1, "delay_us": delay},)
    if fault.env_of_victim:
        spec.env_of = {victim: {k: v for k, v in fault.env_of_victim.items()
                                if k not in (env or {})}}
    spec.cores, spec.rails = fault.cores, fault.rails
    if fault.name == "rank never comes":
        spec.absent = (victim,)
    if fault.start and fault.plant is RULES:
        rule = dict(chosen["rule"])
        spec.rules = (dict(rule, source=victim, target=chosen["other"]),
                      dict(rule, source=chosen["other"], target=victim))
    return spec


def blamed(fault, chosen):
    """Whom a right verdict names."""
    if fault.pair:
        return {chosen["victim"], chosen["other"]}
    return {chosen["victim"]}


def judge(fault, chosen, document, status):
    """One answer: right, other (the right rank, another cause), nobody (slow or stuck, and nobody
    is named), silent (healthy), wrong (somebody else is accused), none (no answer)."""
    if document is None:
        return "none"
    findings = document.get("findings", [])
    truth = blamed(fault, chosen)
    way = (chosen["victim"], chosen["other"]) if chosen.get("one_way") else None
    hits = set()
    for finding in findings:
        ranks = set(finding.get("ranks", []))
        ends = [{link["from"], link["to"]} for link in finding.get("links", [])]
        if ranks - truth or any(not pair & truth for pair in ends):
            return "wrong"
        if finding["cause"] in WAYS_ALONE and not fault.causes & WAYS_ALONE:
            return "wrong"  # the network is well
        ways = [(link["from"], link["to"]) for link in finding.get("links", [])]
        if way and way not in ways and ways:
            hits.add("the other direction")
        elif ranks or ends:
            hits.add(finding["cause"])
    # Who counts alone has told it as well; who has named somebody is judged by that.
    if hits & fault.causes:
        return "right"
    if hits:
        return "other"
    return "nobody" if document.get("state") != "healthy" or status in (4, 5) else "silent"


def judge_errors(chosen, texts):
    """Of a job that has failed: whether what each rank has said of it names the rank."""
    victim = chosen["victim"]
    named = [bool(re.search(rf"\brank {victim}\b|\branks [\d, and]*\b{victim}\b", text))
             for text in texts]
    if not any("error:" in text for text in texts):
        return "silent"
    return "right" if all(named) else "other" if any(named) else "nobody"


def is_advice_right(fault, document):
    cures = [finding.get("cure", "") for finding in (document or {}).get("findings", [])
             if finding.get("cause") in fault.causes]
    return any(fault.advice in cure for cure in cures)
