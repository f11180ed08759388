"""Writes training_reference.json: twenty steps of SGD, momentum and Adam on each preset, by PyTorch in float64, and how far float32
strays from it there: the most of three computations that differ in the order of their sums alone (as they come, with the examples of a
batch reversed, and without oneDNN), and in the deepest model, where a rounding may carry a value over a kink, of some more whose first
values are one rounding away. No weights are stored: first values and batches follow from a formula that training_test.cc computes too.

  python make_training_reference.py [PRESET ...]     (PyTorch; all presets, or only these, the others being kept)

Variables have this project's names and layouts (convolution kernels [height, width, in, out]) and are the leaves that PyTorch
differentiates. For every step the file has the loss before it; at the end, of every variable, its length, a signed sum over the square
root of its elements, and the length of the difference between float32 and float64.
"""
import json
import math
import pathlib
import sys

import numpy as np
import torch
import torch.nn.functional as F

FILE = pathlib.Path(__file__).with_name("training_reference.json")
STEPS = 20
OPTIMIZERS = {"sgd": 0.02, "momentum": 0.005, "adam": 0.001}  # with their learning rates


# --- The formula ------------------------------------------------------------------------------------------------------------------

def fnv(text):
    value = 2166136261
    for byte in text.encode():
        value = ((value ^ byte) * 16777619) & 0xFFFFFFFF
    return value


def uniform(seed, count):
    """In [-0.5, 0.5), from murmur3's finaliser of index and seed."""
    x = np.arange(count, dtype=np.uint32) * np.uint32(2654435761) + np.uint32(seed)
    x ^= x >> np.uint32(16)
    x *= np.uint32(0x85EBCA6B)
    x ^= x >> np.uint32(13)
    x *= np.uint32(0xC2B2AE35)
    x ^= x >> np.uint32(16)
    return x.astype(np.float64) / 2.0**32 - 0.5


def first_value(name, shape):
    """Of He's variance for kernels, near one for scales, near zero for the rest."""
    u = uniform(fnv(name), int(np.prod(shape)))
    if name.endswith(("gamma", "moving_variance")):
        values = 1 + 0.2 * u
    elif len(shape) >= 2 and not name.endswith(("embeddings", "positions")):
        fan = int(np.prod(shape[:-1]))
        if "depthwise" in name:
            fan = shape[0] * shape[1]
        values = u * math.sqrt(24 / fan)
    else:
        values = 0.2 * u
    return values.astype(np.float32).reshape(shape)


def batch(case, step):
    shape = [case["batch"]] + case["input"]
    labels = [case["batch"]] if not case.get("tokens") else shape
    u = uniform(1000 + step % 3, int(np.prod(shape)))
    v = uniform(2000 + step % 3, int(np.prod(labels)))
    label = np.floor((v + 0.5) * case["classes"]).astype(np.int64).reshape(labels)
    if case.get("tokens"):
        return np.floor((u + 0.5) * case["classes"]).astype(np.int64).reshape(shape), label
    return (u + 0.5).astype(np.float32).reshape(shape), label


# --- Layers over a dictionary of variables -------------------------------------------------------------------------------------------

