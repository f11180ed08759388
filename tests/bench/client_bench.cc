// client/overhead: the cost of a virtual client besides its steps. The client has one batch of ten examples of logistic
// regression, whose only step takes microseconds (step/logistic_regression/10).
#include <benchmark/benchmark.h>

#include <memory>
#include <string>

#include "client/training/pass_programs.h"
#include "client/training/trainer.h"
#include "federated/plan/example_source.h"
#include "federated/weights/model.h"
#include "tests/bench/bench_plan.h"
#include "tests/testing/memory_dataset.h"

namespace rivulet::bench {
namespace {

void BenchClient(benchmark::State& state) {
  EnterWorkerThread();
  const auto fail = [&](const Status& status) { state.SkipWithError(std::string(status.message()).c_str()); };
  const auto plan = PresetPlan("logistic_regression");
  if (!plan.ok()) return fail(plan.status());
  const auto base = InitialModel(**plan, 1);
  if (!base.ok()) return fail(base.status());
  const auto decoder = ExampleDecoder::Create((*plan)->features());
  if (!decoder.ok()) return fail(decoder.status());
  std::vector<std::string> records;
  for (int i = 0; i < 10; ++i) records.push_back(testing::DigitExample(std::string(784, static_cast<char>(25 * i)), i));
  const DatasetExamples examples(std::make_shared<testing::MemoryDataset>(std::move(records)), std::nullopt, *decoder);
  const auto trainer = Trainer::Create(std::make_shared<PassPrograms>(*plan));
  if (!trainer.ok()) return fail(trainer.status());
  Task task;
  task.id = "bench-r1-a1-client-00000-0";
  for (auto _ : state) {
    const LaneTask lane{&task, "client-00000", base->get(), &examples};
    const auto results = (*trainer)->Train({&lane, 1});
    if (!results.ok()) return fail(results.status());
    const LocalResult& result = (*results)[0];
    if (!result.status.ok()) return fail(result.status);
    if (result.steps != 1) return state.SkipWithError("not one step");
  }
  state.SetItemsProcessed(state.iterations());
}

BENCHMARK(BenchClient)->Name("client/overhead")->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace rivulet::bench

BENCHMARK_MAIN();
