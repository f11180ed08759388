"""Families that move, choose, count and order elements, and of linear algebra, images and signals."""
import numpy as np
import tensorflow as tf

from family import Drawn, family

r = tf.raw_ops


def one(name, tolerance=2e-5):
    """A family whose builder gives (function, inputs)."""
    def register(builder):
        def build(d):
            drawn = builder(d)
            return drawn if isinstance(drawn, Drawn) else Drawn(drawn[0], drawn[1], tolerance)
        family(name)(build)
        return builder
    return register


@one("accumulate")
def _(d):
    s = d.shape()
    return lambda a, b, c: r.AccumulateNV2(inputs=[a, b, c], shape=s), [d.floats(s) for _ in range(3)]


@one("addn")
def _(d):
    s, n = d.shape(), d.int(1, 4)
    return lambda *x: r.AddN(inputs=list(x)), [d.floats(s) for _ in range(n)]


@one("adjust_contrast")
def _(d):
    f = d.choice([0.5, 1.5, 2.0])
    return lambda x: tf.image.adjust_contrast(x, f), [d.floats([2, d.int(2, 5), d.int(2, 5), 3])]


@one("argminmax")
def _(d):
    s = d.shape(1, 4)
    a, t = d.axis(len(s)), d.choice([tf.int32, tf.int64])
    x = d.floats(s) if d.bool() else d.ints(s, -3, 3)
    return lambda x: (r.ArgMax(input=x, dimension=a, output_type=t), r.ArgMin(input=x, dimension=a, output_type=t)), [x]


@one("b2s")
def _(d):
    k = d.int(1, 3)
    c = [[d.int(0, k - 1), d.int(0, k - 1)], [0, 0]]
    return (lambda x: r.BatchToSpaceND(input=x, block_shape=[k, 2], crops=c)), [d.floats([k * 2 * d.int(1, 2), 3, 2, d.int(1, 3)])]


@one("s2b")
def _(d):
    k = d.int(1, 3)
    return (lambda x: r.SpaceToBatchND(input=x, block_shape=[k, 2], paddings=[[0, k], [1, 1]])), [d.floats([2, 2 * k, 4, d.int(1, 3)])]


@one("s2d")
def _(d):
    return lambda x: tf.nn.space_to_depth(x, 2), [d.floats([2, 4, 2 * d.int(1, 3), d.int(1, 3)])]


@one("d2s")
def _(d):
    return lambda x: tf.nn.depth_to_space(x, 2), [d.floats([2, d.int(1, 3), d.int(1, 3), 4 * d.int(1, 2)])]


@one("d2s_nchw")
def _(d):
    c, h = d.int(1, 2), d.int(1, 3)
    return lambda x: tf.reshape(tf.transpose(tf.reshape(x, [2, c, 2, 2, h, 3]), [0, 1, 4, 2, 5, 3]), [2, c, h * 2, 6]), [d.floats([2, 4 * c, h, 3])]


@one("band")
def _(d):
    lo, up = d.int(-1, 2), d.int(-1, 2)
    return lambda x: tf.linalg.band_part(x, lo, up), [d.floats([2, d.int(2, 5), d.int(2, 5)])]


@one("bcast_to")
def _(d):
    s = d.shape(1, 3)
    x = [n if d.bool() else 1 for n in s][d.int(0, len(s) - 1):]
    return lambda x: tf.broadcast_to(x, [2] + s), [d.floats(x)]


@one("betainc", 2e-4)
def _(d):
    s = d.shape()
    return lambda a, b, x: tf.math.betainc(a, b, x), [d.floats(s, 0.3, 3), d.floats(s, 0.3, 3), d.floats(s, 0.01, 0.99)]


@one("biasadd")
def _(d):
    s = d.shape(2, 4)
    return lambda x, b: tf.nn.bias_add(x, b), [d.floats(s), d.floats([s[-1]])]


@one("biasadd_nchw")
def _(d):
    c = d.int(1, 4)
    return lambda x, b: tf.nn.bias_add(x, b, data_format="NCHW"), [d.floats([2, c, 3, d.int(1, 4)]), d.floats([c])]


