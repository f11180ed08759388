// A recorder's data about a run, and its conversion to StepStats.
#include "engine/profile/run_recorder.h"

#include "engine/profile/instruction_costs.h"
#include "engine/profile/step_stats.h"
#include "proto/graph/step_stats.pb.h"
#include "tests/engine/program/runner.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensors.h"

namespace rivulet::testing {
namespace {

using ::testing::HasSubstr;

constexpr int kNeg = 0, kExp = 1;  // positions of the calls below; the fetch comes last

std::unique_ptr<Runner> ExpOfNegative() {
  Graph graph;
  const Scope scope(graph);
  const Output x = scope.Placeholder("x", DType::kFloat32, Shape{256});
  const Output y = scope.Op("Exp", {scope.SubScope("layer").Op("Neg", {x}, {}, "neg")}, {}, "exp");
  EXPECT_OK(scope.status());
  return Runner::Create(graph, {{{"x", F32({256})}}, {y.name()}, {}, {}}).value();
}

Status RunWith(RunRecorder& recorder, Runner& runner) {
  const std::vector<Tensor> feeds = {Tensor(DType::kFloat32, Shape{256})};
  Bindings bindings = runner.bindings(feeds);
  bindings.observer = &recorder;
  return runner.instance->Run(bindings);
}

// A program that an instruction runs inside of it, as a While does, told to the recorder by hand.
void Nested(RunRecorder& recorder, const Program& outer, const Program& inner) {
  recorder.Begin(outer, kNeg, {});
  recorder.Begin(inner, kNeg, {});
  EXPECT_OK(recorder.End(inner, kNeg, {}));
  recorder.Begin(inner, kExp, {});
  EXPECT_OK(recorder.End(inner, kExp, {}));
  EXPECT_OK(recorder.End(outer, kNeg, {}));
}

TEST(RunRecorder, Run_HasASpanPerInstructionInOrder) {
  const auto runner = ExpOfNegative();
  RunRecorder recorder;
  ASSERT_OK(RunWith(recorder, *runner));
  const auto spans = recorder.spans();
  ASSERT_EQ(spans.size(), 3u);
  for (size_t i = 0; i < spans.size(); ++i) {
    EXPECT_EQ(spans[i].program, runner->program.get());
    EXPECT_EQ(spans[i].instruction, static_cast<int>(i));
    EXPECT_EQ(spans[i].parent, -1);
    EXPECT_GE(spans[i].end, spans[i].begin);
    EXPECT_GE(spans[i].begin, i == 0 ? 0 : spans[i - 1].end);
  }
}

TEST(RunRecorder, NestedPrograms_AreTheTimeInsideOfTheirInstruction) {
  const auto outer = ExpOfNegative(), inner = ExpOfNegative();
  RunRecorder recorder;
  Nested(recorder, *outer->program, *inner->program);
  const auto spans = recorder.spans();
  ASSERT_EQ(spans.size(), 3u);
  EXPECT_EQ(spans[1].parent, 0);
  EXPECT_EQ(spans[2].parent, 0);
  EXPECT_EQ(spans[0].inside, (spans[1].end - spans[1].begin) + (spans[2].end - spans[2].begin));
  EXPECT_LE(spans[0].inside, spans[0].end - spans[0].begin);
}

TEST(RunRecorder, BeyondItsCapacity_CountsWhatItLeavesOut) {
  const auto outer = ExpOfNegative(), inner = ExpOfNegative();
  RunRecorder recorder(1);
  Nested(recorder, *outer->program, *inner->program);
  ASSERT_EQ(recorder.spans().size(), 1u);
  EXPECT_EQ(recorder.dropped(), 2);
  EXPECT_GT(recorder.spans()[0].inside, 0);  // still counted
  recorder.Clear();
  EXPECT_EQ(recorder.spans().size(), 0u);
  EXPECT_EQ(recorder.dropped(), 0);
}

TEST(RunRecorder, FailedInstruction_HasNoEnd) {
  const auto runner = ExpOfNegative();
  RunRecorder recorder;
  recorder.Begin(*runner->program, kNeg, {});
  recorder.Failed(*runner->program, kNeg, Internal("broken"));
  ASSERT_EQ(recorder.spans().size(), 1u);
  EXPECT_EQ(recorder.spans()[0].end, 0);
  proto::StepStats stats;
  AppendStepStats(recorder.spans(), {}, stats);
  EXPECT_EQ(stats.dev_stats(0).node_stats_size(), 0);
}

TEST(RunRecorder, Observed_TheBitsAreTheSame) {
  const auto runner = ExpOfNegative();
  Tensor x(DType::kFloat32, Shape{256});
  for (size_t i = 0; float& value : x.flat<float>()) value = static_cast<float>(i++) / 64;
  ASSERT_OK(runner->Run({x}));
  const std::vector<float> plain = Values(runner->fetched[0]);
  RunRecorder recorder;
  const std::vector<Tensor> feeds = {x};
  Bindings bindings = runner->bindings(feeds);
  bindings.observer = &recorder;
  ASSERT_OK(runner->instance->Run(bindings));
  EXPECT_EQ(std::memcmp(plain.data(), runner->fetched[0].data(), runner->fetched[0].bytes()), 0);
}

TEST(InstructionCosts, CostsOf_CountBytesAndLiveMemory) {
  const auto runner = ExpOfNegative();
  const std::vector<InstructionCost> costs = CostsOf(*runner->program);
  ASSERT_EQ(costs.size(), 3u);
  EXPECT_EQ(costs[kNeg].bytes, 2 * 256 * 4);
  EXPECT_EQ(costs[kNeg].live_bytes, 256 * 4);
  EXPECT_EQ(costs[kExp].live_bytes, 256 * 4);  // in place
  EXPECT_EQ(costs[2].bytes, 2 * 256 * 4);      // the fetch reads and writes
  EXPECT_EQ(costs[kNeg].shapes, "float32[256] -> float32[256]");
  EXPECT_EQ(costs[kNeg].layer, "layer");
  EXPECT_THAT(costs[kExp].kernel, HasSubstr("rivulet::"));
}

TEST(InstructionCosts, LayerOf_IsTheScopeOfTheForwardNode) {
  EXPECT_EQ(LayerOf("conv2/Relu"), "conv2");
  EXPECT_EQ(LayerOf("gradients/conv2/Relu_grad/ReluGrad"), "conv2");
  EXPECT_EQ(LayerOf("gradients/loss_grad/Mul"), "loss");
  EXPECT_EQ(LayerOf("gradients/lstm2/forward/MatMul_grad/MatMul_1"), "lstm2/forward");
  EXPECT_EQ(LayerOf("loss"), "loss");
  EXPECT_EQ(LayerOf("train/update_0"), "train");
  EXPECT_EQ(LayerOf("/odd"), "/odd");
  EXPECT_EQ(LayerOf(""), "");
  EXPECT_EQ(ForwardNodeOf("gradients/conv2/Relu_grad/ReluGrad"), "conv2/Relu");
}

TEST(StepStats, AppendStepStats_HasNodesWithTimesOutputsAndMemory) {
  const auto runner = ExpOfNegative();
  RunRecorder recorder;
  ASSERT_OK(RunWith(recorder, *runner));
  proto::StepStats stats;
  AppendStepStats(recorder.spans(), {"/device:CPU:1", 7, "worker 7"}, stats);
  AppendStepStats(recorder.spans(), {"/device:CPU:1", 8, ""}, stats);
  ASSERT_EQ(stats.dev_stats_size(), 1);
  const proto::DeviceStepStats& device = stats.dev_stats(0);
  EXPECT_EQ(device.device(), "/device:CPU:1");
  EXPECT_EQ(device.thread_names().at(7), "worker 7");
  ASSERT_EQ(device.node_stats_size(), 6);
  const proto::NodeExecStats& neg = device.node_stats(0);
  EXPECT_EQ(neg.node_name(), "layer/neg");
  EXPECT_THAT(neg.timeline_label(), HasSubstr("layer/neg = Neg(x)"));
  EXPECT_GT(neg.all_start_micros(), int64_t{1'600'000'000'000'000});
  EXPECT_EQ(neg.all_start_micros(), neg.all_start_nanos() / 1000);
  EXPECT_EQ(neg.op_end_rel_nanos(), recorder.spans()[0].end - recorder.spans()[0].begin);
  EXPECT_EQ(neg.thread_id(), 7u);
  ASSERT_EQ(neg.output_size(), 1);
  EXPECT_EQ(neg.output(0).tensor_description().dtype(), proto::DT_FLOAT);
  EXPECT_EQ(neg.output(0).tensor_description().shape().dim(0).size(), 256);
  EXPECT_EQ(neg.memory(0).total_bytes(), 1024);
  EXPECT_EQ(device.node_stats(2).node_name(), "_retval_exp");
  EXPECT_EQ(device.node_stats(3).thread_id(), 8u);
}

TEST(StepStats, NestedPrograms_AreNamedAfterTheNodeThatRunsThem) {
  const auto outer = ExpOfNegative(), inner = ExpOfNegative();
  RunRecorder recorder;
  Nested(recorder, *outer->program, *inner->program);
  proto::StepStats stats;
  AppendStepStats(recorder.spans(), {}, stats);
  EXPECT_EQ(stats.dev_stats(0).node_stats(2).node_name(), "layer/neg/exp");
}

}  // namespace
}  // namespace rivulet::testing
