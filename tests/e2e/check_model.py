#!/usr/bin/env python3
"""Checks a run's model with NumPy alone: reads the safetensors file and the test set with code of its own, recomputes the
model's digest and its accuracy, and compares both with the run's history.

  check_model.py --db runs.sqlite --run latest --test test.tfrecord
  check_model.py --model round-000050.safetensors --test t10k-images-idx3-ubyte.gz [--labels t10k-labels-idx1-ubyte.gz]

Knows the presets logistic_regression, mlp and mnist_cnn, by the shapes of their tensors. Exits 1 when anything differs.
"""
import argparse
import gzip
import hashlib
import json
import os
import sqlite3
import struct
import sys

import numpy as np

DTYPES = {"F64": "<f8", "F32": "<f4", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "i1", "U8": "u1", "BOOL": "?"}


def fail(message):
    sys.exit(f"check_model: {message}")


# ---- The model ------------------------------------------------------------------------------------------------------


def read_safetensors(path):
    """Metadata, and (name, dtype, array) in the order of the data: declaration order."""
    with open(path, "rb") as file:
        raw = file.read()
    (length,) = struct.unpack_from("<Q", raw)
    header = json.loads(raw[8 : 8 + length])
    metadata = header.pop("__metadata__", {})
    data = raw[8 + length :]
    tensors = []
    for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        begin, end = entry["data_offsets"]
        array = np.frombuffer(data[begin:end], dtype=DTYPES[entry["dtype"]]).reshape(entry["shape"])
        tensors.append((name, entry["dtype"], array))
    return metadata, tensors


def model_digest(tensors):
    hashed = hashlib.sha256()
    for name, dtype, array in tensors:
        text = name.encode("utf-8")
        hashed.update(struct.pack("<I", len(text)) + text)
        hashed.update(struct.pack("<B", len(dtype)) + dtype.encode("ascii"))
        hashed.update(struct.pack("<I", array.ndim) + b"".join(struct.pack("<Q", dim) for dim in array.shape))
        hashed.update(np.ascontiguousarray(array).tobytes())
    return hashed.hexdigest()


# ---- The test set ---------------------------------------------------------------------------------------------------


def open_maybe_gzip(path):
    with open(path, "rb") as file:
        gzipped = file.read(2) == b"\x1f\x8b"
    return gzip.open(path, "rb") if gzipped else open(path, "rb")


def read_idx(path):
    with open_maybe_gzip(path) as file:
        raw = file.read()
    if raw[:3] != b"\0\0\x08":
        fail(f"{path} is no IDX file of bytes")
    dims = struct.unpack_from(f">{raw[3]}I", raw, 4)
    return np.frombuffer(raw, dtype=np.uint8, offset=4 + 4 * raw[3]).reshape(dims)


