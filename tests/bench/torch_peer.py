"""PyTorch's time for the rows of step_table.py. Reads "ROW SECONDS" lines, answers each with a line of JSON:
{"eager": ms, "channels_last": ms, "compiled": ms}, medians on one thread; the first line names the version.

A step is what a client does with one batch: zero the gradients, forward, backward, SGD. Needs PyTorch; "compiled" is there
from version 2 on.
"""
import json
import os
import statistics
import sys
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")
import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402

torch.set_num_threads(1)


class MnistCnn(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 32, 5, padding=2), nn.Conv2d(32, 64, 5, padding=2)
        self.dense1, self.dense2 = nn.Linear(3136, 512), nn.Linear(512, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        return self.dense2(F.relu(self.dense1(x.flatten(1))))


class LeNet5(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 6, 5, padding=2), nn.Conv2d(6, 16, 5)
        self.dense1, self.dense2, self.dense3 = nn.Linear(400, 120), nn.Linear(120, 84), nn.Linear(84, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        return self.dense3(F.relu(self.dense2(F.relu(self.dense1(x.flatten(1))))))


def mlp():
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 200), nn.ReLU(), nn.Linear(200, 200), nn.ReLU(), nn.Linear(200, 10))


def logistic_regression():
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 10))


def training_step(make, batch, layout, bfloat16):
    torch.manual_seed(0)
    model, x, y = make(), torch.rand(batch, 1, 28, 28), torch.randint(0, 10, (batch,))
    if layout == "channels_last":
        model, x = model.to(memory_format=torch.channels_last), x.contiguous(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def loss_of():
        with torch.autocast("cpu", torch.bfloat16, enabled=bfloat16):
            return F.cross_entropy(model(x), y)

    if layout == "compiled":
        loss_of = torch.compile(loss_of)

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss_of().backward()
        optimizer.step()

    return step


def step_variants(make, batch, convolutions, bfloat16=False):
    layouts = ["eager"] + (["channels_last"] if convolutions else [])
    if hasattr(torch, "compile"):
        layouts.append("compiled")
    return {layout: training_step(make, batch, layout, bfloat16) for layout in layouts}


def depthwise_variants(direction, batch, channels, size, stride):
    x, w = torch.rand(batch, channels, size, size), torch.rand(channels, 1, 3, 3)
    y = F.conv2d(x, w, stride=stride, padding=1, groups=channels)

    def variant(layout):
        a, b, g = x, w, torch.rand_like(y)
        if layout == "channels_last":
            a, g = (t.contiguous(memory_format=torch.channels_last) for t in (a, g))
        if direction == "forward":
            return lambda: F.conv2d(a, b, stride=stride, padding=1, groups=channels)
        mask = [direction == "input", direction == "filter", False]
        return lambda: torch.ops.aten.convolution_backward(
            g, a, b, None, [stride] * 2, [1, 1], [1, 1], False, [0, 0], channels, mask)

    return {layout: variant(layout) for layout in ("eager", "channels_last")}


ROWS = {
    "step/mnist_cnn/10": lambda: step_variants(MnistCnn, 10, True),
    "step/mnist_cnn_bf16/10": lambda: step_variants(MnistCnn, 10, True, bfloat16=True),
    "step/mlp/10": lambda: step_variants(mlp, 10, False),
    "step/logistic_regression/10": lambda: step_variants(logistic_regression, 10, False),
    "step/lenet5/64": lambda: step_variants(LeNet5, 64, True),
}
for direction in ("forward", "input", "filter"):
    for batch, channels, stride in ((16, 32, 1), (1, 96, 2), (16, 96, 2)):
        name = f"depthwise/{direction}/{batch}x{channels}x150x150/{stride}"
        ROWS[name] = lambda d=direction, b=batch, c=channels, s=stride: depthwise_variants(d, b, c, 150, s)


def median_ms(function, seconds):
    """Median of at least three rounds that fill `seconds`; short calls are timed in groups."""
    start = time.perf_counter()
    function()
    once = time.perf_counter() - start
    rounds = max(3, min(25, int(seconds / max(once, 1e-6))))
    calls = max(1, int(seconds / rounds / max(once, 1e-6)))
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in range(calls):
            function()
        times.append((time.perf_counter() - start) / calls)
    return statistics.median(times) * 1e3


def main():
    print(json.dumps({"torch": torch.__version__}), flush=True)
    made = {}
    for line in sys.stdin:
        row, seconds = line.split()
        answer = {}
        if row in ROWS:
            if row not in made:
                made[row] = ROWS[row]()
                for function in made[row].values():
                    for _ in range(5):
                        function()
            with torch.enable_grad():
                for variant, function in made[row].items():
                    answer[variant] = median_ms(function, float(seconds))
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
