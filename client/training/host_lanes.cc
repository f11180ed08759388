#include "client/training/host_lanes.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "client/training/graph_numbers.h"
#include "client/training/lane_result.h"
#include "client/training/lane_run.h"
#include "client/training/part_places.h"
#include "client/training/task_streams.h"
#include "engine/base/vlog.h"

namespace rivulet {

HostLanes::HostLanes(PassPrograms& programs)
    : programs_(programs), plan_(programs.plan()), table_(programs.buffers()) {}

LaneStep* HostLanes::For(const BoundPass& pass, int64_t size) {
  if (pass.kind != TaskKind::kTrain || size <= 0 || pass.end != nullptr || !plan_.flat_names().broadcast.empty() ||
      std::ranges::any_of(plan_.aggregation().parts,
                          [](const PartSpec& part) { return part.only_where.has_value(); })) {
    return nullptr;
  }
  const int64_t batch_size = std::min(pass.pass->batch_size, size);
  const auto [step, added] = steps_.try_emplace(batch_size);
  if (added) {
    auto program = programs_.Lanes(pass.kind, pass.index, batch_size);
    if (program != nullptr) step->second = LaneStep::Create(std::move(program), PartPlacesOf(plan_, table_));
  }
  return step->second.get();
}

// The same as a trainer does for one lane after another, in the same order of draws and sums.
StatusOr<std::vector<LocalResult>> HostLanes::Train(const BoundPass* one_pass, std::span<const LaneTask> lanes,
                                                    std::span<Buffer> buffers, KnownLayout& layout,
                                                    const CancellationToken& cancel) {
  const auto started = std::chrono::steady_clock::now();
  const LaneTask& first = lanes[0];
  const int64_t size = first.examples->size();
  LaneStep* const step = one_pass == nullptr ? nullptr : For(*one_pass, size);
  const int most = step == nullptr ? 1 : step->most();
  if (std::ssize(lanes) > most) {
    return InvalidArgument("the trainer has {} lanes for such tasks, and not {}", most, lanes.size());
  }
  const auto alike = [&](const LaneTask& lane) {
    return lane.task->kind == first.task->kind && lane.task->base_version == first.task->base_version &&
           lane.base == first.base && lane.examples->size() == size && lane.state.empty() && lane.beside.empty() &&
           lane.task->numbers == first.task->numbers;
  };
  if (!std::ranges::all_of(lanes, alike)) return InvalidArgument("tasks that are not alike cannot be trained at once");
  RIVULET_RETURN_IF_ERROR(layout.Check(*first.base));
  if (memory_.size() < step->bytes()) {
    RIVULET_ASSIGN_OR_RETURN(memory_, AlignedBuffer::Create(step->bytes()));
  }
  step->Use(memory_.data());
  buffers[BufferTable::kBaseParams].data = const_cast<std::byte*>(first.base->arena().data());
  GraphNumbers numbers(plan_, table_, buffers[BufferTable::kScalars].data);
  Scalars declared;  // of each lane, as their tasks' numbers are equal
  RIVULET_RETURN_IF_ERROR(numbers.Begin(*first.task, declared));

  const LocalPass& pass = *one_pass->pass;
  const auto number = static_cast<int>(lanes.size());
  const auto count = static_cast<size_t>(std::min(pass.batch_size, size));
  std::vector<LaneRun> runs;
  for (int i = 0; i < number; ++i) {
    const LaneTask& lane = lanes[static_cast<size_t>(i)];
    LaneRun& run = runs.emplace_back(LaneRun{.task = *lane.task,
                                             .client_id = lane.client_id,
                                             .examples = *lane.examples,
                                             .state = {},
                                             .beside = {},
                                             .cancel = cancel});
    run.BeginEpoch(pass);
    OrderInto(order_, run.task, run.at.epoch, run.size, pass.shuffle);
    RIVULET_RETURN_IF_ERROR(lane.examples->Decode(std::span(order_).first(count), step->Feeds(i, number)));
  }
  RIVULET_RETURN_IF_ERROR(step->Run(number, buffers, cancel));
  std::vector<LocalResult> results(lanes.size());
  for (int i = 0; i < number; ++i) {
    LaneRun& run = runs[static_cast<size_t>(i)];
    LocalResult& result = results[static_cast<size_t>(i)];
    run.Count(pass, step->Scalars(i), static_cast<int64_t>(count));
    result.declared = declared;
    DeclarePass(pass, run.at.sums, run.at.seen, result.declared);
    result.parts = step->Parts(i);
    CloseResult(run.size, run.at.step, result);
  }
  const std::chrono::duration<double> all = std::chrono::steady_clock::now() - started;
  for (LocalResult& result : results) result.train_seconds = all.count() / static_cast<double>(lanes.size());
  RIVULET_VLOG(1, "{} clients at once: a step of {} examples each from round {}, {:.6f} s each", lanes.size(), count,
               first.task->base_version, *results[0].train_seconds);
  return results;
}

}  // namespace rivulet
