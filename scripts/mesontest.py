"""mesontest.py ARGUMENTS... - `meson ARGUMENTS...`, with a process group for each test, no session.

meson gives each test a session, and of each session Linux makes a group that it schedules against
the others (kernel.sched_autogroup_enabled). Where threads of several such groups sleep and wake
often, kernel 6.18 leaves others without a core for seconds (docs/testing.md has the figures): a
test then misses what it waits for, and says so of Towline. A process group is what meson needs to
end a test.
"""
import os
import runpy
import shutil
import sys


def interpreter(script):
    """What runs `script`, by its first line: a list, empty where that is no Python."""
    with open(script, 'rb') as file:
        line = file.readline().decode(errors='replace')
    return line[2:].split() if line.startswith('#!') and 'python' in line else []


def main():
    meson = shutil.which('meson')
    if meson is None:
        sys.exit('mesontest.py: there is no meson')
    if sys.argv[1:2] != ['--here']:
        runs = interpreter(meson)
        # Only meson's own Python has meson's modules.
        command = runs + [__file__, '--here', meson] if runs else [meson]
        os.execvp(command[0], command + sys.argv[1:])
    os.setsid = os.setpgrp
    sys.argv[:] = sys.argv[2:]
    runpy.run_path(sys.argv[0], run_name='__main__')


if __name__ == '__main__':
    main()
