"""scheduler_program.py - XLA:GPU compiles a program for four H100, on a machine that has none.

    scheduler_program.py OPTIONS KIND:ELEMENTS...

OPTIONS are the compiler's as JSON; KIND is what a program does with ELEMENTS floats of each device.
What the compiler says of a schedule goes to stderr (TF_CPP_VMODULE), behind "== KIND:ELEMENTS".
"""
import importlib.util
import json
import os
import sys

import jax
import jax.numpy as jnp
import numpy as np
from jax._src.lib import xla_client
from jax.sharding import Mesh, NamedSharding, PartitionSpec

DEVICES = 4
# Of an H100, what the compiler asks for: it is no device's own description.
H100 = """
gpu_device_info {
  threads_per_block_limit: 1024 threads_per_warp: 32 shared_memory_per_block: 49152
  shared_memory_per_core: 233472 threads_per_core_limit: 2048 core_count: 132 fpus_per_core: 128
  block_dim_limit_x: 2147483647 block_dim_limit_y: 65535 block_dim_limit_z: 65535
  thread_dim_limit_x: 1024 thread_dim_limit_y: 1024 thread_dim_limit_z: 64
  memory_bandwidth: 3352320000000 l2_cache_size: 52428800 clock_rate_ghz: 1.98
  device_memory_size: 84942979072 shared_memory_per_block_optin: 232448
  registers_per_core_limit: 65536 registers_per_block_limit: 65536
  cuda_compute_capability { major: 9 } device_address_bits: 64 pcie_bandwidth: 34359738368
  device_vendor: "NVIDIA Corporation" name: "NVIDIA H100 80GB HBM3"
  driver_version: "13.0.0" runtime_version: "12.8.0" compile_time_toolkit_version: "12.8.0"
  dnn_version: "9.10.0" device_interconnect_info { active_links: 18 }
}
platform_name: "CUDA"
dnn_version_info { major: 9 minor: 10 }
device_description_str: "NVIDIA H100 80GB HBM3"
"""
KINDS = {
    "all-reduce": lambda a: jax.lax.psum(a, "x"),
    "all-gather": lambda a: jax.lax.all_gather(a, "x", tiled=True),
    "reduce-scatter": lambda a: jax.lax.psum_scatter(a, "x", tiled=True),
    "all-to-all": lambda a: jax.lax.all_to_all(a, "x", 0, 0, tiled=True),
    "permute": lambda a: jax.lax.ppermute(a, "x", [(i, (i + 1) % DEVICES)
                                                   for i in range(DEVICES)]),
}
KINDS_IN_HLO = {"permute": "collective-permute"}


def devices():
    plugin = importlib.util.find_spec("jax_plugins.xla_cuda12").submodule_search_locations[0]
    xla_client.load_pjrt_plugin_dynamically("cuda", os.path.join(plugin, "xla_cuda_plugin.so"))
    xla_client.initialize_pjrt_plugin("cuda")
    topology = xla_client._xla.get_default_c_api_topology(
        "cuda", "four", {"target_config": H100, "topology": f"1x1x{DEVICES}"})
    return topology._make_compile_only_devices()


def compile_one(mesh, kind, elements, options):
    whole = NamedSharding(mesh, PartitionSpec())
    split = NamedSharding(mesh, PartitionSpec("x"))

    def step(a, b):
        return KINDS[kind](a), b * 2 + b

    program = jax.shard_map(step, mesh=mesh, in_specs=(PartitionSpec("x"), PartitionSpec()),
                            out_specs=(PartitionSpec("x"), PartitionSpec()), check_vma=False)
    shape = jax.ShapeDtypeStruct((elements * DEVICES,), jnp.float32)
    lowered = jax.jit(program, in_shardings=(split, whole)).lower(shape, shape)
    return lowered.compile(compiler_options=options).as_text()


def main(options, *cases):
    mesh = Mesh(np.array(devices()), ("x",))
    for case in cases:
        kind, _, elements = case.partition(":")
        print(f"== {case}", file=sys.stderr, flush=True)
        text = compile_one(mesh, kind, int(elements), json.loads(options))
        assert KINDS_IN_HLO.get(kind, kind) in text, text


main(*sys.argv[1:])
