"""programs.py - programs of the sizing laboratory, drawn by a seed: what each thread of a rank
allocates, frees, sends and reduces in a step. The same seed gives the same program.

After its first step a thread is at each step's end where it was at the end of the step before, so
that a program needs no more than its first steps have shown. size_job.h has the letters.
"""
import dataclasses
import random

KIB, MIB = 1 << 10, 1 << 20
ACTS_MOST = 400  # of a thread's step
NAP_US = 2000    # in a step, at least: what is captured in a second is some hundred steps


@dataclasses.dataclass
class Program:
    kind: str
    ranks: int
    lane: str
    arena: str    # pagerun; jemalloc: the program links it
    moves: str    # free: the kernel places threads; pinned; hops: they change CPUs by themselves
    capture: str  # open, or middle
    threads: int
    steps: int
    text: str = ""
    peak: int = 0  # not above this, as it was drawn: blocks with their alignments


class Writer:
    """What a rank's threads do, line by line."""

    def __init__(self):
        self.slots = 0
        self.threads = []

    def slot(self):
        self.slots += 1
        return self.slots - 1

    def text(self):
        lines = [f"slots {self.slots}"]
        for number, thread in enumerate(self.threads):
            lines += [f"thread {number}", "setup", *thread.setup, "body", *thread.body]
        return "\n".join(lines) + "\n"


class Thread:
    def __init__(self, writer, rng, moves, number):
        self.writer, self.rng, self.moves = writer, rng, moves
        self.setup, self.body = [], []
        self.most = self.live = 0
        self.sizes = {}
        writer.threads.append(self)
        if moves == "pinned":
            self.body.append(f"h {number}")

    def act(self, *words):
        self.body.append(" ".join(str(w) for w in words))
        if self.moves == "hops" and self.rng.random() < 0.15:
            self.body.append(f"h {self.rng.randrange(64)}")

    def alloc(self, slot, size, log2=0, setup=False):
        """A power of two above the size is what no arena needs more than."""
        self.sizes[slot] = size + (1 << log2) + 4096
        self.live += self.sizes[slot]
        self.most = max(self.most, self.live)
        if setup:
            self.setup.append(f"a {slot} {size} {log2}")
        else:
            self.act("a", slot, size, log2)

    def free(self, slot):
        self.live -= self.sizes.pop(slot)
        self.act("f", slot)

    def nap(self, us):
        self.act("n", us)


# --- sizes of blocks ---

def draw_small(rng):
    return rng.choice((rng.randint(1, 512), rng.randint(64, 4096), rng.randint(4096, 16384)))


def draw_power(rng):
    return min(int(64 / rng.random() ** 1.5), 4 * MIB)


def draw_above(rng):
    return (1 << rng.randint(6, 21)) + 1


def draw_wide(rng):
    return rng.randint(1, 2 * MIB)


def draw_page(rng):
    return rng.choice((4096, 8192, 65536, 262144, MIB)) + rng.choice((-1, 0, 1))


def draw_token(rng):
    return rng.randint(2 * KIB, 3 * KIB) if rng.random() < 0.9 else rng.randint(64, 256) * KIB


SIZES = {"small": draw_small, "power": draw_power, "above": draw_above, "wide": draw_wide,
         "pages": draw_page, "tokens": draw_token}


def sizes_for(rng, law, budget):
    """So many sizes that they fill the budget."""
    sizes, total = [], 0
    while total < budget and len(sizes) < ACTS_MOST // 2 - 2:
        sizes.append(SIZES[law](rng))
        total += sizes[-1]
    return sizes


# --- what a step does ---

