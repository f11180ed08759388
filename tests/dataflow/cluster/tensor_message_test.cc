// Answers of RecvTensor: bytes that protobuf reads and writes too, and the same tensors in pieces.
#include "dataflow/cluster/tensor_message.h"

#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>

#include <numeric>

#include "dataflow/cluster/grpc_task.h"
#include "dataflow/cluster/task_server.h"
#include "dataflow/cluster/wire.h"
#include "dataflow/placement/rendezvous.h"
#include "engine/graph/scope.h"
#include "engine/graphdef/graph_def.h"
#include "engine/graphdef/proto_conversion.h"
#include "engine/tensor/text.h"
#include "proto/distributed/worker.pb.h"
#include "rpc/grpc_options.h"
#include "tests/dataflow/cluster/task_process.h"
#include "tests/dataflow/distributed/tasks.h"
#include "tests/testing/status_matchers.h"

namespace rivulet::testing {
namespace {

using ::testing::HasSubstr;
using Response = tensorflow::RecvTensorResponse;
namespace io = google::protobuf::io;

std::string BytesOf(const TensorMessage& message) {
  std::string bytes = message.head;
  if (message.values) bytes.append(reinterpret_cast<const char*>(message.values->data()), message.values->bytes());
  return bytes;
}
// `block`: the bytes lie in blocks of so many.
StatusOr<Tensor> Read(const std::string& bytes, int block = -1) {
  return TensorFromMessage(bytes.size(), "key", [&] {
    return std::make_unique<io::ArrayInputStream>(bytes.data(), static_cast<int>(bytes.size()), block);
  });
}
StatusOr<std::optional<Tensor>> InPieces(const Response& first) {
  const std::string bytes = first.SerializeAsString();
  io::ArrayInputStream in(bytes.data(), static_cast<int>(bytes.size()));
  return TensorInPieces(bytes.size(), "key", in);
}
void ExpectSame(const Tensor& a, const Tensor& b) {
  ASSERT_EQ(a.dtype(), b.dtype());
  ASSERT_EQ(a.shape(), b.shape());
  ASSERT_EQ(a.bytes(), b.bytes());
  EXPECT_TRUE(a.bytes() == 0 || std::memcmp(a.data(), b.data(), a.bytes()) == 0);
}

std::vector<Tensor> TensorsOfEachKind() {
  std::vector<Tensor> tensors = {
      Tensor::Scalar<float>(1.5f),
      Tensor::Of<float>({2, 3}, {1, 2, 3, 4, 5, 6}),
      Tensor::Of<int64_t>({2}, {-1, int64_t{1} << 40}),
      Tensor::Of<bool>({3}, {true, false, true}),
      Tensor::Of<uint8_t>({5}, {0, 1, 2, 254, 255}),
      Tensor(DType::kBFloat16, Shape{7}),
      Tensor(DType::kFloat32, Shape{0, 4}),
  };
  const std::vector<std::string> texts = {"one", std::string("\0two\xff", 5), ""};
  const auto strings = TextTensor(Shape{3}, texts);
  EXPECT_OK(strings);
  tensors.push_back(*strings);
  return tensors;
}

TEST(TensorMessageTest, MessageOfEachKind_IsReadByProtobuf_AndBack) {
  for (const Tensor& tensor : TensorsOfEachKind()) {
    SCOPED_TRACE(Name(tensor.dtype()));
    ASSERT_OK_AND_ASSIGN(const TensorMessage message, MessageOf(tensor, /*pieces=*/true));
    EXPECT_FALSE(message.in_pieces);
    const std::string bytes = BytesOf(message);
    Response parsed, written;
    ASSERT_TRUE(parsed.ParseFromString(bytes));
    ToProto(tensor, written.mutable_tensor());
    EXPECT_EQ(bytes, written.SerializeAsString());
    size_t repeated = 0;
    ASSERT_OK_AND_ASSIGN(const Tensor by_protobuf, TensorFrom(parsed.tensor(), repeated));
    ExpectSame(by_protobuf, tensor);
    for (const int block : {-1, 1, 3, 64}) {
      ASSERT_OK_AND_ASSIGN(const Tensor read, Read(bytes, block));
      ExpectSame(read, tensor);
    }
  }
}

TEST(TensorMessageTest, WhatTensorFlowWrites_IsRead) {
  const Tensor tensor = Tensor::Of<float>({2, 2}, {1, 2, 3, 4});
  Response answer;
  ToProto(tensor, answer.mutable_tensor());
  // TensorFlow writes what stands beside the tensor first.
  Response beside;
  beside.set_send_start_micros(1'700'000'000'000'000);
  beside.set_require_ack(true);
  ASSERT_OK_AND_ASSIGN(const Tensor in_one_piece, Read(beside.SerializeAsString() + answer.SerializeAsString()));
  ExpectSame(in_one_piece, tensor);
  // In any other order, and by values of their type.
  ASSERT_OK_AND_ASSIGN(const Tensor in_order, Read(answer.SerializeAsString() + beside.SerializeAsString()));
  ExpectSame(in_order, tensor);
  Response typed;
  typed.mutable_tensor()->set_dtype(proto::DT_FLOAT);
  ToProto(Shape{2, 2}, typed.mutable_tensor()->mutable_tensor_shape());
  typed.mutable_tensor()->add_float_val(7);
  ASSERT_OK_AND_ASSIGN(const Tensor repeated, Read(typed.SerializeAsString()));
  ExpectSame(repeated, Tensor::Of<float>({2, 2}, {7, 7, 7, 7}));
}

TEST(TensorMessageTest, AnswersThatAreNone_AreRefused) {
  Response dead;
  dead.set_is_dead(true);
  EXPECT_THAT(Read(dead.SerializeAsString()), StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("is dead")));
  EXPECT_THAT(Read("\xff\xff"), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no RecvTensorResponse")));
  ASSERT_OK_AND_ASSIGN(const TensorMessage message, MessageOf(Tensor::Of<float>({2}, {1, 2}), false));
  const std::string bytes = BytesOf(message);
  for (size_t cut = 1; cut < bytes.size(); ++cut) EXPECT_FALSE(Read(bytes.substr(0, cut)).ok()) << cut;
  Response longer;
  ToProto(Tensor::Of<float>({2}, {1, 2}), longer.mutable_tensor());
  longer.mutable_tensor()->mutable_tensor_content()->append("1234");
  EXPECT_THAT(Read(longer.SerializeAsString()), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(TensorMessageTest, BytesThatAreNoBool_BecomeOne) {
  Response answer;
  ToProto(Tensor::Of<bool>({3}, {true, false, true}), answer.mutable_tensor());
  answer.mutable_tensor()->set_tensor_content(std::string("\2\0\1", 3));
  ASSERT_OK_AND_ASSIGN(const Tensor read, Read(answer.SerializeAsString()));
  ExpectSame(read, Tensor::Of<bool>({3}, {true, false, true}));
}

TEST(TensorMessageTest, LargeTensor_GoesInPiecesToThoseWhoTakeThem) {
  const Tensor tensor(DType::kFloat32, Shape{static_cast<int64_t>(kPieceBytes / sizeof(float)) + 1});
  ASSERT_OK_AND_ASSIGN(const TensorMessage pieces, MessageOf(tensor, true));
  EXPECT_TRUE(pieces.in_pieces);
  EXPECT_LT(pieces.head.size(), 100u);
  ASSERT_OK_AND_ASSIGN(const TensorMessage whole, MessageOf(tensor, false));
  EXPECT_FALSE(whole.in_pieces);
  ASSERT_OK_AND_ASSIGN(const Tensor read, Read(BytesOf(whole)));
  ExpectSame(read, tensor);
  // Of bytes that are no bool there are 254, so bools are looked at before they are a tensor.
  ASSERT_OK_AND_ASSIGN(const TensorMessage bools, MessageOf(Tensor(DType::kBool, Shape{2 << 20}), true));
  EXPECT_FALSE(bools.in_pieces);
}

TEST(TensorMessageTest, PiecesThatFitNoTensor_AreRefused) {
  Response first;
  first.mutable_tensor()->set_dtype(proto::DT_FLOAT);
  ToProto(Shape{4}, first.mutable_tensor()->mutable_tensor_shape());
  ASSERT_OK_AND_ASSIGN(const auto whole, InPieces(first));
  EXPECT_FALSE(whole.has_value());
  first.set_rivulet_values_bytes(16);
  ASSERT_OK_AND_ASSIGN(const auto tensor, InPieces(first));
  ASSERT_TRUE(tensor.has_value());
  EXPECT_EQ(tensor->shape(), Shape{4});
  first.set_rivulet_values_bytes(15);
  EXPECT_THAT(InPieces(first), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'key'")));
  first.set_rivulet_values_bytes(uint64_t{1} << 40);
  ToProto(Shape{int64_t{1} << 38}, first.mutable_tensor()->mutable_tensor_shape());
  EXPECT_THAT(InPieces(first), StatusIs(absl::StatusCode::kInvalidArgument));
  first.mutable_tensor()->set_dtype(proto::DT_STRING);
  first.set_rivulet_values_bytes(32);
  ToProto(Shape{4}, first.mutable_tensor()->mutable_tensor_shape());
  EXPECT_THAT(InPieces(first), StatusIs(absl::StatusCode::kInvalidArgument));
}

// Answers each call with the same messages, as no task does.
class OddTask final : public grpc::CallbackGenericService {
 public:
  explicit OddTask(const std::string& address) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort(address, grpc::InsecureServerCredentials());
    builder.RegisterCallbackGenericService(this);
    server_ = builder.BuildAndStart();
  }
  ~OddTask() override { server_->Shutdown(std::chrono::system_clock::now()); }
  std::vector<std::string> messages;

  grpc::ServerGenericBidiReactor* CreateReactor(grpc::GenericCallbackServerContext*) override {
    class Answer final : public grpc::ServerGenericBidiReactor {
     public:
      explicit Answer(std::vector<std::string> messages) : messages_(std::move(messages)) { OnWriteDone(true); }
      void OnWriteDone(bool ok) override {
        if (!ok || next_ == messages_.size()) return Finish(grpc::Status::OK);
        const grpc::Slice slice(messages_[next_++]);
        out_ = grpc::ByteBuffer(&slice, 1);
        StartWrite(&out_);
      }
      void OnDone() override { delete this; }

     private:
      const std::vector<std::string> messages_;
      size_t next_ = 0;
      grpc::ByteBuffer out_;
    };
    return new Answer(messages);
  }

 private:
  std::unique_ptr<grpc::Server> server_;
};

TEST(TensorStreamTest, PiecesThatAreTooManyOrTooFew_AreRefused) {
  const ReservedPorts reserved(1);
  const std::string address = fmt::format("127.0.0.1:{}", reserved.ports()[0]);
  OddTask odd(address);
  ASSERT_OK_AND_ASSIGN(const ClusterSpec cluster, ClusterSpec::Parse("worker=" + address));
  ASSERT_OK_AND_ASSIGN(const auto task, GrpcTask(cluster.tasks()[0], InsecureCredentials(false)));
  Response first;
  first.mutable_tensor()->set_dtype(proto::DT_FLOAT);
  ToProto(Shape{4}, first.mutable_tensor()->mutable_tensor_shape());
  first.set_rivulet_values_bytes(16);
  const std::string head = first.SerializeAsString();
  const auto receive = [&](std::vector<std::string> messages) {
    odd.messages = std::move(messages);
    Answer<StatusOr<Tensor>> answer;
    task->RecvTensor(1, "key", {}, answer.Callback());
    return answer.Get();
  };
  EXPECT_THAT(receive({head, "0123", "456789abcdef"}), IsOk());
  EXPECT_THAT(receive({head, "0123", "456789abcde"}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("ended after 15 of 16 bytes")));
  EXPECT_THAT(receive({head, "0123", "456789abcdef0"}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("more bytes than it announced")));
  EXPECT_THAT(receive({head}), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(receive({}), StatusIs(absl::StatusCode::kInvalidArgument));
  ASSERT_OK_AND_ASSIGN(const TensorMessage whole, MessageOf(Tensor::Of<float>({1}, {2}), false));
  EXPECT_THAT(receive({BytesOf(whole)}), IsOk());
  EXPECT_THAT(receive({BytesOf(whole), "more"}), StatusIs(absl::StatusCode::kInvalidArgument));
}

// From a task's memory to another process's, with the bits that were sent: below, at and above the size of a piece.
TEST(TensorStreamTest, TensorsOfAnySize_ArriveAsTheyWere) {
  const ReservedPorts reserved(1);
  const std::string address = fmt::format("127.0.0.1:{}", reserved.ports()[0]);
  TaskServerOptions options;
  ASSERT_OK_AND_ASSIGN(options.cluster, ClusterSpec::Parse("worker=" + address));
  options.job = "worker";
  options.credentials = InsecureCredentials(false);
  const ClusterTask own = options.cluster.tasks()[0];
  ASSERT_OK_AND_ASSIGN(const auto server, TaskServer::Start(std::move(options)));
  ASSERT_OK_AND_ASSIGN(const auto task, GrpcTask(own, InsecureCredentials(false)));
  Answer<Status> created;
  task->CreateWorkerSession({"s"}, created.Callback());
  ASSERT_OK(created.Get());
  const TaskDevice& device = server->worker().device();
  const std::string to = "/job:worker/replica:0/task:1/device:CPU:0";
  int64_t step = 0;
  for (const int64_t elements :
       {int64_t{0}, int64_t{1}, int64_t{1} << 18, (int64_t{1} << 18) + 1, int64_t{1'000'003}}) {
    SCOPED_TRACE(elements);
    Graph graph;
    const Scope scope = Scope(graph).WithDevice(device.name);
    const auto scalar = [&](int32_t value) { return scope.Const(Tensor::Scalar(value)); };
    const Output numbers =
        scope.Op("Range", {scalar(0), scalar(static_cast<int32_t>(elements)), scalar(1)}, {}, "numbers");
    scope.AddNode("_Send", {numbers},
                  {{"tensor_name", "numbers"},
                   {"send_device", device.name},
                   {"send_device_incarnation", static_cast<int64_t>(device.incarnation)},
                   {"recv_device", to},
                   {"client_terminated", false}},
                  "send");
    ASSERT_OK(scope.status());
    Answer<StatusOr<std::string>> registered;
    task->RegisterGraph({"s", SerializeGraph(graph)}, registered.Callback());
    ASSERT_OK_AND_ASSIGN(const std::string handle, registered.Get());
    Answer<StatusOr<Tensor>> received;
    task->RecvTensor(++step, RendezvousKey{device.name, device.incarnation, to, "numbers"}.ToString(), {},
                     received.Callback());
    Answer<StatusOr<NamedTensors>> ran;
    task->RunGraph({"s", handle, step}, {}, ran.Callback());
    ASSERT_OK(ran.Get());
    ASSERT_OK_AND_ASSIGN(const Tensor tensor, received.Get());
    ASSERT_EQ(tensor.shape(), Shape{elements});
    const auto values = tensor.flat<int32_t>();
    for (int64_t i = 0; i < elements; ++i) ASSERT_EQ(values[static_cast<size_t>(i)], i);
    Answer<Status> cleaned;
    task->CleanupGraph(step, cleaned.Callback());
    ASSERT_OK(cleaned.Get());
  }
  EXPECT_EQ(server->worker().parked_bytes(), 0u);
}

}  // namespace
}  // namespace rivulet::testing
