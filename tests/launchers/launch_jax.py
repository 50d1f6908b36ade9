"""launch_jax.py - a rank of test_jax.py: jax.distributed says who it is and has the store, as a
key-value service by which the ranks of Towline's group find each other.

    launch_jax.py [COORDINATOR RANK SIZE]     without: jax finds them in its launcher's variables
"""
import sys

import jax
from jax._src import distributed

import launch_exchange


def main(arguments):
    """Plays launch_program in this process, then a sum of jax's own over the same processes."""
    if arguments:
        jax.distributed.initialize(arguments[0], int(arguments[2]), int(arguments[1]))
    else:
        jax.distributed.initialize()
    service = distributed.global_state.client

    def put(key, value):
        service.key_value_set(f"launch/{key}", value.decode())

    def get(key, seconds):
        try:
            return service.blocking_key_value_get(f"launch/{key}", int(seconds * 1000)).encode()
        except jax.errors.JaxRuntimeError:
            return None

    rank, size = jax.process_index(), jax.process_count()
    print(f"jax {jax.__version__}: process {rank} of {size}, "
          f"{jax.device_count()} devices, {jax.local_device_count()} here", flush=True)
    status = launch_exchange.run(put, get, rank, size)
    jax.distributed.shutdown()
    return status


sys.exit(main(sys.argv[1:]))
