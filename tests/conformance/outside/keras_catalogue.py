"""Catalogue of Keras models: small ones of every kind of layer that is trained, and the networks of keras.applications.

Every entry makes a functional model, and says what each input is: a shape and a kind, "values" or a vocabulary. The models
are small and without dropout, so that one step can be compared.
"""

import dataclasses
import os
from typing import Any, Callable, Dict, List, Tuple, Union

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
import keras
import numpy as np

L = keras.layers
CLASSES = 5


@dataclasses.dataclass
class Entry:
    name: str
    make: Callable[[], Any]
    inputs: List[Tuple[Tuple[int, ...], Union[str, int]]]  # shape of an example; "values", or a vocabulary
    batch: int = 6
    numbers: bool = False  # the model predicts its first input, and not a class

    def features(self, rng: np.random.Generator) -> Dict[str, np.ndarray]:
        drawn = {}
        for i, (shape, kind) in enumerate(self.inputs):
            sizes = (self.batch, *shape)
            values = rng.uniform(-1, 1, sizes).astype(np.float32) if kind == "values" else rng.integers(0, kind, sizes)
            drawn[f"input{i}"] = values
        return drawn

    def labels(self, rng: np.random.Generator, features: Dict[str, np.ndarray]) -> np.ndarray:
        return features["input0"].reshape(self.batch, -1) if self.numbers else rng.integers(0, CLASSES, self.batch)


CATALOGUE: List[Entry] = []


def model(*inputs: Tuple[Tuple[int, ...], Union[str, int]], numbers: bool = False) -> Callable[[Callable[..., Any]], Any]:
    """Adds the model of a function from the inputs to what the last layer takes, or to its predictions."""

    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        def make() -> Any:
            fed = [keras.Input(shape, dtype=None if kind == "values" else "int64") for shape, kind in inputs]
            last = function(*fed)
            return keras.Model(fed, last if numbers else L.Dense(CLASSES)(last))

        CATALOGUE.append(Entry(function.__name__, make, list(inputs), numbers=numbers))
        return function

    return add


IMAGE = ((8, 8, 3), "values")
SERIES = ((6, 4), "values")
TEXT = ((7,), 11)


@model(((9,), "values"))
def dense(x):
    return L.Dense(7, activation="tanh")(L.Dense(8, activation="relu")(x))


@model(IMAGE)
def convolution(x):
    y = L.MaxPooling2D()(L.Conv2D(4, 3, activation="relu", padding="same")(x))
    return L.Flatten()(L.Conv2D(6, 2, strides=2)(y))


@model(IMAGE)
def separable(x):
    return L.GlobalAveragePooling2D()(L.SeparableConv2D(6, 3, activation="relu", depth_multiplier=2)(x))


@model(IMAGE)
def batch_norm(x):
    y = L.ReLU()(L.BatchNormalization()(L.Conv2D(4, 3, use_bias=False)(x)))
    return L.Flatten()(y)


@model(IMAGE)
def inverted_residual(x):
    y = L.BatchNormalization()(L.Conv2D(6, 1, use_bias=False)(x))
    y = L.BatchNormalization()(L.DepthwiseConv2D(3, padding="same", use_bias=False)(L.ReLU(6.0)(y)))
    y = L.BatchNormalization()(L.Conv2D(3, 1, use_bias=False)(L.ReLU(6.0)(y)))
    return L.GlobalAveragePooling2D()(L.Add()([x, y]))


@model(IMAGE)
def residual(x):
    y = L.BatchNormalization()(L.Conv2D(3, 3, padding="same")(x))
    y = L.BatchNormalization()(L.Conv2D(3, 3, padding="same")(L.ReLU()(y)))
    return L.Flatten()(L.AveragePooling2D(2)(L.ReLU()(L.Add()([x, y]))))


@model(IMAGE)
def squeeze_excite(x):
    y = L.Conv2D(6, 3, activation="swish")(x)
    gate = L.Dense(6, activation="sigmoid")(L.Dense(3, activation="relu")(L.GlobalAveragePooling2D()(y)))
    return L.GlobalMaxPooling2D()(L.Multiply()([y, L.Reshape((1, 1, 6))(gate)]))


@model(IMAGE)
def inception(x):
    towers = [L.Conv2D(3, 1)(x), L.Conv2D(3, 3, padding="same")(L.Conv2D(2, 1, activation="relu")(x))]
    towers.append(L.Conv2D(2, 1)(L.AveragePooling2D(3, strides=1, padding="same")(x)))
    return L.Flatten()(L.ReLU()(L.Concatenate()(towers)))


@model(IMAGE)
def unet(x):
    first = L.Conv2D(4, 3, padding="same", activation="relu")(x)
    second = L.Conv2D(6, 3, padding="same", activation="relu")(L.MaxPooling2D()(first))
    up = L.Conv2DTranspose(4, 2, strides=2, activation="relu")(second)
    return L.Flatten()(L.Conv2D(1, 1)(L.Concatenate()([first, up])))


