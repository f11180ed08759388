// Accumulators of gradients: TensorFlow's results for the same operations, and the takes that must wait.
#include "dataflow/queues/accumulator.h"

#include <atomic>
#include <thread>

#include "dataflow/session/session.h"
#include "engine/graph/scope.h"
#include "engine/graphdef/graph_def.h"
#include "tests/testing/reference_json.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensors.h"

namespace rivulet::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::shared_ptr<Accumulator> MakeAccumulator(Shape shape = Shape{2}, bool mean = true) {
  auto accumulator = Accumulator::Create({"a", DType::kFloat32, std::move(shape), mean});
  EXPECT_OK(accumulator.status());
  return *accumulator;
}

Tensor Pair(float first, float second) { return Tensor::Of<float>({2}, {first, second}); }

// What a take was told, once it was.
struct Taken {
  std::optional<Status> status;
  std::vector<float> values;
};

std::shared_ptr<Taken> Take(Accumulator& accumulator, int required, const CancellationToken& cancel = {}) {
  auto taken = std::make_shared<Taken>();
  accumulator.Take(required, cancel, [taken](StatusOr<Tensor> value) {
    EXPECT_FALSE(taken->status.has_value()) << "told twice";
    taken->status = value.status();
    if (value.ok()) taken->values = Values(*value);
  });
  return taken;
}

TEST(Accumulator, TakeBeforeTheGradients_WaitsForThemAndGetsTheMeanOfAll) {
  const auto accumulator = MakeAccumulator();
  const auto first = Take(*accumulator, 2), second = Take(*accumulator, 1);
  ASSERT_OK(accumulator->Apply(0, Pair(1, 10)));
  EXPECT_FALSE(first->status.has_value());
  EXPECT_FALSE(second->status.has_value()) << "a small take must not overtake one that came before";
  ASSERT_OK(accumulator->Apply(0, Pair(3, 30)));
  EXPECT_THAT(first->values, ElementsAre(2, 20));
  EXPECT_EQ(accumulator->count(), 0);
  // The step is 1 now.
  ASSERT_OK(accumulator->Apply(0, Pair(100, 100)));
  EXPECT_FALSE(second->status.has_value()) << "a stale gradient counted";
  ASSERT_OK(accumulator->Apply(1, Pair(5, 6)));
  EXPECT_THAT(second->values, ElementsAre(5, 6));
}

TEST(Accumulator, MoreThanRequired_AreTakenTogether) {
  const auto accumulator = MakeAccumulator(Shape{2}, /*mean=*/false);
  for (const float value : {1.0f, 2.0f, 4.0f}) ASSERT_OK(accumulator->Apply(7, Pair(value, -value)));
  EXPECT_EQ(accumulator->count(), 3);
  EXPECT_EQ(accumulator->bytes(), 8u);
  EXPECT_THAT(Take(*accumulator, 2)->values, ElementsAre(7, -7));
  EXPECT_EQ(accumulator->count(), 0);
  EXPECT_EQ(accumulator->bytes(), 0u);
}

TEST(Accumulator, SumBeyondTheMemory_IsRefused) {
  const auto memory = std::make_shared<MemoryBudget>("the test's state", 8);
  ASSERT_OK_AND_ASSIGN(const auto first, Accumulator::Create({"a", DType::kFloat32, Shape{2}, true, memory}));
  ASSERT_OK_AND_ASSIGN(const auto second, Accumulator::Create({"b", DType::kFloat32, Shape{2}, true, memory}));
  for (int i = 0; i < 3; ++i) ASSERT_OK(first->Apply(0, Pair(1, 2)));  // one sum, however many gradients
  EXPECT_THAT(second->Apply(0, Pair(1, 2)), StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("'b'")));
  EXPECT_EQ(second->count(), 0);
  EXPECT_THAT(Take(*first, 3)->values, ElementsAre(1, 2));
  ASSERT_OK(second->Apply(0, Pair(1, 2)));
  second->Abandon();
  EXPECT_EQ(memory->used(), 0u);
}

TEST(Accumulator, AppliedGradient_IsACopy) {
  const auto accumulator = MakeAccumulator();
  Tensor gradient = Pair(1, 2);
  ASSERT_OK(accumulator->Apply(0, gradient));
  gradient.flat<float>()[0] = 50;
  EXPECT_THAT(Take(*accumulator, 1)->values, ElementsAre(1, 2));
}

