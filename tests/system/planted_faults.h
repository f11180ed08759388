// Coordinators with one fault each, which fault tests must detect (PlantedFaultTest). A layer between the network and
// an unchanged coordinator adds the fault.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/coordinator.h"
#include "federated/aggregation/aggregation.h"
#include "federated/tasks/task.h"
#include "federated/transport/coordinator_api.h"
#include "tests/testing/forwarding_coordinator.h"

namespace rivulet::testing {

enum class Planted : uint8_t {
  kNothing,
  kAcceptsAgain,  // acknowledges an update every time it arrives
  kFoldsAgain,    // and adds it to its version every time
  kUnfenced,      // accepts any update of a client for the client's present task
  kLyingHistory,  // the coordinator's disk reports unsynced histories as synced
  kLyingReports,  // the same for persisted reports
};

inline bool IsDuplicate(const ChunkWriter& writer) {
  const SubmitResult* const decided = writer.decided();
  return decided != nullptr && decided->kind == SubmitResult::Kind::kDuplicate;
}

class AcceptsAgain final : public ForwardingCoordinator {
 public:
  using ForwardingCoordinator::ForwardingCoordinator;
  StatusOr<std::unique_ptr<ChunkWriter>> Submit(const Caller& caller, const Submission& submission) override {
    class Anything final : public ChunkWriter {
     public:
      std::span<const uint32_t> staged_crcs() const override { return {}; }
      Status Resume(int64_t) override { return absl::OkStatus(); }
      Status Write(std::span<const std::byte>) override { return absl::OkStatus(); }
      StatusOr<SubmitResult> Finish(const Digest&) override { return SubmitResult{}; }
    };
    RIVULET_ASSIGN_OR_RETURN(auto writer, api_.Submit(caller, submission));
    if (IsDuplicate(*writer)) return std::make_unique<Anything>();
    return writer;
  }
};

// A mean that does not remember which updates it has. It is correct for updates that arrive once, so that it can also
// verify the sums of rows.
class ForgetfulMean final : public Aggregation {
 public:
  static constexpr const char* kRule = "forgetful_mean";

  static StatusOr<std::unique_ptr<Aggregation>> Create(const AggregationSpec& spec) {
    AggregationSpec plain = spec;
    plain.rule = "mean";
    plain.updates_per_version = 64 * spec.updates_per_version;  // room for repeated updates
    RIVULET_ASSIGN_OR_RETURN(auto mean, Aggregation::Create(plain));
    return std::unique_ptr<Aggregation>(new ForgetfulMean(spec, std::move(mean)));
  }
  ~ForgetfulMean() override { Open().erase(this); }

  // For an unfinished aggregation with this task's update.
  static void FoldAgain(const TaskId& task) {
    for (ForgetfulMean* const mean : Open()) mean->Repeat(task);
  }

  Status Check(const UpdateView& update, const Weights& weights) const override {
    return mean_->Check(update, weights);
  }
  StatusOr<Taken> Take(const UpdateView& update, const Weights& weights) override {
    RIVULET_ASSIGN_OR_RETURN(const Taken taken, mean_->Take(update, weights));
    Update& copy = updates_[update.task];
    copy = {update.base_version, {}, update.scalars, weights};
    for (const PartView& part : update.parts) {
      copy.parts.emplace_back(part.name, std::vector<std::byte>(part.data.begin(), part.data.end()));
    }
    return taken;
  }
  Status Check(const Partial& partial) const override { return mean_->Check(partial); }
  Status Merge(Partial&& partial) override { return mean_->Merge(std::move(partial)); }
  std::vector<Partial> Save() const override { return mean_->Save(); }
  Partial Extract(int64_t base_version) override { return mean_->Extract(base_version); }
  StatusOr<ServerInput> Finish(const Staleness& staleness) && override {
    Open().erase(this);
    return std::move(*mean_).Finish(staleness);
  }

 private:
  struct Update {
    int64_t base_version = 0;
    std::vector<std::pair<std::string, std::vector<std::byte>>> parts;
    Scalars scalars;
    Weights weights;
  };

  ForgetfulMean(const AggregationSpec& spec, std::unique_ptr<Aggregation> mean)
      : Aggregation(spec), mean_(std::move(mean)) {
    Open().insert(this);
  }
  static std::set<ForgetfulMean*>& Open() {
    static auto* const open = new std::set<ForgetfulMean*>;
    return *open;
  }
  void Repeat(const TaskId& task) {
    const auto found = updates_.find(task);
    if (found == updates_.end()) return;
    const Update& update = found->second;
    std::vector<PartView> parts;
    for (const auto& [name, data] : update.parts) parts.push_back({.name = name, .data = data});
    const TaskId as_another = fmt::format("{} again, {}", task, ++repeated_);
    (void)mean_->Take({as_another, update.base_version, parts, update.scalars}, update.weights);
  }

  const std::unique_ptr<Aggregation> mean_;
  std::map<TaskId, Update> updates_;
  int64_t repeated_ = 0;
};

// Needs plans with the rule ForgetfulMean::kRule.
class FoldsAgain final : public ForwardingCoordinator {
 public:
  using ForwardingCoordinator::ForwardingCoordinator;
  StatusOr<std::unique_ptr<ChunkWriter>> Submit(const Caller& caller, const Submission& submission) override {
    RIVULET_ASSIGN_OR_RETURN(auto writer, api_.Submit(caller, submission));
    if (IsDuplicate(*writer)) ForgetfulMean::FoldAgain(submission.task);
    return writer;
  }
};

// Identifies a lease by the client's name alone, not by the task. So work for an expired lease counts for the next
// one.
class Unfenced final : public ForwardingCoordinator {
 public:
  explicit Unfenced(Coordinator& coordinator) : ForwardingCoordinator(coordinator), coordinator_(coordinator) {}
  StatusOr<std::unique_ptr<ChunkWriter>> Submit(const Caller& caller, const Submission& submission) override {
    Submission counted = submission;
    for (const RunStatus::Work& work : coordinator_.Standing().work) {
      if (work.client_id == caller.name) counted.task = work.task;
    }
    return api_.Submit(caller, counted);
  }

 private:
  Coordinator& coordinator_;
};

inline std::unique_ptr<CoordinatorApi> Plant(Planted fault, Coordinator& coordinator) {
  switch (fault) {
    case Planted::kAcceptsAgain:
      return std::make_unique<AcceptsAgain>(coordinator);
    case Planted::kFoldsAgain:
      return std::make_unique<FoldsAgain>(coordinator);
    case Planted::kUnfenced:
      return std::make_unique<Unfenced>(coordinator);
    case Planted::kNothing:
    case Planted::kLyingHistory:
    case Planted::kLyingReports:
      break;
  }
  return std::make_unique<ForwardingCoordinator>(coordinator);
}

}  // namespace rivulet::testing
