"""tow-import - what a job's runtime already writes, as a log that tow-size can size a pool by
(docs/import.md). The log is on standard output, what was read and left out on standard error.
"""
import argparse
import os
import sys

import formats
import transfer
from log import Log, Nothing, Refused

try:
    from bundled import VERSION
except ImportError:  # run from the tree, python3 tools/import
    VERSION = "of the tree, not built"

TEXT = """\
Turns what a runtime writes about memory into a log for tow-size --replay.

formats, found by content:
  hlo     XLA's module with its schedule (*after_optimizations.txt of --xla_dump_to), and beside
          it, if wanted, its buffer assignment (*buffer-assignment.txt)
  xprof   a capture of XProf's (*.xplane.pb): memory events, late registrations of Megascale
  torch   PyTorch: torch.cuda.memory._dump_snapshot, or the profiler's trace (profile_memory=True)
  nccl    NCCL's log with NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=ALLOC
  malloc  mtrace of glibc, ltrace, or lines 'alloc ADDRESS BYTES' and 'free ADDRESS'

status: 0 a log was written; 1 nothing is in it to size a pool by; 2 the files or options make no
sense, and the message names the line or byte"""


def count(text):
    if not (text.isascii() and text.isdigit()) or not 1 <= int(text[:9]) <= 1000 or len(text) > 4:
        raise argparse.ArgumentTypeError(f"'{text[:40]}' is no number from 1 to 1000")
    return int(text)


def options_of(words):
    parser = argparse.ArgumentParser(
        prog="tow-import", description=TEXT,
        formatter_class=lambda prog: argparse.RawDescriptionHelpFormatter(prog, width=98))
    parser.add_argument("files", nargs="*", metavar="FILE", help="what was written; .gz, too")
    parser.add_argument("--format", choices=list(formats.FORMATS), help="instead of looking")
    parser.add_argument("-o", "--output", metavar="FILE", help="the log, not on standard output")
    parser.add_argument("--steps", type=count, default=1, metavar="N",
                        help="hlo: so many steps, each the same (1)")
    parser.add_argument("--only", metavar="NAME",
                        help="xprof: this allocator alone; torch: cpu or cuda:N; nccl: host, "
                        "device, or HOST:PID of a log of several processes")
    parser.add_argument("--lenient", action="store_true",
                        help="malloc: goes on where an address is allocated or freed twice")
    parser.add_argument("--jax-transfer", nargs="+", metavar="NAME=N",
                        help="no file: what the server of jax.experimental.transfer maps; "
                        + ", ".join(f"{name} ({value})" for name, value in
                                    transfer.DEFAULTS.items()))
    parser.add_argument("--version", action="version", version=f"tow-import {VERSION}")
    options = parser.parse_args(words)
    if bool(options.files) == (options.jax_transfer is not None):
        parser.error("give files, or --jax-transfer, and not both" if options.files else
                     "no file is given")
    return options


def write(log, path):
    if path is None:
        log.copy_to(sys.stdout)
        sys.stdout.flush()
        return
    part = path + ".part"
    try:
        with open(part, "w", encoding="ascii") as file:
            log.copy_to(file)
        os.replace(part, path)
    except OSError as error:
        raise Refused(f"{path}: {error.strerror}") from error


def say(text):
    print("tow-import: " + "".join(one if one.isprintable() else "?" for one in text),
          file=sys.stderr)


def run(words):
    options = options_of(words)
    log = Log()
    if options.jax_transfer is not None:
        what = transfer.read(options.jax_transfer, log)
    else:
        name = options.format or formats.find_all(options.files)
        what = f"{name}, {formats.FORMATS[name][1](options.files, log, options)}"
    write(log, options.output)
    say(f"{what}: {log.summary()}")


def main(words):
    try:
        run(words)
    except Refused as error:
        say(str(error))
        return 2
    except Nothing as error:
        say(f"{error}.")
        return 1
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except MemoryError:
        say("there is not enough memory to read it")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
