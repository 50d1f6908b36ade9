"""import_program.py KIND FOLDER - makes what test_import gives to tow-import: by JAX (steps,
server) or PyTorch (profile), as they are."""
import os
import sys

KIND, FOLDER = sys.argv[1], sys.argv[2]


def steps():
    """Four devices; 1 MiB of gradients is summed, and a parameter of 256 KiB gathered."""
    os.environ["XLA_FLAGS"] = f"--xla_dump_to={FOLDER} --xla_dump_hlo_module_re=jit_train"
    os.environ["JAX_NUM_CPU_DEVICES"] = "4"
    import jax
    import jax.numpy as jnp
    from jax.sharding import NamedSharding, PartitionSpec as P

    mesh = jax.make_mesh((4,), ("d",))

    def train(weights, batch):
        gradient = jax.lax.psum(batch.T @ batch, "d")
        whole = jax.lax.all_gather(weights, "d", tiled=True)
        mine = jax.lax.psum_scatter(whole * gradient[0, 0], "d", tiled=True)
        return jax.lax.fori_loop(
            0, 3, lambda _, x: jax.lax.ppermute(x, "d", [(i, (i + 1) % 4) for i in range(4)]) + 1,
            mine)

    step = jax.jit(jax.shard_map(train, mesh=mesh, in_specs=(P("d"), P("d")), out_specs=P("d")))
    sharded = NamedSharding(mesh, P("d"))
    weights = jax.device_put(jnp.ones((4 * 65536,)), sharded)
    batch = jax.device_put(jnp.ones((4 * 64, 512)), sharded)
    with jax.profiler.trace(FOLDER):
        jax.block_until_ready(step(weights, batch))
        # On CPUs JAX records no memory events; these go the way that an allocator's would.
        for name, address, count in (("MemoryAllocation", 64, 1000), ("MemoryAllocation", 128, 7),
                                     ("MemoryDeallocation", 64, 1000)):
            with jax.profiler.TraceAnnotation(name, addr=address, allocation_bytes=count,
                                              allocator_name="mine"):
                pass


def mapped():
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")


def server():
    """By how much start_transfer_server grows the process, with sockets and without."""
    import jax
    from jax.experimental import transfer

    client = jax.local_devices()[0].client
    held = []
    for sockets in ([], ["127.0.0.1:0"]):
        before = mapped()
        held.append(transfer.start_transfer_server(client, "127.0.0.1:0", sockets))
        print("mapped", len(sockets), mapped() - before, flush=True)
    os._exit(0)  # its threads wait for peers


def profile():
    """10,000,000 bytes live at the peak: 2,000,000 and twice 4,000,000."""
    import torch
    from torch.profiler import ProfilerActivity, profile as profiled

    with profiled(activities=[ProfilerActivity.CPU], profile_memory=True) as done:
        one, two = torch.empty(1000, 1000), torch.empty(500, 1000)
        del one
        three = torch.empty(1000, 1000)
        four = torch.empty(2000, 500)
        del two, three, four
    done.export_chrome_trace(f"{FOLDER}/trace.json")


{"steps": steps, "server": server, "profile": profile}[KIND]()
