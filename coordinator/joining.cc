// Who takes part: whoever polls with what the run wants becomes a member, and its row is written before it is drawn.
#include <algorithm>

#include "coordinator/run_coordinator.h"
#include "engine/base/display_name.h"

namespace rivulet {
namespace {

// So long a client that was silent may be reached on another way than before.
constexpr TimeMs kWayForgottenMs = 60'000;

}  // namespace

Status RunCoordinator::CheckProtocol(const PollRequest& request) const {
  const auto& [version, protocol, datasets] = request.capabilities;
  if (protocol == kProtocol) return absl::OkStatus();
  return FailedPrecondition(
      "client '{}' (version '{}') speaks protocol {}, and this coordinator {}; install the same version at both",
      request.caller.name, DisplayText(version, 40), protocol, kProtocol);
}

// Before the name is known to anybody: who cannot train is no member. Who speaks for all others binds their data task
// by task, and says why when there is none.
Status RunCoordinator::CheckAble(const std::string& client_id, const std::vector<DatasetOffer>& datasets) const {
  for (const DatasetOffer& offer : datasets) {
    if (offer.name != parts_.dataset) continue;
    if (offer.examples < 1) {
      return InvalidArgument("client '{}' has no examples in its data set '{}'; give it at least one", client_id,
                             offer.name);
    }
    // Every update of it would be refused, after it was trained for, in every round that draws it.
    const AggregationSpec& aggregation = parts_.aggregation;
    if (const int64_t most = aggregation.max_weight; aggregation.weighs_examples() && offer.examples > most) {
      return InvalidArgument("client '{}' has {} examples, and server.max_weight is {}; raise it", client_id,
                             offer.examples, most);
    }
    const SelectionConfig& selection = options_.scenario.selection;
    if (offer.examples < selection.min_examples) {
      return InvalidArgument("client '{}' has {} examples, and this run is of clients with at least {}", client_id,
                             offer.examples, selection.min_examples);
    }
    for (const std::string& tag : selection.tags) {
      if (std::ranges::count(offer.tags, tag) > 0) continue;
      return InvalidArgument("client '{}' is not tagged '{}', as the clients of this run are; start it with --tag {}",
                             client_id, tag, tag);
    }
    return absl::OkStatus();
  }
  return InvalidArgument("client '{}' has bound no data set '{}', on which this run trains; bind one", client_id,
                         parts_.dataset);
}

// Who has lately been reached on another way still is. A client that calls itself is believed at once: nobody else can
// know better where it is.
Status RunCoordinator::MayServe(const std::string& aggregator, const std::string& client_id) const {
  if (client_id == aggregator || aggregators_.contains(client_id)) {
    return InvalidArgument("client '{}' bears the name of an aggregator; give it another", client_id);
  }
  const auto called = called_.find(client_id);
  if (called == called_.end() || !machine_.knows(client_id) || machine_.via(client_id) == aggregator)
    return absl::OkStatus();
  const std::string& via = machine_.via(client_id);
  if (Now() - called->second >= kWayForgottenMs) return absl::OkStatus();
  return Unavailable(
      "client '{}' is served {} and not through aggregator '{}'; it may change its way after {} s of silence",
      client_id, via.empty() ? "directly" : fmt::format("through aggregator '{}'", via), aggregator,
      kWayForgottenMs / 1000);
}

// A process of an aggregator that was started again knows nothing of what the one before it held: all of that is done
// again, by the same clients. Should the one before live, it is told.
Status RunCoordinator::AdmitAggregator(const PollRequest& request, std::vector<RefusedName>* refused_names) {
  const Caller& caller = request.caller;
  RIVULET_RETURN_IF_ERROR(CheckProtocol(request));
  RIVULET_RETURN_IF_ERROR(CheckTrusted(caller));
  if (machine_.knows(caller.name)) {
    return PermissionDenied("a client of this run is called '{}' too; give the aggregator another name", caller.name);
  }
  RIVULET_ASSIGN_OR_RETURN(const AggregatorSessions::Came came, aggregators_.Admit(caller));
  if (came == AggregatorSessions::Came::kInPlace) Feed(SiteLost{caller.name});
  if (came == AggregatorSessions::Came::kNew) {
    Say(Note("info", fmt::format("aggregator '{}' has come", caller.name), machine_.round()));
  }
  return AddClientsOf(caller.name, request.serves.names, refused_names);
}

// A poll that is refused leaves nothing behind but a count: whoever has neither the data nor a place may come as often
// and under as many names as it likes.
Status RunCoordinator::Admit(const PollRequest& request, std::vector<RefusedName>* refused_names) {
  if (request.serves.kind == Serves::Kind::kAny) return CheckProtocol(request);
  const std::string& name = request.caller.name;
  Status admitted;
  std::string refused;
  int64_t round = 0;
  {
    MutexLock lock(mutex_);
    BeginRun();
    TickIfDue();
    if (machine_.over()) return absl::OkStatus();
    if (request.serves.kind == Serves::Kind::kNames) {
      admitted = AdmitAggregator(request, refused_names);
    } else {
      admitted = CheckProtocol(request);
      if (admitted.ok()) admitted = CheckAble(name, request.capabilities.datasets);
      if (admitted.ok() && aggregators_.contains(name)) {
        admitted = InvalidArgument("client '{}' bears the name of an aggregator; give it another", name);
      }
      if (admitted.ok()) admitted = AddClient(name);
      if (admitted.ok()) {
        called_[name] = Now();
        if (!machine_.via(name).empty()) Feed(ClientsJoined{{name}, ""});
      }
    }
    const Status& first = admitted.ok() && !refused_names->empty() ? refused_names->front().reason : admitted;
    if (absl::IsInvalidArgument(first) || absl::IsFailedPrecondition(first)) {
      refused = refusals_.Count(Message(first), NowUnixMs());
      round = machine_.round();
    }
  }
  if (!refused.empty()) Tell(Note("warning", std::move(refused), round));
  if (!admitted.ok()) Drain();
  return admitted;
}

// A new name's row comes before the name is known to the machine: one that was drawn before a crash must be a candidate
// after it. A disk may take long over a row, and another process longer; other clients' polls must not wait for it, so
// it is written without the lock, by whoever comes first, for all who came meanwhile. No cohort is drawn while a row is
// being written, as the row says from which draw on its name counts.
Status RunCoordinator::AddClient(const std::string& client_id) {
  RIVULET_RETURN_IF_ERROR(MayJoin(client_id));
  if (machine_.knows(client_id)) return absl::OkStatus();
  return WaitForRows({{client_id, ""}});
}

Status RunCoordinator::AddClientsOf(const std::string& aggregator, const std::vector<ServedName>& names,
                                    std::vector<RefusedName>* refused_names) {
  std::vector<std::pair<std::string, std::string>> fresh;
  std::vector<std::string> moved;
  for (const ServedName& served : names) {
    Status able = CheckAble(served.name, served.datasets);
    if (able.ok()) able = MayServe(aggregator, served.name);
    if (able.ok()) able = MayJoin(served.name);
    if (!able.ok()) {
      refused_names->push_back({served.name, std::move(able)});
      continue;
    }
    called_[served.name] = Now();
    if (!machine_.knows(served.name)) {
      fresh.emplace_back(served.name, aggregator);
      joining_names_.insert(served.name);
    } else if (machine_.via(served.name) != aggregator) {
      moved.push_back(served.name);
    }
  }
  if (!moved.empty()) Feed(ClientsJoined{std::move(moved), aggregator});
  return fresh.empty() ? absl::OkStatus() : WaitForRows(std::move(fresh));
}

Status RunCoordinator::MayJoin(const std::string& client_id) {
  RIVULET_RETURN_IF_ERROR(CheckDisplayName("a client's name", client_id));
  if (machine_.knows(client_id)) return absl::OkStatus();
  const auto others = static_cast<int64_t>(joining_names_.size() - joining_names_.count(client_id));
  return machine_.MayJoin(client_id, others);
}

Status RunCoordinator::WaitForRows(std::vector<std::pair<std::string, std::string>> client_ids) {
  if (joining_ == nullptr) joining_ = std::make_shared<Joining>();
  const std::shared_ptr<Joining> joining = joining_;
  for (auto& client : client_ids) {
    joining_names_.insert(client.first);
    joining->client_ids.push_back(std::move(client));
  }
  while (!joining->done) {
    if (writing_names_) {
      changed_.Wait(mutex_);
    } else {
      WriteJoining();
    }
  }
  return joining->status;
}

void RunCoordinator::WriteJoining() {
  const std::shared_ptr<Joining> joining = std::exchange(joining_, nullptr);
  const auto [from_round, from_attempt] = machine_.next_draw();
  std::vector<RunClient> fresh;
  std::map<std::string, std::vector<std::string>> by_aggregator;
  for (const auto& [client_id, aggregator] : joining->client_ids) {
    if (!machine_.knows(client_id)) fresh.push_back({client_id, from_round, from_attempt});
    by_aggregator[aggregator].push_back(client_id);
  }
  if (!fresh.empty() && !machine_.over()) {
    writing_names_ = true;
    mutex_.Unlock();
    joining->status = history_->AddClients(run_id_, fresh, Iso8601(NowUnixMs()));
    mutex_.Lock();
    writing_names_ = false;
    if (joining->status.ok() && !machine_.over()) {
      for (auto& [aggregator, client_ids] : by_aggregator) Feed(ClientsJoined{std::move(client_ids), aggregator});
      std::string who = fmt::format("client '{}' has joined", fresh[0].client_id);
      if (fresh.size() > 1)
        who = fmt::format("client '{}' and {} more have joined", fresh[0].client_id, fresh.size() - 1);
      if (machine_.phase() == RunMachine::Phase::kWaiting) who += ": " + machine_.Awaited(Now());
      Say(NoteOf(fresh.size() == 1 ? fresh[0].client_id : "", "info", std::move(who), machine_.round()));
    }
  }
  for (const auto& [client_id, aggregator] : joining->client_ids) joining_names_.erase(client_id);
  joining->done = true;
  changed_.NotifyAll();
}

}  // namespace rivulet