@one("bincount")
def _(d):
    return lambda x: tf.math.bincount(x, minlength=6, maxlength=8), [d.ints([d.int(3, 12)], 0, 5)]


@one("dense_bincount")
def _(d):
    n, binary = d.int(4, 9), d.bool()
    return lambda x: r.DenseBincount(input=x, size=n, weights=tf.constant([], tf.float32), binary_output=binary), [d.ints(d.choice([[7], [3, 5]]), 0, 6)]


@one("bitcast")
def _(d):
    a, b = d.choice([(np.float32, tf.int32), (np.int32, tf.float32), (np.float64, tf.int64), (np.int64, tf.int32), (np.float32, tf.uint8)])
    x = d.ints(d.shape(), 1, 1000, a) if a in (np.int32, np.int64) else d.floats(d.shape(), dtype=a)
    return lambda x: tf.bitcast(x, b), [x]


@one("boolmask")
def _(d):
    n = d.int(2, 6)
    return lambda x, m: tf.boolean_mask(x, m), [d.floats([n] + d.shape(0, 2)), d.bools([n])]


@one("bucketize")
def _(d):
    b = sorted(float(x) for x in d.floats([d.int(1, 4)]))
    return lambda x: r.Bucketize(input=x, boundaries=b), [d.floats(d.shape())]


@one("cast")
def _(d):
    to = d.choice([tf.float32, tf.float64, tf.int32, tf.int64, tf.bool, tf.uint8, tf.int8, tf.float16, tf.bfloat16])
    x = d.choice([d.floats(d.shape(), 0, 9), d.floats(d.shape(), 0, 9, np.float64), d.ints(d.shape(), 0, 9), d.bools(d.shape())])
    return lambda x: tf.cast(x, to), [x]


@one("check_numerics")
def _(d):
    return lambda x: tf.debugging.check_numerics(x, "bad"), [d.floats(d.shape())]


def definite(d, n, batch=()):
    x = d.floats(list(batch) + [n, n], -1, 1)
    return (x @ np.swapaxes(x, -1, -2) + n * np.eye(n)).astype(np.float32)


@one("cholesky", 1e-4)
def _(d):
    return lambda x: tf.linalg.cholesky(x), [definite(d, d.int(1, 5), d.choice([(), (2,)]))]


@one("clip")
def _(d):
    return lambda x, a, b: tf.clip_by_value(x, a, b), [d.floats(d.shape()), np.float32(-0.5), np.float32(0.7)]


@one("clip_norm")
def _(d):
    return lambda x: tf.clip_by_norm(x, d.choice([0.5, 2.0]), axes=d.choice([None, [-1]])), [d.floats(d.shape())]


@one("complex")
def _(d):
    s = d.shape()
    return lambda a, b: tf.math.imag(tf.complex(a, b) * tf.complex(b, a)), [d.floats(s), d.floats(s)]


@one("concat")
def _(d):
    s = d.shape(1, 4)
    a = d.axis(len(s))
    parts = [[d.int(1, 4) if i == a % len(s) else n for i, n in enumerate(s)] for _ in range(d.int(2, 4))]
    return lambda *x: tf.concat(x, a), [d.floats(p) for p in parts]


@one("confusion")
def _(d):
    n = d.int(2, 4)
    return lambda a, b: tf.math.confusion_matrix(a, b, n), [d.ints([6], 0, n - 1), d.ints([6], 0, n - 1)]


@one("crop_resize")
def _(d):
    m = d.choice(["bilinear", "nearest"])
    boxes = np.sort(d.floats([3, 2, 2], 0, 1), axis=1).reshape(3, 4)
    return lambda x, b, i: tf.image.crop_and_resize(x, b, i, [d.int(2, 4), 3], m), [d.floats([2, 5, 6, d.int(1, 3)]), boxes, d.ints([3], 0, 1)]


@one("cross")
def _(d):
    s = d.shape(0, 2) + [3]
    return lambda a, b: tf.linalg.cross(a, b), [d.floats(s), d.floats(s)]


