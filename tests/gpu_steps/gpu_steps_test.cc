// The steps of every preset and algorithm as GPU programs: every op has a kernel, and a training step computes the same
// as on the CPU.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>

#include "client/training/pass_programs.h"
#include "engine/base/philox.h"
#include "engine/compile/compile.h"
#include "engine/compile/compile_gpu.h"
#include "engine/presets/presets.h"
#include "engine/tensor/spec_bytes.h"
#include "federated/algorithms/algorithm.h"
#include "federated/plan/plan.h"
#include "federated/scenario/scenario.h"
#include "tests/emulated_gpu/emulated_backend.h"
#include "tests/testing/status_matchers.h"

namespace rivulet {
namespace {

constexpr int64_t kBatch = 2;
constexpr size_t kLanes = 2;

Scenario ScenarioOf(const std::string& preset) {
  Scenario scenario;
  scenario.run.name = "steps";
  scenario.model.preset = preset;
  scenario.data.partition.clients = 4;
  scenario.server.clients_per_round = 2;
  scenario.client.batch_size = kBatch;
  scenario.client.optimizer.learning_rate = 0.05;
  return scenario;
}

StatusOr<std::shared_ptr<const Plan>> PlanOf(const Scenario& scenario, const PresetOptions& options = {}) {
  RIVULET_ASSIGN_OR_RETURN(const ModelDef model, Preset(scenario.model.preset, options));
  RIVULET_ASSIGN_OR_RETURN(std::string bytes, BuildPlan(scenario, model));
  return Plan::Open(std::move(bytes));
}

// The error of compiling every pass's step of a kind for a GPU.
Status CompileSteps(const std::shared_ptr<const Plan>& plan, TaskKind kind) {
  PassPrograms programs(plan);
  const LocalProgram* program = plan->program(kind);
  if (program == nullptr) return absl::OkStatus();
  for (size_t pass = 0; pass < program->passes.size(); ++pass) {
    RIVULET_ASSIGN_OR_RETURN(PassPrograms::StepGraph step, programs.DescribeStep(kind, pass, kBatch));
    RIVULET_RETURN_IF_ERROR(CompileForGpu(step.graph, step.signature, plan->compile_options()).status());
  }
  return absl::OkStatus();
}

TEST(GpuSteps, EveryPreset_HasAKernelForEachOpOfItsSteps) {
  EnterWorkerThread();
  for (const std::string& preset : PresetNames()) {
    SCOPED_TRACE(preset);
    ASSERT_OK_AND_ASSIGN(const auto plan, PlanOf(ScenarioOf(preset)));
    EXPECT_OK(CompileSteps(plan, TaskKind::kTrain));
    EXPECT_OK(CompileSteps(plan, TaskKind::kEvaluate));
  }
  for (const char* normalization : {"group", "none"}) {
    ASSERT_OK_AND_ASSIGN(const auto plan, PlanOf(ScenarioOf("resnet8"), {.normalization = normalization}));
    EXPECT_OK(CompileSteps(plan, TaskKind::kTrain));
  }
}

TEST(GpuSteps, EveryOptimizerAndAlgorithm_HasAKernelForEachOpOfItsSteps) {
  EnterWorkerThread();
  for (const char* kind : {"sgd", "momentum", "adagrad", "rmsprop", "adam", "adamw", "adadelta", "yogi"}) {
    Scenario scenario = ScenarioOf("lenet5");
    scenario.client.optimizer.kind = kind;
    scenario.client.optimizer.clip_norm = 1;
    scenario.client.optimizer.clip_value = 0.5;
    SCOPED_TRACE(kind);
    ASSERT_OK_AND_ASSIGN(const auto plan, PlanOf(scenario));
    EXPECT_OK(CompileSteps(plan, TaskKind::kTrain));
  }
  for (const char* name :
       {"fedavg", "fedprox", "scaffold", "feddyn", "fednova", "fedsgd", "mimelite", "ditto", "moon"}) {
    Scenario scenario = ScenarioOf("lenet5");
    scenario.algorithm.name = name;
    SCOPED_TRACE(name);
    const auto plan = PlanOf(scenario);
    ASSERT_OK(plan);
    EXPECT_OK(CompileSteps(*plan, TaskKind::kTrain));
  }
}

// Bytes that are numbers of every type that a step is fed with: pixels, and labels below ten.
void FillFeed(const FeedSpec& feed, uint32_t seed, std::byte* to) {
  const int64_t elements = feed.spec.shape.elements();
  for (int64_t i = 0; i < elements; ++i) {
    const uint32_t word = Philox4x32({{seed, 3}}, {static_cast<uint32_t>(i), 0, 0, 0})[0];
    switch (feed.spec.dtype) {
      case DType::kFloat32:
        reinterpret_cast<float*>(to)[i] = UniformFloat(word);
        break;
      case DType::kUint8:
        reinterpret_cast<uint8_t*>(to)[i] = static_cast<uint8_t>(word);
        break;
      case DType::kInt64:
        reinterpret_cast<int64_t*>(to)[i] = word % 10;
        break;
      default:
        FAIL() << "a feed of " << Name(feed.spec.dtype);
    }
  }
}

// One lane's memory on the host: buffers as the plan has them, and feeds.
struct LaneMemory {
  std::vector<std::vector<std::byte>> buffers, feeds, fetches;
};

LaneMemory MemoryOf(const PassPrograms& programs, const Signature& signature, uint32_t seed) {
  LaneMemory memory;
  for (int i = 0; i < programs.buffers().size(); ++i) {
    memory.buffers.emplace_back(programs.buffers().bytes(i) + 64);
    const bool weights = i == BufferTable::kParams || i == BufferTable::kBaseParams;
    if (!weights) continue;
    float* values = reinterpret_cast<float*>(memory.buffers.back().data());
    for (size_t k = 0; k < programs.buffers().bytes(i) / sizeof(float); ++k)
      values[k] = (UniformFloat(Philox4x32({{seed, 4}}, {static_cast<uint32_t>(k), 0, 0, 0})[0]) - 0.5f) * 0.2f;
  }
  for (const FeedSpec& feed : signature.feeds) {
    memory.feeds.emplace_back(TensorBytes(feed.spec));
    FillFeed(feed, seed + 10, memory.feeds.back().data());
  }
  memory.fetches.assign(signature.fetches.size(), std::vector<std::byte>(sizeof(float)));
  return memory;
}

StreamKey StreamOf(uint32_t lane) { return {.key = {{lane, 8}}, .ordinal = 1, .round = 2, .purpose = 3}; }

Status RunOnCpu(const PassPrograms::StepGraph& step, const CompileOptions& options, uint32_t lane, LaneMemory& memory) {
  RIVULET_ASSIGN_OR_RETURN(const auto program, CompileProgram(step.graph, step.signature, options));
  RIVULET_ASSIGN_OR_RETURN(const auto instance, program->Instantiate());
  AlignedBuffer arena(program->memory().arena_bytes);
  std::vector<Buffer> buffers;
  std::vector<AlignedBuffer> aligned;
  for (const auto& buffer : memory.buffers) {
    aligned.emplace_back(buffer.size());
    std::memcpy(aligned.back().data(), buffer.data(), buffer.size());
    buffers.push_back({aligned.back().data()});
  }
  std::vector<TensorView> feeds, fetches;
  for (size_t i = 0; i < memory.feeds.size(); ++i)
    feeds.push_back({memory.feeds[i].data(), step.signature.feeds[i].spec.dtype, step.signature.feeds[i].spec.shape});
  for (auto& fetch : memory.fetches) fetches.push_back({fetch.data(), DType::kFloat32, {}});
  const StreamKey stream = StreamOf(lane);
  const uint64_t number = 5;
  Bindings bindings;
  bindings.arena = arena.data();
  bindings.buffers = buffers;
  bindings.feeds = feeds;
  bindings.fetches = fetches;
  bindings.rng = {&stream, 1};
  bindings.step = {&number, 1};
  RIVULET_RETURN_IF_ERROR(instance->Run(bindings));
  for (size_t i = 0; i < aligned.size(); ++i)
    std::memcpy(memory.buffers[i].data(), aligned[i].data(), memory.buffers[i].size());
  return absl::OkStatus();
}

// Device memory of one vector of each lane.
struct OnDevice {
  GpuMemory memory;
  size_t stride;
  GpuOperand operand() const { return {memory.data(), stride}; }
};

class GpuRun {
 public:
  static Status Run(const PassPrograms::StepGraph& step, const CompileOptions& options,
                    std::vector<LaneMemory>& lanes) {
    GpuRun run;
    RIVULET_ASSIGN_OR_RETURN(const auto program, CompileForGpu(step.graph, step.signature, options));
    RIVULET_ASSIGN_OR_RETURN(run.device_, GpuDevice::Open(gpu::EmulatedBackend(), 0));
    RIVULET_ASSIGN_OR_RETURN(run.stream_, run.device_->NewStream());
    RIVULET_ASSIGN_OR_RETURN(const auto instance, program->Instantiate(*run.device_));
    RIVULET_ASSIGN_OR_RETURN(const OnDevice arena, run.New(program->arena_bytes()));
    RIVULET_ASSIGN_OR_RETURN(const auto buffers, run.Place(&LaneMemory::buffers, lanes));
    RIVULET_ASSIGN_OR_RETURN(const auto feeds, run.Place(&LaneMemory::feeds, lanes));
    RIVULET_ASSIGN_OR_RETURN(const auto fetches, run.Place(&LaneMemory::fetches, lanes));
    std::vector<StreamKey> streams;
    for (uint32_t lane = 0; lane < kLanes; ++lane) streams.push_back(StreamOf(lane));
    const std::vector<uint64_t> steps(kLanes, 5);
    RIVULET_ASSIGN_OR_RETURN(const GpuMemory device_streams,
                             run.device_->Allocate(sizeof(StreamKey) * kLanes, "streams"));
    RIVULET_ASSIGN_OR_RETURN(const GpuMemory device_steps, run.device_->Allocate(sizeof(uint64_t) * kLanes, "steps"));
    RIVULET_RETURN_IF_ERROR(run.stream_->ToDevice(device_streams.data(), streams.data(), sizeof(StreamKey) * kLanes));
    RIVULET_RETURN_IF_ERROR(run.stream_->ToDevice(device_steps.data(), steps.data(), sizeof(uint64_t) * kLanes));
    const auto of = [](const std::vector<OnDevice>& all) {
      std::vector<GpuOperand> operands;
      for (const OnDevice& one : all) operands.push_back(one.operand());
      return operands;
    };
    const auto buffer_operands = of(buffers), feed_operands = of(feeds), fetch_operands = of(fetches);
    GpuBindings bindings;
    bindings.arena = arena.operand();
    bindings.buffers = buffer_operands;
    bindings.feeds = feed_operands;
    bindings.fetches = fetch_operands;
    bindings.lanes = {static_cast<int32_t>(kLanes), nullptr};
    bindings.draws = {reinterpret_cast<const StreamKey*>(device_streams.data()),
                      reinterpret_cast<const uint64_t*>(device_steps.data())};
    RIVULET_RETURN_IF_ERROR(instance->Enqueue(*run.stream_, bindings));
    RIVULET_RETURN_IF_ERROR(run.stream_->Wait());
    RIVULET_RETURN_IF_ERROR(run.Fetch(buffers, &LaneMemory::buffers, lanes));
    RIVULET_RETURN_IF_ERROR(run.Fetch(fetches, &LaneMemory::fetches, lanes));
    return run.stream_->Wait();
  }

