"""transfer.py - what the server of jax.experimental.transfer maps, reckoned from its settings.

Read in jaxlib/py_socket_transfer.cc and xla/python/transfer/streaming_ifrt.cc of the year 2025, at
start_transfer_server: the copier's scratch is 2 * max_num_parallel_copies * transfer_size, cut into
slots of transfer_size; with transport addresses there are max_num_parallel_copies more of them for
the sockets, and with supports_pinned_allocator as many again. All are mapped at once, for good. A
slot is taken by a chunk from its copy off the device until its bytes are sent.
"""
from log import BLOCK_BYTES_MAX, Refused, amount

MIB = 1 << 20
DEFAULTS = {"transfer_size": 256 * MIB, "max_num_parallel_copies": 8, "transport_addresses": 1,
            "supports_pinned_allocator": 0, "largest_array": 0, "pulls": 1}
UNITS = {"": 1, "KiB": 1 << 10, "MiB": MIB, "GiB": 1 << 30}
SOURCE = "(the rule is read in jaxlib's and XLA's sources of 2025, not measured here)"


def parse(words):
    values = dict(DEFAULTS)
    for word in words:
        name, sign, text = word.partition("=")
        digits = text.rstrip("KMGiB")
        unit = text[len(digits):]
        if name not in values or not sign:
            raise Refused(f"--jax-transfer {word[:60]}: not one of "
                          + ", ".join(f"{known}=N" for known in values))
        if not (digits.isascii() and digits.isdigit()) or unit not in UNITS or len(digits) > 16:
            raise Refused(f"--jax-transfer {word[:60]}: '{text[:60]}' is no number (KiB, MiB and "
                          "GiB may stand behind it)")
        values[name] = int(digits) * UNITS[unit]
    for name in ("transfer_size", "max_num_parallel_copies", "pulls"):
        if values[name] < 1:
            raise Refused(f"--jax-transfer {name}=0: at least 1 is needed")
    if values["transfer_size"] * values["max_num_parallel_copies"] * 2 > BLOCK_BYTES_MAX:
        raise Refused("--jax-transfer: transfer_size times max_num_parallel_copies times 2 is more "
                      f"than {BLOCK_BYTES_MAX} bytes")
    return values


def mapped(values, copies):
    """The regions of a server with so many parallel copies: (what for, bytes)."""
    part = values["transfer_size"] * copies
    return ([("copier", 2 * part)] + ([("sockets", part)] if values["transport_addresses"] else [])
            + ([("pinned", part)] if values["transport_addresses"]
               and values["supports_pinned_allocator"] else []))


def advise(values, copies):
    """What one array needs of the slots."""
    chunks = -(-values["largest_array"] // values["transfer_size"]) * values["pulls"]
    text = (f"{values['pulls']} pulls at once of {amount(values['largest_array'])} are {chunks} "
            f"chunks of transfer_size, for {2 * copies} slots")
    wanted = max(1, -(-chunks // 2))
    if wanted < copies:
        smaller = sum(count for _, count in mapped(values, wanted))
        return (f"{text}: max_num_parallel_copies={wanted} has room for them and maps "
                f"{amount(smaller)}; fewer copies then go on at once")
    return f"{text}: " + ("each has one" if chunks <= 2 * copies else
                          "the others wait for one, no more is mapped")


def read(words, log):
    values = parse(words)
    copies = values["max_num_parallel_copies"]
    for tag, (_, count) in enumerate(mapped(values, copies), 1):
        log.alloc(count, "--jax-transfer", 0, tag)
    parts = ", ".join(f"{what} {amount(count)}" for what, count in mapped(values, copies))
    log.notes.append(f"Mapped from the start on, by tag: {parts} {SOURCE}")
    if values["largest_array"]:
        log.notes.append(advise(values, copies))
    log.lower.append("the arrays themselves are not in it")
    return "settings of start_transfer_server"
