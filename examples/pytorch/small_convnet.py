"""The network of small_convnet.rs in PyTorch: small_convnet.py [--steps N] [--batch-size N] [--device cuda].

Prints the mean step in milliseconds, the first ones apart. Knows nothing of gpustall; run it under
`gpustall run -- python small_convnet.py`.
"""

import argparse
import time

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=50)
parser.add_argument("--batch-size", type=int, default=128)
parser.add_argument("--width", type=int, default=32)
parser.add_argument("--read-every", type=int, default=1)
parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
args = parser.parse_args()


def block(inputs, outputs):
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU(), nn.MaxPool2d(2, 2)
    )


torch.manual_seed(0)
channels = [3, args.width, 2 * args.width, 4 * args.width]
model = nn.Sequential(
    *(block(*pair) for pair in zip(channels, channels[1:])),
    nn.AdaptiveAvgPool2d(1),
    nn.Flatten(),
    nn.Linear(channels[-1], 10),
).to(args.device)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
images = torch.rand(args.batch_size, 3, 32, 32, device=args.device)
labels = torch.arange(args.batch_size, device=args.device) % 10


def train(steps):
    begin = time.perf_counter()
    for step in range(1, steps + 1):
        loss = nn.functional.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % args.read_every == 0 or step == steps:
            loss.item()
    return (time.perf_counter() - begin) / steps * 1e3


print(f"first steps: {train(5):.2f} ms a step")
print(f"convnet: {train(args.steps):.2f} ms a step")
