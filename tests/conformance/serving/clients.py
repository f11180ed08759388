"""Clients of other model servers against `rivulet serve`: tritonclient (gRPC, HTTP with JSON and binary values), and
tensorflow-serving-api where it is installed. Their answers are compared with onnxruntime's on the exported model.

    clients.py BINARY          in an environment with tritonclient[all], onnxruntime and numpy
    clients.py BINARY kserve   in one with kserve and numpy, which cannot be imported beside tritonclient
    clients.py BINARY tf       in one with tensorflow-serving-api

Prints a line for each client with the largest difference, and exits 1 where one is above 1e-5."""
import asyncio
import json
import pathlib
import re
import subprocess
import sys
import tempfile

import numpy as np

SCENARIO = """
[run]
name = "served"
rounds = 2
seed = 7
keep_models = "all"

[model]
preset = "{preset}"

[data]
train = "data/train.tfrecord"
test = "data/test.tfrecord"
synth = {{ kind = "digits", writers = 12, test_writers = 2, examples_per_writer = 8, seed = 3 }}
partition = {{ kind = "iid", clients = 6 }}

[client]
epochs = 1
batch_size = 5
optimizer = {{ kind = "sgd", learning_rate = 0.1 }}

[server]
clients_per_round = 3
"""


def triton(grpc_address, http_address, images, compare):
    import tritonclient.grpc as over_grpc
    import tritonclient.http as over_http
    client = over_grpc.InferenceServerClient(grpc_address)
    assert client.is_server_live() and client.is_server_ready() and client.is_model_ready("digits")
    assert client.get_model_metadata("digits").inputs[0].name == "image"
    assert client.get_model_config("digits").config.max_batch_size == 64
    assert client.get_model_repository_index().models[0].state == "READY"
    given = over_grpc.InferInput("image", images.shape, "FP32")
    given.set_data_from_numpy(images)
    compare("tritonclient gRPC", client.infer("digits", [given]).as_numpy("logits"))
    wanted = [over_grpc.InferRequestedOutput("logits")]
    compare("tritonclient gRPC, version 1", client.infer("digits", [given], "1", outputs=wanted).as_numpy("logits"))
    assert client.get_inference_statistics("digits").model_stats[0].inference_stats.success.count == 2
    answers = []
    client.start_stream(lambda result, error: answers.append(error or result.as_numpy("logits")))
    for _ in range(3):
        client.async_stream_infer("digits", [given])
    client.stop_stream()
    for answer in answers:
        compare("tritonclient gRPC, stream", answer)
    assert len(answers) == 3
    web = over_http.InferenceServerClient(http_address)
    assert web.is_server_live() and web.is_server_ready() and web.is_model_ready("digits")
    assert web.get_model_metadata("digits")["outputs"][0]["name"] == "logits"
    assert web.get_model_config("digits")["max_batch_size"] == 64
    assert web.get_model_repository_index()[0]["state"] == "READY"
    assert web.get_inference_statistics("digits")["model_stats"][0]["version"] == "1"
    for binary in (True, False):
        given = over_http.InferInput("image", images.shape, "FP32")
        given.set_data_from_numpy(images, binary_data=binary)
        for binary_out in (True, False):
            wanted = [over_http.InferRequestedOutput("logits", binary_data=binary_out)]
            answer = web.infer("digits", [given], outputs=wanted).as_numpy("logits")
            compare(f"tritonclient HTTP, {'binary' if binary else 'JSON'} in, {'binary' if binary_out else 'JSON'} out", answer)
        compare("tritonclient HTTP, all outputs", web.infer("digits", [given]).as_numpy("logits"))
    half = over_grpc.InferInput("image", images.shape, "FP16")
    half.set_data_from_numpy(images.astype(np.float16))
    compare("tritonclient gRPC, FP16", client.infer("digits", [half]).as_numpy("logits"), 0.05)
    pixels = over_grpc.InferInput("image", [len(images)], "BYTES")
    strings = [(image * 255).round().astype(np.uint8).tobytes() for image in images]
    pixels.set_data_from_numpy(np.array(strings, dtype=np.object_))
    compare("tritonclient gRPC, BYTES", client.infer("digits", [pixels]).as_numpy("logits"))


def kserve(grpc_address, http_address, images, compare):
    from kserve import InferInput, InferRequest, InferenceGRPCClient, InferenceRESTClient, RESTConfig

    async def calls():
        given = InferInput("image", list(images.shape), "FP32")
        given.set_data_from_numpy(images, binary_data=False)
        request = InferRequest("digits", [given])
        async with InferenceGRPCClient(grpc_address) as client:
            assert await client.is_server_live() and await client.is_server_ready() and await client.is_model_ready("digits")
            answer = await client.infer(request)
            compare("kserve gRPC", answer.outputs[0].as_numpy())
        web = InferenceRESTClient(RESTConfig(protocol="v2", timeout=60, verbose=False))
        assert await web.is_server_live(f"http://{http_address}") and await web.is_server_ready(f"http://{http_address}")
        assert await web.is_model_ready(f"http://{http_address}", "digits")
        compare("kserve REST, JSON", (await web.infer(f"http://{http_address}", request, model_name="digits")).outputs[0].as_numpy())
        binary = InferInput("image", list(images.shape), "FP32")
        binary.set_data_from_numpy(images, binary_data=True)
        compare("kserve REST, binary",
                (await web.infer(f"http://{http_address}", InferRequest("digits", [binary]), model_name="digits")).outputs[0].as_numpy())
        old = InferenceRESTClient(RESTConfig(protocol="v1", timeout=60, verbose=False))
        answer = await old.infer(f"http://{http_address}", {"instances": images.tolist()}, model_name="digits")
        compare("kserve REST, version 1", np.array(answer["predictions"], np.float32))

    asyncio.run(calls())


