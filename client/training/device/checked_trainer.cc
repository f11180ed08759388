#include "client/training/device/checked_trainer.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "client/training/device/gpu_trainer.h"
#include "client/training/device/step_check.h"
#include "client/training/device/value_difference.h"
#include "client/training/pass_length.h"
#include "client/training/pass_programs.h"
#include "engine/program/lane_schedule.h"

namespace rivulet {
namespace {

class CheckedTrainer final : public Trainer {
 public:
  CheckedTrainer(std::shared_ptr<PassPrograms> programs, const TrainingDevice& on, std::unique_ptr<Trainer> on_device,
                 std::unique_ptr<Trainer> on_host)
      : programs_(std::move(programs)),
        device_(on.device),
        on_device_(std::move(on_device)),
        on_host_(std::move(on_host)) {}

  int MostLanes(TaskKind kind, int64_t examples) override { return on_device_->MostLanes(kind, examples); }
  Status CheckRoom(TaskKind kind, int64_t examples) override { return on_device_->CheckRoom(kind, examples); }
  bool TakesUnlikeTasks() const override { return on_device_->TakesUnlikeTasks(); }
  // Parts are copied to the host, for the comparison.
  bool LeaveParts(bool) override { return false; }
  void Observe(RunObserver* observer) override { on_device_->Observe(observer); }

  StatusOr<std::vector<LocalResult>> Train(std::span<const LaneTask> lanes, const CancellationToken& cancel) override {
    RIVULET_ASSIGN_OR_RETURN(std::vector<LocalResult> results, on_device_->Train(lanes, cancel));
    for (size_t i = 0; i < lanes.size(); ++i) {
      if (results[i].status.ok()) results[i].status = Check(lanes[i], results[i], cancel);
    }
    return results;
  }

 private:
  Status Check(LaneTask lane, const LocalResult& result, const CancellationToken& cancel) {
    RIVULET_RETURN_IF_ERROR(CheckSteps(lane));
    lane.checkpoint = nullptr;
    RIVULET_ASSIGN_OR_RETURN(const std::vector<LocalResult> all, on_host_->Train({&lane, 1}, cancel));
    const LocalResult& expected = all[0];
    RIVULET_RETURN_IF_ERROR(expected.status);
    if (result.steps != expected.steps || result.examples != expected.examples) {
      return Differs(lane, fmt::format("{} steps over {} examples, on the host {} over {}", *result.steps,
                                       *result.examples, *expected.steps, *expected.examples));
    }
    for (const auto& [name, value] : expected.declared) {
      const auto found = result.declared.find(name);
      const double ours = found == result.declared.end() ? std::nan("") : found->second;
      if (!(std::abs(ours - value) > kUpdateTolerance * (1 + std::abs(value))) && std::isfinite(ours)) continue;
      if (!std::isfinite(value) && !std::isfinite(ours)) continue;
      return Differs(lane, fmt::format("'{}' is {:.9g}, on the host {:.9g}", name, ours, value));
    }
    for (const PartView& part : expected.parts) RIVULET_RETURN_IF_ERROR(CheckPart(lane, part, result.parts));
    return absl::OkStatus();
  }

  // Checks a step for each batch size of the task, once for all tasks.
  Status CheckSteps(const LaneTask& lane) {
    const std::vector<LocalPass>& passes = programs_->plan().program(lane.task->kind)->passes;
    for (size_t pass = 0; pass < passes.size(); ++pass) {
      LaneWork work = {lane.examples->size(), StepsOf(passes[pass], lane.examples->size())};
      for (const LaneGroup& group : NextEpoch({&work, 1}, passes[pass].batch_size)) {
        const std::tuple step(lane.task->kind, pass, group.batch_size);
        if (checked_.contains(step)) continue;
        RIVULET_RETURN_IF_ERROR(CheckStep(*programs_, device_, pass, group.batch_size, lane));
        checked_.insert(step);
      }
    }
    return absl::OkStatus();
  }

  Status CheckPart(const LaneTask& lane, const PartView& expected, std::span<const PartView> parts) const {
    const auto part = std::ranges::find(parts, expected.name, &PartView::name);
    if (part == parts.end()) return Differs(lane, fmt::format("part '{}' is missing", expected.name));
    std::vector<float> values;
    EachValue(part->runs, [&](float value) { values.push_back(value); });
    ValueDifference difference;
    size_t next = 0;
    EachValue(expected.runs, [&](float value) {
      difference.Take(static_cast<double>(next < values.size() ? values[next] : 0), static_cast<double>(value));
      ++next;
    });
    if (next == values.size() && difference.IsWithin(kUpdateTolerance)) return absl::OkStatus();
    return Differs(lane, fmt::format("part '{}' has {}", expected.name, difference.ToString()));
  }

  Status Differs(const LaneTask& lane, const std::string& what) const {
    return Internal("GPU {} ({}) has trained '{}' otherwise than the host, though each op agrees: {}",
                    device_->number(), device_->properties().name, lane.client_id, what);
  }

  const std::shared_ptr<PassPrograms> programs_;
  const std::shared_ptr<GpuDevice> device_;
  const std::unique_ptr<Trainer> on_device_, on_host_;
  std::set<std::tuple<TaskKind, size_t, int64_t>> checked_;  // steps, by kind, pass and batch size
};

}  // namespace

StatusOr<std::unique_ptr<Trainer>> NewCheckedTrainer(std::shared_ptr<PassPrograms> programs, const TrainingDevice& on) {
  RIVULET_ASSIGN_OR_RETURN(auto on_device, NewGpuTrainer(programs, on));
  RIVULET_ASSIGN_OR_RETURN(auto on_host, Trainer::Create(programs));
  return std::make_unique<CheckedTrainer>(std::move(programs), on, std::move(on_device), std::move(on_host));
}

}  // namespace rivulet
