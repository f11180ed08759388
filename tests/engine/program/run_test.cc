// Cost and guarantees of a run: no allocation, the same bits in every thread, random streams, cancellation.
#include <gmock/gmock.h>

#include <thread>

#include "engine/graph/op.h"
#include "engine/presets/presets.h"
#include "tests/engine/program/allocations.h"
#include "tests/engine/program/runner.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/training_step.h"

namespace rivulet::testing {
namespace {

using ::testing::HasSubstr;

// A preset with its gradients and SGD: target "train".
struct Training {
  Graph graph;
  Signature signature;
  std::vector<size_t> buffer_floats;
};

Training TrainingOf(const std::string& preset, int64_t batch) {
  StatusOr<ModelDef> model = Preset(preset);
  EXPECT_OK(model);
  OptimizerSpec sgd;
  sgd.learning_rate = 0.05;
  const auto step = AddTrainingStep(*model, sgd);
  EXPECT_OK(step);
  Training training{std::move(model->graph), {}, {0}};
  Signature& s = training.signature;
  size_t offset = 0;
  for (const ModelVariable& variable : model->variables) {
    s.variables.push_back({variable.name, 0, offset, variable.spec});
    offset += (static_cast<size_t>(variable.spec.shape.elements()) * sizeof(float) + 63) / 64 * 64;
  }
  training.buffer_floats = {offset / sizeof(float)};
  s.feeds = {{model->input.placeholder, F32({batch, 28, 28, 1})}, {model->label.placeholder, {DType::kInt64, {batch}}}};
  s.fetches = {model->train_loss};
  s.targets = {*step};
  return training;
}

std::vector<Tensor> Batch(int64_t batch) {
  Tensor image(DType::kFloat32, {batch, 28, 28, 1}), label(DType::kInt64, {batch});
  for (size_t i = 0; float& x : image.flat<float>()) x = static_cast<float>(i++ * 37 % 256) / 255;
  for (int64_t i = 0; int64_t & x : label.flat<int64_t>()) x = i++ % 10;
  return {std::move(image), std::move(label)};
}

void FillPattern(std::span<float> values) {
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(static_cast<int>(i * 37 % 101) - 50) * 1e-3f;
}

TEST(CountAllocations, OneVector_IsOne) {
  std::vector<int> values;
  EXPECT_EQ(CountAllocations([&] { values.resize(100); }), 1);
}

TEST(Run, TrainingStep_AllocatesNothing) {
  const Training training = TrainingOf("mlp", 10);
  auto runner = Runner::Create(training.graph, training.signature, training.buffer_floats);
  ASSERT_OK(runner);
  FillPattern((*runner)->floats(0));
  const std::vector<Tensor> batch = Batch(10);
  const Bindings bindings = (*runner)->bindings(batch);
  ASSERT_OK((*runner)->instance->Run(bindings));
  Status status;
  const int allocations = CountAllocations([&] { status = (*runner)->instance->Run(bindings); });
  EXPECT_OK(status);
  EXPECT_EQ(allocations, 0);
}

TEST(Run, TrainingSteps_LowerTheLoss) {
  for (const std::string preset : {"logistic_regression", "mlp", "mnist_cnn"}) {
    for (const bool portable : {false, true}) {
      const Training training = TrainingOf(preset, 10);
      KernelPolicy policy;
      policy.portable = portable;
      auto runner = Runner::Create(training.graph, training.signature, training.buffer_floats, policy);
      ASSERT_OK(runner);
      FillPattern((*runner)->floats(0));
      float first = 0;
      for (int step = 0; step < (portable && preset == "mnist_cnn" ? 2 : 8); ++step) {
        ASSERT_OK((*runner)->Run(Batch(10)));
        if (step == 0) first = (*runner)->fetched[0].flat<float>()[0];
      }
      EXPECT_LT((*runner)->fetched[0].flat<float>()[0], first) << preset << (portable ? " portable" : "");
    }
  }
}

// The property: instances of one program in different threads give the same bits as one thread alone.
TEST(Run, FourThreads_GiveTheSameBits) {
  const Training training = TrainingOf("mnist_cnn", 7);
  auto shared = Runner::Create(training.graph, training.signature, training.buffer_floats);
  ASSERT_OK(shared);
  const std::vector<Tensor> batch = Batch(7);
  const auto train = [&] {
    EnterWorkerThread();
    auto instance = (*shared)->program->Instantiate();
    EXPECT_OK(instance);
    AlignedBuffer arena((*shared)->program->memory().arena_bytes), params((*shared)->memory[0].size());
    const std::span<float> values(reinterpret_cast<float*>(params.data()), params.size() / sizeof(float));
    FillPattern(values);
    const Buffer buffer{params.data()};
    float loss = 0;
    const TensorView fetch{reinterpret_cast<std::byte*>(&loss), DType::kFloat32, Shape{}};
    const std::vector<TensorView> feeds = {batch[0].view(), batch[1].view()};
    Bindings bindings;
    bindings.arena = arena.data();
    bindings.buffers = {&buffer, 1};
    bindings.feeds = feeds;
    bindings.fetches = {&fetch, 1};
    for (int step = 0; step < 3; ++step) EXPECT_OK((*instance)->Run(bindings));
    return std::vector<float>(values.begin(), values.end());
  };
  const std::vector<float> alone = train();
  std::vector<std::vector<float>> results(4);
  std::vector<std::thread> threads;
  for (std::vector<float>& result : results) threads.emplace_back([&] { result = train(); });
  for (std::thread& thread : threads) thread.join();
  for (const std::vector<float>& result : results) {
    ASSERT_EQ(result.size(), alone.size());
    EXPECT_EQ(std::memcmp(result.data(), alone.data(), alone.size() * sizeof(float)), 0);
  }
}

struct Draws {
  Graph graph;
  Draws() {
    Scope scope(graph);
    const Output shape = scope.Const(Tensor::Of<int32_t>({1}, {8}));
    for (const char* name : {"first", "second"}) {
      scope.Op("RandomUniform", {shape}, {{"dtype", DType::kFloat32}}, name);
    }
    EXPECT_OK(scope.status());
  }
  std::vector<float> Run(const std::vector<std::string>& fetches, const StreamKey& rng, uint64_t step, size_t fetch) {
    Signature s;
    s.fetches = fetches;
    auto runner = Runner::Create(graph, s);
    EXPECT_OK(runner);
    (*runner)->rng = rng;
    (*runner)->step = step;
    EXPECT_OK((*runner)->Run());
    const auto values = (*runner)->fetched[fetch].flat<float>();
    return {values.begin(), values.end()};
  }
};

TEST(RandomOps, PrunedProgram_DrawsTheSame) {
  Draws draws;
  EXPECT_EQ(draws.Run({"first", "second"}, {}, 0, 1), draws.Run({"second"}, {}, 0, 0));
}

TEST(RandomOps, OtherOpStepOrStream_DrawsOthers) {
  Draws draws;
  const std::vector<float> base = draws.Run({"first"}, {}, 0, 0);
  EXPECT_EQ(base, draws.Run({"first"}, {}, 0, 0));
  EXPECT_NE(base, draws.Run({"second"}, {}, 0, 0));
  EXPECT_NE(base, draws.Run({"first"}, {}, 1, 0));
  StreamKey other;
  other.key.words = {1, 2};
  EXPECT_NE(base, draws.Run({"first"}, other, 0, 0));
}

TEST(RandomOps, NoStreamBound_IsRefused) {
  Draws draws;
  Signature s;
  s.fetches = {"first"};
  auto runner = Runner::Create(draws.graph, s);
  ASSERT_OK(runner);
  Bindings bindings = (*runner)->bindings();
  bindings.rng = {};
  const Status status = (*runner)->instance->Run(bindings);
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(std::string(status.message()), HasSubstr("stream"));
}

CancellationToken token_of_test;

RIVULET_OP("TestCancel")
    .Input("x: float")
    .Output("y: float")
    .Stateful()
    .Shape([](InferenceContext& c) {
      c.set_output(0, c.input(0));
      return absl::OkStatus();
    })
    .NotDifferentiable("a test")
    .Doc("Passes x on and cancels the run.");

class CancelKernel final : public Kernel {
 public:
  Status Run(const KernelContext& context) const override {
    std::memcpy(context.outputs[0], context.inputs[0], sizeof(float));
    token_of_test.Cancel();
    return absl::OkStatus();
  }
};
RIVULET_KERNEL("TestCancel", Device::kCpu, void, [](const NodeView&, const KernelPolicy&) -> StatusOr<Prepared> {
  Prepared prepared;
  prepared.kernel = std::make_unique<CancelKernel>();
  return prepared;
});

TEST(Run, CancelledOnTheWay_StopsBeforeTheNextKernel) {
  Graph graph;
  Scope scope(graph);
  const Output x = scope.Op("TestCancel", {scope.Placeholder("x", DType::kFloat32, Shape{})});
  scope.AddNode("AssignAddVariableOp", {VariableHandle(scope, "v", Shape{}), x}, {}, "add");
  Signature s;
  s.feeds = {{"x", F32({})}};
  s.targets = {"add"};
  s.variables = {{"v", 0, 0, F32({})}};
  auto runner = Runner::Create(graph, s, {16});
  ASSERT_OK(runner);
  token_of_test = CancellationToken::Create();
  const Status status = (*runner)->Run({Tensor::Scalar<float>(1)}, token_of_test);
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kCancelled));
  EXPECT_THAT(std::string(status.message()), HasSubstr("'add'"));
  EXPECT_EQ((*runner)->floats(0)[0], 0);
  ASSERT_OK((*runner)->Run({Tensor::Scalar<float>(1)}));
  EXPECT_EQ((*runner)->floats(0)[0], 1);
}

TEST(Run, KernelError_NamesTheNode) {
  const Training training = TrainingOf("logistic_regression", 2);
  auto runner = Runner::Create(training.graph, training.signature, training.buffer_floats);
  ASSERT_OK(runner);
  std::vector<Tensor> batch = Batch(2);
  batch[1].flat<int64_t>()[1] = 10;
  const Status status = (*runner)->Run(batch);
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(std::string(status.message()), HasSubstr("label 10 in row 1 is outside 0 to 9"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("SparseSoftmaxCrossEntropyWithLogits '"));
}

TEST(EnterWorkerThread, Denormals_AreFlushed) {
  EnterWorkerThread();
  volatile float tiny = 1e-38f;
  tiny = tiny * 0.1f;
  EXPECT_EQ(tiny, 0.0f);
}

}  // namespace
}  // namespace rivulet::testing