def tensorflow(grpc_address, http_address, images, compare):
    import grpc
    import tensorflow as tf
    from tensorflow_serving.apis import get_model_metadata_pb2, get_model_status_pb2, model_service_pb2_grpc, predict_pb2
    from tensorflow_serving.apis import prediction_service_pb2_grpc
    channel = grpc.insecure_channel(grpc_address)
    stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
    request = predict_pb2.PredictRequest()
    request.model_spec.name = "digits"
    request.model_spec.signature_name = "serving_default"
    request.inputs["image"].CopyFrom(tf.make_tensor_proto(images))
    compare("tensorflow-serving-api", tf.make_ndarray(stub.Predict(request, 30).outputs["logits"]))
    request.model_spec.version.value = 1
    request.output_filter.append("logits")
    compare("tensorflow-serving-api, version", tf.make_ndarray(stub.Predict(request, 30).outputs["logits"]))
    request.model_spec.version_label = "stable"
    compare("tensorflow-serving-api, label", tf.make_ndarray(stub.Predict(request, 30).outputs["logits"]))
    ask = get_model_metadata_pb2.GetModelMetadataRequest()
    ask.model_spec.name = "digits"
    ask.metadata_field.append("signature_def")
    signatures = get_model_metadata_pb2.SignatureDefMap()
    stub.GetModelMetadata(ask, 30).metadata["signature_def"].Unpack(signatures)
    assert signatures.signature_def["serving_default"].inputs["image"].dtype == tf.float32.as_datatype_enum
    status = get_model_status_pb2.GetModelStatusRequest()
    status.model_spec.name = "digits"
    answer = model_service_pb2_grpc.ModelServiceStub(channel).GetModelStatus(status, 30)
    assert answer.model_version_status[0].state == get_model_status_pb2.ModelVersionStatus.AVAILABLE


def main():
    rivulet, peers = str(pathlib.Path(sys.argv[1]).resolve()), sys.argv[2] if len(sys.argv) > 2 else "triton"
    worst = 0
    with tempfile.TemporaryDirectory() as folder:
        def run(*arguments):
            subprocess.run([rivulet, *arguments], cwd=folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for preset in ("logistic_regression", "mnist_cnn"):
            pathlib.Path(folder, "scenario.toml").write_text(SCENARIO.format(preset=preset))
            run("simulate", "scenario.toml", "--db", f"{preset}.sqlite")
            run("model", "point", "digits", "latest", "--db", f"{preset}.sqlite")
            run("model", "export", "latest", "--db", f"{preset}.sqlite", "--out", f"{preset}.onnx")
            images = (np.random.default_rng(1).integers(0, 256, (7, 28, 28, 1)) / 255).astype(np.float32)
            server = subprocess.Popen([rivulet, "serve", "--db", f"{preset}.sqlite", "--model", "digits", "--grpc", "127.0.0.1:0",
                                       "--http", "127.0.0.1:0", "--insecure"], cwd=folder, stdout=subprocess.PIPE, text=True)
            try:
                line = server.stdout.readline()
                grpc_address, http_address = re.search(r"gRPC at (\S+) and over HTTP at http://(\S+?)/", line).groups()
                try:
                    import onnxruntime
                    session = onnxruntime.InferenceSession(f"{folder}/{preset}.onnx", providers=["CPUExecutionProvider"])
                    of_peer, truth = "onnxruntime", session.run(None, {session.get_inputs()[0].name: images})[0]
                except ImportError:
                    import urllib.request
                    body = json.dumps({"instances": images.tolist()}).encode()
                    answer = json.load(urllib.request.urlopen(f"http://{http_address}/v1/models/digits:predict", body))
                    of_peer, truth = "the REST answer", np.array(answer["predictions"], np.float32)

                def compare(client, found, most=1e-5):
                    nonlocal worst
                    difference = float(np.abs(np.asarray(found, np.float32).reshape(truth.shape) - truth).max())
                    print(f"{preset}: {client}: {difference:.2g} from {of_peer}")
                    worst = max(worst, difference / most)
                {"triton": triton, "kserve": kserve, "tf": tensorflow}[peers](grpc_address, http_address, images, compare)
            finally:
                server.terminate()
                server.wait()
    sys.exit(worst > 1)


if __name__ == "__main__":
    main()