 private:
  using Part = std::vector<std::vector<std::byte>> LaneMemory::*;

  StatusOr<OnDevice> New(size_t bytes) {
    OnDevice made;
    made.stride = std::max<size_t>(256, (bytes + 255) / 256 * 256);
    RIVULET_ASSIGN_OR_RETURN(made.memory, device_->Allocate(made.stride * kLanes, "a buffer"));
    return made;
  }
  StatusOr<std::vector<OnDevice>> Place(Part part, std::vector<LaneMemory>& lanes) {
    std::vector<OnDevice> placed;
    for (size_t i = 0; i < (lanes[0].*part).size(); ++i) {
      RIVULET_ASSIGN_OR_RETURN(OnDevice one, New((lanes[0].*part)[i].size()));
      for (size_t lane = 0; lane < kLanes; ++lane) {
        const auto& bytes = (lanes[lane].*part)[i];
        RIVULET_RETURN_IF_ERROR(stream_->ToDevice(one.memory.data() + lane * one.stride, bytes.data(), bytes.size()));
      }
      placed.push_back(std::move(one));
    }
    return placed;
  }
  Status Fetch(const std::vector<OnDevice>& from, Part part, std::vector<LaneMemory>& lanes) {
    for (size_t i = 0; i < from.size(); ++i) {
      for (size_t lane = 0; lane < kLanes; ++lane) {
        auto& bytes = (lanes[lane].*part)[i];
        RIVULET_RETURN_IF_ERROR(
            stream_->ToHost(bytes.data(), from[i].memory.data() + lane * from[i].stride, bytes.size()));
      }
    }
    return absl::OkStatus();
  }

