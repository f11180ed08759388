"""The models of the rows in JAX: parameters are a list of arrays; images are [number, height, width, channels]."""
import jax
import jax.numpy as jnp
import numpy as np

CONVOLUTIONS = {  # of each model: filters with their padding, and whether a pool of 2 × 2 follows
    "logistic": [], "2nn": [],
    "cnn": [((5, 5, 1, 32), "SAME", True), ((5, 5, 32, 64), "SAME", True)],
    "cifar": [((3, 3, 3, 32), "VALID", False), ((3, 3, 32, 64), "VALID", True)],
}
DENSE = {"logistic": (784, 10), "2nn": (784, 200, 200, 10), "cnn": (3136, 512, 10), "cifar": (12544, 128, 10)}


def first(model):
    """Glorot's values (Glorot and Bengio 2010), and biases of zero."""
    draws = np.random.default_rng(3)
    shapes = [shape for shape, _, _ in CONVOLUTIONS[model]] + list(zip(DENSE[model], DENSE[model][1:]))
    parameters = []
    for shape in shapes:
        area = int(np.prod(shape[:-2]))
        most = (6 / (area * (shape[-2] + shape[-1])))**0.5
        parameters += [jnp.asarray(draws.uniform(-most, most, shape), jnp.float32), jnp.zeros(shape[-1], jnp.float32)]
    return parameters


def scores(model, parameters, images):
    """Without dropout, which `cifar` has elsewhere."""
    layers = list(zip(parameters[::2], parameters[1::2]))
    outputs = images
    for (_, padding, pooled), (kernel, bias) in zip(CONVOLUTIONS[model], layers):
        outputs = jax.lax.conv_general_dilated(outputs, kernel, (1, 1), padding, dimension_numbers=("NHWC", "HWIO", "NHWC")) + bias
        outputs = jax.nn.relu(outputs)
        if pooled:
            outputs = jax.lax.reduce_window(outputs, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    outputs = outputs.reshape(len(outputs), -1)
    dense = layers[len(CONVOLUTIONS[model]):]
    for kernel, bias in dense[:-1]:
        outputs = jax.nn.relu(outputs @ kernel + bias)
    return outputs @ dense[-1][0] + dense[-1][1]


def losses(model, parameters, images, labels):
    """Of each example."""
    return -jnp.take_along_axis(jax.nn.log_softmax(scores(model, parameters, images)), labels[:, None], 1)[:, 0]
