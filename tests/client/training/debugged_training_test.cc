// A task under the debugger gives the same update as without it.
#include "client/training/pass_programs.h"
#include "client/training/trainer.h"
#include "engine/debug/debugger.h"
#include "federated/plan/example_source.h"
#include "federated/random/streams.h"
#include "tests/client/training/local_plan.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using testing::DigitRecords;
using testing::LocalPlan;
using testing::MemoryDataset;
using testing::PatternModel;

StatusOr<std::vector<float>> TrainObserved(const std::shared_ptr<const Plan>& plan, RunObserver* observer) {
  Task task;
  task.id = "run-r1-a1-client-00000-0";
  task.stream_key = ClientKey(42, "client-00000");
  RIVULET_ASSIGN_OR_RETURN(const auto decoder, ExampleDecoder::Create(plan->features()));
  const DatasetExamples examples(std::make_shared<MemoryDataset>(DigitRecords(27)), std::nullopt, decoder);
  RIVULET_ASSIGN_OR_RETURN(const auto trainer, Trainer::Create(std::make_shared<PassPrograms>(plan)));
  trainer->Observe(observer);
  RIVULET_ASSIGN_OR_RETURN(testing::Trained result,
                           testing::TrainOne(*trainer, task, "client-00000", *PatternModel(*plan), examples));
  return std::move(result.delta);
}

TEST(DebuggedTrainingTest, WithWatchesAndStops_DeltaIsThatOfThePlainRun) {
  const auto plan = LocalPlan();
  ASSERT_OK_AND_ASSIGN(const std::vector<float> plain, TrainObserved(plan, nullptr));
  int stops = 0;
  Debugger* current = nullptr;
  Debugger debugger({.recorder = {},
                     .phase_of = [](const Program& program) -> std::string {
                       return program.signature().fetches.empty() ? "init" : "step";
                     }},
                    [&](const DebugStop&) {
                      ++stops;
                      current->StepInstructions(1);
                      return absl::OkStatus();
                    });
  current = &debugger;
  debugger.RunUntil(*WatchCondition::Parse("abs>0"));
  ASSERT_OK_AND_ASSIGN(const std::vector<float> debugged, TrainObserved(plan, &debugger));
  EXPECT_GT(stops, 20);
  EXPECT_EQ(debugger.steps(), 6);  // 2 epochs over 27 examples in batches of 10
  EXPECT_EQ(debugged, plain);
  // The gradient of the kernel is applied where it is made; what is left of the update is a part of "params", and no
  // tensor of that name.
  EXPECT_EQ(debugger.recorder().Find("params"), nullptr);
}

}  // namespace
}  // namespace rivulet