  std::shared_ptr<GpuDevice> device_;
  std::unique_ptr<GpuStream> stream_;
};

void ExpectClose(const std::vector<std::byte>& actual, const std::vector<std::byte>& expected, double tolerance,
                 const std::string& what) {
  const auto* a = reinterpret_cast<const float*>(actual.data());
  const auto* e = reinterpret_cast<const float*>(expected.data());
  for (size_t i = 0; i < actual.size() / sizeof(float); ++i)
    ASSERT_LE(std::abs(a[i] - e[i]), tolerance * std::max(1.0f, std::abs(e[i])))
        << what << ": " << i << " is " << a[i] << ", and " << e[i] << " on the CPU";
}

void CheckStep(const std::string& preset, const PresetOptions& options, double tolerance) {
  SCOPED_TRACE(preset + options.normalization);
  EnterWorkerThread();
  ASSERT_OK_AND_ASSIGN(const auto plan, PlanOf(ScenarioOf(preset), options));
  PassPrograms programs(plan);
  ASSERT_OK_AND_ASSIGN(const PassPrograms::StepGraph step, programs.DescribeStep(TaskKind::kTrain, 0, kBatch));
  std::vector<LaneMemory> on_gpu;
  for (uint32_t lane = 0; lane < kLanes; ++lane) on_gpu.push_back(MemoryOf(programs, step.signature, lane));
  std::vector<LaneMemory> on_cpu = on_gpu;
  ASSERT_OK(GpuRun::Run(step, plan->compile_options(), on_gpu));
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    const LaneMemory before = on_cpu[lane];
    ASSERT_OK(RunOnCpu(step, plan->compile_options(), lane, on_cpu[lane]));
    EXPECT_NE(before.buffers[BufferTable::kParams], on_cpu[lane].buffers[BufferTable::kParams]) << "nothing was learnt";
    ExpectClose(on_gpu[lane].buffers[BufferTable::kParams], on_cpu[lane].buffers[BufferTable::kParams], tolerance,
                fmt::format("weights of lane {}", lane));
    for (size_t i = 0; i < on_cpu[lane].fetches.size(); ++i)
      ExpectClose(on_gpu[lane].fetches[i], on_cpu[lane].fetches[i], 1e-4, fmt::format("scalar {} of lane {}", i, lane));
  }
}

TEST(GpuSteps, ATrainingStep_OfSmallModels_IsTheCpus) {
  CheckStep("logistic_regression", {.input = {8, 8, 1}}, 1e-6);
  CheckStep("mlp", {.input = {8, 8, 1}}, 1e-6);
  CheckStep("lenet5", {.input = {16, 16, 1}}, 1e-5);
  CheckStep("cifar_cnn", {.input = {8, 8, 3}}, 1e-5);
}

TEST(GpuSteps, ATrainingStep_WithNormalisation_IsTheCpus) {
  CheckStep("resnet8", {.input = {8, 8, 3}}, 2e-4);
  CheckStep("resnet8", {.input = {8, 8, 3}, .normalization = "group"}, 2e-4);
}

TEST(GpuSteps, ATrainingStep_OfATransformer_IsTheCpus) { CheckStep("tiny_transformer", {}, 1e-4); }

// The largest difference of two vectors, beside the value where that is above 1.
double Apart(const std::vector<std::byte>& actual, const std::vector<std::byte>& expected) {
  const auto* a = reinterpret_cast<const float*>(actual.data());
  const auto* e = reinterpret_cast<const float*>(expected.data());
  double most = 0;
  for (size_t i = 0; i < actual.size() / sizeof(float); ++i)
    most = std::max(most, static_cast<double>(std::abs(a[i] - e[i]) / std::max(1.0f, std::abs(e[i]))));
  return most;
}

// How far the weights after a step lie apart: the device's from the CPU's, and the CPU's from its own where each weight
// before was moved by its last bit, at most of two ways to move them.
struct Spread {
  double device = 0, last_bits = 0;
};

Spread SpreadOf(const std::string& preset, const PresetOptions& options, int64_t batch) {
  EnterWorkerThread();
  const auto plan = PlanOf(ScenarioOf(preset), options);
  EXPECT_OK(plan);
  PassPrograms programs(*plan);
  const auto step = programs.DescribeStep(TaskKind::kTrain, 0, batch);
  EXPECT_OK(step);
  std::vector<LaneMemory> on_gpu;
  for (uint32_t lane = 0; lane < kLanes; ++lane) on_gpu.push_back(MemoryOf(programs, step->signature, lane));
  const std::vector<LaneMemory> before = on_gpu;
  EXPECT_OK(GpuRun::Run(*step, (*plan)->compile_options(), on_gpu));
  Spread spread;
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    LaneMemory on_cpu = before[lane];
    EXPECT_OK(RunOnCpu(*step, (*plan)->compile_options(), lane, on_cpu));
    const std::vector<std::byte>& after = on_cpu.buffers[BufferTable::kParams];
    spread.device = std::max(spread.device, Apart(on_gpu[lane].buffers[BufferTable::kParams], after));
    for (uint32_t way = 0; way < 2; ++way) {
      LaneMemory moved = before[lane];
      float* const weights = reinterpret_cast<float*>(moved.buffers[BufferTable::kParams].data());
      const size_t count = moved.buffers[BufferTable::kParams].size() / sizeof(float);
      for (size_t i = 0; i < count; ++i) {
        const uint32_t word = Philox4x32({{way, 6}}, {static_cast<uint32_t>(i), lane, 0, 0})[0];
        if (weights[i] != 0) weights[i] = std::nextafter(weights[i], word % 2 == 0 ? 1e9f : -1e9f);
      }
      moved.buffers[BufferTable::kBaseParams] = moved.buffers[BufferTable::kParams];
      EXPECT_OK(RunOnCpu(*step, (*plan)->compile_options(), lane, moved));
      spread.last_bits = std::max(spread.last_bits, Apart(moved.buffers[BufferTable::kParams], after));
    }
  }
  return spread;
}

