"""Families of layers, their gradients, losses, Keras layers and applications."""
import numpy as np
import tensorflow as tf

from family import Drawn, family

r = tf.raw_ops
keras = tf.keras
L = keras.layers


def one(name, tolerance=5e-5, lower=None):
    def register(builder):
        def build(d):
            drawn = builder(d)
            return Drawn(drawn[0], drawn[1], tolerance, d.bool() if lower is None else lower)
        family(name)(build)
        return builder
    return register


def window(d):
    return d.choice(["SAME", "VALID"]), d.int(1, 2), d.int(1, 2)


@one("conv2d")
def _(d):
    p, s, q = window(d)
    pads = p if d.bool() else [[0, 0], [1, 0], [0, 2], [0, 0]]
    q = 1 if s > 1 else q
    c = d.int(1, 4)
    g = d.choice([1, 2])
    return lambda x, w: tf.nn.conv2d(x, w, s, pads, dilations=q), [d.floats([2, 7, 6, c * g]), d.floats([3, 2, c, 2 * g])]


@one("conv1d")
def _(d):
    p, s, q = window(d)
    return lambda x, w: tf.nn.conv1d(x, w, s, p), [d.floats([2, 9, 3]), d.floats([d.int(1, 3), 3, 2])]


@one("conv3d")
def _(d):
    p, s, q = window(d)
    return lambda x, w: tf.nn.conv3d(x, w, [1, s, s, s, 1], p), [d.floats([1, 4, 5, 4, 2]), d.floats([2, 2, 3, 2, 3])]


@one("conv2d_transpose")
def _(d):
    p, s, q = window(d)
    h, w = (4 * s, 3 * s) if p == "SAME" else (3 * s + 3, 2 * s + 3)
    return lambda x, k: tf.nn.conv2d_transpose(x, k, [2, h, w, 2], s, p), [d.floats([2, 4, 3, 3]), d.floats([3, 3, 2, 3])]


@one("depthwise")
def _(d):
    p, s, q = window(d)
    q = 1 if s > 1 else q
    return lambda x, w: tf.nn.depthwise_conv2d(x, w, [1, s, s, 1], p, dilations=[q, q]), [d.floats([2, 6, 7, 3]), d.floats([3, 2, 3, d.int(1, 2)])]


@one("separable")
def _(d):
    p, s, q = window(d)
    return lambda x, w, v: tf.nn.separable_conv2d(x, w, v, [1, s, s, 1], p), [d.floats([2, 6, 7, 3]), d.floats([3, 3, 3, 2]), d.floats([1, 1, 6, d.int(1, 4)])]


@one("atrous")
def _(d):
    p = d.choice(["SAME", "VALID"])
    return lambda x, w: tf.nn.atrous_conv2d(x, w, 2, p), [d.floats([1, 8, 8, 2]), d.floats([3, 3, 2, 2])]


def gradients(f):
    def g(*x):
        with tf.GradientTape() as t:
            t.watch(x)
            y = tf.reduce_sum(f(*x) ** 2)
        return [tf.convert_to_tensor(v) for v in t.gradient(y, list(x))]
    return g


@one("conv2d_grads", 2e-4)
def _(d):
    p, s, q = window(d)
    return gradients(lambda x, w: tf.nn.conv2d(x, w, s, p)), [d.floats([2, 6, 5, 2], -1, 1), d.floats([3, 2, 2, 3], -1, 1)]


@one("depthwise_grads", 2e-4)
def _(d):
    p, s, q = window(d)
    return gradients(lambda x, w: tf.nn.depthwise_conv2d(x, w, [1, s, s, 1], p)), [d.floats([2, 6, 5, 2], -1, 1), d.floats([3, 2, 2, 2], -1, 1)]


@one("pool2d_grads", 1e-4)
def _(d):
    p, s, q = window(d)
    op = d.choice([tf.nn.max_pool2d, tf.nn.avg_pool2d])
    return gradients(lambda x: op(x, 2, s, p)), [d.floats([2, 6, 5, 2])]