TEST(Accumulator, CancelledTake_LeavesTheGradientsToTheNext) {
  const auto accumulator = MakeAccumulator();
  const CancellationToken cancel = CancellationToken::Create();
  const auto cancelled = Take(*accumulator, 2, cancel), next = Take(*accumulator, 2);
  ASSERT_OK(accumulator->Apply(0, Pair(1, 1)));
  cancel.Cancel();
  EXPECT_THAT(*cancelled->status, StatusIs(absl::StatusCode::kCancelled, HasSubstr("'a'")));
  EXPECT_THAT(*Take(*accumulator, 1, cancel)->status, StatusIs(absl::StatusCode::kCancelled));
  ASSERT_OK(accumulator->Apply(0, Pair(3, 3)));
  EXPECT_THAT(next->values, ElementsAre(2, 2));
}

// The small take behind the cancelled one had enough all the while.
TEST(Accumulator, CancelledTake_LetsTheNextPass) {
  const auto accumulator = MakeAccumulator();
  const CancellationToken cancel = CancellationToken::Create();
  const auto large = Take(*accumulator, 3, cancel), small = Take(*accumulator, 1);
  ASSERT_OK(accumulator->Apply(0, Pair(4, 5)));
  EXPECT_FALSE(small->status.has_value());
  cancel.Cancel();
  EXPECT_TRUE(absl::IsCancelled(*large->status));
  EXPECT_THAT(small->values, ElementsAre(4, 5));
}

TEST(Accumulator, Abandoned_EndsWhatWaitsAndWhatComes) {
  const auto accumulator = MakeAccumulator();
  const auto waiting = Take(*accumulator, 1);
  accumulator->Abandon();
  EXPECT_THAT(*waiting->status, StatusIs(absl::StatusCode::kAborted, HasSubstr("its container was reset")));
  EXPECT_TRUE(absl::IsAborted(*Take(*accumulator, 1)->status));
  EXPECT_THAT(accumulator->Apply(0, Pair(1, 1)), StatusIs(absl::StatusCode::kAborted, HasSubstr("'a'")));
}

TEST(Accumulator, OtherGradients_AreRefusedWithTensorFlowsWords) {
  const auto accumulator = MakeAccumulator(Shape{kUnknownDim});
  EXPECT_THAT(accumulator->Apply(0, Tensor::Scalar(1.0f)),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("Shape mismatch: expected [?], got []")));
  EXPECT_THAT(accumulator->Apply(0, Tensor::Of<double>({2}, {1, 2})),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("Expected float32, got float64")));
  ASSERT_OK(accumulator->Apply(0, Pair(1, 2)));
  EXPECT_THAT(accumulator->Apply(0, Tensor::Of<float>({3}, {1, 2, 3})),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("Shape mismatch: expected [2], got [3]")));
  EXPECT_EQ(accumulator->count(), 1);
  EXPECT_THAT(*Take(*accumulator, 0)->status,
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("num_required must be positive, but was 0")));
  EXPECT_THAT(Accumulator::Create({"a", DType::kInt32, Shape{}}),
              StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("int32")));
}

