// The part of every rank except 0.
#include <unistd.h>

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include "client/training/device/gpu_trainer.h"
#include "engine/base/available_cores.h"
#include "engine/base/available_memory.h"
#include "simulations/clients/planned_tasks.h"
#include "simulations/launchers/joined_partials.h"
#include "simulations/launchers/rank_crew.h"
#include "simulations/launchers/rank_messages.h"

namespace rivulet {
namespace {

// The inputs of this step that rank 0 has sent. Models are stored once they are read.
class SentInputs final : public TaskInputs {
 public:
  SentInputs(std::shared_ptr<const Plan> plan, ArtifactCache& artifacts)
      : plan_(std::move(plan)), artifacts_(artifacts) {}

  void Take(Unpacker& from) {
    MutexLock lock(mutex_);
    std::map<Key, std::string> inputs;
    for (size_t left = from.Number<size_t>(); left > 0 && from.ok(); --left) {
      const BlobId id = TakeBlob(from);
      const Key key(id.form, id.digest);
      const bool known = from.Number<int64_t>() != 0;
      inputs[key] = known ? std::move(inputs_[key]) : std::string(from.Text());
    }
    inputs_ = std::move(inputs);
  }
  StatusOr<std::shared_ptr<const Model>> ModelOf(const BlobId& id) override {
    return artifacts_.ModelVersion(id.digest, *plan_, [&] { return BytesOf(id); });
  }
  StatusOr<std::string> BytesOf(const BlobId& id) override {
    if (id == BlobId{BlobId::Form::kBytes, plan_->digest()}) return std::string(plan_->bytes());
    MutexLock lock(mutex_);
    const auto found = inputs_.find({id.form, id.digest});
    if (found == inputs_.end()) return NotFound("rank 0 has sent no blob {}", id.digest.Hex());
    return found->second;
  }

 private:
  using Key = std::pair<BlobId::Form, Digest>;
  const std::shared_ptr<const Plan> plan_;
  ArtifactCache& artifacts_;
  Mutex mutex_;
  std::map<Key, std::string> inputs_ GUARDED_BY(mutex_);
};

// Clients' states under way: they arrive with their tasks, and proposals return with the step's report.
class SentStates final : public ClientStateStore {
 public:
  struct Proposal {
    std::string client_id;
    TaskId task;
    StateBlob state;
  };

  void Bring(const TaskId& task, StateBlob state) {
    MutexLock lock(mutex_);
    if (!state.empty()) brought_[task] = std::move(state);
  }
  std::vector<Proposal> TakeProposals() {
    MutexLock lock(mutex_);
    brought_.clear();
    return std::exchange(proposals_, {});
  }

  StatusOr<StateBlob> Read(std::string_view, std::string_view client_id, const TaskId& state_of) override {
    if (state_of.empty()) return StateBlob();
    MutexLock lock(mutex_);
    const auto found = brought_.find(state_of);
    if (found != brought_.end()) return found->second;
    return NotFound("client '{}' has no state of task '{}'", client_id, state_of);
  }
  Status Propose(std::string_view, std::string_view client_id, const TaskId& task, StateBlob state) override {
    MutexLock lock(mutex_);
    proposals_.push_back({std::string(client_id), task, std::move(state)});
    return absl::OkStatus();
  }
  void Durable(std::string_view, std::string_view, const TaskId&) override {}
  void Forget(std::string_view, std::string_view, const TaskId& task) override {
    MutexLock lock(mutex_);
    std::erase_if(proposals_, [&](const Proposal& proposal) { return proposal.task == task; });
  }

 private:
  Mutex mutex_;
  std::map<TaskId, StateBlob> brought_ GUARDED_BY(mutex_);
  std::vector<Proposal> proposals_ GUARDED_BY(mutex_);
};

class RankFollower {
 public:
  static StatusOr<std::unique_ptr<RankFollower>> Join(Unpacker& order, const Ranks& ranks,
                                                      const RankFollowerOptions& options) {
    RIVULET_ASSIGN_OR_RETURN(TrainingDevice device, options.device);
    RIVULET_ASSIGN_OR_RETURN(const Invitation invitation, Invitation::FromBytes(order.Text()));
    RIVULET_ASSIGN_OR_RETURN(std::shared_ptr<const Plan> plan, Plan::Open(std::string(order.Text())));
    RIVULET_ASSIGN_OR_RETURN(std::unique_ptr<VirtualClients> clients, JoinSimulation(invitation, ""));
    RIVULET_RETURN_IF_ERROR(Place(plan, device));
    int workers = options.workers > 0 ? options.workers : device.device != nullptr ? 1 : WorkersOfRank(ranks);
    if (workers > 1 && device.device == nullptr) {
      workers = ThreadsToTrain(PlannedTasks::Create(*clients, plan), workers, MemoryOfRank(0, &ranks), nullptr);
    }
    return std::make_unique<RankFollower>(invitation.run_id, std::move(plan), std::move(clients), workers,
                                          std::move(device));
  }

  RankFollower(const std::string& run_id, std::shared_ptr<const Plan> plan, std::unique_ptr<VirtualClients> clients,
               int workers, TrainingDevice device)
      : plan_(std::move(plan)),
        clients_(std::move(clients)),
        inputs_(plan_, clients_->artifacts()),
        slice_(*plan_, inputs_, workers),
        workers_(workers),
        trains_on_(NameOf(device)),
        sites_(slice_, *clients_,
               {.threads = workers,
                .site = SiteOfRank({.name = "worker",
                                    .run_id = run_id,
                                    .version = "rank",
                                    .states = &states_,
                                    .device = std::move(device)}),
                .on_error = [this](const Status& status) { slice_.End(status); }}) {
    sites_.Start();
  }
  ~RankFollower() {
    slice_.End(Cancelled("stopped"));
    sites_.Stop();
    sites_.Join();
  }