@one("pool2d")
def _(d):
    p, s, q = window(d)
    op = d.choice([tf.nn.max_pool2d, tf.nn.avg_pool2d])
    return lambda x: op(x, [2, 3], s, p), [d.floats([2, 6, 5, 2])]


@one("pool3d")
def _(d):
    p, s, q = window(d)
    op = d.choice([tf.nn.max_pool3d, tf.nn.avg_pool3d])
    return lambda x: op(x, 2, s, p), [d.floats([2, 4, 5, 4, 2])]


@one("maxpool_argmax")
def _(d):
    p, s, q = window(d)
    return lambda x: tf.nn.max_pool_with_argmax(x, 2, s, p, include_batch_in_index=d.bool()), [d.floats([2, 6, 5, 2])]


@one("matmul")
def _(d):
    ta, tb = d.bool(), d.bool()
    dt = d.dtype()
    a, b = [3, 4], [4, d.int(1, 5)]
    return lambda x, y: tf.matmul(x, y, ta, tb), [d.floats(a[::-1] if ta else a, dtype=dt), d.floats(b[::-1] if tb else b, dtype=dt)]


@one("batchmatmul")
def _(d):
    ta, tb = d.bool(), d.bool()
    a, b = [3, 4], [4, d.int(1, 5)]
    return lambda x, y: tf.matmul(x, y, ta, tb), [d.floats([2] + (a[::-1] if ta else a)), d.floats(d.choice([[2], [1], []]) + (b[::-1] if tb else b))]


@one("batchmatmul_v3")
def _(d):
    return lambda x, y: r.BatchMatMulV3(x=x, y=y, Tout=tf.int32), [d.ints([2, 3, 4]), d.ints([2, 4, d.int(1, 5)])]


@one("batchnorm")
def _(d):
    c, train = d.int(1, 4), d.bool()
    fmt = "NHWC"
    return lambda x, s, o, m, v: r.FusedBatchNormV3(x=x, scale=s, offset=o, mean=m, variance=v, is_training=train, epsilon=1e-3)[:3] if train else r.FusedBatchNormV3(x=x, scale=s, offset=o, mean=m, variance=v, is_training=False)[0], [d.floats([4, 3, 3, c]), d.floats([c]), d.floats([c]), d.floats([c]), d.floats([c], 0.5, 2)]


@one("batchnorm_grad", 2e-4)
def _(d):
    c = d.int(1, 4)
    def f(x, s, o):
        with tf.GradientTape() as t:
            t.watch([x, s, o])
            y = r.FusedBatchNormV3(x=x, scale=s, offset=o, mean=tf.constant([]), variance=tf.constant([]), is_training=True)[0]
            y = tf.reduce_sum(y ** 3)
        return t.gradient(y, [x, s, o])
    return f, [d.floats([4, 3, 3, c]), d.floats([c]), d.floats([c])]


@one("batchnorm_nchw_inf")
def _(d):
    c = d.int(1, 4)
    return lambda x, s, o, m, v: tf.transpose(tf.transpose(x, [0, 2, 3, 1]) * (s * tf.math.rsqrt(v + 1e-3)) + (o - m * s * tf.math.rsqrt(v + 1e-3)), [0, 3, 1, 2]), [d.floats([2, c, 3, 3]), d.floats([c]), d.floats([c]), d.floats([c]), d.floats([c], 0.5, 2)]


@one("gelu")
def _(d):
    return lambda x: (tf.nn.gelu(x, d.bool()), tf.nn.silu(x)), [d.floats(d.shape())]


@one("softmaxes")
def _(d):
    return lambda x: (tf.nn.softmax(x), tf.nn.log_softmax(x)), [d.floats(d.shape(1, 3))]


@one("softmax_axis")
def _(d):
    s = d.shape(2, 4)
    a = d.int(0, len(s) - 1)
    return lambda x: tf.nn.softmax(x, axis=a), [d.floats(s)]