@model(IMAGE)
def upsampling(x):
    y = L.UpSampling2D(2, interpolation="bilinear")(L.Conv2D(3, 3, strides=2, padding="same")(x))
    return L.Flatten()(L.Conv2D(2, 3)(L.UpSampling2D(2)(y)))


@model(IMAGE, numbers=True)
def autoencoder(x):
    code = L.Dense(5)(L.Flatten()(L.Conv2D(4, 3, strides=2, padding="same", activation="relu")(x)))
    y = L.Reshape((4, 4, 2))(L.Dense(32, activation="elu")(code))
    return L.Flatten()(L.Conv2DTranspose(3, 3, strides=2, padding="same")(y))


@model(((4, 5, 5, 2), "values"))
def convolution3d(x):
    return L.Flatten()(L.Conv3D(2, 2, padding="same")(L.Conv3D(3, 2, strides=(1, 2, 2), activation="relu")(x)))


@model(((3, 5, 5, 2), "values"))
def convolutional_lstm(x):
    return L.Flatten()(L.ConvLSTM2D(2, 3)(x))


@model(SERIES)
def temporal_convolution(x):
    y = L.Conv1D(5, 2, padding="causal", dilation_rate=2, activation="relu")(x)
    return L.Flatten()(L.Conv1D(4, 2, padding="causal")(y))


@model(SERIES)
def simple_rnn(x):
    return L.SimpleRNN(5)(x)


@model(SERIES)
def lstm(x):
    return L.LSTM(5)(x)


@model(SERIES)
def gru(x):
    return L.GRU(5)(x)


@model(SERIES)
def bidirectional(x):
    return L.Bidirectional(L.LSTM(4))(x)


@model(SERIES)
def stacked_recurrent(x):
    return L.GRU(4, reset_after=False)(L.LSTM(5, return_sequences=True)(x))


@model(SERIES)
def time_distributed(x):
    return L.Flatten()(L.TimeDistributed(L.Dense(3, activation="selu"))(x))


@model(TEXT)
def embedding(x):
    return L.GlobalAveragePooling1D()(L.Embedding(11, 6)(x))


@model(TEXT)
def text_cnn(x):
    words = L.Embedding(11, 6)(x)
    return L.Concatenate()([L.GlobalMaxPooling1D()(L.Conv1D(4, size, activation="relu")(words)) for size in (2, 3)])


@model(TEXT)
def masked_lstm(x):
    return L.LSTM(5)(L.Embedding(11, 6, mask_zero=True)(x))


@model(SERIES)
def attention(x):
    return L.Flatten()(L.MultiHeadAttention(2, 3)(x, x))


@model(SERIES)
def additive_attention(x):
    query, value = L.Dense(5)(x), L.Dense(5)(x)
    return L.GlobalAveragePooling1D()(L.AdditiveAttention()([query, value]))


@model(TEXT)
def transformer_block(x):
    y = L.Embedding(11, 8)(x)
    y = L.LayerNormalization()(L.Add()([y, L.MultiHeadAttention(2, 4)(y, y, use_causal_mask=True)]))
    z = L.Dense(8)(L.Dense(12, activation="gelu")(y))
    return L.GlobalAveragePooling1D()(L.LayerNormalization()(L.Add()([y, z])))


@model(((9,), "values"))
def layer_norm(x):
    return L.LayerNormalization()(L.Dense(8, activation="softplus")(x))


@model(IMAGE)
def group_norm(x):
    return L.Flatten()(L.PReLU()(L.GroupNormalization(2)(L.Conv2D(4, 3)(x))))


@model(((6,), "values"), ((3,), 7))
def wide_and_deep(wide, words):
    deep = L.Dense(6, activation="relu")(L.Flatten()(L.Embedding(7, 4)(words)))
    return L.Concatenate()([wide, deep])


@model(((6,), "values"), ((6,), "values"))
def siamese(left, right):
    shared = L.Dense(5, activation="leaky_relu")
    left, right = shared(left), shared(right)
    return L.Concatenate()([L.Subtract()([left, right]), L.Dot(1)([left, right])])


def by_name() -> Dict[str, Entry]:
    return {entry.name: entry for entry in CATALOGUE}


# The smallest image that each network takes; 32 for all others.
_SIZES = {"InceptionResNetV2": 75, "InceptionV3": 75, "Xception": 71}


def applications() -> List[Entry]:
    """keras.applications, without trained weights, for small images and with scores in the place of probabilities."""

    def entry(name: str) -> Entry:
        size = _SIZES.get(name, 32)

        def make() -> Any:
            network = getattr(keras.applications, name)
            return network(weights=None, input_shape=(size, size, 3), classes=CLASSES, classifier_activation=None)

        return Entry(name, make, [((size, size, 3), "values")], batch=2)

    names = [name for name in dir(keras.applications) if name[0].isupper()]
    return [entry(name) for name in names if callable(getattr(keras.applications, name))]
