// Guarantees of a training step for every preset: no allocation, no lock, the planned memory, and a short
// compilation.
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstring>

#include "client/training/pass_programs.h"
#include "client/training/trainer.h"
#include "engine/base/mutex.h"
#include "tests/client/training/local_plan.h"
#include "tests/engine/kernels/every_target.h"
#include "tests/engine/program/allocations.h"
#include "tests/engine/program/locks.h"
#include "tests/testing/sanitized.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

using testing::AllocationCount;
using testing::CountAllocationsApart;
using testing::CountLocks;
using testing::LocalPlan;
using testing::LocalScenario;
using testing::PatternModel;

constexpr std::byte kUntouched{0xA5};
constexpr size_t kGuard = 4096, kPage = 4096;

// A preset's step with memory to run in.
class BoundStep {
 public:
  explicit BoundStep(const Scenario& scenario, int64_t batch = 10) {
    EnterWorkerThread();
    const auto plan = LocalPlan(scenario);
    const auto cache = std::make_shared<PassPrograms>(plan);
    auto compiled = cache->Step(TaskKind::kTrain, 0, batch);
    EXPECT_OK(compiled);
    program = *compiled;
    auto made = program->Instantiate();
    EXPECT_OK(made);
    instance_ = *std::move(made);
    const BufferTable& table = cache->buffers();
    for (int i = 0; i < table.size(); ++i) memory_.emplace_back(table.bytes(i));
    const auto model = PatternModel(*plan);
    std::memcpy(memory_[BufferTable::kParams].data(), model->arena().data(), model->arena().size());
    for (AlignedBuffer& buffer : memory_) buffers_.push_back({buffer.data()});
    for (const FeedSpec& feed : program->signature().feeds) {
      Tensor tensor(feed.spec.dtype, feed.spec.shape);
      if (feed.spec.dtype == DType::kFloat32) {
        for (size_t i = 0; float& x : tensor.flat<float>()) x = static_cast<float>((i++ * 37) % 256) / 255;
      } else {
        for (int64_t i = 0; int64_t & label : tensor.flat<int64_t>()) label = 1 + i++ % 9;
      }
      tensors_.push_back(std::move(tensor));
      feeds_.push_back(tensors_.back().view());
    }
    fetch_ = {reinterpret_cast<std::byte*>(&loss), DType::kFloat32, Shape{}};
    arena = AlignedBuffer(program->memory().arena_bytes + kGuard);
    bindings_.arena = arena.data();
    bindings_.buffers = buffers_;
    bindings_.feeds = feeds_;
    bindings_.fetches = {&fetch_, 1};
    bindings_.rng = {&rng_, 1};
    bindings_.step = {&step_, 1};
  }
  Status Run() { return instance_->Run(bindings_); }

  std::span<const std::byte> params() const { return memory_[BufferTable::kParams].bytes(); }

  std::shared_ptr<const Program> program;
  AlignedBuffer arena;
  float loss = 0;

 private:
  std::unique_ptr<Instance> instance_;
  std::vector<AlignedBuffer> memory_;
  std::vector<Buffer> buffers_;
  std::vector<Tensor> tensors_;
  std::vector<TensorView> feeds_;
  TensorView fetch_;
  StreamKey rng_;
  uint64_t step_ = 0;
  Bindings bindings_;
};

struct Case {
  std::string preset, precision, kernels;
  friend void PrintTo(const Case& c, std::ostream* out) { *out << c.preset << " " << c.precision << " " << c.kernels; }
};
std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (const std::string& preset : PresetNames()) {
    cases.push_back({preset, "float32", "native"});
    cases.push_back({preset, "bfloat16", "native"});
  }
  cases.push_back({"mlp", "float32", "portable"});
  return cases;
}

class StepGuarantees : public ::testing::TestWithParam<Case> {
 protected:
  static Scenario Scenario_() {
    Scenario scenario = LocalScenario();
    scenario.model.preset = GetParam().preset;
    scenario.client.precision = GetParam().precision;
    scenario.run.kernels = GetParam().kernels;
    return scenario;
  }
};

TEST_P(StepGuarantees, Step_AllocatesNothingAndTakesNoLock) {
  BoundStep step(Scenario_(), 2);
  ASSERT_OK(step.Run());  // what a library does once is done
  Status status;
  const AllocationCount count = CountAllocationsApart([&] { status = step.Run(); });
  ASSERT_OK(status);
  EXPECT_EQ(count.ours, 0);
  RecordProperty("allocations_of_libraries", count.libraries);
  if (count.libraries > 0) fmt::print("{} allocations of {}\n", count.libraries, count.of_library);
  EXPECT_LE(CountLocks([&] { status = step.Run(); }), 0);
  EXPECT_OK(status);
}