// However threads interleave, every take is told once, of 2 gradients or more, and no gradient is taken twice or lost.
TEST(Accumulator, ManyThreads_LoseAndDoubleNothing) {
  constexpr int kThreads = 4, kEach = 400;
  const auto accumulator = MakeAccumulator(Shape{}, /*mean=*/false);
  std::atomic<int> sum{0};
  std::atomic<int> told{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < kEach; ++i) {
        if (i % 4 == 0)
          accumulator->Take(2, CancellationToken::Create(), [&](StatusOr<Tensor> value) {
            EXPECT_OK(value);
            ++told;
            if (!value.ok()) return;
            EXPECT_GE(value->flat<float>()[0], 2);
            sum += static_cast<int>(value->flat<float>()[0]);
          });
        EXPECT_OK(accumulator->Apply(1 << 30, Tensor::Scalar(1.0f)));
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(told.load(), kThreads * kEach / 4);
  EXPECT_EQ(sum.load() + accumulator->count(), kThreads * kEach);
}

class AccumulatorSession : public ::testing::Test {
 protected:
  void Make(DType dtype, const Shape& shape, const std::string& reduction, const std::string& shared_name = "") {
    Node* const handle = scope_.AddNode(
        "ResourceConditionalAccumulator", {},
        {{"dtype", dtype}, {"shape", shape}, {"reduction_type", reduction}, {"shared_name", shared_name}},
        "accumulator");
    ASSERT_OK(scope_.status());
    const Output accumulator = handle->output();
    const Output step = scope_.Placeholder("step", DType::kInt64, Shape{});
    const Output gradient = scope_.Placeholder("gradient", dtype, Shape::UnknownRank());
    const Output required = scope_.Placeholder("required", DType::kInt32, Shape{});
    scope_.AddNode("ResourceAccumulatorApplyGradient", {accumulator, step, gradient}, {}, "apply");
    scope_.AddNode("ResourceAccumulatorTakeGradient", {accumulator, required}, {{"dtype", dtype}}, "take");
    scope_.AddNode("ResourceAccumulatorSetGlobalStep", {accumulator, step}, {}, "set_step");
    scope_.AddNode("ResourceAccumulatorNumAccumulated", {accumulator}, {}, "count");
    ASSERT_OK(scope_.status());
  }
  Graph graph_;
  Scope scope_{graph_};
};

// One operation of the recording, in its form of results.
Json ResultOf(Session& session, const Json& operation, const std::string& dtype) {
  const std::string kind = operation[0];
  Session::Feeds feeds;
  std::vector<std::string> fetches, targets;
  if (kind == "apply" || kind == "set_step") feeds = {{"step", Tensor::Scalar<int64_t>(operation[1].get<int64_t>())}};
  if (kind == "apply") {
    const Json gradient = {{"dtype", dtype}, {"shape", operation[2]}, {"values", operation[3]}};
    feeds.emplace_back("gradient", TensorOf(gradient));
  }
  if (kind == "take") feeds = {{"required", Tensor::Scalar<int32_t>(operation[1].get<int32_t>())}};
  (kind == "take" || kind == "count" ? fetches : targets).push_back(kind);
  const StatusOr<std::vector<Tensor>> run = session.Run(feeds, fetches, targets);
  if (!run.ok()) return static_cast<int>(run.status().code());
  if (fetches.empty()) return Json::array();
  const Tensor& value = (*run)[0];
  if (kind == "count") return Json::array({value.flat<int32_t>()[0]});
  Json values = Json::array();
  for (int64_t i = 0; i < value.elements(); ++i) {
    const auto at = static_cast<size_t>(i);
    values.push_back(dtype == "float16"   ? static_cast<double>(static_cast<float>(value.flat<float16>()[at]))
                     : dtype == "float32" ? static_cast<double>(value.flat<float>()[at])
                                          : value.flat<double>()[at]);
  }
  return Json::array({std::vector<int64_t>(value.shape().dims().begin(), value.shape().dims().end()), values});
}

// The bits of TensorFlow 2.21, and its codes of errors.
TEST_F(AccumulatorSession, RecordedOperations_GiveTensorFlowsBits) {
  const Json sequences = ReadJson(RIVULET_QUEUES_TESTS "/accumulator_reference.json");
  ASSERT_EQ(sequences.size(), 36u);
  int taken = 0, refused = 0;
  for (const Json& sequence : sequences) {
    graph_ = Graph();
    const std::string dtype = sequence["dtype"];
    const DType type = dtype == "float16" ? DType::kFloat16 : dtype == "float32" ? DType::kFloat32 : DType::kFloat64;
    Make(type, Shape(sequence["shape"].get<std::vector<int64_t>>()), sequence["reduction"]);
    ASSERT_OK_AND_ASSIGN(const auto session, Session::Create(graph_.Clone()));
    for (size_t i = 0; i < sequence["operations"].size(); ++i) {
      const Json& operation = sequence["operations"][i];
      const Json& expected = sequence["results"][i];
      taken += operation[0] == "take" && expected.is_array();
      refused += expected.is_number();
      ASSERT_EQ(ResultOf(*session, operation, dtype), expected)
          << dtype << " " << sequence["reduction"] << ", operation " << i << ": " << operation;
    }
  }
  EXPECT_GT(taken, 50);
  EXPECT_GT(refused, 50);
}

TEST_F(AccumulatorSession, OneSharedName_IsOneAccumulator_AndMustBeOfOneForm) {
  Make(DType::kFloat32, Shape{}, "MEAN", "shared");
  const auto resources = std::make_shared<ResourceManager>();
  SessionConfig config;
  config.shared_state = resources;
  ASSERT_OK_AND_ASSIGN(const auto first, Session::Create(graph_.Clone(), config));
  ASSERT_OK_AND_ASSIGN(const auto second, Session::Create(graph_.Clone(), config));
  const Session::Feeds step = {{"step", Tensor::Scalar<int64_t>(0)}, {"gradient", Tensor::Scalar(4.0f)}};
  ASSERT_OK(first->Run(step, {}, {"apply"}));
  ASSERT_OK_AND_ASSIGN(const auto values, second->Run({{"required", Tensor::Scalar<int32_t>(1)}}, {"take"}));
  EXPECT_THAT(Values(values[0]), ElementsAre(4));
  graph_ = Graph();
  Make(DType::kFloat32, Shape{}, "SUM", "shared");
  ASSERT_OK_AND_ASSIGN(const auto other, Session::Create(graph_.Clone(), config));
  EXPECT_THAT(other->Run({}, {"count"}), StatusIs(absl::StatusCode::kInvalidArgument,
                                                  HasSubstr("float32[] MEAN, and 'accumulator' says float32[] SUM")));
}

// As TensorFlow 1.x writes a graph of SyncReplicasOptimizer: accumulator and token queue are references.
TEST(ReferenceForms, AccumulatorAndTokenQueue_RunAsResources) {
  ASSERT_OK_AND_ASSIGN(Graph graph, ParseGraphText(R"(
    node { name: "grad_accum" op: "ConditionalAccumulator"
           attr { key: "dtype" value { type: DT_FLOAT } } attr { key: "shape" value { shape { dim { size: 1 } } } } }
    node { name: "step" op: "Placeholder" attr { key: "dtype" value { type: DT_INT64 } }
           attr { key: "shape" value { shape { } } } }
    node { name: "gradient" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } } }
    node { name: "required" op: "Const" attr { key: "dtype" value { type: DT_INT32 } }
           attr { key: "value" value { tensor { dtype: DT_INT32 tensor_shape { } int_val: 2 } } } }
    node { name: "apply" op: "AccumulatorApplyGradient" input: "grad_accum" input: "step" input: "gradient"
           attr { key: "dtype" value { type: DT_FLOAT } }
           attr { key: "_class" value { list { s: "loc:@grad_accum" } } } }
    node { name: "take" op: "AccumulatorTakeGradient" input: "grad_accum" input: "required"
           attr { key: "dtype" value { type: DT_FLOAT } } }
    node { name: "set_step" op: "AccumulatorSetGlobalStep" input: "grad_accum" input: "step" }
    node { name: "count" op: "AccumulatorNumAccumulated" input: "grad_accum" }
    node { name: "sync_token_q" op: "FIFOQueue" attr { key: "component_types" value { list { type: DT_INT64 } } }
           attr { key: "shapes" value { list { shape { } } } } }
    node { name: "token" op: "QueueEnqueue" input: "sync_token_q" input: "step"
           attr { key: "Tcomponents" value { list { type: DT_INT64 } } } }
    node { name: "local_step" op: "QueueDequeue" input: "sync_token_q"
           attr { key: "component_types" value { list { type: DT_INT64 } } } }
    node { name: "tokens" op: "QueueSize" input: "sync_token_q" }
  )"));
  ASSERT_OK_AND_ASSIGN(const auto session, Session::Create(std::move(graph)));
  const auto step = [](int64_t value) {
    return std::pair<std::string, Tensor>("step", Tensor::Scalar<int64_t>(value));
  };
  const auto apply = [&](int64_t local_step, float value) {
    return session->Run({step(local_step), {"gradient", Tensor::Of<float>({1}, {value})}}, {}, {"apply"});
  };
  ASSERT_OK(session->Run({step(3)}, {}, {"set_step"}));
  ASSERT_OK(apply(2, 100));
  ASSERT_OK(apply(3, 1));
  ASSERT_OK(apply(3, 4));
  ASSERT_OK_AND_ASSIGN(auto values, session->Run({}, {"count"}));
  EXPECT_EQ(values[0].flat<int32_t>()[0], 2);
  ASSERT_OK_AND_ASSIGN(values, session->Run({}, {"take"}));
  EXPECT_THAT(Values(values[0]), ElementsAre(2.5f));
  ASSERT_OK(session->Run({step(4)}, {}, {"token"}));
  ASSERT_OK_AND_ASSIGN(values, session->Run({}, {"local_step"}));
  EXPECT_EQ(values[0].flat<int64_t>()[0], 4);
  ASSERT_OK_AND_ASSIGN(values, session->Run({}, {"tokens"}));
  EXPECT_EQ(values[0].flat<int32_t>()[0], 0);
}

}  // namespace
}  // namespace rivulet::testing