// Statistics over two values of a channel, as the last layers of mobilenet_v2 have them for two images of 32 × 32: by
// the formula a normalised value is the sign of a difference, and a last bit of a weight decides it. So the step is no
// function that two sums in unlike order agree on; the device's is as near to the CPU's as the CPU's is to itself.
TEST(GpuSteps, StatisticsOverTwoValues_DifferNoMoreThanLastBitsOfWeightsDo) {
  const Spread spread = SpreadOf("mobilenet_v2", {.input = {32, 32, 3}, .normalization = "batch"}, kBatch);
  EXPECT_GT(spread.last_bits, 1);
  EXPECT_LE(spread.device, 2 * spread.last_bits);
}

// Kernels that a step launches with chains of elements apart and joined; both leave the same bits.
std::pair<int64_t, int64_t> CountLaunches(const Scenario& scenario, const PresetOptions& options) {
  const auto plan = PlanOf(scenario, options);
  EXPECT_OK(plan);
  PassPrograms programs(*plan);
  const auto step = programs.DescribeStep(TaskKind::kTrain, 0, kBatch);
  EXPECT_OK(step);
  std::vector<LaneMemory> joined;
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    joined.push_back(MemoryOf(programs, step->signature, lane));
    // Such as a loss scale.
    std::vector<std::byte>& scalars = joined.back().buffers[BufferTable::kScalars];
    for (size_t i = 0; i + sizeof(double) <= scalars.size(); i += sizeof(double)) {
      const double value = 256;
      std::memcpy(&scalars[i], &value, sizeof(value));
    }
  }
  std::vector<LaneMemory> apart = joined;
  const auto run = [&](const CompileOptions& how, std::vector<LaneMemory>& lanes) {
    const int64_t before = gpu::CountEmulated().launches;
    EXPECT_OK(GpuRun::Run(*step, how, lanes));
    return gpu::CountEmulated().launches - before;
  };
  CompileOptions how = (*plan)->compile_options();
  const int64_t few = run(how, joined);
  how.passes.without.push_back("fuse_elements");
  const int64_t many = run(how, apart);
  for (size_t lane = 0; lane < kLanes; ++lane) {
    EXPECT_TRUE(joined[lane].buffers == apart[lane].buffers) << scenario.model.preset;
    EXPECT_TRUE(joined[lane].fetches == apart[lane].fetches) << scenario.model.preset;
  }
  return {many, few};
}

