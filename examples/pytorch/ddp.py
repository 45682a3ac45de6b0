"""Data-parallel training of a small network on several GPUs, one of which may be fed late.

    torchrun --nproc-per-node 2 ddp.py                  every rank has its batches in time
    torchrun --nproc-per-node 2 ddp.py --slow-rank 1    rank 1 takes 20 ms more to make a batch
    python ddp.py --spawn 2 --mask                      each process sees one GPU, which it calls 0

Under gpustall:  gpustall run -- torchrun --nproc-per-node 2 ddp.py --slow-rank 1
Under PyTorch's profiler, one file a rank:  add --profile FOLDER, then  gpustall report FOLDER/*.gz
"""

import argparse
import contextlib
import os
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, IterableDataset


class Batches(IterableDataset):
    """Batches that are made in `next()`; `slow_ms` of CPU work each."""

    def __init__(self, count, batch, width, slow_ms):
        self.count, self.slow_ms = count, slow_ms
        self.batch = torch.randn(batch, width)

    def __iter__(self):
        for _ in range(self.count):
            until = time.perf_counter() + self.slow_ms / 1e3
            while time.perf_counter() < until:
                sum(number * number for number in range(2000))
            yield self.batch


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--width", type=int, default=4096)
    parser.add_argument("--batch", type=int, default=4096)
    parser.add_argument("--slow-rank", type=int, default=-1, help="this rank makes batches slowly")
    parser.add_argument("--slow-ms", type=float, default=20.0, help="by so much")
    parser.add_argument("--spawn", type=int, default=0, help="start so many ranks from here")
    parser.add_argument("--mask", action="store_true", help="with --spawn: one visible GPU each")
    parser.add_argument("--one-device", action="store_true", help="all ranks on GPU 0 (gloo)")
    parser.add_argument("--profile", default="", help="PyTorch's profiler writes one file a rank here")
    return parser.parse_args()


def spawned(rank, args):
    os.environ.update(
        RANK=str(rank),
        LOCAL_RANK=str(rank),
        WORLD_SIZE=str(args.spawn),
        LOCAL_WORLD_SIZE=str(args.spawn),
        MASTER_ADDR="127.0.0.1",
        MASTER_PORT="29517",
    )
    if args.mask:
        os.environ["CUDA_VISIBLE_DEVICES"] = str(rank)
    train(args, device=0 if args.mask else rank)


def profiler(args, rank):
    """PyTorch's profiler, if it is asked for."""
    if not args.profile:
        return contextlib.nullcontext()
    os.makedirs(args.profile, exist_ok=True)
    activities = [torch.profiler.ProfilerActivity.CPU]
    if torch.cuda.is_available():
        activities.append(torch.profiler.ProfilerActivity.CUDA)
    path = os.path.join(args.profile, f"ddp-rank{rank}.pt.trace.json.gz")
    # Without a schedule it would not mark the steps.
    return torch.profiler.profile(
        activities=activities,
        schedule=torch.profiler.schedule(wait=0, warmup=0, active=args.steps, repeat=1),
        on_trace_ready=lambda profile: profile.export_chrome_trace(path),
    )


def train(args, device):
    rank = int(os.environ.get("RANK", "0"))
    cuda = torch.cuda.is_available()
    device = torch.device("cuda", 0 if args.one_device else device) if cuda else torch.device("cpu")
    if cuda:
        torch.cuda.set_device(device)
        torch.backends.cuda.matmul.allow_tf32 = True
    dist.init_process_group("nccl" if cuda and not args.one_device else "gloo")
    torch.manual_seed(0)
    slow_ms = args.slow_ms if rank == args.slow_rank else 0.0
    with profiler(args, rank) as profile:
        layers = [nn.Linear(args.width, args.width, device=device) for _ in range(args.layers)]
        model = DistributedDataParallel(nn.Sequential(*layers))
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
        loader = DataLoader(
            Batches(args.steps, args.batch, args.width, slow_ms), batch_size=None, pin_memory=cuda
        )
        began = time.perf_counter()
        for step, batch in enumerate(loader):
            batch = batch.to(device, non_blocking=True)
            loss = model(batch).square().mean()
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            if profile:
                profile.step()
            if step == 4:
                # The first steps connect the ranks and choose kernels.
                synchronize(cuda)
                began = time.perf_counter()
        synchronize(cuda)
        step_ms = (time.perf_counter() - began) / max(args.steps - 5, 1) * 1e3
    print(f"rank {rank}: {step_ms:.2f} ms a step", flush=True)
    dist.barrier()
    dist.destroy_process_group()


def synchronize(cuda):
    if cuda:
        torch.cuda.synchronize()


if __name__ == "__main__":
    arguments_ = arguments()
    if arguments_.spawn:
        mp.spawn(spawned, (arguments_,), nprocs=arguments_.spawn)
    else:
        train(arguments_, device=int(os.environ.get("LOCAL_RANK", "0")))
