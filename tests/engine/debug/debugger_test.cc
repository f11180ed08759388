#include "engine/debug/debugger.h"

#include <cmath>

#include "engine/compile/compile.h"
#include "engine/graph/scope.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using ::rivulet::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// y = sum(log(x - 1)) by steps whose x the test says: 1 makes -inf, less makes NaN.
class DebuggerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    Scope scope(graph_);
    const Output x = scope.Placeholder("x", DType::kFloat32, Shape{4});
    const Output shifted = scope.Op("Sub", {x, scope.Const(1.0f)}, {}, "shifted");
    const Output logs = scope.Op("Log", {shifted}, {}, "logs");
    scope.Op("Sum", {logs, scope.Const(Tensor::Of<int32_t>({1}, {0}))}, {}, "total");
    ASSERT_OK(scope.status());
    Signature signature;
    signature.feeds = {{"x", {DType::kFloat32, Shape{4}}}};
    signature.fetches = {"total"};
    EnterWorkerThread();
    ASSERT_OK_AND_ASSIGN(program_, CompileProgram(graph_, signature));
    ASSERT_OK_AND_ASSIGN(instance_, program_->Instantiate());
    arena_ = AlignedBuffer(program_->memory().arena_bytes);
  }

  Status RunStep(std::vector<float> x, RunObserver* observer, float* total = nullptr) {
    Tensor feed = Tensor::Of<float>({4}, std::span<const float>(x));
    Tensor result(DType::kFloat32, {});
    const TensorView feeds[] = {feed.view()}, fetches[] = {result.view()};
    Bindings bindings;
    bindings.arena = arena_.data();
    bindings.feeds = feeds;
    bindings.fetches = fetches;
    bindings.observer = observer;
    const Status status = instance_->Run(bindings);
    if (total != nullptr) *total = result.flat<float>()[0];
    return status;
  }

  // A debugger whose prompt notes each stop and calls `then`.
  std::unique_ptr<Debugger> NewDebugger(std::function<Status(Debugger&)> then, Recorder::Options options = {}) {
    auto debugger = std::make_unique<Debugger>(Debugger::Options{.recorder = options, .phase_of = nullptr},
                                               [this, then](const DebugStop& stop) {
                                                 stops_.push_back(stop);
                                                 return then ? then(*current_) : absl::OkStatus();
                                               });
    current_ = debugger.get();
    return debugger;
  }

  Graph graph_;
  std::shared_ptr<const Program> program_;
  std::unique_ptr<Instance> instance_;
  AlignedBuffer arena_;
  std::vector<DebugStop> stops_;
  Debugger* current_ = nullptr;
};

TEST_F(DebuggerTest, RecordsWhatIsFedAndMade) {
  const auto debugger = NewDebugger(nullptr);
  debugger->RunSteps(1);
  ASSERT_OK(RunStep({2, 3, 4, 5}, debugger.get()));
  const TensorRecord* x = debugger->recorder().Find("x");
  ASSERT_NE(x, nullptr);
  EXPECT_EQ(x->source, TensorRecord::Source::kInput);
  EXPECT_THAT(x->value.flat<float>(), ElementsAre(2, 3, 4, 5));
  const TensorRecord* shifted = debugger->recorder().Find("shifted:0");
  ASSERT_NE(shifted, nullptr);
  EXPECT_EQ(shifted->source, TensorRecord::Source::kOutput);
  EXPECT_THAT(shifted->value.flat<float>(), ElementsAre(1, 2, 3, 4));  // though 'logs' works in place
  ASSERT_EQ(stops_.size(), 1u);
  EXPECT_EQ(stops_[0].why, DebugStop::Why::kStep);
  EXPECT_EQ(debugger->steps(), 1);
}

TEST_F(DebuggerTest, PlantedNan_StopsAtTheNodeThatFirstMadeIt) {
  const auto debugger = NewDebugger([](Debugger& d) {
    d.RunToEnd();
    return absl::OkStatus();
  });
  debugger->RunUntil(*WatchCondition::Parse("has_nan"));
  ASSERT_OK(RunStep({2, 3, 4, 5}, debugger.get()));
  ASSERT_OK(RunStep({2, 0.5f, 4, 5}, debugger.get()));
  ASSERT_EQ(stops_.size(), 1u);
  EXPECT_EQ(stops_[0].why, DebugStop::Why::kCondition);
  EXPECT_EQ(stops_[0].step, 1);
  EXPECT_EQ(stops_[0].node, "logs");
  EXPECT_EQ(stops_[0].op, "Log");
  EXPECT_EQ(stops_[0].tensor, "logs");
  EXPECT_THAT(stops_[0].source_line, HasSubstr("debugger_test.cc:"));
  EXPECT_EQ(debugger->recorder().Find("logs")->statistics.nan, 1);
}

