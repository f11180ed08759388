// An observer sees every instruction, in order, with its values, and can end the run; the bits stay the same.
#include "engine/program/run_observer.h"
#include "tests/engine/program/runner.h"
#include "tests/testing/status_matchers.h"

namespace rivulet::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Recorder : RunObserver {
  void Begin(const Program& program, int index, const KernelContext&) override {
    begun.push_back(program.instructions()[static_cast<size_t>(index)].node);
  }
  Status End(const Program& program, int index, const KernelContext& context) override {
    const Instruction& instruction = program.instructions()[static_cast<size_t>(index)];
    if (instruction.op == "Exp" && instruction.implementation != "fetch") {
      inputs = instruction.input_names;
      value = *reinterpret_cast<const float*>(context.outputs[0]);
    }
    return instruction.op == stop_at ? Aborted("stopped") : Status();
  }
  void Failed(const Program&, int, const Status& status) override { failure = std::string(Message(status)); }
  std::vector<std::string> begun, inputs;
  std::string stop_at, failure;
  float value = 0;
};

std::unique_ptr<Runner> ExpOfNegative() {
  Graph graph;
  const Scope scope(graph);
  const Output x = scope.Placeholder("x", DType::kFloat32, Shape{1});
  const Output y = scope.Op("Exp", {scope.Op("Neg", {x}, {}, "neg")}, {}, "exp");
  const Output z = scope.Op("Sqrt", {y}, {}, "sqrt");
  EXPECT_OK(scope.status());
  return Runner::Create(graph, {{{"x", F32({1})}}, {z.name()}, {}, {}}).value();
}

TEST(RunObserver, Run_TellsEveryInstructionWithItsValues) {
  const auto runner = ExpOfNegative();
  ASSERT_OK(runner->Run({Tensor::Of<float>({1}, {0.5f})}));
  const float plain = runner->fetched[0].flat<float>()[0];
  Recorder recorder;
  const std::vector<Tensor> feeds = {Tensor::Of<float>({1}, {0.5f})};
  Bindings bindings = runner->bindings(feeds);
  bindings.observer = &recorder;
  ASSERT_OK(runner->instance->Run(bindings));
  EXPECT_THAT(recorder.begun, ElementsAre("neg", "exp", "sqrt", "sqrt"));  // the last is the fetch
  EXPECT_THAT(recorder.inputs, ElementsAre("neg"));
  EXPECT_FLOAT_EQ(recorder.value, std::exp(-0.5f));
  EXPECT_EQ(runner->fetched[0].flat<float>()[0], plain);
}

TEST(RunObserver, ErrorFromEnd_EndsTheRunWithIt) {
  const auto runner = ExpOfNegative();
  Recorder recorder;
  recorder.stop_at = "Exp";
  const std::vector<Tensor> feeds = {Tensor::Of<float>({1}, {0.5f})};
  Bindings bindings = runner->bindings(feeds);
  bindings.observer = &recorder;
  EXPECT_THAT(runner->instance->Run(bindings), StatusIs(absl::StatusCode::kAborted, HasSubstr("stopped")));
  EXPECT_THAT(recorder.begun, ElementsAre("neg", "exp"));
}

}  // namespace
}  // namespace rivulet::testing