@one("ctc_loss", 1e-4)
def _(d):
    t, b, c = d.int(5, 8), 2, 4
    indices = np.array([[0, 0], [0, 1], [1, 0]], np.int64)
    def f(x):
        loss, _ = r.CTCLoss(inputs=x, labels_indices=indices, labels_values=tf.constant([0, 1, 2]), sequence_length=[t, t - 1])
        return loss
    return f, [d.floats([t, b, c])]


@one("decode_raw")
def _(d):
    n = d.int(1, 4)
    return lambda x: tf.io.decode_raw(tf.constant([b"\x01\x02\x03\x04" * n] * 2), tf.int32) + x, [d.ints([n])]


@one("det", 2e-4)
def _(d):
    def f(x):
        sign, log = tf.linalg.slogdet(x)
        return tf.linalg.det(x), sign, log
    return f, [definite(d, d.int(1, 4), d.choice([(), (2,)]))]


@one("diag")
def _(d):
    k = d.int(-2, 2)
    return lambda x: tf.linalg.diag(x, k=k, padding_value=d.choice([0.0, 2.0])), [d.floats(d.choice([[3], [2, 3]]))]


@one("diag_part")
def _(d):
    k, al = d.choice([0, 1, -1, (-1, 1)]), d.choice(["RIGHT_LEFT", "LEFT_LEFT"])
    return lambda x: tf.linalg.diag_part(x, k=k, align=al), [d.floats([2, 4, d.int(2, 5)])]


@one("diag_v1")
def _(d):
    return lambda x: r.Diag(diagonal=x), [d.floats(d.shape(1, 2, 3))]


@one("set_diag")
def _(d):
    n = d.int(2, 4)
    return lambda x, y: tf.linalg.set_diag(x, y), [d.floats([2, n, n + d.int(0, 1)]), d.floats([2, n])]


@one("dilation2d")
def _(d):
    p = d.choice(["SAME", "VALID"])
    s, q = d.int(1, 2), d.int(1, 2)
    return lambda x, w: r.Dilation2D(input=x, filter=w, strides=[1, s, s, 1], rates=[1, q, q, 1], padding=p), [d.floats([2, 7, 6, 2]), d.floats([2, 3, 2])]


@one("dyn_partition")
def _(d):
    n = d.int(3, 7)
    return lambda x, p: tf.dynamic_partition(x, p, 2), [d.floats([n] + d.shape(0, 1)), d.ints([n], 0, 1)]


@one("dyn_stitch")
def _(d):
    order = d.rng.permutation(6).astype(np.int32)
    return lambda a, b: tf.dynamic_stitch([tf.constant(order[:2]), tf.constant(order[2:])], [a, b]), [d.floats([2, 3]), d.floats([4, 3])]


@one("edit_dist")
def _(d):
    n = d.int(1, 3)
    def f(x):
        a = tf.sparse.SparseTensor([[0, i] for i in range(n)], tf.constant(list(range(n)), tf.int64), [1, n])
        b = tf.sparse.SparseTensor([[0, 0], [0, 1]], tf.constant([0, 2], tf.int64), [1, 2])
        return tf.edit_distance(a, b, normalize=False) + x
    return f, [d.floats([1])]


@one("eigh", 5e-4)
def _(d):
    def f(x):
        e, v = tf.linalg.eigh(x)
        return e, tf.matmul(v * e[..., None, :], v, transpose_b=True)
    return f, [definite(d, d.int(2, 4), d.choice([(), (2,)]))]


@one("svd", 5e-4)
def _(d):
    def f(x):
        s, u, v = tf.linalg.svd(x, full_matrices=False)
        return s, tf.matmul(u * s[..., None, :], v, transpose_b=True)
    return f, [d.floats([d.int(2, 4), d.int(2, 4)])]


@one("qr", 5e-4)
def _(d):
    def f(x):
        q, rr = tf.linalg.qr(x)
        return tf.matmul(q, rr)
    return f, [d.floats([d.int(2, 4), d.int(2, 4)])]


@one("lu", 2e-4)
def _(d):
    def f(x):
        lu, p = tf.linalg.lu(x)
        return lu, p
    return f, [d.floats([3, 3]) + 3 * np.eye(3, dtype=np.float32)[d.rng.permutation(3)]]


