#include "federated/secure/secagg_server.h"

#include <algorithm>

#include "certificates/signature.h"
#include "engine/base/display_name.h"
#include "federated/secure/announcement.h"
#include "federated/secure/cohort.h"

namespace rivulet::secure {
namespace {

constexpr int kKeysStep = 0, kSharesStep = 1, kMaskedStep = 2, kAgreeStep = 3, kRevealStep = 4;

}  // namespace

StatusOr<std::unique_ptr<SecAggServer>> SecAggServer::Create(const ServerSetup& setup) {
  if (setup.trust.authority == nullptr) {
    return InvalidArgument("secure aggregation needs the certificate of the clients' authority");
  }
  std::unique_ptr<SecAggServer> server(new SecAggServer(setup));
  RIVULET_ASSIGN_OR_RETURN(server->probe_, AgreementKey::Generate());
  return server;
}

StatusOr<uint32_t> SecAggServer::NumberOf(std::string_view client) const {
  const auto found = std::lower_bound(members_.begin(), members_.end(), client,
                                      [](const Member& member, std::string_view name) { return member.name < name; });
  if (found == members_.end() || found->name != client) {
    return NotFound("'{}' is not of this cohort; it announced no keys in time", DisplayText(client, 80));
  }
  return static_cast<uint32_t>(found - members_.begin());
}

bool SecAggServer::Answered(uint32_t member, int step) const {
  const Answers& answers = came_[member];
  switch (step) {
    case kKeysStep:
      return true;
    case kSharesStep:
      return answers.shares.has_value();
    case kMaskedStep:
      return answers.masked;
    case kAgreeStep:
      return !answers.agreement.empty();
    default:
      return !answers.reveal.empty();
  }
}

Status SecAggServer::AcceptKeys(std::string_view client, std::string_view answer) {
  RIVULET_ASSIGN_OR_RETURN(KeysMessage message, ParseSecureKeys(answer));
  if (announced_.contains(client)) {
    return AlreadyExists("'{}' has announced keys for this attempt; a second process of that name is refused", client);
  }
  if (static_cast<int64_t>(announced_.size()) == kMostMembers) {
    return ResourceExhausted("the cohort has {} members, the most that one may have", kMostMembers);
  }
  const Member member{std::string(client), message.channel, message.mask};
  RIVULET_ASSIGN_OR_RETURN(KeyHandle key, VerifyAnnouncement(session_context_, member, message.voucher, setup_.trust));
  for (const PublicKey& announced : {message.channel, message.mask}) {
    RIVULET_RETURN_IF_ERROR(
        Annotate(probe_->Agree(announced).status(), fmt::format("member '{}'", DisplayText(client, 80))));
  }
  if (message.channel == message.mask || announced_keys_.contains(message.channel) ||
      announced_keys_.contains(message.mask)) {
    return FailedPrecondition("'{}' announced a key that occurs twice in the cohort", DisplayText(client, 80));
  }
  announced_keys_.insert({message.channel, message.mask});
  announced_.emplace(client, std::pair(std::move(message), std::move(key)));
  return absl::OkStatus();
}

Status SecAggServer::Accept(std::string_view client, std::string_view answer) {
  if (step_ == kKeysStep) {
    RIVULET_RETURN_IF_ERROR(AcceptKeys(client, answer));
    ++answers_;
    return absl::OkStatus();
  }
  if (step_ > kRevealStep) return FailedPrecondition("this attempt has no step after {}", kRevealStep);
  RIVULET_ASSIGN_OR_RETURN(const uint32_t member, NumberOf(client));
  if (!Answered(member, step_ - 1)) return NotFound("'{}' dropped out before step {}", client, step_);
  if (Answered(member, step_)) return AlreadyExists("'{}' has answered step {} of this attempt", client, step_);
  Answers& came = came_[member];
  if (step_ == kSharesStep) {
    RIVULET_ASSIGN_OR_RETURN(came.shares, ParseSecureShares(answer, static_cast<size_t>(graph_->shape().neighbours)));
  } else if (step_ == kMaskedStep) {
    came.masked = true;
  } else if (step_ == kAgreeStep) {
    RIVULET_ASSIGN_OR_RETURN(std::string signature, ParseAgreement(answer));
    if (!IsSignature(came.signing_key.get(), SurvivorsToSign(context_, SetBytes(survivors_)), signature)) {
      return FailedPrecondition("'{}' did not sign the set of survivors", client);
    }
    came.agreement = std::move(signature);
  } else {
    RIVULET_ASSIGN_OR_RETURN(came.reveal, ParseReveal(answer, sharers_[member].size()));
  }
  ++answers_;
  return absl::OkStatus();
}

Status SecAggServer::CheckEnough(int64_t came, int64_t asked, std::string_view what) const {
  if (came >= asked) return absl::OkStatus();
  return FailedPrecondition("step {} of secure aggregation has {} {}, and {} are needed; the attempt is abandoned",
                            step_, came, what, asked);
}

Status SecAggServer::FixCohort() {
  RIVULET_RETURN_IF_ERROR(CheckEnough(answers_, setup_.settings.min_cohort, "members"));
  for (auto& [name, announced] : announced_) {
    members_.push_back({name, announced.first.channel, announced.first.mask});
    Answers& came = came_.emplace_back();
    came.voucher = std::move(announced.first.voucher);
    came.signing_key = std::move(announced.second);
  }
  announced_.clear();
  RIVULET_ASSIGN_OR_RETURN(const GraphShape shape, ChooseGraph(NeedsOf(setup_.settings, members())));
  context_ = CohortContext(session_context_, members_);
  RIVULET_ASSIGN_OR_RETURN(graph_, NeighbourGraph::Shared(context_, members(), shape));
  return absl::OkStatus();
}

void SecAggServer::FixSharers() {
  for (uint32_t member = 0; member < members_.size(); ++member) {
    std::vector<uint32_t>& sharers = sharers_.emplace_back(graph_->HoldersOf(member));
    std::erase_if(sharers, [&](uint32_t holder) { return !came_[holder].shares; });
  }
}

void SecAggServer::Keep(const std::set<std::string, std::less<>>& clients) {
  if (step_ == kKeysStep) {
    for (auto announced = announced_.begin(); announced != announced_.end();) {
      if (clients.contains(announced->first)) {
        ++announced;
        continue;
      }
      announced_keys_.erase(announced->second.first.channel);
      announced_keys_.erase(announced->second.first.mask);
      announced = announced_.erase(announced);
    }
    answers_ = static_cast<int64_t>(announced_.size());
    return;
  }
  if (step_ != kSharesStep && step_ != kAgreeStep) return;
  for (uint32_t member = 0; member < members_.size(); ++member) {
    if (!Answered(member, step_) || clients.contains(members_[member].name)) continue;
    came_[member].shares.reset();
    came_[member].agreement.clear();
    --answers_;
  }
}

Status SecAggServer::Close() {
  if (step_ == kKeysStep) {
    RIVULET_RETURN_IF_ERROR(FixCohort());
  } else if (step_ <= kMaskedStep) {
    RIVULET_RETURN_IF_ERROR(CheckEnough(answers_, setup_.settings.min_survivors, "clients left"));
    if (step_ == kSharesStep) FixSharers();
    if (step_ == kMaskedStep) {
      for (const Answers& came : came_) survivors_.push_back(came.masked);
    }
  } else if (step_ == kAgreeStep) {
    RIVULET_RETURN_IF_ERROR(CheckEnough(answers_, graph_->shape().threshold, "signatures"));
  } else if (step_ == kRevealStep && !CanUnmask()) {
    return FailedPrecondition("too few clients revealed shares to recover every secret; the attempt is abandoned");
  }
  ++step_;
  answers_ = 0;
  return absl::OkStatus();
}

StatusOr<std::string> SecAggServer::CohortFor(uint32_t member) const {
  CohortMessage message{.members = members_, .neighbours = {}, .revocation_list = setup_.revocation_list};
  for (const uint32_t neighbour : graph_->NeighboursOf(member)) message.neighbours.push_back(came_[neighbour].voucher);
  return BytesOf(message);
}

StatusOr<std::string> SecAggServer::SealedSharesFor(uint32_t member) const {
  SealedSharesMessage message;
  for (const uint32_t neighbour : graph_->NeighboursOf(member)) {
    const std::optional<SharesMessage>& shares = came_[neighbour].shares;
    message.senders.push_back(shares.has_value());
    if (!shares) continue;
    const std::vector<uint32_t> theirs = graph_->NeighboursOf(neighbour);
    const auto place = static_cast<size_t>(std::lower_bound(theirs.begin(), theirs.end(), member) - theirs.begin());
    message.sealed += std::string_view(shares->sealed).substr(place * kSealedBytes, kSealedBytes);
  }
  return BytesOf(message);
}

// As many signatures as a client asks for: each costs it a verification.
StatusOr<std::string> SecAggServer::AgreementsFor(uint32_t member) const {
  AgreementsMessage message;
  for (const uint32_t holder : graph_->HoldersOf(member)) {
    const std::string& agreement = came_[holder].agreement;
    const bool wanted = message.signatures.size() < static_cast<size_t>(graph_->shape().threshold);
    message.signers.push_back(wanted && !agreement.empty());
    if (message.signers.back()) message.signatures.push_back(agreement);
  }
  return BytesOf(message);
}

StatusOr<std::string> SecAggServer::InputFor(std::string_view client) const {
  if (step_ == kKeysStep) return "";
  if (step_ > kRevealStep) return FailedPrecondition("this attempt has no step after {}", kRevealStep);
  RIVULET_ASSIGN_OR_RETURN(const uint32_t member, NumberOf(client));
  if (!Answered(member, step_ - 1)) return NotFound("'{}' dropped out before step {}", client, step_);
  switch (step_) {
    case kSharesStep:
      return CohortFor(member);
    case kMaskedStep:
      return SealedSharesFor(member);
    case kAgreeStep:
      return SurvivorsBytes(survivors_);
    default:
      return AgreementsFor(member);
  }
}

std::vector<std::string> SecAggServer::Survivors() const {
  std::vector<std::string> names;
  for (size_t member = 0; member < survivors_.size(); ++member)
    if (survivors_[member]) names.push_back(members_[member].name);
  return names;
}

}  // namespace rivulet::secure