TEST_F(DebuggerTest, Infinity_AndLargeValues_AreConditionsToo) {
  const auto debugger = NewDebugger(nullptr);
  debugger->RunUntil(*WatchCondition::Parse("has_inf"));
  ASSERT_OK(RunStep({2, 1, 4, 5}, debugger.get()));
  ASSERT_GE(stops_.size(), 1u);
  EXPECT_EQ(stops_[0].node, "logs");
  stops_.clear();
  debugger->RunUntil(*WatchCondition::Parse("abs>100"));
  ASSERT_OK(RunStep({2, 3, 4, 200}, debugger.get()));
  ASSERT_GE(stops_.size(), 1u);
  EXPECT_EQ(stops_[0].node, "shifted");
}

TEST_F(DebuggerTest, Breakpoint_StopsAfterTheNode) {
  const auto debugger = NewDebugger([](Debugger& d) {
    d.RunToEnd();
    return absl::OkStatus();
  });
  debugger->breakpoints().insert("shifted");
  ASSERT_OK(RunStep({2, 3, 4, 5}, debugger.get()));
  ASSERT_EQ(stops_.size(), 1u);
  EXPECT_EQ(stops_[0].why, DebugStop::Why::kBreakpoint);
  EXPECT_EQ(stops_[0].node, "shifted");
}

TEST_F(DebuggerTest, StepInstructions_StopsAfterSoMany) {
  const auto debugger = NewDebugger([](Debugger& d) {
    d.StepInstructions(1);
    return absl::OkStatus();
  });
  debugger->StepInstructions(1);
  ASSERT_OK(RunStep({2, 3, 4, 5}, debugger.get()));
  EXPECT_EQ(stops_.size(), program_->instructions().size());
  EXPECT_EQ(stops_[0].instruction, 0);
  EXPECT_EQ(stops_[1].instruction, 1);
}

TEST_F(DebuggerTest, ErrorOfThePrompt_EndsTheRun) {
  const auto debugger = NewDebugger([](Debugger&) { return Cancelled("quit"); });
  debugger->StepInstructions(1);
  EXPECT_THAT(RunStep({2, 3, 4, 5}, debugger.get()), StatusIs(absl::StatusCode::kCancelled, HasSubstr("quit")));
}

TEST_F(DebuggerTest, BeyondTheBoundOnMemory_StatisticsStay) {
  const auto debugger = NewDebugger(nullptr, {.memory_bytes = 16});
  debugger->RunSteps(1);
  ASSERT_OK(RunStep({2, 3, 4, 5}, debugger.get()));
  EXPECT_FALSE(debugger->recorder().Find("x")->value.empty());
  const TensorRecord* shifted = debugger->recorder().Find("shifted");
  EXPECT_TRUE(shifted->value.empty());
  EXPECT_EQ(shifted->statistics.max, 4);
  EXPECT_LE(debugger->recorder().kept_bytes(), 16u);
}

// Watching changes no bit: with the debugger, every condition and a stop at every call, the result is the plain run's.
TEST_F(DebuggerTest, WatchedRun_HasTheBitsOfThePlainOne) {
  const std::vector<float> x = {1.1f, 2.7f, 3.14f, 77.7f};
  float plain = 0, watched = 0;
  ASSERT_OK(RunStep(x, nullptr, &plain));
  const auto debugger = NewDebugger([](Debugger& d) {
    d.RunUntil(*WatchCondition::Parse("abs>0"));
    return absl::OkStatus();
  });
  debugger->RunUntil(*WatchCondition::Parse("abs>0"));
  ASSERT_OK(RunStep(x, debugger.get(), &watched));
  EXPECT_GT(stops_.size(), 1u);
  EXPECT_EQ(std::bit_cast<uint32_t>(plain), std::bit_cast<uint32_t>(watched));
}

}  // namespace
}  // namespace rivulet