@one("solve", 5e-4)
def _(d):
    n, ad = d.int(1, 4), d.bool()
    return lambda a, b: tf.linalg.solve(a, b, adjoint=ad), [definite(d, n), d.floats([n, d.int(1, 3)])]


@one("tri_solve", 5e-4)
def _(d):
    n, lower, ad = d.int(1, 4), d.bool(), d.bool()
    return lambda a, b: tf.linalg.triangular_solve(a, b, lower=lower, adjoint=ad), [definite(d, n), d.floats([n, d.int(1, 3)])]


@one("inverse", 5e-4)
def _(d):
    ad = d.bool()
    return lambda x: tf.linalg.inv(x, adjoint=ad), [definite(d, d.int(1, 4), d.choice([(), (2,)]))]


@one("expm", 1e-3)
def _(d):
    return lambda x: tf.linalg.expm(x), [d.floats([d.int(1, 3)] * 2, -0.5, 0.5)]


@one("einsum")
def _(d):
    e, a, b = d.choice([("ij,jk->ik", [2, 3], [3, 4]), ("bij,bkj->bik", [2, 3, 4], [2, 5, 4]), ("abc,cde->abde", [2, 3, 4], [4, 2, 3]),
                        ("ij,ij->", [2, 3], [2, 3]), ("bthd,bshd->bhts", [2, 3, 2, 4], [2, 5, 2, 4]), ("...ij,jk->...ik", [2, 2, 3], [3, 4])])
    return lambda x, y: tf.einsum(e, x, y), [d.floats(a), d.floats(b)]


@one("embed")
def _(d):
    return lambda w, i: tf.nn.embedding_lookup(w, i), [d.floats([d.int(2, 6), 3]), d.ints(d.shape(), 0, 1, d.integer())]


@one("embed_grad")
def _(d):
    def f(w, i):
        with tf.GradientTape() as t:
            t.watch(w)
            y = tf.reduce_sum(tf.gather(w, i) ** 2)
        return tf.convert_to_tensor(t.gradient(y, w))
    return f, [d.floats([5, 3]), d.ints([d.int(2, 6)], 0, 4)]


@one("fakequant")
def _(d):
    bits, narrow = d.choice([4, 8]), d.bool()
    return lambda x: tf.quantization.fake_quant_with_min_max_args(x, -1.5, 2.0, bits, narrow), [d.floats(d.shape(), -3, 3)]


@one("fakequant_ch")
def _(d):
    n = d.int(1, 4)
    return lambda x, a, b: tf.quantization.fake_quant_with_min_max_vars_per_channel(x, a, b), [d.floats([3, n]), d.floats([n], -2, -0.5), d.floats([n], 0.5, 2)]


@one("fft2d", 1e-4)
def _(d):
    return lambda x: tf.math.real(tf.signal.fft2d(tf.cast(x, tf.complex64))), [d.floats([2, d.choice([2, 4, 3]), 4])]


@one("rfft", 1e-4)
def _(d):
    return lambda x: tf.abs(tf.signal.rfft(x)), [d.floats([2, d.choice([4, 6, 8])])]


@one("stft", 1e-4)
def _(d):
    return lambda x: tf.abs(tf.signal.stft(x, frame_length=8, frame_step=d.choice([4, 3]), fft_length=8)), [d.floats([2, 20])]


@one("frac_pool")
def _(d):
    return lambda x: r.FractionalMaxPool(value=x, pooling_ratio=[1.0, 1.5, 1.5, 1.0], deterministic=True, seed=3, seed2=d.int(1, 5))[0], [d.floats([1, 7, 8, 2])]


@one("gather")
def _(d):
    s = d.shape(1, 4)
    a = d.axis(len(s))
    b = 0
    i = d.ints(d.shape(0, 2), 0, s[a] - 1, d.integer())
    if len(s) > 1 and d.bool():
        b, a = 1, d.int(1, len(s) - 1)
        i = d.ints([s[0], d.int(1, 3)], 0, s[a] - 1)
    return lambda x, i: tf.gather(x, i, axis=a, batch_dims=b), [d.floats(s), i]


@one("gather_nd")
def _(d):
    k = d.int(1, 3)
    return lambda x, i: tf.gather_nd(x, i), [d.floats([3, 3, 3]), d.ints(d.shape(0, 2) + [k], 0, 2, d.integer())]


