"""A coordinator's address that passes every call on: it sees what travels, and can change or stop it."""

import concurrent.futures
import os
import threading

# Tests start programs beside a relay. gRPC's own part in a fork can abort the child before it becomes the program, and
# no child of theirs is to speak gRPC.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")

import grpc  # noqa: E402

from rivulet import _protocol

SERVICE = "/rivulet.rpc.Coordinator/"


class Relay(grpc.GenericRpcHandler):
    """Between clients and the coordinator at `target`.

    updates: by task, the bytes that were uploaded. resumed: by task, where each of its uploads went on.
    stall_uploads(name, at): an upload of that client stops after so many bytes, which sets `stalled`, until
    `goes_on` is set or its client is gone. stalled_task: the task of it.
    plan: the bytes of the last blob that was no model.
    damage: how many chunks of downloads are to arrive with a byte changed.
    refuse: codes with which the next uploads end before their first byte. ended: with which uploads have ended.
    """

    def __init__(self, target):
        self.channel = grpc.insecure_channel(target)
        self.updates, self.resumed, self.failures = {}, {}, []
        self.plan, self.damage = b"", 0
        self.refuse, self.ended = [], []
        self.stalled, self.goes_on = threading.Event(), threading.Event()
        self._stall, self.stalled_task = None, ""
        self.server = grpc.server(concurrent.futures.ThreadPoolExecutor(64))
        self.server.add_generic_rpc_handlers((self,))
        self.address = f"127.0.0.1:{self.server.add_insecure_port('127.0.0.1:0')}"
        self.server.start()

    def stall_uploads(self, name, at):
        self._stall = (name, at)

    def stop(self):
        self.server.stop(0)
        self.channel.close()

    def service(self, details):
        name = details.method[len(SERVICE) :]
        return {
            "Poll": grpc.unary_unary_rpc_method_handler(self._unary("Poll")),
            "Fail": grpc.unary_unary_rpc_method_handler(self._unary("Fail")),
            "Fetch": grpc.unary_stream_rpc_method_handler(self._fetch),
            "Submit": grpc.stream_stream_rpc_method_handler(self._submit),
        }.get(name)

    def _unary(self, name):
        call = self.channel.unary_unary(SERVICE + name)

        def relay(request, context):
            if name == "Fail":
                self.failures.append(_protocol.FailRequest.FromString(request).failure)
            try:
                return call(request)
            except grpc.RpcError as error:
                context.abort(error.code(), error.details())

        return relay

    def _fetch(self, request, context):
        plan = b""
        try:
            for content in self.channel.unary_stream(SERVICE + "Fetch")(request):
                plan += _protocol.Chunk.FromString(content).data
                if self.damage > 0:
                    self.damage -= 1
                    chunk = _protocol.Chunk.FromString(content)
                    chunk.data = chunk.data[:-1] + bytes([chunk.data[-1] ^ 1])
                    content = chunk.SerializeToString()
                yield content
            if _protocol.FetchRequest.FromString(request).id.form == 0:
                self.plan = plan
        except grpc.RpcError as error:
            context.abort(error.code(), error.details())

    def _submit(self, messages, context):
        ended = threading.Event()
        context.add_callback(ended.set)
        if self.refuse:
            context.abort(self.refuse.pop(0), "the test says so")

        def passed_on():
            for content in messages:
                message = _protocol.SubmitMessage.FromString(content)
                kind = message.WhichOneof("message")
                if kind == "header":
                    name, task = message.header.caller.name, message.header.submission.task
                    uploaded = self.updates.setdefault(task, bytearray())
                elif kind == "resume":
                    self.resumed.setdefault(task, []).append(message.resume)
                    del uploaded[message.resume :]
                elif kind == "chunk":
                    if self._stall and self._stall[0] == name and len(uploaded) >= self._stall[1]:
                        self.stalled_task = task
                        self.stalled.set()
                        while not self.goes_on.is_set():
                            if ended.wait(0.02):
                                return
                    uploaded += message.chunk
                yield content

        try:
            yield from self.channel.stream_stream(SERVICE + "Submit")(passed_on())
        except grpc.RpcError as error:
            self.ended.append(error.code())
            context.abort(error.code(), error.details())
