#include "simulations/clients/planned_tasks.h"

#include <algorithm>
#include <limits>
#include <thread>

#include "client/training/planned_memory.h"
#include "client/training/task_streams.h"
#include "engine/base/available_memory.h"
#include "federated/codecs/codec.h"

namespace rivulet {
namespace {

int64_t MostExamples(const Shares& shares) {
  int64_t most = 1;
  for (int64_t client = 0; client < shares.size(); ++client) {
    most = std::max(most, std::ssize(shares.ExamplesOf(client)));
  }
  return most;
}

// The floating-point operations of one example in a pass, once; 0 if there is nothing to run.
StatusOr<double> OperationsOf(PassPrograms& programs, TaskKind kind, size_t pass, int64_t examples) {
  const int64_t most = programs.plan().program(kind)->passes[pass].batch_size;
  const int64_t batch = std::clamp<int64_t>(examples, 1, most);
  RIVULET_ASSIGN_OR_RETURN(const auto step, programs.Step(kind, pass, batch));
  return step == nullptr ? 0 : step->flops() / static_cast<double>(batch);
}

// For passes with a random number of epochs: at least one, each number equally likely.
double MeanEpochs(const LocalPass& pass) {
  const auto all = static_cast<double>(pass.epochs);
  return (1 - pass.partial_work) * all + pass.partial_work * (all + 1) / 2;
}

double Megabytes(int64_t bytes) { return static_cast<double>(bytes) / 1e6; }

}  // namespace

StatusOr<PlannedTasks> PlannedTasks::Create(VirtualClients& clients, const std::shared_ptr<const Plan>& plan) {
  RIVULET_ASSIGN_OR_RETURN(const auto artifacts,
                           clients.artifacts().Plan(plan->digest(), [&plan] { return plan->bytes(); }));
  const int64_t examples = MostExamples(clients.shares());
  PlannedTasks planned;
  const auto make = [&]() -> Status {
    EnterWorkerThread();
    PassPrograms& programs = *artifacts->programs;
    RIVULET_ASSIGN_OR_RETURN(const PlannedMemory memory, PlanMemory(programs, TaskKind::kTrain, examples));
    planned.shared_bytes_ = memory.model;
    planned.thread_bytes_ = memory.vectors + memory.program + SumBytes(plan->aggregation());
    for (const TaskKind kind : {TaskKind::kTrain, TaskKind::kEvaluate}) {
      if (plan->program(kind) == nullptr) continue;
      const std::vector<LocalPass>& passes = plan->program(kind)->passes;
      for (size_t pass = 0; pass < passes.size(); ++pass) {
        RIVULET_ASSIGN_OR_RETURN(const double operations, OperationsOf(programs, kind, pass, examples));
        planned.passes_[kind].push_back({passes[pass], operations});
      }
    }
    return absl::OkStatus();
  };
  // On a separate thread, because the caller's may have another number of OpenMP threads, which must stay.
  Status status;
  std::thread([&] { status = make(); }).join();
  RIVULET_RETURN_IF_ERROR(status);
  return planned;
}

int PlannedTasks::ThreadsWithin(int64_t bytes, int wanted) const {
  const int64_t fit = (bytes - shared_bytes_) / std::max<int64_t>(thread_bytes_, 1);
  return static_cast<int>(std::clamp<int64_t>(fit, 1, std::max(wanted, 1)));
}

template <typename Epochs>
int64_t PlannedTasks::CostOf(TaskKind kind, int64_t examples, const Epochs& epochs) const {
  double operations = 0;
  if (const auto found = passes_.find(kind); found != passes_.end()) {
    for (const auto& [pass, once] : found->second) operations += once * epochs(pass);
  }
  // Numbers below 2^53 are exact, and a sum of a thousand of them stays far below 64 bits.
  constexpr double kMost = 1LL << 50;
  return static_cast<int64_t>(
      std::clamp(operations * static_cast<double>(examples), static_cast<double>(examples + 1), kMost));
}

int64_t PlannedTasks::Cost(const Task& task, int64_t examples) const {
  return CostOf(task.kind, examples, [&](const LocalPass& pass) { return static_cast<double>(EpochsOf(task, pass)); });
}

int64_t PlannedTasks::MeanCost(TaskKind kind, int64_t examples) const { return CostOf(kind, examples, MeanEpochs); }

StatusOr<PlannedBytes> BytesOfTask(const Plan& plan) {
  const ModelLayout& layout = *plan.layout();
  PlannedBytes bytes;
  const std::string& download = plan.download();
  RIVULET_ASSIGN_OR_RETURN(const auto model,
                           Codec::Create(download.empty() ? "f32" : download, layout.update_elements()));
  bytes.down = model->MaxBytes();
  for (const Slice& slice : layout.slices()) {
    if (slice.segment == Segment::kFrozen)
      bytes.down += slice.elements * static_cast<int64_t>(SizeOf(slice.spec.dtype));
  }
  bytes.down += std::ssize(plan.flat_names().broadcast) * layout.parameters() * static_cast<int64_t>(sizeof(float));
  std::vector<int64_t> up;  // of each part
  for (const PartSpec& part : plan.aggregation().parts) {
    RIVULET_ASSIGN_OR_RETURN(const auto codec, Codec::Create(part.codec, part.elements, part.codec_settings));
    up.push_back(codec->MaxBytes());
  }
  bytes.up = MostOfAnUpdate(plan.aggregation(), [&](size_t part) { return up[part]; });
  return bytes;
}

int ThreadsToTrain(const StatusOr<PlannedTasks>& planned, int wanted, int64_t memory,
                   const std::function<void(const std::string& sentence)>& note) {
  if (!planned.ok() || wanted <= 1) return wanted;
  if (memory <= 0) {
    memory = static_cast<int64_t>(std::min<size_t>(AvailableMemory(), std::numeric_limits<int64_t>::max()));
  }
  const int threads = planned->ThreadsWithin(memory, wanted);
  if (threads < wanted && note) {
    note(
        fmt::format("clients are trained by {} thread{} and not by {}: each is planned to take {:.1f} MB, and this "
                    "process has {:.1f} MB for them",
                    threads, threads == 1 ? "" : "s", wanted, Megabytes(planned->thread_bytes()), Megabytes(memory)));
  }
  return threads;
}

}  // namespace rivulet