@one("gather_nd_batch")
def _(d):
    return lambda x, i: tf.gather_nd(x, i, batch_dims=1), [d.floats([2, 3, 4]), d.ints([2, d.int(1, 3), d.int(1, 2)], 0, 2)]


@one("histogram")
def _(d):
    n = d.int(2, 6)
    return lambda x: tf.histogram_fixed_width(x, [-2.0, 2.0], n), [d.floats(d.shape())]


@one("hsv")
def _(d):
    return lambda x: tf.image.rgb_to_hsv(x), [d.floats([2, 3, 3], 0, 1)]


@one("identity_n")
def _(d):
    return lambda a, b: r.IdentityN(input=[a, b]), [d.floats(d.shape()), d.ints(d.shape())]


@one("in_topk")
def _(d):
    k = d.int(1, 4)
    return lambda x, t: tf.math.in_top_k(t, x, k), [d.floats([4, 5]), d.ints([4], 0, 4, d.integer())]


@one("invert")
def _(d):
    return lambda x: r.Invert(x=x), [d.ints(d.shape(), dtype=d.choice([np.int32, np.int64, np.int8, np.int16]))]


@one("invperm")
def _(d):
    return lambda x: tf.math.invert_permutation(x), [d.rng.permutation(d.int(1, 7)).astype(d.integer())]


@one("l2loss")
def _(d):
    return lambda x: tf.nn.l2_loss(x), [d.floats(d.shape())]


@one("linspace")
def _(d):
    n = d.int(1, 6)
    return lambda a, b: r.LinSpace(start=a, stop=b, num=n), [np.float32(-1.5), d.floats([], 1, 3)]


@one("linspace2")
def _(d):
    n = d.int(1, 6)
    return lambda a, b: tf.linspace(a, b, n), [d.floats([2]), d.floats([2], 1, 3)]


@one("listdiff")
def _(d):
    return lambda a, b: r.ListDiff(x=a, y=b), [d.ints([d.int(2, 7)], 0, 5), d.ints([3], 0, 5)]


@one("logsumexp")
def _(d):
    s = d.shape(1, 3)
    a, k = d.axis(len(s)), d.bool()
    return lambda x: tf.reduce_logsumexp(x, axis=d.choice([a, None]), keepdims=k), [d.floats(s)]


@one("lrn")
def _(d):
    n = d.int(1, 3)
    return lambda x: tf.nn.lrn(x, n, 1.5, 0.3, 0.6), [d.floats([2, 3, 3, d.int(2, 6)])]


@one("meshgrid")
def _(d):
    ix = d.choice(["xy", "ij"])
    return lambda a, b: tf.meshgrid(a, b, indexing=ix), [d.floats([d.int(1, 4)]), d.floats([3])]


@one("moments")
def _(d):
    s = d.shape(2, 4)
    k = d.bool()
    return lambda x: tf.nn.moments(x, d.choice([[0], [0, 1], [-1]]), keepdims=k), [d.floats(s)]


@one("nms")
def _(d):
    n = d.int(3, 7)
    boxes = np.sort(d.floats([n, 2, 2], 0, 1), axis=1).reshape(n, 4)
    return lambda b, s: tf.image.non_max_suppression(b, s, d.int(1, 4), 0.4), [boxes, d.floats([n], 0, 1)]


@one("not")
def _(d):
    return lambda x: tf.logical_not(x), [d.bools(d.shape())]


@one("nth_element")
def _(d):
    n, rev = d.int(0, 3), d.bool()
    return lambda x: r.NthElement(input=x, n=n, reverse=rev), [d.floats([2, 4])]


@one("onehot")
def _(d):
    s, dt = d.shape(1, 2), d.choice([tf.float32, tf.int32])
    a = d.int(-1, len(s))
    return lambda i: tf.one_hot(i, 4, axis=a, dtype=dt, on_value=d.choice([tf.constant(1, dt), tf.constant(3, dt)]), off_value=tf.constant(0, dt)), [d.ints(s, -1, 4, d.integer())]


