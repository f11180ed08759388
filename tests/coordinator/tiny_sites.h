// A tiny run by one site of many names, in the coordinator's process or as if from another one.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "client/site/remote_client_state.h"
#include "coordinator/coordinator.h"
#include "federated/aggregation/aggregation.h"
#include "federated/updates/task_records.h"
#include "test_run.h"
#include "tests/testing/partial_bytes.h"
#include "tests/testing/record_of.h"

namespace rivulet {

enum class SitePlace { kThisProcess, kAnother };

// What its site does, for who remembers it.
struct SiteWatch {
  std::function<void(const TaskId& task)> given;
  std::function<void(const std::vector<TaskRecord>& records)> acknowledged;  // as a partial
  std::function<void()> step;                                                // before and after each call of an upload
};

// One site's partials of the updates that FakeDelta makes up.
class TinySite {
 public:
  // `states`: null where clients keep nothing.
  TinySite(Coordinator& coordinator, AggregationSpec spec, SitePlace place, ClientStateStore* states = nullptr,
           SiteWatch watch = {})
      : coordinator_(coordinator), spec_(std::move(spec)), place_(place), states_(states), watch_(std::move(watch)) {}

  // Until the run is over.
  Status Run() {
    while (true) {
      PollRequest request;
      request.caller = caller_;
      request.serves.kind = Serves::Kind::kAny;
      request.want = 4;
      request.working_on = std::exchange(held_, {});
      RIVULET_ASSIGN_OR_RETURN(const PollReply reply, coordinator_.Poll(request));
      if (reply.over) return absl::OkStatus();
      for (const HandOver& wanted : reply.hand_over) RIVULET_RETURN_IF_ERROR(HandOverOf(wanted.gather));
      for (const Task& task : reply.tasks) RIVULET_RETURN_IF_ERROR(Work(task));
      if (reply.tasks.empty() && reply.hand_over.empty()) coordinator_.AwaitWork(caller_, reply.epoch, 10);
    }
  }

 private:
  struct Open {
    std::unique_ptr<Aggregation> aggregation;
    int64_t base_version = 0;
    std::vector<TaskRecord> records;
  };

  Status Work(const Task& task) {
    if (watch_.given) watch_.given(task.id);
    RIVULET_ASSIGN_OR_RETURN(const auto base, coordinator_.FetchInPlace(caller_, task.input("model")->id));
    RIVULET_ASSIGN_OR_RETURN(const std::vector<float> delta, DeltaOf(task, *base, states_));
    const int64_t examples = 10 + static_cast<int64_t>(task.client_id.back() - '0');
    Open& open = open_[task.gather];
    if (open.aggregation == nullptr) open.aggregation = *Aggregation::Create(spec_);
    open.base_version = task.base_version;
    const PartView part{.name = "delta", .data = std::as_bytes(std::span(delta))};
    TaskRecord record = RecordOf(task.id, {{"examples", static_cast<double>(examples)}, {"steps", 6}});
    record.declared["train_loss"] = 0.5;
    RIVULET_ASSIGN_OR_RETURN(const Weights weights, WeightsOf(spec_, record.declared, {}));
    RIVULET_ASSIGN_OR_RETURN(
        const auto taken, open.aggregation->Take({task.id, task.base_version, {&part, 1}, record.declared}, weights));
    record.update_norm = taken.norm;
    open.records.push_back(std::move(record));
    held_.push_back({task.id, true});
    return absl::OkStatus();
  }

  Status HandOverOf(uint64_t gather) {
    const Open open = std::move(open_.extract(gather).mapped());
    Partial partial = open.aggregation->Extract(open.base_version);
    if (place_ == SitePlace::kThisProcess) {
      return coordinator_.SubmitInPlace(caller_, std::move(partial), open.records).status();
    }
    const std::string bytes = WriteTaskRecords(open.records) + testing::BytesOf(spec_, partial);
    Submission submission;
    submission.kind = Submission::Kind::kPartial;
    submission.gather = gather;
    submission.bytes = std::ssize(bytes);
    RIVULET_ASSIGN_OR_RETURN(const SubmitResult result,
                             SendInBlocks(coordinator_, caller_, submission, bytes, watch_.step));
    if (result.kind == SubmitResult::Kind::kAccepted && watch_.acknowledged) watch_.acknowledged(open.records);
    return absl::OkStatus();
  }

  Coordinator& coordinator_;
  const AggregationSpec spec_;
  const SitePlace place_;
  ClientStateStore* const states_;
  const SiteWatch watch_;
  const Caller caller_ = As("site 1");
  std::vector<TaskProgress> held_;  // to be told
  std::map<uint64_t, Open> open_;
};

// As RunTiny, with all clients members from the start.
inline StatusOr<std::map<int64_t, std::string>> RunTinySite(CoordinatorOptions options, const RunParts& parts,
                                                            int64_t clients, SitePlace place, SiteWatch watch = {}) {
  options.population = NumberedPopulation(clients);
  const std::string db = options.db_path;
  std::string run_id;
  {
    RIVULET_ASSIGN_OR_RETURN(const auto coordinator, CreateCoordinator(options, parts));
    run_id = coordinator->run_id();
    StopSignal stop;
    std::unique_ptr<ClientStateStore> states;
    if (parts.keeps_state && place == SitePlace::kThisProcess) {
      states = NewStateStore(FileSystem::Default(), FolderOf(coordinator->folder()), false);
    } else if (parts.keeps_state) {
      states = std::make_unique<RemoteClientState>(*coordinator, stop, As("site 1"), CallOptions());
    }
    RIVULET_RETURN_IF_ERROR(TinySite(*coordinator, parts.aggregation, place, states.get(), std::move(watch)).Run());
    RIVULET_RETURN_IF_ERROR(coordinator->Wait());
  }
  return DigestsOfRun(db, run_id);
}

}  // namespace rivulet