TEST_P(StepGuarantees, PlannedMemory_IsWhatARunTouches) {
  BoundStep step(Scenario_(), 2);
  std::memset(step.arena.data(), static_cast<int>(kUntouched), step.arena.size());
  ASSERT_OK(step.Run());
  const size_t planned = step.program->memory().arena_bytes;
  size_t touched = 0, pages = 0;
  for (size_t page = 0; page < planned; page += kPage, ++pages) {
    const size_t end = std::min(planned, page + kPage);
    bool any = false;
    for (size_t i = page; i < end && !any; ++i) any = step.arena.data()[i] != kUntouched;
    touched += any;
  }
  // A library's scratch memory is as large as the library asks; on a CPU with AMX its buffers of tiles are larger than
  // what the smallest 16-bit products fill.
  const double least = GetParam().precision == "bfloat16" ? 0.8 : 0.95;
  EXPECT_GE(static_cast<double>(touched), least * static_cast<double>(pages)) << "of " << pages << " pages";
  for (size_t i = planned; i < planned + kGuard; ++i) ASSERT_EQ(step.arena.data()[i], kUntouched) << "beyond the plan";
}

INSTANTIATE_TEST_SUITE_P(Presets, StepGuarantees, ::testing::ValuesIn(Cases()), [](const auto& info) {
  return info.param.preset + "_" + info.param.precision + "_" + info.param.kernels;
});

class KernelSets : public ::testing::TestWithParam<std::string> {};

TEST_P(KernelSets, PortableStep_HasTheSameBitsOnEveryInstructionSet) {
  const bool large = GetParam() == "mobilenet_v2";  // seconds without vector instructions
  for (const char* precision : {"float32", "bfloat16"}) {
    if (large && std::string(precision) != "float32") continue;
    Scenario scenario = LocalScenario();
    scenario.model.preset = GetParam();
    scenario.client.precision = precision;
    scenario.run.kernels = "portable";
    std::string first;
    testing::OnEveryTarget([&](const std::string& target) {
      BoundStep step(scenario, large ? 1 : 2);
      ASSERT_OK(step.Run());
      const std::string now(reinterpret_cast<const char*>(step.params().data()), step.params().size());
      if (first.empty()) first = now;
      EXPECT_TRUE(now == first) << precision << " on " << target;
    });
  }
}

// Losses of the kernel sets differ by the order of sums in float32 alone.
TEST_P(KernelSets, NativeLosses_AgreeOnEveryInstructionSet) {
  Scenario scenario = LocalScenario();
  scenario.model.preset = GetParam();
  scenario.client.optimizer.learning_rate = 0.01;
  scenario.run.kernels = "portable";
  BoundStep portable(scenario, 2);
  ASSERT_OK(portable.Run());
  ASSERT_OK(portable.Run());
  scenario.run.kernels = "native";
  testing::OnEveryTarget([&](const std::string& target) {
    BoundStep step(scenario, 2);
    ASSERT_OK(step.Run());
    ASSERT_OK(step.Run());  // the loss after one update
    EXPECT_NEAR(step.loss, portable.loss, 1e-3f * std::abs(portable.loss) + 1e-4f) << target;
  });
}

INSTANTIATE_TEST_SUITE_P(Presets, KernelSets, ::testing::ValuesIn(PresetNames()));

TEST(CountLocks, OneMutex_IsOne) {
  Mutex mutex;
  const int locks = CountLocks([&] { MutexLock lock(mutex); });
  EXPECT_TRUE(locks == 1 || locks == -1) << locks;
}

// A bound that a slow machine keeps too; what it takes is a row of the benchmarks ("compile").
TEST(Compile, TrainingProgramOfMnistCnn_TakesLessThanTwoSeconds) {
  Scenario scenario = LocalScenario();
  scenario.model.preset = "mnist_cnn";
  const auto plan = LocalPlan(scenario);
  const auto start = std::chrono::steady_clock::now();
  EnterWorkerThread();
  ASSERT_OK(PassPrograms(plan).Step(TaskKind::kTrain, 0, 10));
  EXPECT_LT(std::chrono::steady_clock::now() - start, testing::Within(std::chrono::seconds(2)));
}

}  // namespace
}  // namespace rivulet