@one("pack_unpack")
def _(d):
    s = d.shape(0, 2)
    a = d.int(-len(s) - 1, len(s))
    return lambda x, y, z: tf.unstack(tf.stack([x, y, z], a) * 2, axis=d.axis(len(s) + 1)), [d.floats(s) for _ in range(3)]


@one("pad")
def _(d):
    s = d.shape(1, 3, 5)
    p = [[d.int(0, min(2, n - 1)), d.int(0, min(2, n - 1))] for n in s]
    mode = d.choice(["CONSTANT", "CONSTANT", "REFLECT", "SYMMETRIC"])
    return lambda x: tf.pad(x, p, mode, constant_values=d.choice([0, 3]) if mode == "CONSTANT" else 0), [d.floats(s)]


@one("patches")
def _(d):
    return lambda x: tf.image.extract_patches(x, [1, 2, d.int(1, 3), 1], [1, d.int(1, 2), 1, 1], [1, d.int(1, 2), 1, 1], d.choice(["SAME", "VALID"])), [d.floats([2, 6, 5, 2])]


@one("popcount")
def _(d):
    return lambda x: r.PopulationCount(x=x), [d.ints(d.shape(), 0, 1000, d.integer())]


@one("quant_dequant")
def _(d):
    return lambda x: tf.quantization.quantize_and_dequantize_v2(x, -2.0, 2.0, range_given=True, num_bits=d.choice([4, 8])), [d.floats(d.shape())]


@one("ragged")
def _(d):
    n = d.int(3, 6)
    return lambda x: tf.RaggedTensor.from_row_splits(x, [0, 2, 2, n]).to_tensor(d.choice([0.0, -1.0])), [d.floats([n])]


@one("ragged_sum")
def _(d):
    n = d.int(3, 6)
    return lambda x: tf.reduce_sum(tf.RaggedTensor.from_row_splits(x, [0, 2, 2, n]), axis=1), [d.floats([n])]


@one("range")
def _(d):
    n, s = d.int(1, 9), d.int(1, 3)
    return lambda x: tf.range(0, n, s) + x, [np.int32(2)]


@one("resize")
def _(d):
    op = d.choice([r.ResizeBilinear, r.ResizeNearestNeighbor, r.ResizeBicubic, r.ResizeArea])
    attrs = d.choice([{}, {"align_corners": True}]) if op is r.ResizeArea else d.choice([{}, {"align_corners": True}, {"half_pixel_centers": True}])
    size = [d.int(2, 7), d.int(2, 7)]
    return lambda x: op(images=x, size=size, **attrs), [d.floats([2, d.int(2, 5), d.int(2, 5), 2])]


@one("resize_v2_antialias", 1e-4)
def _(d):
    size = [d.int(2, 7), d.int(2, 7)]
    return lambda x: tf.image.resize(x, size, d.choice(["bilinear", "lanczos3", "bicubic"]), antialias=True), [d.floats([2, 5, 6, 2])]


@one("reverse")
def _(d):
    s = d.shape(1, 4)
    a = d.axes(len(s))
    return lambda x: tf.reverse(x, np.array(a, np.int32)), [d.floats(s)]


@one("reverse_seq")
def _(d):
    return lambda x, n: tf.reverse_sequence(x, n, seq_axis=1, batch_axis=0), [d.floats([3, 4, 2]), d.ints([3], 0, 4, d.integer())]


@one("roll")
def _(d):
    s = d.shape(2, 3)
    return lambda x: tf.roll(x, [d.int(-3, 3), 1], [0, 1]), [d.floats(s)]


@one("scan")
def _(d):
    s = d.shape(1, 3)
    a, e, rev = d.axis(len(s)), d.bool(), d.bool()
    op = d.choice([tf.cumsum, tf.math.cumprod, tf.math.cumulative_logsumexp])
    return lambda x: op(x, a, exclusive=e, reverse=rev), [d.floats(s)]


@one("scan_int")
def _(d):
    s = d.shape(1, 3)
    return lambda x: tf.cumsum(x, d.axis(len(s)), exclusive=d.bool(), reverse=d.bool()), [d.ints(s, dtype=d.integer())]


@one("scatter_nd")
def _(d):
    return lambda i, u: tf.scatter_nd(i, u, tf.constant([5, 3], i.dtype)), [d.ints([4, 1], 0, 4, d.integer()), d.floats([4, 3])]


