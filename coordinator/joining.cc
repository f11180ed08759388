// Admission: a client that polls with the run's data becomes a member, and its row is written before it is drawn.
#include <algorithm>

#include "coordinator/clients.h"
#include "engine/base/display_name.h"

namespace rivulet {
namespace {

// A client that was silent for so long may be reached through another aggregator than before.
constexpr TimeMs kWayForgottenMs = 60'000;

}  // namespace

Status Clients::CheckProtocol(const PollRequest& request) const {
  const auto& [version, protocol, datasets] = request.capabilities;
  if (protocol == kProtocol) return absl::OkStatus();
  return FailedPrecondition(
      "client '{}' (version '{}') speaks protocol {}, and this coordinator {}; install the same version at both",
      request.caller.name, DisplayText(version, 40), protocol, kProtocol);
}

// Before a name becomes known: a client that cannot train is no member. A worker of all clients binds their data task
// by task, and reports a failure if there are none.
Status Clients::CheckAble(const std::string& client_id, const std::vector<DatasetOffer>& datasets) const {
  for (const DatasetOffer& offer : datasets) {
    if (offer.name != parts_.dataset) continue;
    if (offer.examples < 1) {
      return InvalidArgument("client '{}' has no examples in its data set '{}'; give it at least one", client_id,
                             offer.name);
    }
    // All its updates would be refused, after training, in every round that draws it.
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

// A client that was lately reached through another aggregator keeps it. A client that polls directly is believed at
// once: no other site knows its route better.
Status Clients::MayServe(const std::string& aggregator, const std::string& client_id) const {
  if (client_id == aggregator || aggregators_.contains(client_id)) {
    return InvalidArgument("client '{}' has the name of an aggregator; give it another", client_id);
  }
  const std::optional<TimeMs> heard = book_.LastHeard(client_id);
  if (!heard || !rounds_.Knows(client_id) || clock_.Now() - *heard >= kWayForgottenMs) return absl::OkStatus();
  const std::string via = rounds_.ViaOf(client_id);
  if (via == aggregator) return absl::OkStatus();
  return Unavailable(
      "client '{}' is served {} and not through aggregator '{}'; it may change its connection after {} s of silence",
      client_id, via.empty() ? "directly" : fmt::format("through aggregator '{}'", via), aggregator,
      kWayForgottenMs / 1000);
}

Status Clients::MayJoin(const std::string& client_id) const {
  RIVULET_RETURN_IF_ERROR(CheckDisplayName("a client's name", client_id));
  if (rounds_.Knows(client_id)) return absl::OkStatus();
  return rounds_.MayJoin(client_id, static_cast<int64_t>(joining_names_.size() - joining_names_.count(client_id)));
}

Status Clients::AdmitClient(const PollRequest& request, std::vector<JoiningNames::Name>* fresh) {
  const std::string& name = request.caller.name;
  RIVULET_RETURN_IF_ERROR(CheckProtocol(request));
  RIVULET_RETURN_IF_ERROR(CheckAble(name, request.capabilities.datasets));
  if (aggregators_.contains(name)) {
    return InvalidArgument("client '{}' has the name of an aggregator; give it another", name);
  }
  RIVULET_RETURN_IF_ERROR(MayJoin(name));
  book_.Heard(name, clock_.Now());
  if (!rounds_.Knows(name)) {
    fresh->emplace_back(name, "");
    joining_names_.insert(name);
  }
  return absl::OkStatus();
}

// A restarted aggregator has lost the partial sums of its previous process: the same clients train these tasks again.
// If the previous process lives, its next poll reports the loss.
Status Clients::AdmitAggregator(const PollRequest& request, std::vector<RefusedName>* refused_names,
                                std::vector<JoiningNames::Name>* fresh) {
  const std::string& aggregator = request.caller.name;
  RIVULET_RETURN_IF_ERROR(CheckProtocol(request));
  RIVULET_RETURN_IF_ERROR(distrusted_.Check(request.caller));
  if (rounds_.Knows(aggregator)) {
    return PermissionDenied("a client of this run is called '{}' too; give the aggregator another name", aggregator);
  }
  RIVULET_ASSIGN_OR_RETURN(const AggregatorSessions::Came came, aggregators_.Admit(request.caller));
  if (came == AggregatorSessions::Came::kInPlace) rounds_.LoseSite(aggregator);
  if (came == AggregatorSessions::Came::kNew) {
    events_.Say(events_.Note("info", fmt::format("aggregator '{}' has joined", aggregator), rounds_.Round()));
  }
  std::vector<std::string> moved;
  for (const ServedName& served : request.serves.names) {
    Status able = CheckAble(served.name, served.datasets);
    if (able.ok()) able = MayServe(aggregator, served.name);
    if (able.ok()) able = MayJoin(served.name);
    if (!able.ok()) {
      refused_names->push_back({served.name, std::move(able)});
      continue;
    }
    book_.Heard(served.name, clock_.Now());
    if (!rounds_.Knows(served.name)) {
      fresh->emplace_back(served.name, aggregator);
      joining_names_.insert(served.name);
    } else if (rounds_.ViaOf(served.name) != aggregator) {
      moved.push_back(served.name);
    }
  }
  if (!moved.empty()) (void)rounds_.Join(std::move(moved), aggregator);
  return absl::OkStatus();
}

// A refused poll leaves only a count, so a caller with neither data nor a place may poll as often, and under as many
// names, as it likes.
Status Clients::Admit(const PollRequest& request, std::vector<RefusedName>* refused_names) {
  if (request.serves.kind == Serves::Kind::kAny) return CheckProtocol(request);
  std::vector<JoiningNames::Name> fresh;
  Status admitted;
  {
    MutexLock lock(mutex_);
    if (!rounds_.Begin()) return absl::OkStatus();
    admitted = request.serves.kind == Serves::Kind::kNames ? AdmitAggregator(request, refused_names, &fresh)
                                                           : AdmitClient(request, &fresh);
  }
  if (!fresh.empty()) admitted = joining_.Add(std::move(fresh));
  const Status& first = admitted.ok() && !refused_names->empty() ? refused_names->front().reason : admitted;
  if (absl::IsInvalidArgument(first) || absl::IsFailedPrecondition(first)) {
    refusals_.Tell(fmt::format("turned away: {}", Message(first)));
  }
  return admitted;
}

Status Clients::WriteNames(const std::vector<JoiningNames::Name>& names) {
  std::vector<RunClient> fresh;
  std::map<std::string, std::vector<std::string>> by_aggregator;
  {
    MutexLock lock(mutex_);
    const auto [from_round, from_attempt] = rounds_.NextDraw();
    for (const auto& [client_id, aggregator] : names) {
      if (!rounds_.Knows(client_id)) fresh.push_back({client_id, from_round, from_attempt});
      by_aggregator[aggregator].push_back(client_id);
    }
  }
  Status status;
  const bool writes = !fresh.empty() && !rounds_.Over();
  if (writes) status = history_->AddClients(run_id_, fresh, Iso8601(clock_.UnixMs()));
  MutexLock lock(mutex_);
  if (writes && status.ok() && !rounds_.Over()) {
    std::string awaited;
    for (auto& [aggregator, client_ids] : by_aggregator) awaited = rounds_.Join(std::move(client_ids), aggregator);
    const std::string& first = fresh[0].client_id;
    std::string who = fresh.size() == 1 ? fmt::format("client '{}' has joined", first)
                                        : fmt::format("client '{}' and {} more have joined", first, fresh.size() - 1);
    if (!awaited.empty()) who += ": " + awaited;
    events_.Say(events_.NoteOf(fresh.size() == 1 ? first : "", "info", std::move(who), rounds_.Round()));
  }
  for (const auto& [client_id, aggregator] : names) joining_names_.erase(client_id);
  return status;
}

}  // namespace rivulet
