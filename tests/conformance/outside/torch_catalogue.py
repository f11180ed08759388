"""Catalogue of PyTorch modules that a researcher brings: layers of torch.nn, networks of torchvision and transformers.

Every entry makes a module, a batch as it takes one, and the kind of that batch. The modules are small, and without
dropout, so that one step can be compared; networks come from configurations, never from downloads.
"""

import dataclasses
import importlib.util
from typing import Any, Callable, Dict, List, Tuple

import torch
from torch import nn

BATCH, CLASSES = 6, 5


@dataclasses.dataclass
class Entry:
    name: str
    make: Callable[[], nn.Module]
    batch: Callable[[], Any]
    kind: str  # as rivulet.torch.scenario takes it
    needs: str = ""  # a package besides torch


CATALOGUE: List[Entry] = []


def entry(kind: str, *sizes: int, needs: str = "", high: int = 11) -> Callable[[Callable[[], nn.Module]], Any]:
    def batch() -> torch.Tensor:
        if kind == "tokens":
            return torch.randint(0, high, (BATCH, *sizes))
        return torch.rand(BATCH, *sizes)

    def add(make: Callable[[], nn.Module]) -> Callable[[], nn.Module]:
        CATALOGUE.append(Entry(make.__name__, make, batch, kind, needs))
        return make

    return add


def two_inputs(*sizes: Tuple[int, ...]) -> Callable[[Callable[[], nn.Module]], Any]:
    def add(make: Callable[[], nn.Module]) -> Callable[[], nn.Module]:
        CATALOGUE.append(Entry(make.__name__, make, lambda: tuple(torch.rand(BATCH, *each) for each in sizes), "values"))
        return make

    return add


class Scored(nn.Module):
    """A layer, its output flattened, and one score per class."""

    def __init__(self, layer: nn.Module, sizes: int, take: Callable[[Any], torch.Tensor] = lambda y: y) -> None:
        super().__init__()
        self.layer, self.scores, self.take = layer, nn.Linear(sizes, CLASSES), take

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.scores(self.take(self.layer(x)).flatten(1))