  int workers() const { return workers_; }
  std::string_view trains_on() const { return trains_on_; }

  // Takes part in every exchange of the step, also after an error, which the report contains. INTERNAL: the order is
  // unreadable, so the step's exchanges are unknown.
  Status Step(Ranks& ranks, Unpacker& order) {
    const std::vector<TaskGathering> gatherings = TakeAll(order, TakeGathering);
    inputs_.Take(order);
    if (!order.ok()) {
      return Internal("rank 0 sends a step that this program cannot read; start one program on all ranks");
    }
    const std::string bytes = ranks.Scatter({});
    Unpacker part(bytes);
    std::vector<Task> tasks;
    for (size_t left = part.Number<size_t>(); left > 0 && part.ok(); --left) {
      tasks.push_back(TakeTask(part));
      states_.Bring(tasks.back().state_of, StateBlob(part.Text()));
    }
    if (wrong_.ok() && !part.ok()) wrong_ = Internal("rank 0 sends another version of the messages");
    StatusOr<LocalTaskServer::Done> done = wrong_.ok() ? slice_.Do(std::move(tasks)) : wrong_;
    wrong_ = done.status();
    if (!done.ok()) done.emplace();
    (void)ranks.Gather(ReportOf(*done));
    for (const TaskGathering& gathering : gatherings) {
      const auto joined = JoinPartials(ranks, plan_->aggregation(gathering.kind), gathering.base_version,
                                       std::move(done->folded[gathering.gather]));
      if (wrong_.ok()) wrong_ = joined.status();
    }
    return absl::OkStatus();
  }

 private:
  // As rank 0 does with its own.
  static Status Place(const std::shared_ptr<const Plan>& plan, TrainingDevice& device) {
    if (device.device == nullptr) return absl::OkStatus();
    const Status can = CheckTraining(plan, device);
    if (can.ok() || !device.soft || !absl::IsUnimplemented(can)) return can;
    device = {};
    return absl::OkStatus();
  }
  std::string ReportOf(const LocalTaskServer::Done& done) {
    Packer report;
    report.Text(wrong_.ok() ? "" : Message(wrong_));
    PutAll(report, done.failures);
    const std::vector<SentStates::Proposal> proposals = states_.TakeProposals();
    report.Number(proposals.size());
    for (const auto& [client_id, task, state] : proposals) report.Text(client_id).Text(task).Text(state);
    return std::move(report).Take();
  }

  const std::shared_ptr<const Plan> plan_;
  const std::unique_ptr<VirtualClients> clients_;
  SentInputs inputs_;
  SentStates states_;
  LocalTaskServer slice_;
  const int workers_;
  const std::string trains_on_;
  SiteThreads sites_;
  Status wrong_;
};

}  // namespace

int WorkersOfRank(const Ranks& ranks) {
  const int all = static_cast<int>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));
  return std::min(AvailableCores(), std::max(1, all / std::max(ranks.local(), 1)));
}

int64_t MemoryOfRank(int64_t memory, const Ranks* ranks) {
  if (memory > 0) return memory;
  const size_t all = std::min<size_t>(AvailableMemory(), std::numeric_limits<int64_t>::max());
  return static_cast<int64_t>(all) / (ranks == nullptr ? 1 : std::max(ranks->local(), 1));
}

size_t DeviceOfRank(const Ranks& ranks, size_t devices) {
  return static_cast<size_t>(std::max(ranks.local_rank(), 0)) % std::max<size_t>(devices, 1);
}

std::string NameOf(const TrainingDevice& device) {
  return device.device == nullptr ? "the processor" : device.device->properties().name;
}

SiteOptions SiteOfRank(SiteOptions site) {
  site.calls.max_plan_bytes = kAnyBytes;  // plans come from this process
  if (site.device.device == nullptr) return site;
  site.least_tasks = site.device.most_lanes;
  site.most_tasks = std::max(site.most_tasks, site.least_tasks);
  return site;
}

Status FollowRanks(Ranks& ranks, RankFollowerOptions options) {
  std::unique_ptr<RankFollower> follower;
  for (;;) {
    std::string bytes;
    ranks.Broadcast(bytes);
    Unpacker order(bytes);
    const auto number = order.Number<int64_t>();
    if (!order.ok()) {
      return Internal("rank 0 sends an order of {} bytes, which names none; start one program on all ranks",
                      bytes.size());
    }
    switch (static_cast<RankOrder>(number)) {
      case RankOrder::kJoin: {
        auto joined = RankFollower::Join(order, ranks, options);
        const Status wrong = joined.status();
        if (joined.ok()) follower = *std::move(joined);
        const int64_t places = follower == nullptr ? 0 : follower->workers();
        const std::string_view trains_on = follower == nullptr ? "" : follower->trains_on();
        (void)ranks.Gather(
            std::move(Packer().Text(wrong.ok() ? "" : Message(wrong)).Number(places).Text(trains_on)).Take());
        break;
      }
      case RankOrder::kStep:
        if (follower == nullptr) {
          return Internal("rank 0 orders a step of a rank that takes part in no run; start one program on all ranks");
        }
        RIVULET_RETURN_IF_ERROR(follower->Step(ranks, order));
        break;
      case RankOrder::kDismiss:
        return absl::OkStatus();
      default:
        return Internal("rank 0 sends order {}, which this program does not know; start one program on all ranks",
                        number);
    }
  }
}

}  // namespace rivulet