@one("xent")
def _(d):
    return lambda x, y: tf.nn.softmax_cross_entropy_with_logits(tf.nn.softmax(y), x), [d.floats([3, 4]), d.floats([3, 4])]


@one("sparse_xent")
def _(d):
    def f(x, y):
        with tf.GradientTape() as t:
            t.watch(x)
            l = tf.reduce_sum(tf.nn.sparse_softmax_cross_entropy_with_logits(y, x))
        return l, t.gradient(l, x)
    return f, [d.floats([3, 4]), d.ints([3], 0, 3, d.integer())]


@one("sigmoid_xent")
def _(d):
    s = d.shape()
    return lambda x, y: tf.nn.sigmoid_cross_entropy_with_logits(y, x), [d.floats(s), d.floats(s, 0, 1)]


# Keras, by functional models that are frozen.
def model_of(name, tolerance=1e-4):
    def register(builder):
        def build(d):
            keras.utils.set_random_seed(d.int(0, 10**6))
            shape, layers = builder(d)
            x = y = keras.Input(shape[1:], batch_size=shape[0] if d.bool() else None)
            y = layers(y)
            model = keras.Model(x, y)
            for w in model.weights:
                if "moving_variance" in w.path or "variance" in w.path:
                    continue
                w.assign(d.rng.uniform(-0.6, 0.6, w.shape))
            return Drawn(lambda x: model(x, training=False), [d.floats(shape)], tolerance, d.bool())
        family(name)(build)
    return register


def chain(*layers):
    def f(x):
        for l in layers:
            x = l(x)
        return x
    return f


@model_of("keras_acts")
def _(d):
    return [2, 5], lambda x: [L.Activation(a)(x) for a in d.rng.permutation("elu relu relu6 sigmoid softplus tanh silu gelu leaky_relu hard_sigmoid".split())[:4]]


@model_of("keras_bilstm")
def _(d):
    return [2, d.int(2, 4), 3], L.Bidirectional(L.LSTM(d.int(2, 4), return_sequences=d.bool()))


@model_of("keras_lstm")
def _(d):
    return [2, d.int(2, 4), 3], L.LSTM(d.int(2, 4), return_sequences=d.bool(), go_backwards=d.bool())


@model_of("keras_gru")
def _(d):
    return [2, d.int(2, 4), 3], L.GRU(d.int(2, 4), return_sequences=d.bool(), reset_after=d.bool())


@model_of("keras_simplernn")
def _(d):
    return [2, d.int(2, 4), 3], L.SimpleRNN(d.int(2, 4), return_sequences=d.bool())


@model_of("keras_lstm_unroll")
def _(d):
    return [2, d.int(2, 4), 3], L.LSTM(d.int(2, 4), unroll=True, return_sequences=d.bool())


@model_of("keras_masking_lstm")
def _(d):
    return [2, 4, 3], chain(L.Masking(0.0), L.LSTM(d.int(2, 4), return_sequences=d.bool()))


@model_of("keras_cnn")
def _(d):
    return [2, 8, 8, 3], chain(L.Conv2D(d.int(2, 4), 3, padding=d.choice(["same", "valid"]), activation="relu"), L.BatchNormalization(), L.MaxPooling2D(), L.DepthwiseConv2D(2), L.GlobalAveragePooling2D() if d.bool() else L.Flatten(), L.Dense(4, activation="softmax"))


@model_of("keras_conv1d3d")
def _(d):
    return [2, 9, 3], chain(L.ZeroPadding1D(1), L.Conv1D(4, 3, padding=d.choice(["same", "valid"]), dilation_rate=d.int(1, 2)), L.MaxPooling1D(2) if d.bool() else L.AveragePooling1D(2), L.Flatten())


@model_of("keras_conv3d")
def _(d):
    return [1, 4, 4, 4, 2], chain(L.Conv3D(3, 2), L.AveragePooling3D(2, 1), L.GlobalMaxPooling3D())


@model_of("keras_convlstm")
def _(d):
    return [1, 3, 4, 4, 2], L.ConvLSTM2D(2, 2, padding="same", return_sequences=d.bool())


