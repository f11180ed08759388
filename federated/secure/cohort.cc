#include "federated/secure/cohort.h"

#include <algorithm>

#include "engine/base/display_name.h"
#include "federated/secure/announcement.h"

namespace rivulet::secure {
namespace {

std::string NameShown(const Member& member) { return DisplayText(member.name, 80); }

StatusOr<std::optional<RevocationList>> NewerList(const CohortMessage& message, const Trust& trust, Refusals refusals) {
  if (message.revocation_list.empty()) return std::nullopt;
  RIVULET_ASSIGN_OR_RETURN(
      RevocationList list,
      ReadRevocationList(message.revocation_list, "the revocation list of the cohort", *trust.authority));
  if (trust.revoked != nullptr && list.number < trust.revoked->number && refusals.Holds(Refusal::kOlderList)) {
    return FailedPrecondition("the cohort's revocation list has the number {}, and this client has seen {}",
                              list.number, trust.revoked->number);
  }
  return list;
}

StatusOr<uint32_t> OwnNumber(const std::vector<Member>& members, std::string_view name, const PublicKey& channel,
                             const PublicKey& mask) {
  const auto own = std::lower_bound(members.begin(), members.end(), name,
                                    [](const Member& member, std::string_view wanted) { return member.name < wanted; });
  if (own == members.end() || own->name != name) {
    return FailedPrecondition("the cohort does not list this client, '{}'", name);
  }
  if (own->channel != channel || own->mask != mask) {
    return FailedPrecondition("the cohort lists other keys of this client, '{}', than it announced in this attempt",
                              name);
  }
  return static_cast<uint32_t>(own - members.begin());
}

}  // namespace

Status CheckMembers(const std::vector<Member>& members, Refusals refusals) {
  for (size_t i = 1; i < members.size(); ++i) {
    if (members[i - 1].name < members[i].name) continue;
    if (members[i - 1].name == members[i].name) {
      if (!refusals.Holds(Refusal::kMemberTwice)) continue;
      return FailedPrecondition("member '{}' is listed twice", NameShown(members[i]));
    }
    return FailedPrecondition("member '{}' is listed before '{}', out of the order of names", NameShown(members[i - 1]),
                              NameShown(members[i]));
  }
  std::vector<std::pair<PublicKey, size_t>> keys;
  for (size_t i = 0; i < members.size(); ++i) {
    keys.emplace_back(members[i].channel, i);
    keys.emplace_back(members[i].mask, i);
  }
  std::sort(keys.begin(), keys.end());
  for (size_t i = 1; i < keys.size(); ++i) {
    if (keys[i - 1].first != keys[i].first) continue;
    return FailedPrecondition("members '{}' and '{}' have one key twice", NameShown(members[keys[i - 1].second]),
                              NameShown(members[keys[i].second]));
  }
  return absl::OkStatus();
}

StatusOr<CheckedCohort> CheckCohort(CohortMessage message, const ClientSetup& setup, const Digest& session_context,
                                    const PublicKey& channel, const PublicKey& mask) {
  const auto count = static_cast<int64_t>(message.members.size());
  const Refusals refusals = setup.refusals;
  if (count < setup.settings.min_cohort && refusals.Holds(Refusal::kSmallCohort)) {
    return FailedPrecondition("the cohort has {} members, and the signed plan asks for {} or more", count,
                              setup.settings.min_cohort);
  }
  RIVULET_RETURN_IF_ERROR(CheckMembers(message.members, refusals));
  CheckedCohort cohort;
  RIVULET_ASSIGN_OR_RETURN(cohort.self, OwnNumber(message.members, setup.name, channel, mask));
  RIVULET_ASSIGN_OR_RETURN(cohort.revoked, NewerList(message, setup.trust, refusals));
  GraphNeeds needs = NeedsOf(setup.settings, count);
  if (!refusals.Holds(Refusal::kWeakGraph)) needs.least_sum = 1;
  RIVULET_ASSIGN_OR_RETURN(cohort.shape, ChooseGraph(needs));
  cohort.context = CohortContext(session_context, message.members);
  RIVULET_ASSIGN_OR_RETURN(const auto graph, NeighbourGraph::Shared(cohort.context, count, cohort.shape));
  cohort.neighbours = graph->NeighboursOf(cohort.self);
  cohort.holders = graph->HoldersOf(cohort.self);
  if (message.neighbours.size() != cohort.neighbours.size()) {
    return FailedPrecondition("the cohort came with {} neighbours in place of {}", message.neighbours.size(),
                              cohort.neighbours.size());
  }
  Trust trust = setup.trust;
  if (cohort.revoked) trust.revoked = &*cohort.revoked;
  size_t next = 0;
  for (const uint32_t holder : cohort.holders) {
    if (holder == cohort.self) {
      cohort.signing_keys.emplace_back(X509_get_pubkey(setup.certificate->x509.get()));
      continue;
    }
    RIVULET_ASSIGN_OR_RETURN(KeyHandle key, VerifyAnnouncement(session_context, message.members[holder],
                                                               message.neighbours[next++], trust, refusals));
    cohort.signing_keys.push_back(std::move(key));
  }
  cohort.members = std::move(message.members);
  return cohort;
}

}  // namespace rivulet::secure