@one("searchsorted")
def _(d):
    side = d.choice(["left", "right"])
    return lambda a, v: tf.searchsorted(a, v, side), [np.sort(d.floats([2, 5])), d.floats([2, d.int(1, 4)])]


def segment(op):
    def build(d):
        n = d.int(3, 7)
        i = np.sort(d.ints([n], 0, 3, d.integer()))
        return Drawn(lambda x: getattr(tf.raw_ops, "Segment" + op)(data=x, segment_ids=i), [d.floats([n] + d.shape(0, 2))])
    family("segment_" + op)(build)


def unsorted(op):
    def build(d):
        n = d.int(3, 7)
        return Drawn(lambda x, i: getattr(tf.raw_ops, "UnsortedSegment" + op)(data=x, segment_ids=i, num_segments=4),
                     [d.floats([n] + d.shape(0, 2)), d.ints([n], -1, 3, d.integer())])
    family("unsorted_segment_" + op)(build)


def tensor_scatter(op):
    def build(d):
        raw = getattr(tf.raw_ops, "TensorScatter" + op)
        i = d.rng.permutation(5)[:3].astype(np.int32)[:, None]
        return Drawn(lambda x, i, u: raw(tensor=x, indices=i, updates=u), [d.floats([5, 2]), i, d.floats([3, 2])])
    family("tensor_scatter_" + op)(build)


for op in "Max Mean Min Prod Sum".split():
    segment(op)
for op in "Max Min Prod Sum".split():
    unsorted(op)
for op in "Add Max Min Sub Update".split():
    tensor_scatter(op)


@one("select_v1")
def _(d):
    s = d.shape(1, 3)
    c = d.choice([s, [s[0]]])
    return lambda c, x, y: r.Select(condition=c, x=x, y=y), [d.bools(c), d.floats(s), d.floats(s)]


@one("seqmask")
def _(d):
    return lambda n: tf.sequence_mask(n, 5, d.choice([tf.bool, tf.float32])), [d.ints(d.shape(1, 2), 0, 6)]


@one("shape_ops")
def _(d):
    return lambda x, y: (r.ShapeN(input=[x, y]), tf.shape(x)[0] + tf.size(y), tf.rank(x)), [d.floats(d.shape()), d.floats(d.shape())]


@one("slice")
def _(d):
    s = d.shape(1, 4)
    b = [d.int(0, n - 1) for n in s]
    z = [d.choice([-1, d.int(0, n - o)]) for n, o in zip(s, b)]
    return lambda x: tf.slice(x, b, z), [d.floats(s)]


@one("sort")
def _(d):
    return lambda x: tf.sort(x, direction=d.choice(["ASCENDING", "DESCENDING"])), [d.floats([2, d.int(1, 6)])]


@one("sort_axis0")
def _(d):
    return lambda x: (tf.sort(x, axis=0), tf.argsort(x, axis=0)), [d.floats([d.int(2, 6), 2])]


@one("sparse_dense_matmul")
def _(d):
    i = np.array([[0, 1], [1, 0], [2, 2]], np.int64)
    return lambda v, b: tf.sparse.sparse_dense_matmul(tf.sparse.SparseTensor(i, v, [3, 3]), b), [d.floats([3]), d.floats([3, d.int(1, 4)])]


@one("sparse_segment")
def _(d):
    op = d.choice([tf.sparse.segment_sum, tf.sparse.segment_sqrt_n, tf.sparse.segment_mean])
    return lambda x: op(x, [0, 2, 1, 3], [0, 0, 1, d.int(1, 2)]), [d.floats([4] + d.shape(0, 2))]


@one("sparse_softmax")
def _(d):
    i = np.array([[0, 0], [0, 2], [1, 1]], np.int64)
    return lambda v: r.SparseSoftmax(sp_indices=i, sp_values=v, sp_shape=[2, 3]), [d.floats([3])]


@one("sparse_to_dense")
def _(d):
    n = d.int(4, 6)
    return lambda v: r.SparseToDense(sparse_indices=[[0, 1], [2, 0]], output_shape=[3, n], sparse_values=v, default_value=d.choice([0.0, -1.0])), [d.floats([2])]


