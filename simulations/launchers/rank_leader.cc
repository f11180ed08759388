#include <algorithm>
#include <chrono>
#include <iterator>
#include <optional>
#include <set>
#include <utility>

#include "client/calls/coordinator_calls.h"
#include "engine/base/display_name.h"
#include "simulations/launchers/joined_partials.h"
#include "simulations/launchers/rank_crew.h"
#include "simulations/launchers/rank_messages.h"
#include "simulations/launchers/split_by_cost.h"

namespace rivulet {
namespace {

// All tasks of the coordinator: a cohort is distributed as a whole.
constexpr int64_t kAll = int64_t{1} << 40;
constexpr int64_t kMostThreads = 1 << 16;  // per rank: SplitByCost has an entry for each
constexpr size_t kMostWords = 2000;        // bytes of another rank's text in an error

// Inputs from the coordinator in this process.
class CoordinatorInputs final : public TaskInputs {
 public:
  CoordinatorInputs(Coordinator& coordinator, StopSignal& stop, Caller caller)
      : coordinator_(coordinator), calls_(coordinator, stop), caller_(std::move(caller)) {}
  StatusOr<std::shared_ptr<const Model>> ModelOf(const BlobId& id) override {
    return coordinator_.FetchInPlace(caller_, id);
  }
  StatusOr<std::string> BytesOf(const BlobId& id) override {
    MutexLock lock(mutex_);
    return calls_.Fetch(caller_, id, kAnyBytes);
  }