def replaced(thread, rng, law, budget, log2=lambda rng: 0):
    """Blocks that live on, each replaced at random times by another size."""
    slots = [(thread.writer.slot(), size) for size in sizes_for(rng, law, budget / 2)]
    for slot, size in slots:
        thread.alloc(slot, size, log2(rng), setup=True)
    for _ in range(min(ACTS_MOST // 2, 2 * len(slots))):
        slot, _ = rng.choice(slots)
        thread.free(slot)
        thread.alloc(slot, SIZES[law](rng), log2(rng))
        if rng.random() < 0.05:
            thread.nap(rng.randint(20, 100))


def come_and_go(thread, rng, law, budget):
    """All of a step's blocks come, then go: first in first out, the other way, or anyhow."""
    slots = [(thread.writer.slot(), size) for size in sizes_for(rng, law, budget)]
    for slot, size in slots:
        thread.alloc(slot, size)
    thread.nap(rng.randint(50, 300))
    order = rng.choice(("first", "last", "any"))
    leaving = [slot for slot, _ in slots]
    if order == "last":
        leaving.reverse()
    elif order == "any":
        rng.shuffle(leaving)
    for slot in leaving:
        thread.free(slot)


def layers(thread, rng, _law, budget):
    """Weights that stay; activations that grow and shrink; work space of each layer."""
    count = rng.randint(4, 24)
    unit = int(budget / count / 2)
    weights = [thread.writer.slot() for _ in range(count)]
    for slot in weights:
        thread.alloc(slot, max(64, unit // rng.randint(1, 4)), setup=True)
    kept = []
    for _ in range(count):
        work, slot = thread.writer.slot(), thread.writer.slot()
        thread.alloc(work, max(64, rng.randint(unit // 4, unit)))
        thread.alloc(slot, max(64, rng.randint(unit // 2, unit)))
        thread.free(work)
        kept.append(slot)
        if rng.random() < 0.3:
            thread.nap(rng.randint(20, 200))
    backward = rng.choice((True, False))
    for slot in reversed(kept) if backward else kept:
        grads = thread.writer.slot()
        thread.alloc(grads, max(64, rng.randint(unit // 4, unit // 2)))
        thread.free(slot)
        thread.free(grads)


def buckets(thread, rng, _law, budget):
    """Buckets of gradients: the next comes before the last but some has gone."""
    size = int(budget / rng.randint(4, 10))
    window = rng.randint(2, 4)
    slots = [thread.writer.slot() for _ in range(rng.randint(6, 20))]
    for at, slot in enumerate(slots):
        thread.alloc(slot, max(64, size - rng.randint(0, size // 8)))
        if at >= window:
            thread.free(slots[at - window])
            thread.nap(rng.randint(20, 200))
    for slot in slots[-window:]:
        thread.free(slot)


def aligned(thread, rng, _law, budget):
    replaced(thread, rng, rng.choice(("small", "wide", "power")), budget / 2,
             lambda rng: rng.choice((0, 0, 6, 8, 12, 14, 16)))


def held(thread, rng, law, budget):
    """Much that stays, and one that comes and goes."""
    for size in sizes_for(rng, law, budget * 0.8):
        thread.alloc(thread.writer.slot(), size, setup=True)
    for _ in range(rng.randint(1, 4)):
        slot = thread.writer.slot()
        thread.alloc(slot, rng.randint(64, int(budget * 0.2)))
        thread.nap(rng.randint(50, 200))
        thread.free(slot)


PATTERNS = {"replaced": replaced, "come and go": come_and_go, "layers": layers,
            "buckets": buckets, "aligned": aligned, "held": held}


# --- what it says to the other rank; thread 0 alone ---

def reduces(thread, rng, _law, budget, fused=False):
    """All-reduces, all-gathers, reduce-scatters, some in flight at once."""
    most = int(budget / 6)
    slots = []
    counts = [max(1, int(most / 4 / 2 ** rng.uniform(0, 8 if not fused else 12)))
              for _ in range(rng.randint(1, 6 if not fused else 24))]
    plan = []
    for count in counts:
        kind = 0 if fused else rng.choice((0, 0, 0, 1, 2))
        source, target = thread.writer.slot(), thread.writer.slot()
        thread.alloc(source, count * 4 * (2 if kind == 2 else 1))
        slots.append(source)
        if kind == 0 and rng.random() < 0.6:
            target = source
        else:
            thread.alloc(target, count * 4 * (2 if kind == 1 else 1))
            slots.append(target)
        plan.append((kind, source, target, count))
    if fused:
        thread.body.append("b")
    for kind, source, target, count in plan:
        thread.body.append(f"r {kind} {source} {target} {count}")
    if fused:
        thread.body.append("e")
    thread.act("w")
    for slot in slots:
        thread.free(slot)


def fused(thread, rng, law, budget):
    reduces(thread, rng, law, budget / 2, fused=True)


def exchanges(thread, rng, _law, budget):
    """Messages of pool memory; some are freed before they have arrived."""
    for tag in range(rng.randint(1, 6)):
        size = max(1, int(budget / 4 / 2 ** rng.uniform(0, 12)))
        out, into = thread.writer.slot(), thread.writer.slot()
        thread.alloc(out, size)
        thread.alloc(into, size)
        thread.body.append(f"x {out} {into} {size} {tag}")
        early = rng.random() < 0.3
        if early:
            thread.free(out)
        thread.act("w")
        if not early:
            thread.free(out)
        thread.free(into)


def views(thread, rng, _law, budget):
    slots = []
    for tag in range(rng.randint(1, 6)):
        size = max(1, int(budget / 8 / 2 ** rng.uniform(0, 10)))
        slots.append(thread.writer.slot())
        thread.alloc(slots[-1], size)
        thread.body.append(f"v {slots[-1]} {size} {100 + tag}")
    thread.act("w")
    for slot in slots:
        thread.free(slot)
    thread.nap(rng.randint(20, 200))
    thread.act("V")


def calls(thread, rng, _law, budget):
    for _ in range(rng.randint(1, 3)):
        size = max(1, int(budget / 6 / 2 ** rng.uniform(0, 10)))
        out, into = thread.writer.slot(), thread.writer.slot()
        thread.alloc(out, size)
        thread.alloc(into, size)
        thread.act("c", out, into, size)
        thread.free(out)
        thread.free(into)


TALKS = {"reduces": reduces, "fused": fused, "exchanges": exchanges, "views": views,
         "calls": calls}


def queue(writer, rng, moves, law, budget):
    """One thread makes blocks, the other ends them; no more are under way than there are slots."""
    maker, taker = Thread(writer, rng, moves, 0), Thread(writer, rng, moves, 1)
    sizes = sizes_for(rng, law, budget)
    ring = [(writer.slot(), writer.slot()) for _ in sizes]
    for (slot, back), size in zip(ring, sizes):
        maker.setup.append(f"p {back}")
        maker.act("q", back)
        maker.alloc(slot, size)
        maker.act("p", slot)
        taker.act("q", slot)
        taker.act("f", slot)
        taker.act("p", back)
        if rng.random() < 0.2:
            rng.choice((maker, taker)).nap(rng.randint(20, 100))
    maker.body = [line for line in maker.body]
    return maker.most


KINDS = [*PATTERNS, *TALKS, "queue"]


def draw(seed, number):
    rng = random.Random(f"sizelab/{seed}/{number}")
    kind = KINDS[number % len(KINDS)]
    talks = kind in TALKS
    program = Program(
        kind=kind, ranks=2 if talks else 1, lane=rng.choice(("shm", "tcp")) if talks else "-",
        arena="jemalloc" if rng.random() < 0.2 else "pagerun",
        moves=rng.choice(("free", "free", "pinned", "hops")),
        capture="middle" if rng.random() < 0.25 else "open",
        threads=2 if kind == "queue" else rng.choice((1, 1, 1, 2, 3, 4)), steps=40)
    budget = MIB * 2 ** rng.uniform(2, 5)
    if talks and rng.random() < 0.15:
        budget = 64 * MIB
    write(program, rng, kind, budget)
    return program


def write(program, rng, kind, budget):
    writer = Writer()
    laws = list(SIZES)
    if kind == "queue":
        program.peak = queue(writer, rng, program.moves, rng.choice(laws), budget)
    else:
        share = budget / program.threads
        for number in range(program.threads):
            thread = Thread(writer, rng, program.moves, number)
            if number == 0:
                thread.act("s")
            if rng.random() < 0.5:
                thread.act("t", number)
            pattern = PATTERNS[kind] if kind in PATTERNS else rng.choice(list(PATTERNS.values()))
            both = kind in TALKS and number == 0
            if both:
                TALKS[kind](thread, rng, rng.choice(laws), share / 2)
            pattern(thread, rng, rng.choice(laws), share / 2 if both else share)
            thread.nap(NAP_US + rng.randint(0, 500))
            if number == 0:
                thread.act("S")
            program.peak += thread.most
    program.text = writer.text()
    if program.capture == "middle":
        program.steps = 1500
