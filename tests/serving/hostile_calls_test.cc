// Hostile calls to a running server over gRPC: each is refused with a sentence, costs bounded memory, and leaves the
// server as it was.
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <thread>

#include "tests/serving/running_server.h"
#include "tests/testing/sanitized.h"

namespace rivulet {
namespace {

using inference::ModelInferRequest;
using inference::ModelInferResponse;
using ::rivulet::testing::RunningServer;
using tensorflow::serving::PredictRequest;
using tensorflow::serving::PredictResponse;
using ::testing::HasSubstr;

// Resident memory of this process, which is server and callers.
int64_t ResidentBytes() {
  int64_t pages = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> pages >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

ModelInferRequest Good(int rows = 1) {
  ModelInferRequest request;
  request.set_model_name("pixels");
  auto* const input = request.add_inputs();
  input->set_name("image");
  input->set_datatype("FP32");
  input->add_shape(rows);
  input->add_shape(4);
  request.add_raw_input_contents(std::string(static_cast<size_t>(rows) * 16, '\0'));
  return request;
}

grpc::Status Call(RunningServer& server, const ModelInferRequest& request) {
  grpc::ClientContext context;
  ModelInferResponse response;
  return server.inference->ModelInfer(&context, request, &response);
}

PredictRequest GoodPredict() {
  PredictRequest request;
  request.mutable_model_spec()->set_name("pixels");
  proto::TensorProto& image = (*request.mutable_inputs())["image"];
  image.set_dtype(proto::DT_FLOAT);
  for (const int64_t dim : {1, 4}) image.mutable_tensor_shape()->add_dim()->set_size(dim);
  image.add_float_val(0.5f);
  return request;
}

grpc::Status Call(RunningServer& server, const PredictRequest& request) {
  grpc::ClientContext context;
  PredictResponse response;
  return server.prediction->Predict(&context, request, &response);
}

template <typename Request>
void ExpectRefused(RunningServer& server, const Request& request, const std::string& what) {
  const grpc::Status status = Call(server, request);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << what << ": " << status.error_message();
  EXPECT_FALSE(status.error_message().empty()) << what;
  EXPECT_LT(status.error_message().size(), 1000u) << what;
}

void ExpectHealthy(RunningServer& server) {
  EXPECT_TRUE(Call(server, Good(8)).ok());
  EXPECT_TRUE(Call(server, GoodPredict()).ok());
}

TEST(HostileCalls, InferRequestsThatAreNone_AreRefusedByName) {
  RunningServer server;
  using Shape = std::vector<int64_t>;
  const int64_t huge = int64_t{1} << 62;
  for (const Shape& shape : {Shape{}, Shape{4}, Shape{1, 5}, Shape{0, 4}, Shape{-1, 4}, Shape{huge, 4},
                             Shape{huge, huge}, Shape{int64_t{1} << 32, int64_t{1} << 32}, Shape{1, 4, 1},
                             Shape(100, 1), Shape(100'000, huge), Shape{INT64_MIN, 4}, Shape{9, 4}}) {
    ModelInferRequest request = Good();
    request.mutable_inputs(0)->mutable_shape()->Assign(shape.begin(), shape.end());
    ExpectRefused(server, request, fmt::format("a shape of {} dimensions", shape.size()));
  }
  for (const size_t bytes : std::vector<size_t>{0, 1, 15, 17, 128, 1'000'000}) {
    ModelInferRequest request = Good();
    request.set_raw_input_contents(0, std::string(bytes, 'x'));
    ExpectRefused(server, request, fmt::format("{} raw bytes", bytes));
  }
  for (const std::string& type :
       std::vector<std::string>{"", "FP99", "fp32", "INT64", "FP64", "BOOL", "INT8", std::string(100'000, 'F')}) {
    ModelInferRequest request = Good();
    request.mutable_inputs(0)->set_datatype(type);
    ExpectRefused(server, request, "the type " + type.substr(0, 10));
  }
  for (const uint32_t length : {0u, 3u, 5u, 0x7fffffffu, 0xffffffffu}) {
    ModelInferRequest request = Good();
    request.mutable_inputs(0)->set_datatype("BYTES");
    request.mutable_inputs(0)->clear_shape();
    request.mutable_inputs(0)->add_shape(1);
    std::string string(reinterpret_cast<const char*>(&length), sizeof length);
    request.set_raw_input_contents(0, string + "abcd");
    ExpectRefused(server, request, fmt::format("a string of {} bytes", length));
  }
  ModelInferRequest request = Good();
  request.clear_raw_input_contents();
  for (int i = 0; i < 10'000; ++i) *request.add_inputs() = request.inputs(0);
  ExpectRefused(server, request, "10,000 inputs");
  request = Good();
  for (int i = 0; i < 10'000; ++i) request.add_outputs()->set_name("logits");
  ExpectRefused(server, request, "10,000 outputs");
  request = Good();
  *request.add_inputs() = request.inputs(0);
  request.add_raw_input_contents(request.raw_input_contents(0));
  ExpectRefused(server, request, "an input twice");
  request = Good();
  request.clear_inputs();
  ExpectRefused(server, request, "values of no input");
  request.clear_raw_input_contents();
  ExpectRefused(server, request, "nothing");
  request = Good();
  request.mutable_inputs(0)->mutable_contents()->add_fp32_contents(1);
  ExpectRefused(server, request, "values in two places");
  request.clear_raw_input_contents();
  ExpectRefused(server, request, "one value of four");
  request.mutable_inputs(0)->mutable_contents()->add_int64_contents(1);
  ExpectRefused(server, request, "values in two fields");
  request = Good();
  request.add_outputs()->set_name(std::string(100'000, 'x'));
  ExpectRefused(server, request, "an output of another name");
  request = Good();
  request.mutable_inputs(0)->set_name(std::string(100'000, 'x'));
  ExpectRefused(server, request, "an input of another name");
  ExpectHealthy(server);
}

TEST(HostileCalls, MoreRowsThanABatch_NameTheLimit) {
  RunningServer server;
  const grpc::Status status = Call(server, Good(9));
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("9 examples, and a request has 1 to 8 (--max-batch)"));
}

TEST(HostileCalls, PredictRequestsThatAreNone_AreRefused) {
  RunningServer server;
  const auto image = [](PredictRequest& request) -> proto::TensorProto& {
    return (*request.mutable_inputs())["image"];
  };
  for (const std::vector<int64_t>& shape :
       {std::vector<int64_t>{}, {-1, 4}, {9, 4}, {int64_t{1} << 40, 4}, {int64_t{1} << 62, int64_t{1} << 62}, {1, 5}}) {
    PredictRequest request = GoodPredict();
    image(request).mutable_tensor_shape()->clear_dim();
    for (const int64_t dim : shape) image(request).mutable_tensor_shape()->add_dim()->set_size(dim);
    ExpectRefused(server, request, "a shape");
  }
  for (const int type : {0, 7, 8, 18, 99, -1}) {
    PredictRequest request = GoodPredict();
    image(request).set_dtype(static_cast<proto::DataType>(type));
    ExpectRefused(server, request, fmt::format("the type {}", type));
  }
  PredictRequest request = GoodPredict();
  image(request).set_tensor_content("odd");
  ExpectRefused(server, request, "three bytes");
  request = GoodPredict();
  for (int i = 0; i < 10'000; ++i) (*request.mutable_inputs())[fmt::format("image{}", i)] = image(request);
  ExpectRefused(server, request, "10,000 inputs");
  request = GoodPredict();
  request.mutable_model_spec()->set_signature_name("other");
  ExpectRefused(server, request, "another signature");
  ExpectHealthy(server);
}

TEST(HostileCalls, MessageBeyondTheLargestBatch_IsNotRead) {
  RunningServer server;
  ModelInferRequest request = Good();
  request.set_raw_input_contents(0, std::string(64 << 20, 'x'));
  EXPECT_EQ(Call(server, request).error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  ExpectHealthy(server);
}

// Properties: many callers at once send half a megabyte each that becomes as many objects as it can, or a few bytes
// that stand for gigabytes. Memory is that of a few calls.
TEST(HostileCalls, ManyAtOnce_CostBoundedMemory) {
  RunningServer server;
  ExpectHealthy(server);
  ModelInferRequest many;
  many.set_model_name("pixels");
  for (int i = 0; i < 200'000; ++i) many.add_inputs();  // two bytes each
  PredictRequest repeated = GoodPredict();
  proto::TensorProto& image = (*repeated.mutable_inputs())["image"];
  image.mutable_tensor_shape()->mutable_dim(0)->set_size(int64_t{1} << 24);  // 256 MiB of floats
  const int64_t before = ResidentBytes();
  std::atomic<bool> done = false;
  std::atomic<int64_t> most = 0;
  std::thread watch([&] {
    while (!done) {
      most = std::max<int64_t>(most, ResidentBytes() - before);
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  });
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 8; ++caller) {
    callers.emplace_back([&] {
      for (int i = 0; i < 2; ++i) {
        ExpectRefused(server, many, "200,000 inputs");
        ExpectRefused(server, repeated, "a value for 2^26");
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  done = true;
  watch.join();
  if (!testing::kSanitized) {
    EXPECT_LT(most, int64_t{1} << 30);
  }
  ExpectHealthy(server);
}

// A caller that never reads has one answer under way for each stream: the server reads its next request behind it.
TEST(HostileCalls, StreamsWithoutReaders_HoldUpNobody) {
  RunningServer server;
  constexpr int kStreams = 50, kRequests = 200;
  std::vector<std::unique_ptr<grpc::ClientContext>> contexts;
  std::vector<std::unique_ptr<grpc::ClientReaderWriter<ModelInferRequest, inference::ModelStreamInferResponse>>>
      streams;
  for (int i = 0; i < kStreams; ++i) {
    contexts.push_back(std::make_unique<grpc::ClientContext>());
    streams.push_back(server.inference->ModelStreamInfer(contexts.back().get()));
    for (int n = 0; n < kRequests; ++n) ASSERT_TRUE(streams.back()->Write(Good(8)));
  }
  ExpectHealthy(server);
  // A reader that comes late has its answers in order, also behind a request that is refused.
  inference::ModelStreamInferResponse response;
  ModelInferRequest wrong = Good(9);
  wrong.set_id("wrong");
  ASSERT_TRUE(streams[0]->Write(wrong));
  ASSERT_TRUE(streams[0]->WritesDone());
  for (int n = 0; n < kRequests; ++n) {
    ASSERT_TRUE(streams[0]->Read(&response));
    EXPECT_EQ(response.error_message(), "");
  }
  ASSERT_TRUE(streams[0]->Read(&response));
  EXPECT_THAT(response.error_message(), HasSubstr("--max-batch"));
  EXPECT_EQ(response.infer_response().id(), "wrong");
  EXPECT_FALSE(streams[0]->Read(&response));
  EXPECT_TRUE(streams[0]->Finish().ok());
  for (auto& context : contexts) context->TryCancel();
  for (int i = 1; i < kStreams; ++i) EXPECT_FALSE(streams[static_cast<size_t>(i)]->Finish().ok());
  ExpectHealthy(server);
}

}  // namespace
}  // namespace rivulet