// The table of docs/internals/gpu.md, which this test writes (RIVULET_UPDATE_DOCS=1).
TEST(GpuSteps, ChainsOfElements_AreFewerLaunchesAndTheSameBits) {
  EnterWorkerThread();
  struct Row {
    std::string what, preset;
    PresetOptions options = {.input = {8, 8, 3}};
    std::function<void(Scenario&)> change = [](Scenario&) {};
  };
  const auto narrow = [](Scenario& scenario) {
    scenario.client.precision = "float16";
    scenario.client.loss_scale.kind = "dynamic";
  };
  const std::vector<Row> rows = {
      {"`cifar_cnn`, SGD", "cifar_cnn"},
      {"`cifar_cnn`, FedProx", "cifar_cnn", {.input = {8, 8, 3}}, [](Scenario& s) { s.algorithm.name = "fedprox"; }},
      {"`cifar_cnn`, SCAFFOLD", "cifar_cnn", {.input = {8, 8, 3}}, [](Scenario& s) { s.algorithm.name = "scaffold"; }},
      {"`cifar_cnn`, gradients clipped to a norm",
       "cifar_cnn",
       {.input = {8, 8, 3}},
       [](Scenario& s) { s.client.optimizer.clip_norm = 1; }},
      {"`cifar_cnn`, float16 with a dynamic loss scale", "cifar_cnn", {.input = {8, 8, 3}}, narrow},
      {"`resnet8`, SGD", "resnet8"},
      {"`tiny_transformer`, SGD", "tiny_transformer", {}}};
  const std::string head = "| step | one by one | joined |\n| --- | --- | --- |\n";
  std::string table = head;
  for (const Row& row : rows) {
    Scenario scenario = ScenarioOf(row.preset);
    row.change(scenario);
    const auto [apart, joined] = CountLaunches(scenario, row.options);
    EXPECT_LE(joined, apart) << row.what;
    table += fmt::format("| {} | {} | {} |\n", row.what, apart, joined);
  }
  const std::filesystem::path page = RIVULET_SOURCE_DIR "/docs/internals/gpu.md";
  std::ostringstream text;
  text << std::ifstream(page).rdbuf();
  std::string written = text.str();
  const size_t begin = written.find(head), end = written.find("\n\n", begin) + 1;
  ASSERT_NE(begin, std::string::npos);
  if (std::getenv("RIVULET_UPDATE_DOCS") != nullptr) {
    written.replace(begin, end - begin, table);
    std::ofstream(page) << written;
  } else {
    EXPECT_EQ(written.substr(begin, end - begin), table) << "run this test with RIVULET_UPDATE_DOCS=1";
  }
}

}  // namespace
}  // namespace rivulet