class Viewed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.scores = nn.Conv2d(3, 4, 3), nn.Linear(4 * 6 * 6, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(self.conv(x))
        return self.scores(y.view(y.size(0), -1))


def layers() -> None:
    def simple(name: str, layer: Callable[[], nn.Module], sizes: int, *batch: int, kind: str = "values", take: Any = None) -> None:
        def make() -> nn.Module:
            return Scored(layer(), sizes, take or (lambda y: y))

        make.__name__ = name
        entry(kind, *batch)(make)

    simple("linear", lambda: nn.Linear(7, 4), 4, 7)
    simple("bilinear", lambda: Both(nn.Bilinear(7, 7, 4)), 4, 7)
    simple("conv1d", lambda: nn.Conv1d(3, 4, 3, stride=2, padding=1), 16, 3, 8)
    simple("conv2d", lambda: nn.Conv2d(4, 6, 3, groups=2, dilation=2), 6 * 4 * 4, 4, 8, 8)
    simple("conv3d", lambda: nn.Conv3d(2, 3, 3), 3 * 8, 2, 4, 4, 4)
    simple("conv_transpose1d", lambda: nn.ConvTranspose1d(3, 4, 3, stride=2), 4 * 17, 3, 8)
    simple("conv_transpose2d", lambda: nn.ConvTranspose2d(3, 2, 3, stride=2, padding=1, output_padding=1), 2 * 256, 3, 8, 8)
    simple("conv_transpose3d", lambda: nn.ConvTranspose3d(2, 2, 2, stride=2), 2 * 216, 2, 3, 3, 3)
    simple("depthwise_separable", lambda: nn.Sequential(nn.Conv2d(4, 4, 3, groups=4), nn.Conv2d(4, 6, 1)), 216, 4, 8, 8)
    simple("pixel_shuffle", lambda: nn.Sequential(nn.Conv2d(3, 8, 3), nn.PixelShuffle(2)), 2 * 144, 3, 8, 8)
    simple("pixel_unshuffle", lambda: nn.Sequential(nn.Conv2d(3, 2, 3), nn.PixelUnshuffle(2)), 72, 3, 8, 8)
    simple("channel_shuffle", lambda: nn.Sequential(nn.Conv2d(3, 8, 3), ChannelShuffle(2)), 288, 3, 8, 8)
    simple("batch_norm1d", lambda: nn.Sequential(nn.Linear(7, 8), nn.BatchNorm1d(8), nn.ReLU()), 8, 7)
    simple("batch_norm2d", lambda: nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU()), 144, 3, 8, 8)
    simple("batch_norm3d", lambda: nn.Sequential(nn.Conv3d(2, 3, 2), nn.BatchNorm3d(3)), 81, 2, 4, 4, 4)
    simple("layer_norm", lambda: nn.Sequential(nn.Linear(7, 8), nn.LayerNorm(8)), 8, 7)
    simple("group_norm", lambda: nn.Sequential(nn.Conv2d(3, 6, 3), nn.GroupNorm(3, 6)), 216, 3, 8, 8)
    simple("instance_norm1d", lambda: nn.Sequential(nn.Conv1d(3, 4, 3), nn.InstanceNorm1d(4, affine=True)), 24, 3, 8)
    simple("instance_norm2d", lambda: nn.Sequential(nn.Conv2d(3, 4, 3), nn.InstanceNorm2d(4, affine=True)), 144, 3, 8, 8)
    simple("instance_norm3d", lambda: nn.Sequential(nn.Conv3d(2, 3, 2), nn.InstanceNorm3d(3, affine=True)), 81, 2, 4, 4, 4)
    simple("rms_norm", lambda: nn.Sequential(nn.Linear(7, 8), nn.RMSNorm(8)), 8, 7)
    simple("local_response_norm", lambda: nn.Sequential(nn.Conv2d(3, 6, 3), nn.LocalResponseNorm(3)), 216, 3, 8, 8)
    simple("weight_norm", lambda: nn.utils.parametrizations.weight_norm(nn.Linear(7, 8)), 8, 7)
    simple("embedding", lambda: nn.Embedding(11, 4), 24, 6, kind="tokens")
    simple("embedding_bag", lambda: nn.EmbeddingBag(11, 4, mode="mean"), 4, 6, kind="tokens")
    first = lambda y: y[0]  # noqa: E731
    simple("rnn", lambda: nn.RNN(5, 6, batch_first=True), 42, 7, 5, take=first)
    simple("lstm", lambda: nn.LSTM(5, 6, batch_first=True), 42, 7, 5, take=first)
    simple("lstm_bidirectional", lambda: nn.LSTM(5, 3, num_layers=2, batch_first=True, bidirectional=True), 42, 7, 5, take=first)
    simple("lstm_last_state", lambda: nn.LSTM(5, 6, batch_first=True), 6, 7, 5, take=lambda y: y[1][0][-1])
    simple("gru", lambda: nn.GRU(5, 6, batch_first=True), 42, 7, 5, take=first)
    simple("lstm_cell", lambda: Cells(nn.LSTMCell(5, 6), 6, True), 6, 4, 5)
    simple("gru_cell", lambda: Cells(nn.GRUCell(5, 6), 6, False), 6, 4, 5)
    simple("multihead_attention", lambda: SelfAttention(), 7 * 8, 7, 8)
    encoder = lambda **more: nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True, **more)  # noqa: E731
    simple("transformer_encoder_layer", lambda: encoder(), 56, 7, 8)
    simple("transformer_encoder", lambda: nn.TransformerEncoder(encoder(norm_first=True), 2, enable_nested_tensor=False), 56, 7, 8)
    simple("transformer_decoder_layer", lambda: Both(nn.TransformerDecoderLayer(8, 2, 16, dropout=0.0, batch_first=True)), 56, 7, 8)
    simple("transformer", lambda: Both(nn.Transformer(8, 2, 1, 1, 16, dropout=0.0, batch_first=True)), 56, 7, 8)
    for act in ("ReLU", "ReLU6", "LeakyReLU", "PReLU", "ELU", "SELU", "CELU", "GELU", "SiLU", "Mish", "Softplus", "Softsign"):
        simple(act.lower(), lambda act=act: nn.Sequential(nn.Linear(7, 8), getattr(nn, act)()), 8, 7)
    for act in ("Sigmoid", "Tanh", "Hardswish", "Hardsigmoid", "Hardtanh", "LogSigmoid", "Tanhshrink", "Softshrink", "Hardshrink"):
        simple(act.lower(), lambda act=act: nn.Sequential(nn.Linear(7, 8), getattr(nn, act)()), 8, 7)
    simple("glu", lambda: nn.Sequential(nn.Linear(7, 8), nn.GLU()), 4, 7)
    simple("softmax", lambda: nn.Sequential(nn.Linear(7, 8), nn.Softmax(-1)), 8, 7)
    simple("softmin", lambda: nn.Sequential(nn.Linear(7, 8), nn.Softmin(-1)), 8, 7)
    simple("log_softmax", lambda: nn.Sequential(nn.Linear(7, 8), nn.LogSoftmax(-1)), 8, 7)
    conv = lambda after: lambda: nn.Sequential(nn.Conv2d(3, 4, 3), after())  # noqa: E731
    simple("max_pool2d", conv(lambda: nn.MaxPool2d(2)), 36, 3, 8, 8)
    simple("avg_pool2d", conv(lambda: nn.AvgPool2d(3, stride=2, padding=1)), 36, 3, 8, 8)
    simple("lp_pool2d", conv(lambda: nn.LPPool2d(2, 2)), 36, 3, 8, 8)
    simple("adaptive_avg_pool2d", conv(lambda: nn.AdaptiveAvgPool2d(2)), 16, 3, 8, 8)
    simple("adaptive_max_pool2d", conv(lambda: nn.AdaptiveMaxPool2d(1)), 4, 3, 8, 8)
    simple("max_pool1d", lambda: nn.Sequential(nn.Conv1d(3, 4, 3), nn.MaxPool1d(2)), 12, 3, 8)
    simple("upsample_nearest", conv(lambda: nn.Upsample(scale_factor=2)), 4 * 144, 3, 8, 8)
    simple("upsample_bilinear", conv(lambda: nn.Upsample(size=(9, 9), mode="bilinear", align_corners=True)), 4 * 81, 3, 8, 8)
    simple("reflection_pad2d", conv(lambda: nn.ReflectionPad2d(1)), 256, 3, 8, 8)
    simple("replication_pad2d", conv(lambda: nn.ReplicationPad2d(2)), 400, 3, 8, 8)
    simple("circular_pad2d", conv(lambda: nn.CircularPad2d(1)), 256, 3, 8, 8)
    simple("zero_pad2d", conv(lambda: nn.ZeroPad2d((1, 2, 0, 1))), 4 * 63, 3, 8, 8)
    simple("unfold", conv(lambda: nn.Unfold(2)), 16 * 25, 3, 8, 8)
    simple("unflatten", lambda: nn.Sequential(nn.Linear(7, 8), nn.Unflatten(1, (2, 4)), nn.Linear(4, 3)), 6, 7)
    entry("values", 3, 8, 8)(view_behind_convolution)