@one("split")
def _(d):
    n = d.int(1, 3)
    s = d.shape(1, 3)
    a = d.axis(len(s))
    s[a] *= n
    return lambda x: tf.split(x, n, a), [d.floats(s)]


@one("splitv")
def _(d):
    sizes = [d.int(1, 3) for _ in range(d.int(1, 3))]
    return lambda x: tf.split(x, sizes, d.choice([1, -1])), [d.floats([2, sum(sizes)])]


@one("stop_gradient")
def _(d):
    def f(x):
        with tf.GradientTape() as t:
            t.watch(x)
            y = tf.reduce_sum(x * tf.stop_gradient(x * 3) + x * x)
        return t.gradient(y, x)
    return f, [d.floats(d.shape())]


def strided(d):
    s = d.shape(1, 4)
    index = []
    for n in s:
        index.append(d.choice([slice(None), d.int(-n, n - 1), slice(d.int(0, n - 1), None), slice(None, None, d.choice([2, -1])), slice(-n, n)]))
    index = index[:d.int(1, len(index))]
    if d.bool():
        index.insert(d.int(0, len(index)), tf.newaxis)
    if d.bool():
        index.append(Ellipsis)
    return s, tuple(index)


@one("strided_slice")
def _(d):
    s, i = strided(d)
    return lambda x: x[i], [d.floats(s)]


@one("strided_slice_grad")
def _(d):
    s, i = strided(d)
    def f(x):
        with tf.GradientTape() as t:
            t.watch(x)
            y = tf.reduce_sum(x[i] ** 2)
        return t.gradient(y, x)
    return f, [d.floats(s)]


@one("strided_slice_update")
def _(d):
    n = d.int(3, 6)
    return lambda x, u: tf.raw_ops.TensorStridedSliceUpdate(input=x, begin=[1], end=[3], strides=[1], value=u), [d.floats([n, 2]), d.floats([2, 2])]


@one("tensordot")
def _(d):
    return lambda a, b: tf.tensordot(a, b, d.choice([[[1], [0]], [[2], [0]]])), [d.floats([2, 3, 3]), d.floats([3, d.int(1, 4)])]


@one("tile")
def _(d):
    s = d.shape(1, 3)
    m = [d.int(1, 3) for _ in s]
    return lambda x: tf.tile(x, m), [d.floats(s)]


@one("topk")
def _(d):
    k, s = d.int(1, 4), d.bool()
    return lambda x: tf.math.top_k(x, k), [d.floats([2, d.int(4, 7)])]


@one("transform")
def _(d):
    t = d.floats([1, 8], -0.2, 0.2)
    t[0, [0, 4]] += 1
    t[0, [6, 7]] = 0
    return lambda x: r.ImageProjectiveTransformV3(images=x, transforms=t, output_shape=[4, 5], fill_value=0.0, interpolation=d.choice(["BILINEAR", "NEAREST"]), fill_mode=d.choice(["CONSTANT", "NEAREST", "REFLECT", "WRAP"])), [d.floats([1, 5, 5, 2])]


@one("transpose")
def _(d):
    s = d.shape(1, 4)
    p = d.rng.permutation(len(s)).tolist()
    return lambda x: tf.transpose(x, p), [d.floats(s)]


@one("unique")
def _(d):
    return lambda x: tf.unique(x, d.choice([tf.int32, tf.int64])), [d.ints([d.int(2, 8)], 0, 4, d.integer())]


@one("unique_counts")
def _(d):
    return lambda x: tf.unique_with_counts(x), [d.ints([d.int(2, 8)], 0, 4, d.integer())]


@one("unravel")
def _(d):
    return lambda i: tf.unravel_index(i, [3, 4]), [d.ints([d.int(1, 5)], 0, 11, d.integer())]


@one("where1")
def _(d):
    return lambda c: tf.where(c), [d.bools(d.shape(1, 3))]


@one("where3")
def _(d):
    s = d.shape(1, 3)
    return lambda c, x, y: tf.where(c, x, y), [d.bools(s), d.floats(s), d.floats(d.choice([s, [1]]))]