 private:
  Coordinator& coordinator_;
  Mutex mutex_;
  CoordinatorCalls calls_ GUARDED_BY(mutex_);
  const Caller caller_;
};

std::vector<TaskGathering> GatheringsOf(const std::vector<Task>& tasks) {
  std::map<uint64_t, TaskGathering> gatherings;
  for (const Task& task : tasks) gatherings[task.gather] = {task.gather, task.kind, task.base_version};
  std::vector<TaskGathering> all;
  for (const auto& [gather, gathering] : gatherings) all.push_back(gathering);
  return all;
}

}  // namespace

RankLeader::RankLeader(Ranks& ranks, Coordinator& coordinator, VirtualClients& clients, RankLeaderOptions options)
    : ranks_(ranks),
      coordinator_(coordinator),
      options_(std::move(options)),
      caller_{.name = "ranks", .run_id = options_.run_id},
      inputs_(std::make_unique<CoordinatorInputs>(coordinator, stop_, caller_)),
      slice_(*options_.plan, *inputs_, options_.workers),
      sites_(slice_, clients,
             {.threads = options_.workers,
              .site = SiteOfRank({.name = "worker",
                                  .run_id = options_.run_id,
                                  .version = "rank",
                                  .instruments = options_.instruments,
                                  .states = options_.states,
                                  .device = options_.device}),
              .on_error = [this](const Status& status) { slice_.End(status); }}) {}

RankLeader::~RankLeader() {
  slice_.End(Cancelled("stopped"));
  sites_.Stop();
  sites_.Join();
}

void RankLeader::Stop() { stop_.Stop(); }

Status RankLeader::Begin(const Invitation& invitation) {
  std::string join = std::move(Packer()
                                   .Number(static_cast<int64_t>(RankOrder::kJoin))
                                   .Text(invitation.ToBytes())
                                   .Text(options_.plan->bytes()))
                         .Take();
  ranks_.Broadcast(join);
  const std::vector<std::string> answers = ranks_.Gather("");
  capacities_ = {options_.workers};
  for (size_t rank = 1; rank < answers.size(); ++rank) {
    Unpacker answer(answers[rank]);
    const std::string_view error = answer.Text();
    if (!error.empty()) return FailedPrecondition("rank {} cannot take part: {}", rank, DisplayText(error, kMostWords));
    const auto threads = answer.Number<int64_t>();
    if (threads < 1 || threads > kMostThreads) {
      return FailedPrecondition(
          "rank {} trains with {} threads, and 1 to {} are possible; start one program on all ranks", rank, threads,
          kMostThreads);
    }
    capacities_.push_back(threads);
    const std::string_view trains_on = answer.Text();
    const std::string own = NameOf(options_.device);
    if (trains_on == own) continue;
    return FailedPrecondition(
        "rank {} trains on '{}' and rank 0 on '{}', and a run's updates are those of one model of GPU; start ranks "
        "where GPUs are of one model",
        rank, DisplayText(trains_on, kMostWords), own);
  }
  return absl::OkStatus();
}

Status RankLeader::Run() {
  sites_.Start();
  while (!stop_.stopped()) {
    PollReply last;
    RIVULET_ASSIGN_OR_RETURN(const std::vector<Task> tasks, AskForAll(&last));
    if (!tasks.empty()) {
      RIVULET_RETURN_IF_ERROR(Step(tasks));
    } else if (last.over) {
      return absl::OkStatus();
    } else if (last.hand_over.empty()) {
      coordinator_.AwaitWork(caller_, last.epoch, last.wait_ms);
    }
  }
  return Cancelled("stopped");
}

// The coordinator gives half of its tasks at a time, for the sake of other sites; here there are none.
StatusOr<std::vector<Task>> RankLeader::AskForAll(PollReply* last) {
  std::vector<Task> tasks;
  for (;;) {
    RIVULET_ASSIGN_OR_RETURN(*last, Ask(tasks));
    RIVULET_RETURN_IF_ERROR(Obey(*last));
    std::erase_if(tasks, [&](const Task& task) { return std::ranges::count(last->cancelled, task.id) > 0; });
    if (last->tasks.empty()) return tasks;
    std::move(last->tasks.begin(), last->tasks.end(), std::back_inserter(tasks));
  }
}

// As a site does (client/site/site.h): held tasks are listed once, and one of them again, to learn whether the sum is
// wanted.
StatusOr<PollReply> RankLeader::Ask(const std::vector<Task>& tasks) {
  PollRequest request;
  request.caller = caller_;
  request.capabilities.version = "rank";
  request.serves.kind = Serves::Kind::kAny;
  request.want = kAll;
  for (const Task& task : tasks) request.working_on.push_back({task.id, false});
  for (auto& [gather, held] : held_) {
    if (held.told > 0) request.working_on.push_back({held.records[0].task, true});
    for (size_t i = held.told; i < held.records.size(); ++i) request.working_on.push_back({held.records[i].task, true});
    held.told = held.records.size();
  }
  return coordinator_.Poll(request);
}

Status RankLeader::Obey(const PollReply& reply) {
  for (const TaskOutcome& outcome : reply.outcomes) {
    const std::optional<TaskName> name = TaskNameOf(outcome.task, options_.run_id);
    if (options_.states == nullptr || !name) continue;
    if (outcome.end != TaskEnd::kFolded) {
      options_.states->Forget(options_.run_id, name->client_id, outcome.task);
    } else if (outcome.durable) {
      options_.states->Durable(options_.run_id, name->client_id, outcome.task);
    }
  }
  for (const TaskId& task : reply.cancelled) RIVULET_RETURN_IF_ERROR(Forget(task));
  for (const rivulet::HandOver& wanted : reply.hand_over) RIVULET_RETURN_IF_ERROR(HandOver(wanted.gather));
  return absl::OkStatus();
}

Status RankLeader::HandOver(uint64_t gather) {
  auto node = held_.extract(gather);
  if (node.empty()) return Internal("the coordinator asks for a partial that its ranks have not");
  Held& held = node.mapped();
  const StatusOr<SubmitResult> result =
      coordinator_.SubmitInPlace(caller_, held.aggregation->Extract(held.gathering.base_version), held.records);
  // A stopped run's updates are trained again when it is resumed.
  return absl::IsUnavailable(result.status()) ? absl::OkStatus() : result.status();
}

Status RankLeader::Fail(const TaskFailure& failure) {
  const Status told = coordinator_.Fail(caller_, failure);
  return absl::IsNotFound(told) ? absl::OkStatus() : told;  // it has ended otherwise
}

// Nothing can be subtracted from a sum, so the whole gathering is dropped.
Status RankLeader::Forget(const TaskId& cancelled) {
  const auto held = std::ranges::find_if(held_, [&](const auto& held) {
    return std::ranges::any_of(held.second.records, [&](const auto& record) { return record.task == cancelled; });
  });
  if (held == held_.end()) return absl::OkStatus();
  const std::vector<TaskRecord> gone = std::move(held->second.records);
  held_.erase(held);
  for (const TaskRecord& record : gone) {
    if (record.task == cancelled) continue;
    RIVULET_RETURN_IF_ERROR(
        Fail({.task = record.task, .sentence = "its update was gathered with one that was cancelled"}));
  }
  return absl::OkStatus();
}

Status RankLeader::Step(const std::vector<Task>& tasks) {
  const std::vector<TaskGathering> gatherings = GatheringsOf(tasks);
  RIVULET_ASSIGN_OR_RETURN(std::string order, OrderOf(tasks, gatherings));
  ranks_.Broadcast(order);
  std::vector<Task> own;
  const std::vector<std::string> parts = Deal(tasks, &own);
  (void)ranks_.Scatter(parts);
  StatusOr<LocalTaskServer::Done> done = slice_.Do(std::move(own));
  Status status = done.status();
  if (!done.ok()) done.emplace();
  const std::vector<std::string> reports = ranks_.Gather("");
  for (size_t rank = 1; rank < reports.size(); ++rank) status.Update(TakeReport(reports[rank], *done));
  // A task that no rank answers for would be awaited forever: leases of a simulation never expire.
  std::set<TaskId> unanswered;
  for (const Task& task : tasks) unanswered.insert(task.id);
  const auto answered = [&](const TaskId& task) -> Status {
    if (unanswered.erase(task) == 1) return absl::OkStatus();
    return Internal("a rank answered for a task that it does not have, '{}'; start one program on all ranks",
                    DisplayText(task, 80));
  };
  for (const TaskFailure& failure : done->failures) status.Update(answered(failure.task));
  for (const TaskGathering& gathering : gatherings) {
    StatusOr<LocalTaskServer::Folded> all =
        JoinPartials(ranks_, options_.plan->aggregation(gathering.kind), gathering.base_version,
                     std::move(done->folded[gathering.gather]));
    status.Update(all.status());
    for (size_t i = 0; status.ok() && i < all->records.size(); ++i) status = answered(all->records[i].task);
    if (status.ok()) status = Keep(gathering, *std::move(all));
  }
  RIVULET_RETURN_IF_ERROR(status);
  if (!unanswered.empty()) {
    return Internal(
        "a rank answered for other tasks than its own ({} of {} are missing, '{}' is one); start one program "
        "on all ranks",
        unanswered.size(), tasks.size(), *unanswered.begin());
  }
  for (const TaskFailure& failure : done->failures) RIVULET_RETURN_IF_ERROR(Fail(failure));
  return absl::OkStatus();
}

// Inputs that a rank has from the last step are not sent again.
StatusOr<std::string> RankLeader::OrderOf(const std::vector<Task>& tasks,
                                          const std::vector<TaskGathering>& gatherings) {
  Packer order;
  order.Number(static_cast<int64_t>(RankOrder::kStep));
  PutAll(order, gatherings);
  std::map<std::pair<BlobId::Form, Digest>, BlobId> wanted;
  for (const Task& task : tasks) {
    for (const NamedBlob& input : task.inputs) {
      if (input.id.form != BlobId::Form::kState) wanted[{input.id.form, input.id.digest}] = input.id;
    }
  }
  order.Number(wanted.size());
  for (const auto& [key, id] : wanted) {
    Put(order, id);
    const bool sent = sent_.contains(key);
    order.Number(int64_t{sent});
    if (sent) continue;
    RIVULET_ASSIGN_OR_RETURN(const std::string bytes, inputs_->BytesOf(id));
    order.Text(bytes);
  }
  sent_.clear();
  for (const auto& [key, id] : wanted) sent_.insert(key);
  return std::move(order).Take();
}

// A missing state is not sent, and its task fails when it needs the state.
std::vector<std::string> RankLeader::Deal(const std::vector<Task>& tasks, std::vector<Task>* own) {
  std::vector<int64_t> costs;
  for (const Task& task : tasks) costs.push_back(options_.cost(task));
  const std::vector<std::vector<size_t>> split = SplitByCost(costs, capacities_);
  for (const size_t task : split[0]) own->push_back(tasks[task]);
  std::vector<std::string> parts(1);
  for (size_t rank = 1; rank < split.size(); ++rank) {
    Packer part;
    part.Number(split[rank].size());
    for (const size_t index : split[rank]) {
      const Task& task = tasks[index];
      Put(part, task);
      std::string state;
      if (options_.states != nullptr && !task.state_of.empty()) {
        if (auto read = options_.states->Read(options_.run_id, task.client_id, task.state_of); read.ok()) {
          state = *std::move(read);
        }
      }
      part.Text(state);
    }
    parts.push_back(std::move(part).Take());
  }
  return parts;
}

Status RankLeader::TakeReport(const std::string& bytes, LocalTaskServer::Done& done) {
  Unpacker report(bytes);
  const std::string_view error = report.Text();
  if (!error.empty()) return Aborted("a rank failed: {}", DisplayText(error, kMostWords));
  for (TaskFailure& failure : TakeAll(report, TakeFailure)) done.failures.push_back(std::move(failure));
  for (size_t left = report.Number<size_t>(); left > 0 && report.ok(); --left) {
    const std::string_view client_id = report.Text();
    const TaskId task(report.Text());
    const std::string_view state = report.Text();
    if (!report.ok() || options_.states == nullptr) break;
    RIVULET_RETURN_IF_ERROR(options_.states->Propose(options_.run_id, client_id, task, std::string(state)));
  }
  return report.ok() ? absl::OkStatus() : Internal("a rank reports otherwise than this version does");
}

Status RankLeader::Keep(const TaskGathering& gathering, LocalTaskServer::Folded all) {
  if (all.records.empty()) return absl::OkStatus();
  Held& held = held_[gathering.gather];
  held.gathering = gathering;
  if (held.aggregation == nullptr) {
    RIVULET_ASSIGN_OR_RETURN(held.aggregation, Aggregation::Create(options_.plan->aggregation(gathering.kind)));
  }
  RIVULET_RETURN_IF_ERROR(held.aggregation->Merge(std::move(all.partial)));
  std::move(all.records.begin(), all.records.end(), std::back_inserter(held.records));
  return absl::OkStatus();
}

void DismissRanks(Ranks& ranks) {
  std::string order = std::move(Packer().Number(static_cast<int64_t>(RankOrder::kDismiss))).Take();
  ranks.Broadcast(order);
}

}  // namespace rivulet