@model_of("keras_mha")
def _(d):
    causal = d.bool()
    return [2, 4, 6], lambda x: L.MultiHeadAttention(2, 3)(x, x, use_causal_mask=causal)


@model_of("keras_norms")
def _(d):
    return [2, 4, 6], chain(L.LayerNormalization(), L.UnitNormalization(), L.GroupNormalization(d.choice([1, 2, 3])))


@model_of("keras_preproc")
def _(d):
    return [2, 6, 6, 3], chain(L.Rescaling(1 / 127.5, offset=-1), L.Resizing(d.int(3, 8), 5), L.ZeroPadding2D(1), L.Cropping2D(((0, 1), (1, 0))))


@model_of("keras_upsample")
def _(d):
    return [2, 4, 4, 3], chain(L.Conv2DTranspose(2, 3, strides=d.int(1, 2), padding=d.choice(["same", "valid"])), L.UpSampling2D(2, interpolation=d.choice(["bilinear", "nearest"])))


def application(name, make, size):
    def build(d):
        keras.utils.set_random_seed(d.int(0, 10**6))
        model = make(weights=None, input_shape=(size, size, 3), classes=7)
        return Drawn(lambda x: model(x, training=False), [d.floats([1, size, size, 3], 0, 1)], 2e-4)
    family("app_" + name)(build)


A = keras.applications
application("convnext", lambda **k: A.ConvNeXtTiny(include_preprocessing=False, **k), 32)
application("densenet", A.DenseNet121, 32)
application("efficientnet_b0", A.EfficientNetB0, 32)
application("mobilenet_v2", A.MobileNetV2, 32)
application("mobilenet_v3", lambda **k: A.MobileNetV3Small(include_preprocessing=True, **k), 32)
application("resnet50", A.ResNet50, 32)


@one("p_conv_nchw_bias")
def _(d):
    c = d.int(1, 4)
    return lambda x, w, b: tf.transpose(tf.nn.bias_add(tf.nn.conv2d(tf.transpose(x, [0, 2, 3, 1]), tf.cast(w, tf.float32), 1, "SAME"), b), [0, 3, 1, 2]), [d.floats([2, 3, 5, 5]), d.floats([3, 3, 3, c], dtype=np.float64), d.floats([c])]


@one("p_conv_grad_tape", 2e-4)
def _(d):
    f = gradients(lambda x, w: tf.nn.conv2d(x, w, 1, "SAME"))
    return f, [d.floats([d.int(1, 3), 5, 5, 2], -1, 1), d.floats([3, 3, 2, 2], -1, 1)]


@one("p_concat_tape")
def _(d):
    a = d.choice([0, 1, -1])
    return gradients(lambda x, y: tf.concat([x, y * 2], a)), [d.floats([2, 3]), d.floats([2, 3])]


@one("p_gelu_keras")
def _(d):
    return lambda x: keras.activations.gelu(x), [d.floats(d.shape())]


@one("p_gelu_tf_exact")
def _(d):
    return lambda x: tf.nn.gelu(x), [d.floats(d.shape())]


@one("p_silu")
def _(d):
    return lambda x: tf.nn.silu(x), [d.floats(d.shape())]


@one("p_swish_keras")
def _(d):
    return lambda x: keras.activations.swish(x) if hasattr(keras.activations, "swish") else keras.activations.silu(x), [d.floats(d.shape())]


@one("p_fmod")
def _(d):
    return lambda x, y: r.TruncateMod(x=x, y=y) / 2.0, [d.floats([3, 4]), d.floats([4], 0.5, 2)]


@one("p_fmod2")
def _(d):
    return lambda x, y: tf.math.floormod(x, y) / 2.0, [d.floats([3, 4]), d.floats([4], 0.5, 2)]


@one("p_fmod3")
def _(d):
    return lambda x, y: tf.math.floormod(x, y) / 2.0, [d.floats([3, 4]), d.floats([4], -2, -0.5)]
