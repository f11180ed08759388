"""PyTorch's time for the rows of step_table.py. Reads "ROW SECONDS" lines, answers each with a line of JSON:
{"eager": ms, "channels_last": ms, "compiled": ms, "careful": ms}, medians on one thread; the first line names the version.

A step is what a client does with one batch: zero the gradients, forward, backward, SGD. Needs PyTorch; "compiled" is there
from version 2 on. "careful" is what somebody writes who knows where the time goes: parameters that are views of one flat
vector, images in channels_last, gradients that no parameter keeps, one call for the update, and ReLU in place and after a
pool, where it is the same function on a quarter of the values.
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
torch.set_flush_denormal(True)


def relu_pool(x, careful):
    return F.max_pool2d(x, 2).relu_() if careful else F.max_pool2d(F.relu(x), 2)


class MnistCnn(nn.Module):
    careful = False

    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 32, 5, padding=2), nn.Conv2d(32, 64, 5, padding=2)
        self.dense1, self.dense2 = nn.Linear(3136, 512), nn.Linear(512, 10)

    def forward(self, x):
        x = relu_pool(self.conv1(x), self.careful)
        x = relu_pool(self.conv2(x), self.careful)
        return self.dense2(F.relu(self.dense1(x.flatten(1))))


class LeNet5(nn.Module):
    careful = False

    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 6, 5, padding=2), nn.Conv2d(6, 16, 5)
        self.dense1, self.dense2, self.dense3 = nn.Linear(400, 120), nn.Linear(120, 84), nn.Linear(84, 10)

    def forward(self, x):
        x = relu_pool(self.conv1(x), self.careful)
        x = relu_pool(self.conv2(x), self.careful)
        return self.dense3(F.relu(self.dense2(F.relu(self.dense1(x.flatten(1))))))


def mlp():
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 200), nn.ReLU(), nn.Linear(200, 200), nn.ReLU(), nn.Linear(200, 10))


def logistic_regression():
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 10))


class TwoConvolutions(nn.Module):
    """cifar_cnn, emnist_cnn and femnist_cnn: two convolutions, pooling, two dense layers, in the first two with dropout."""

    careful = False

    def __init__(self, channels, size, padding, pool_each, features, hidden, classes, dropout):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, 32, size, padding=padding)
        self.conv2 = nn.Conv2d(32, 64, size, padding=padding)
        self.dense1, self.dense2 = nn.Linear(features, hidden), nn.Linear(hidden, classes)
        self.pool_each, self.dropout = pool_each, dropout

    def forward(self, x):
        x = self.conv1(x)
        x = relu_pool(x, self.careful) if self.pool_each else F.relu(x, inplace=self.careful)
        x = relu_pool(self.conv2(x), self.careful)
        if self.dropout:
            x = F.dropout(x, 0.25)
        x = F.relu(self.dense1(x.flatten(1)))
        return self.dense2(F.dropout(x, 0.5) if self.dropout else x)


class ResidualBlock(nn.Module):
    def __init__(self, channels, filters, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, filters, 3, stride, 1, bias=False)
        self.conv2 = nn.Conv2d(filters, filters, 3, 1, 1, bias=False)
        self.norm1, self.norm2 = nn.GroupNorm(min(32, filters // 8), filters), nn.GroupNorm(min(32, filters // 8), filters)
        self.shortcut = nn.Conv2d(channels, filters, 1, stride, bias=False) if channels != filters else nn.Identity()

    def forward(self, x):
        y = F.relu(self.norm1(self.conv1(x)))
        return F.relu(self.norm2(self.conv2(y)) + self.shortcut(x))


class ResNet(nn.Module):
    """The CIFAR form of depth 6n + 2."""

    def __init__(self, n):
        super().__init__()
        self.stem, self.norm = nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.GroupNorm(2, 16)
        blocks, channels = [], 16
        for filters in (16, 32, 64):
            for i in range(n):
                blocks.append(ResidualBlock(channels, filters, 2 if filters != 16 and i == 0 else 1))
                channels = filters
        self.blocks, self.dense = nn.Sequential(*blocks), nn.Linear(64, 10)

    def forward(self, x):
        x = self.blocks(F.relu(self.norm(self.stem(x))))
        return self.dense(x.mean((2, 3)))


class InvertedResidual(nn.Sequential):
    def __init__(self, width, filters, expansion, stride):
        wide = width * expansion
        expand = [nn.Conv2d(width, wide, 1, bias=False), nn.BatchNorm2d(wide), nn.ReLU6()] if expansion > 1 else []
        super().__init__(*expand, nn.Conv2d(wide, wide, 3, stride, 1, groups=wide, bias=False), nn.BatchNorm2d(wide),
                         nn.ReLU6(), nn.Conv2d(wide, filters, 1, bias=False), nn.BatchNorm2d(filters))
        self.residual = stride == 1 and width == filters

    def forward(self, x):
        return x + super().forward(x) if self.residual else super().forward(x)


def mobilenet_v2():
    layers, width = [nn.Conv2d(3, 32, 3, 2, 1, bias=False), nn.BatchNorm2d(32), nn.ReLU6()], 32
    for expansion, filters, count, stride in ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1),
                                              (6, 160, 3, 2), (6, 320, 1, 1)):
        for i in range(count):
            layers.append(InvertedResidual(width, filters, expansion, stride if i == 0 else 1))
            width = filters
    return nn.Sequential(*layers, nn.Conv2d(width, 1280, 1, bias=False), nn.BatchNorm2d(1280), nn.ReLU6(),
                         nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.2), nn.Linear(1280, 1000))


class CharLstm(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.lstm, self.dense = nn.Embedding(90, 8), nn.LSTM(8, 256, 2, batch_first=True), nn.Linear(256, 90)

    def forward(self, tokens):
        return self.dense(self.lstm(self.embedding(tokens))[0]).flatten(0, 1)


class TransformerBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(64), nn.LayerNorm(64)
        self.qkv, self.out = nn.Linear(64, 192), nn.Linear(64, 64)
        self.hidden, self.back = nn.Linear(64, 256), nn.Linear(256, 64)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = (t.view(batch, length, 4, 16).transpose(1, 2) for t in self.qkv(self.norm1(x)).split(64, -1))
        if hasattr(F, "scaled_dot_product_attention"):
            attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            mask = torch.full((length, length), float("-inf")).triu(1)
            attended = torch.softmax(q @ k.transpose(-1, -2) / 4 + mask, -1) @ v
        x = x + self.out(attended.transpose(1, 2).reshape(batch, length, width))
        return x + self.back(F.gelu(self.hidden(self.norm2(x))))


class TinyTransformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.positions = nn.Embedding(90, 64), nn.Parameter(torch.randn(80, 64) * 0.02)
        self.blocks, self.norm = nn.Sequential(TransformerBlock(), TransformerBlock()), nn.LayerNorm(64)

    def forward(self, tokens):
        x = self.norm(self.blocks(self.embedding(tokens) + self.positions))
        return (x @ self.embedding.weight.t()).flatten(0, 1)


def training_step(make, inputs, layout, bfloat16):
    torch.manual_seed(0)
    model, (x, y) = make(), inputs()
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


def flatten_parameters(model):
    """Makes the parameters views of one vector, filters with their channels innermost."""
    parameters = list(model.parameters())
    flat, at = torch.empty(sum(p.numel() for p in parameters)), 0
    for parameter in parameters:
        shape = parameter.shape
        view = flat[at:at + parameter.numel()]
        at += parameter.numel()
        if len(shape) == 4:
            view = view.view(shape[0], shape[2], shape[3], shape[1]).permute(0, 3, 1, 2)
        parameter.data = view.view(shape).copy_(parameter.data) if len(shape) != 4 else view.copy_(parameter.data)
    return parameters


def careful_step(make, inputs):
    torch.manual_seed(0)
    model, (x, y) = make(), inputs()
    model.careful = True
    if x.dim() == 4:
        x = x.contiguous(memory_format=torch.channels_last)
    parameters = flatten_parameters(model)

    def step():
        loss = F.cross_entropy(model(x), y)
        with torch.no_grad():
            torch._foreach_add_(parameters, torch.autograd.grad(loss, parameters), alpha=-0.01)

    return step


def images(batch, channels, size, classes):
    return lambda: (torch.rand(batch, channels, size, size), torch.randint(0, classes, (batch,)))


def characters(batch):
    return lambda: (torch.randint(1, 90, (batch, 80)), torch.randint(1, 90, (batch * 80,)))


def step_variants(make, inputs, convolutions, bfloat16=False):
    layouts = ["eager"] + (["channels_last"] if convolutions else [])
    if hasattr(torch, "compile"):
        layouts.append("compiled")
    variants = {layout: training_step(make, inputs, layout, bfloat16) for layout in layouts}
    if not bfloat16:
        variants["careful"] = careful_step(make, inputs)
    return variants


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


DIGITS = images(10, 1, 28, 10)
ROWS = {
    "step/mnist_cnn/10": lambda: step_variants(MnistCnn, DIGITS, True),
    "step/mnist_cnn_bf16/10": lambda: step_variants(MnistCnn, DIGITS, True, bfloat16=True),
    "step/mlp_bf16/10": lambda: step_variants(mlp, DIGITS, False, bfloat16=True),
    "step/logistic_regression_bf16/10": lambda: step_variants(logistic_regression, DIGITS, False, bfloat16=True),
    "step/cifar_cnn_bf16/10": lambda: step_variants(
        lambda: TwoConvolutions(3, 3, 0, False, 12544, 128, 10, True), images(10, 3, 32, 10), True, bfloat16=True),
    "step/resnet8_bf16/10": lambda: step_variants(lambda: ResNet(1), images(10, 3, 32, 10), True, bfloat16=True),
    "step/mlp/10": lambda: step_variants(mlp, DIGITS, False),
    "step/logistic_regression/10": lambda: step_variants(logistic_regression, DIGITS, False),
    "step/lenet5/10": lambda: step_variants(LeNet5, DIGITS, True),
    "step/lenet5/64": lambda: step_variants(LeNet5, images(64, 1, 28, 10), True),
    "step/cifar_cnn/10": lambda: step_variants(
        lambda: TwoConvolutions(3, 3, 0, False, 12544, 128, 10, True), images(10, 3, 32, 10), True),
    "step/emnist_cnn/10": lambda: step_variants(
        lambda: TwoConvolutions(1, 3, 0, False, 9216, 128, 62, True), images(10, 1, 28, 62), True),
    "step/femnist_cnn/10": lambda: step_variants(
        lambda: TwoConvolutions(1, 5, 2, True, 3136, 2048, 62, False), images(10, 1, 28, 62), True),
    "step/resnet8/10": lambda: step_variants(lambda: ResNet(1), images(10, 3, 32, 10), True),
    "step/resnet20/10": lambda: step_variants(lambda: ResNet(3), images(10, 3, 32, 10), True),
    "step/mobilenet_v2/10": lambda: step_variants(mobilenet_v2, images(10, 3, 224, 1000), True),
    "step/char_lstm/10": lambda: step_variants(CharLstm, characters(10), False),
    "step/tiny_transformer/10": lambda: step_variants(TinyTransformer, characters(10), False),
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