def varint(raw, at):
    value = shift = 0
    while True:
        byte = raw[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at


def fields(raw):
    """(field number, value) of a Protocol Buffers message; length-delimited values as bytes."""
    at = 0
    while at < len(raw):
        tag, at = varint(raw, at)
        if tag & 7 == 2:
            length, at = varint(raw, at)
            yield tag >> 3, raw[at : at + length]
            at += length
        elif tag & 7 == 0:
            value, at = varint(raw, at)
            yield tag >> 3, value
        else:
            at += 8 if tag & 7 == 1 else 4


def example_features(raw):
    features = {}
    for _, message in fields(raw):  # Example.features
        for _, entry in fields(message):  # Features.feature
            parts = dict(fields(entry))
            features[parts[1].decode()] = parts[2]
    return features


def read_tfrecord(path, image_feature, label_feature):
    images, labels = [], []
    with open_maybe_gzip(path) as file:
        raw = file.read()
    at = 0
    while at < len(raw):
        (length,) = struct.unpack_from("<Q", raw, at)
        features = example_features(raw[at + 12 : at + 12 + length])
        at += 16 + length
        (bytes_list,) = (value for number, value in fields(features[image_feature]) if number == 1)
        (pixels,) = (value for _, value in fields(bytes_list))
        (int64_list,) = (value for number, value in fields(features[label_feature]) if number == 3)
        (label,) = (value for _, value in fields(int64_list))
        if isinstance(label, bytes):  # packed
            label, _ = varint(label, 0)
        images.append(np.frombuffer(pixels, dtype=np.uint8))
        labels.append(label)
    return np.stack(images), np.array(labels)


# ---- The presets ----------------------------------------------------------------------------------------------------


def convolve_same(x, kernel, bias):
    """NHWC, stride 1, SAME."""
    height, width, channels_in, channels_out = kernel.shape
    top, left = (height - 1) // 2, (width - 1) // 2
    padded = np.pad(x, ((0, 0), (top, height - 1 - top), (left, width - 1 - left), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (height, width), axis=(1, 2))  # N H W C kh kw
    columns = windows.transpose(0, 1, 2, 4, 5, 3).reshape(-1, height * width * channels_in)
    return (columns @ kernel.reshape(-1, channels_out)).reshape(*x.shape[:3], channels_out) + bias


def pool_2x2(x):
    batch, height, width, channels = x.shape
    return x.reshape(batch, height // 2, 2, width // 2, 2, channels).max(axis=(2, 4))


def logits(tensors, images):
    arrays = [array for _, _, array in tensors]
    shapes = [array.shape for array in arrays]
    relu = lambda x: np.maximum(x, 0)
    if shapes == [(784, 10), (10,)]:
        return images.reshape(-1, 784) @ arrays[0] + arrays[1]
    if shapes == [(784, 200), (200,), (200, 200), (200,), (200, 10), (10,)]:
        x = images.reshape(-1, 784)
        for layer in (0, 2):
            x = relu(x @ arrays[layer] + arrays[layer + 1])
        return x @ arrays[4] + arrays[5]
    if shapes == [(5, 5, 1, 32), (32,), (5, 5, 32, 64), (64,), (3136, 512), (512,), (512, 10), (10,)]:
        x = images.reshape(-1, 28, 28, 1)
        for layer in (0, 2):
            x = pool_2x2(relu(convolve_same(x, arrays[layer], arrays[layer + 1])))
        x = relu(x.reshape(len(x), -1) @ arrays[4] + arrays[5])
        return x @ arrays[6] + arrays[7]
    fail(f"tensors of shapes {shapes} are none of the presets'")


def accuracy(tensors, images, labels):
    right = 0
    for begin in range(0, len(images), 500):
        batch = images[begin : begin + 500].astype(np.float32) / np.float32(255)
        right += int(np.sum(np.argmax(logits(tensors, batch), axis=1) == labels[begin : begin + 500]))
    return right / len(images)


# ---- The history ----------------------------------------------------------------------------------------------------


def from_history(db_path, run, round_number):
    """Path of the model, its digest and its accuracy (None when it was not evaluated), as the history has them."""
    db = sqlite3.connect(f"file:{os.path.abspath(db_path)}?mode=ro", uri=True)
    order = "ORDER BY created_at DESC, rowid DESC LIMIT 1"
    if run == "latest":
        row = db.execute(f"SELECT run_id FROM runs {order}").fetchone()
    else:
        row = db.execute(f"SELECT run_id FROM runs WHERE run_id = ? OR name = ? {order}", (run, run)).fetchone()
    if row is None:
        fail(f"{db_path} has no run '{run}'")
    run_id = row[0]
    at_round = "AND round = ?" if round_number is not None else ""
    extra = (round_number,) if round_number is not None else ()
    model = db.execute(
        f"SELECT round, digest, path FROM models WHERE run_id = ? AND path IS NOT NULL {at_round} ORDER BY round DESC LIMIT 1",
        (run_id, *extra),
    ).fetchone()
    if model is None:
        fail(f"run {run_id} has no such model on disk")
    round_number, digest, path = model
    committed = db.execute(
        "SELECT model_digest FROM rounds WHERE run_id = ? AND round = ? AND status = 'committed'", (run_id, round_number)
    ).fetchone()
    if round_number > 0 and (committed is None or committed[0] != digest):
        fail(f"rounds and models disagree about round {round_number} of {run_id}: {committed} and {digest}")
    metric = db.execute(
        "SELECT value FROM metrics WHERE run_id = ? AND round = ? AND scope = 'central' AND name = 'test/accuracy'",
        (run_id, round_number),
    ).fetchone()
    path = os.path.join(os.path.dirname(os.path.abspath(db_path)), path)
    return path, digest, metric[0] if metric else None


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--db", help="history database; gives the model, and what its digest and accuracy should be")
    parser.add_argument("--run", default="latest", help="run id, name or latest")
    parser.add_argument("--round", type=int, help="default: the newest model on disk")
    parser.add_argument("--model", help="a model file instead of a history")
    parser.add_argument("--test", required=True, help="TFRecord file, or IDX images")
    parser.add_argument("--labels", help="IDX labels; default: beside the images")
    parser.add_argument("--image-feature", default="image")
    parser.add_argument("--label-feature", default="label")
    arguments = parser.parse_args()
    if (arguments.db is None) == (arguments.model is None):
        parser.error("give one of --db and --model")

    path, stated_digest, stated_accuracy = arguments.model, None, None
    if arguments.db:
        path, stated_digest, stated_accuracy = from_history(arguments.db, arguments.run, arguments.round)
    metadata, tensors = read_safetensors(path)
    digest = model_digest(tensors)
    print(f"model         {path}")
    print(f"model_digest  {digest}")
    if metadata.get("rivulet.model_digest") != digest:
        fail(f"the file states the digest {metadata.get('rivulet.model_digest')}")
    if stated_digest is not None and stated_digest != digest:
        fail(f"the history states the digest {stated_digest}")

    if "idx3" in os.path.basename(arguments.test):
        labels_path = arguments.labels or arguments.test.replace("images-idx3", "labels-idx1")
        images, labels = read_idx(arguments.test).reshape(-1, 784), read_idx(labels_path)
    else:
        images, labels = read_tfrecord(arguments.test, arguments.image_feature, arguments.label_feature)
    measured = accuracy(tensors, images, labels)
    print(f"test/accuracy {measured:.6f} over {len(images)} examples")
    if stated_accuracy is not None:
        # Sums in another order may tip an example whose two best classes are equal to the last bit; one may, two do not.
        if abs(stated_accuracy - measured) * len(images) > 1.5:
            fail(f"the history states the accuracy {stated_accuracy:.6f}")
        print(f"history       {stated_accuracy:.6f}: agrees")


if __name__ == "__main__":
    main()