class Model:
    """Shapes on the first run, values afterwards: `get` makes a variable where there is none."""

    def __init__(self, dtype, nudge=0):
        self.dtype, self.nudge, self.trained, self.statistics = dtype, nudge, {}, {}

    def get(self, name, shape, trained=True):
        store = self.trained if trained else self.statistics
        if name not in store:
            value = first_value(name, shape)
            if self.nudge:  # half of the elements by one rounding
                u = uniform(fnv(name) + self.nudge, value.size).reshape(shape)
                value = np.where(u < 0, np.nextafter(value, np.float32(2)), value).astype(np.float32)
            store[name] = torch.tensor(value, dtype=self.dtype, requires_grad=trained)
        return store[name]

    def dense(self, name, x, units):
        return x @ self.get(f"{name}/kernel", [x.shape[-1], units]) + self.get(f"{name}/bias", [units])

    def conv(self, name, x, filters, size, stride=1, padding="SAME", bias=True, depthwise=False):
        """x is [batch, height, width, channels]."""
        inner = x.shape[3]
        kernel = self.get(f"{name}/kernel", [size, size, inner, 1] if depthwise else [size, size, inner, filters])
        weights = kernel.permute(2, 3, 0, 1) if depthwise else kernel.permute(3, 2, 0, 1)
        x = x.permute(0, 3, 1, 2)
        if padding == "SAME":
            pads = []
            for n in (x.shape[3], x.shape[2]):
                total = max((-(-n // stride) - 1) * stride + size - n, 0)
                pads += [total // 2, total - total // 2]
            x = F.pad(x, pads)
        x = F.conv2d(x, weights, stride=stride, groups=inner if depthwise else 1).permute(0, 2, 3, 1)
        return x + self.get(f"{name}/bias", [x.shape[3]]) if bias else x

    def batch_norm(self, name, x):
        width = [x.shape[3]]
        gamma, beta = self.get(f"{name}/gamma", width), self.get(f"{name}/beta", width)
        mean, variance = self.get(f"{name}/moving_mean", width, False), self.get(f"{name}/moving_variance", width, False)
        return F.batch_norm(x.permute(0, 3, 1, 2), mean, variance, gamma, beta, True, 0.1, 1e-5).permute(0, 2, 3, 1)

    def group_norm(self, name, x):
        width = [x.shape[3]]
        gamma, beta = self.get(f"{name}/gamma", width), self.get(f"{name}/beta", width)
        return F.group_norm(x.permute(0, 3, 1, 2), 8, gamma, beta, 1e-5).permute(0, 2, 3, 1)

    def layer_norm(self, name, x):
        width = [x.shape[-1]]
        return F.layer_norm(x, width, self.get(f"{name}/gamma", width), self.get(f"{name}/beta", width), 1e-5)


def pool(x, function=F.max_pool2d):
    return function(x.permute(0, 3, 1, 2), 2).permute(0, 2, 3, 1)


def flat(x):
    return x.reshape(x.shape[0], -1)


# --- Presets --------------------------------------------------------------------------------------------------------------------------

def logistic_regression(m, x, classes):
    return m.dense("dense1", flat(x), classes)


def mlp(m, x, classes):
    x = torch.relu(m.dense("dense1", flat(x), 200))
    return m.dense("dense3", torch.relu(m.dense("dense2", x, 200)), classes)


def two_convolutions(hidden):
    def forward(m, x, classes):
        x = pool(torch.relu(m.conv("conv1", x, 32, 5)))
        x = pool(torch.relu(m.conv("conv2", x, 64, 5)))
        return m.dense("dense2", torch.relu(m.dense("dense1", flat(x), hidden)), classes)
    return forward


def lenet5(m, x, classes):
    x = pool(torch.relu(m.conv("conv1", x, 6, 5)))
    x = pool(torch.relu(m.conv("conv2", x, 16, 5, padding="VALID")))
    x = torch.relu(m.dense("dense2", torch.relu(m.dense("dense1", flat(x), 120)), 84))
    return m.dense("dense3", x, classes)


def dropout_cnn(m, x, classes):
    x = torch.relu(m.conv("conv1", x, 32, 3, padding="VALID"))
    x = pool(torch.relu(m.conv("conv2", x, 64, 3, padding="VALID")))
    return m.dense("dense2", torch.relu(m.dense("dense1", flat(x), 128)), classes)


def resnet(blocks, norm="batch_norm"):
    def forward(m, x, classes):
        normalized = lambda name, x, *args, **more: getattr(m, norm)(name + "_norm", m.conv(name, x, *args, bias=False, **more))
        x = torch.relu(normalized("conv", x, 16, 3))
        for stage in range(3):
            filters = 16 << stage
            for block in range(blocks):
                name = f"stage{stage + 1}_block{block + 1}"
                shrinks = stage > 0 and block == 0
                y = torch.relu(normalized(name + "_conv1", x, filters, 3, stride=2 if shrinks else 1))
                y = normalized(name + "_conv2", y, filters, 3)
                if shrinks:
                    x = F.pad(x[:, ::2, ::2, :], [filters // 4, filters // 4])
                x = torch.relu(x + y)
        return m.dense("dense", x.mean(dim=(1, 2)), classes)
    return forward


def mobilenet_v2(m, x, classes):
    def normalized(name, x, *args, **more):
        return m.group_norm(name + "_norm", m.conv(name, x, *args, bias=False, **more))
    x = F.relu6(normalized("conv", x, 32, 3, stride=2))
    width, block = 32, 0
    for expansion, filters, count, stride in [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2),
                                              (6, 320, 1, 1)]:
        for i in range(count):
            block += 1
            name, step, before = f"block{block}", stride if i == 0 else 1, x
            if expansion > 1:
                x = F.relu6(normalized(name + "_expand", x, width * expansion, 1))
            x = F.relu6(normalized(name + "_depthwise", x, 0, 3, stride=step, depthwise=True))
            x = normalized(name + "_project", x, filters, 1)
            if step == 1 and width == filters:
                x = x + before
            width = filters
    x = F.relu6(normalized("head", x, 1280, 1))
    return m.dense("dense", x.mean(dim=(1, 2)), classes)


def char_lstm(m, x, classes):
    x = m.get("embedding/embeddings", [classes, 8])[x]
    for name in ("lstm1", "lstm2"):
        kernel, recurrent = m.get(f"{name}/kernel", [x.shape[2], 1024]), m.get(f"{name}/recurrent_kernel", [256, 1024])
        gates = x @ kernel + m.get(f"{name}/bias", [1024])
        h = c = torch.zeros(x.shape[0], 256, dtype=m.dtype)
        outputs = []
        for t in range(x.shape[1]):
            i, f, g, o = (gates[:, t] + h @ recurrent).chunk(4, dim=1)
            c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(c)
            outputs.append(h)
        x = torch.stack(outputs, dim=1)
    return m.dense("dense", x, classes)


def tiny_transformer(m, x, classes):
    table = m.get("embedding/embeddings", [classes, 64])
    x = table[x] + m.get("embedding/positions", [80, 64])
    causal = torch.full((80, 80), -math.inf, dtype=m.dtype).triu(1)
    for i in (1, 2):
        y = m.dense(f"block{i}/attention/query_key_value", m.layer_norm(f"block{i}/norm1", x), 192)
        q, k, v = (part.reshape(x.shape[0], 80, 4, 16).transpose(1, 2) for part in y.chunk(3, dim=2))
        y = (torch.softmax(q @ k.transpose(2, 3) / 4 + causal, dim=3) @ v).transpose(1, 2).reshape(x.shape)
        x = x + m.dense(f"block{i}/attention/output", y, 64)
        x = x + m.dense(f"block{i}/output", F.gelu(m.dense(f"block{i}/hidden", m.layer_norm(f"block{i}/norm2", x), 256)), 64)
    return m.layer_norm("norm", x) @ table.T


# `loss` names which of our two graphs is meant: dropout is in "training/loss" alone.
CASES = {
    "logistic_regression": (logistic_regression, {"input": [28, 28, 1], "classes": 10, "batch": 10}),
    "mlp": (mlp, {"input": [28, 28, 1], "classes": 10, "batch": 10, "slower": 0.5}),
    "mnist_cnn": (two_convolutions(512), {"input": [28, 28, 1], "classes": 10, "batch": 4}),
    "femnist_cnn": (two_convolutions(2048), {"input": [28, 28, 1], "classes": 62, "batch": 4}),
    "lenet5": (lenet5, {"input": [28, 28, 1], "classes": 10, "batch": 10}),
    "cifar_cnn": (dropout_cnn, {"input": [32, 32, 3], "classes": 10, "batch": 4}),
    "emnist_cnn": (dropout_cnn, {"input": [28, 28, 1], "classes": 62, "batch": 4}),
    "resnet8": (resnet(1), {"input": [32, 32, 3], "classes": 10, "batch": 8, "normalization": "batch", "loss": "training/loss"}),
    "resnet20": (resnet(3, "group_norm"), {"input": [32, 32, 3], "classes": 10, "batch": 4, "normalization": "group", "slower": 0.1}),
    "mobilenet_v2": (mobilenet_v2, {"input": [64, 64, 3], "classes": 10, "batch": 2, "normalization": "group", "slower": 0.1, "nudges": 3}),
    "char_lstm": (char_lstm, {"input": [80], "classes": 90, "batch": 2, "tokens": True}),
    "tiny_transformer": (tiny_transformer, {"input": [80], "classes": 90, "batch": 2, "tokens": True}),
}


def rate_of(case, optimizer):
    return OPTIMIZERS[optimizer] * case.get("slower", 1)


def train(forward, case, optimizer, dtype, backwards=False, nudge=0):
    model = Model(dtype, nudge)
    losses, steps = [], None
    for step in range(STEPS):
        x, label = batch(case, step)
        if backwards:
            x, label = x[::-1].copy(), label[::-1].copy()
        x = torch.tensor(x) if case.get("tokens") else torch.tensor(x, dtype=dtype)
        scores = forward(model, x, case["classes"])
        if case.get("tokens"):  # 0 is padding
            loss = F.cross_entropy(scores.reshape(-1, case["classes"]), torch.tensor(label).reshape(-1), ignore_index=0)
        else:
            loss = F.cross_entropy(scores, torch.tensor(label))
        if steps is None:
            parameters = list(model.trained.values())
            rate = rate_of(case, optimizer)
            steps = (torch.optim.Adam(parameters, lr=rate) if optimizer == "adam" else
                     torch.optim.SGD(parameters, lr=rate, momentum=0.9 if optimizer == "momentum" else 0))
        steps.zero_grad()
        loss.backward()
        steps.step()
        losses.append(loss.item())
    values = {name: value.detach().to(torch.float64).numpy().ravel() for name, value in {**model.trained, **model.statistics}.items()}
    return losses, values


def rounded(number, digits=10):
    return float(f"{number:.{digits}g}")


def main():
    torch.set_num_threads(1)
    wanted = sys.argv[1:] or list(CASES)
    kept = json.loads(FILE.read_text()) if FILE.exists() else []
    results = [c for c in kept if c["preset"] not in wanted]
    for preset in wanted:
        forward, case = CASES[preset]
        for optimizer in OPTIMIZERS:
            losses, exact = train(forward, case, optimizer, torch.float64)
            singles = [train(forward, case, optimizer, torch.float32), train(forward, case, optimizer, torch.float32, True)]
            with torch.backends.mkldnn.flags(enabled=False):
                singles.append(train(forward, case, optimizer, torch.float32))
            for nudge in range(1, case.get("nudges", 0) + 1):
                singles.append(train(forward, case, optimizer, torch.float32, nudge=nudge))
            errors = [max(abs(loss - single[i]) for single, _ in singles) for i, loss in enumerate(losses)]
            variables = {}
            for name, value in exact.items():
                signs = np.where(uniform(fnv(name) ^ 0x5A5A5A5A, value.size) < 0, -1.0, 1.0)
                variables[name] = [rounded(np.linalg.norm(value)), rounded((signs * value).sum() / math.sqrt(value.size)),
                                   rounded(max(np.linalg.norm(single[name] - value) for _, single in singles), 3)]
            results.append({"preset": preset, **case, "optimizer": optimizer, "learning_rate": rate_of(case, optimizer), "losses": [rounded(x, 12) for x in losses],
                            "float32_errors": [rounded(error, 3) for error in errors], "variables": variables})
            print(preset, optimizer, f"loss {losses[0]:.4f} -> {losses[-1]:.4f}", f"float32 {errors[-1]:.1e}", flush=True)
    order = list(CASES)
    results.sort(key=lambda c: order.index(c["preset"]))
    FILE.write_text("[\n" + ",\n".join(json.dumps(c) for c in results) + "\n]\n")


if __name__ == "__main__":
    main()