class Both(nn.Module):
    """A layer of two inputs, given one twice."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x, x * 0.5)


class ChannelShuffle(nn.Module):
    def __init__(self, groups: int) -> None:
        super().__init__()
        self.groups = groups

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, channels, height, width = x.size()
        x = x.view(batch, self.groups, channels // self.groups, height, width)
        return x.transpose(1, 2).contiguous().view(batch, -1, height, width)


class Cells(nn.Module):
    def __init__(self, cell: nn.Module, units: int, pair: bool) -> None:
        super().__init__()
        self.cell, self.units, self.pair = cell, units, pair

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = x.new_zeros(x.size(0), self.units)
        c = x.new_zeros(x.size(0), self.units)
        for step in range(x.size(1)):
            if self.pair:
                h, c = self.cell(x[:, step], (h, c))
            else:
                h = self.cell(x[:, step], h)
        return h


class SelfAttention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.attention(x, x, x)[0]


def view_behind_convolution() -> nn.Module:
    return Viewed()


def networks() -> None:
    @entry("values", 3, 16, 16)
    def class_token() -> nn.Module:
        """A vision transformer's beginning: patches, a class token, position embeddings."""

        class Tokens(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.patches = nn.Conv2d(3, 8, 8, stride=8)
                self.token = nn.Parameter(torch.randn(1, 1, 8) * 0.1)
                self.positions = nn.Parameter(torch.randn(1, 5, 8) * 0.1)
                self.layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
                self.scores = nn.Linear(8, CLASSES)

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                y = self.patches(x).flatten(2).transpose(1, 2)
                y = torch.cat([self.token.expand(x.shape[0], -1, -1), y], 1) + self.positions
                return self.scores(self.layer(y)[:, 0])

        return Tokens()

    @entry("tokens", 7)
    def position_embedding() -> nn.Module:
        class Positions(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.words, self.places, self.scores = nn.Embedding(11, 6), nn.Embedding(9, 6), nn.Linear(6, CLASSES)

            def forward(self, tokens: torch.Tensor) -> torch.Tensor:
                places = torch.arange(tokens.size(1), device=tokens.device).unsqueeze(0).expand_as(tokens)
                return self.scores((self.words(tokens) + self.places(places)).mean(1))

        return Positions()

    @entry("values", 3, 12)
    def tcn() -> nn.Module:
        class Block(nn.Module):
            def __init__(self, inputs: int, outputs: int, dilation: int) -> None:
                super().__init__()
                self.conv = nn.Conv1d(inputs, outputs, 3, padding=2 * dilation, dilation=dilation)
                self.cut = 2 * dilation
                self.same = nn.Conv1d(inputs, outputs, 1)

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                return torch.relu(self.conv(x)[:, :, : -self.cut] + self.same(x))

        return nn.Sequential(Block(3, 6, 1), Block(6, 6, 2), nn.Flatten(), nn.Linear(72, CLASSES))

    @entry("values", 6, 4)
    def gnn_dense_adjacency() -> nn.Module:
        class Graphs(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.register_buffer("adjacency", torch.eye(6) * 0.5 + torch.roll(torch.eye(6), 1, 0) * 0.5)
                self.first, self.second, self.scores = nn.Linear(4, 8), nn.Linear(8, 8), nn.Linear(8, CLASSES)

            def forward(self, nodes: torch.Tensor) -> torch.Tensor:
                y = torch.relu(self.adjacency @ self.first(nodes))
                return self.scores(torch.relu(self.adjacency @ self.second(y)).mean(1))

        return Graphs()

    @two_inputs((6, 4), (6, 6))
    def gnn_adjacency_as_input() -> nn.Module:
        class Graphs(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.first, self.second, self.scores = nn.Linear(4, 8), nn.Linear(8, 8), nn.Linear(8, CLASSES)

            def forward(self, nodes: torch.Tensor, adjacency: torch.Tensor) -> torch.Tensor:
                y = torch.relu(adjacency @ self.first(nodes))
                return self.scores(torch.relu(adjacency @ self.second(y)).mean(1))

        return Graphs()

    @entry("values", 3, 16, 16)
    def unet() -> nn.Module:
        class UNet(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.down1, self.down2 = nn.Conv2d(3, 6, 3, padding=1), nn.Conv2d(6, 8, 3, padding=1)
                self.norm, self.up = nn.BatchNorm2d(8), nn.ConvTranspose2d(8, 6, 2, stride=2)
                self.last, self.scores = nn.Conv2d(12, 4, 3, padding=1), nn.Linear(4, CLASSES)

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                a = torch.relu(self.down1(x))
                b = torch.relu(self.norm(self.down2(torch.max_pool2d(a, 2))))
                up = nn.functional.interpolate(self.up(b), size=a.shape[2:], mode="bilinear", align_corners=False)
                y = torch.relu(self.last(torch.cat([a, up], 1)))
                return self.scores(y.mean((2, 3)))

        return UNet()

    vision, text = "torchvision", "transformers"

    @entry("values", 3, 32, 32, needs=vision)
    def resnet18() -> nn.Module:
        import torchvision

        return torchvision.models.resnet18(num_classes=CLASSES)

    @entry("values", 3, 32, 32, needs=vision)
    def mobilenet_v2() -> nn.Module:
        import torchvision

        return torchvision.models.mobilenet_v2(num_classes=CLASSES, dropout=0.0, width_mult=0.25)

    @entry("values", 3, 32, 32, needs=vision)
    def efficientnet_b0() -> nn.Module:
        import torchvision

        return torchvision.models.efficientnet_b0(num_classes=CLASSES, dropout=0.0, stochastic_depth_prob=0.0)

    @entry("values", 3, 32, 32, needs=vision)
    def vit() -> nn.Module:
        import torchvision

        return torchvision.models.VisionTransformer(32, 8, 2, 2, 16, 32, num_classes=CLASSES)

    @entry("values", 16, 8, 8, needs=vision)
    def deeplab_head() -> nn.Module:
        from torchvision.models.segmentation.deeplabv3 import DeepLabHead

        head = DeepLabHead(16, CLASSES, atrous_rates=(2, 3, 4))
        for module in head.modules():
            if isinstance(module, nn.Dropout):
                module.p = 0.0
        return nn.Sequential(head, nn.AdaptiveAvgPool2d(1), nn.Flatten())

    def no_dropout(config: Any) -> Any:
        for name in vars(config):
            if "drop" in name and isinstance(getattr(config, name), float):
                setattr(config, name, 0.0)
        return config

    class Pooled(nn.Module):
        """A language model's hidden states, their mean, and one score per class."""

        def __init__(self, model: nn.Module, width: int) -> None:
            super().__init__()
            self.model, self.scores = model, nn.Linear(width, CLASSES)

        def forward(self, tokens: torch.Tensor) -> torch.Tensor:
            return self.scores(self.model(input_ids=tokens, return_dict=False)[0].mean(1))

    class NextToken(nn.Module):
        """A language model with its tied head: the scores of the last place."""

        def __init__(self, model: nn.Module) -> None:
            super().__init__()
            self.model = model

        def forward(self, tokens: torch.Tensor) -> torch.Tensor:
            return self.model(input_ids=tokens, use_cache=False, return_dict=False)[0][:, -1]

    @entry("tokens", 8, needs=text)
    def bert() -> nn.Module:
        from transformers import BertConfig, BertModel

        config = BertConfig(vocab_size=11, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32, max_position_embeddings=16)
        return Pooled(BertModel(no_dropout(config), add_pooling_layer=False), 16)

    @entry("tokens", 8, needs=text, high=CLASSES)
    def gpt2() -> nn.Module:
        from transformers import GPT2Config, GPT2LMHeadModel

        config = GPT2Config(vocab_size=CLASSES, n_positions=16, n_embd=16, n_layer=2, n_head=2)
        return NextToken(GPT2LMHeadModel(no_dropout(config)))

    @entry("tokens", 8, needs=text, high=CLASSES)
    def llama_grouped_heads() -> nn.Module:
        from transformers import LlamaConfig, LlamaForCausalLM

        config = LlamaConfig(vocab_size=CLASSES, hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=16)
        return NextToken(LlamaForCausalLM(config))

    @entry("tokens", 8, needs=text)
    def t5_encoder() -> nn.Module:
        from transformers import T5Config, T5EncoderModel

        config = T5Config(vocab_size=11, d_model=16, d_kv=8, d_ff=32, num_layers=2, num_heads=2)
        return Pooled(T5EncoderModel(no_dropout(config)), 16)


layers()
networks()


def available(entry: Entry) -> bool:
    return not entry.needs or importlib.util.find_spec(entry.needs) is not None


def by_name() -> Dict[str, Entry]:
    return {each.name: each for each in CATALOGUE}
