#include "federated/secure/secagg_client.h"

#include <algorithm>

#include "certificates/signature.h"
#include "engine/base/display_name.h"
#include "federated/secure/announcement.h"
#include "federated/secure/key_derivation.h"
#include "federated/secure/keystream.h"
#include "federated/secure/sealing.h"
#include "federated/secure/shamir.h"

namespace rivulet::secure {
namespace {

constexpr int kSteps = 5, kSumStep = 2;

std::string ShownName(const Member& member) { return DisplayText(member.name, 80); }

}  // namespace

StatusOr<std::unique_ptr<SecAggClient>> SecAggClient::Create(const ClientSetup& setup) {
  if (setup.certificate == nullptr || setup.key == nullptr || setup.trust.authority == nullptr) {
    return InvalidArgument("secure aggregation needs the certificate and key of '{}' and its authority's certificate",
                           setup.name);
  }
  if (setup.settings.word_bits != 32 && setup.settings.word_bits != 64) {
    return InvalidArgument("server.sum_bits is {}; secure aggregation sums words of 32 or 64 bits",
                           setup.settings.word_bits);
  }
  RIVULET_RETURN_IF_ERROR(CheckPolicy(setup.settings, setup.policy));
  RIVULET_RETURN_IF_ERROR(CheckSigningKey(setup.key, setup.name));
  return std::unique_ptr<SecAggClient>(new SecAggClient(setup));
}

Status SecAggClient::Begin(int step) {
  if (!refused_.ok()) return Annotate(refused_, "this attempt was refused before");
  if (step < 0 || step >= kSteps) return InvalidArgument("secure aggregation has no step {}", step);
  if (step < next_step_) {
    if (!setup_.refusals.Holds(Refusal::kSecondAnswer)) return absl::OkStatus();
    return FailedPrecondition("step {} of this attempt was answered before; a step is answered once", step);
  }
  if (step > next_step_) return FailedPrecondition("step {} was requested before step {}", step, next_step_);
  ++next_step_;
  return absl::OkStatus();
}

void SecAggClient::Wipe() {
  channel_.reset();
  mask_.reset();
  seed_ = SecretBytes();
  channels_ = SecretBytes();
  masks_ = SecretBytes();
  held_ = SecretBytes();
}

StatusOr<std::string> SecAggClient::Answer(int step, std::string_view input) {
  RIVULET_RETURN_IF_ERROR(Begin(step));
  StatusOr<std::string> answer = InvalidArgument("step {} is answered by masked words", step);
  if (step == 0) answer = AnnounceKeys();
  if (step == 1) answer = ShareSecrets(input);
  if (step == 3) answer = AgreeOnSurvivors(input);
  if (step == 4) answer = RevealShares(input);
  refused_ = answer.status();
  const bool ends = step == kSteps - 1 && setup_.refusals.Holds(Refusal::kSecondAnswer);
  if (!answer.ok() || ends) Wipe();
  return answer;
}

Status SecAggClient::Mask(std::string_view input, std::span<std::byte> words) {
  RIVULET_RETURN_IF_ERROR(Begin(kSumStep));
  Status masked = OpenShares(input);
  if (masked.ok()) masked = AddMasks(words);
  refused_ = masked;
  if (!masked.ok()) Wipe();
  return masked;
}

StatusOr<std::string> SecAggClient::AnnounceKeys() {
  RIVULET_ASSIGN_OR_RETURN(channel_, AgreementKey::Generate());
  RIVULET_ASSIGN_OR_RETURN(mask_, AgreementKey::Generate());
  KeysMessage message{.channel = channel_->public_key(), .mask = mask_->public_key(), .voucher = {}};
  message.voucher.certificate = DerOf(*setup_.certificate);
  RIVULET_ASSIGN_OR_RETURN(message.voucher.signature,
                           SignBytes(setup_.key, KeysToSign(session_context_, message.channel, message.mask)));
  return BytesOf(message);
}

StatusOr<std::string> SecAggClient::ShareSecrets(std::string_view input) {
  RIVULET_ASSIGN_OR_RETURN(CohortMessage message, ParseSecureCohort(input));
  std::string list = message.revocation_list;
  RIVULET_ASSIGN_OR_RETURN(
      cohort_, CheckCohort(std::move(message), setup_, session_context_, channel_->public_key(), mask_->public_key()));
  revocation_list_ = std::move(list);
  const size_t neighbours = cohort_.neighbours.size();
  channels_ = SecretBytes(neighbours * kSecretSize);
  masks_ = SecretBytes(neighbours * kSecretSize);
  for (size_t i = 0; i < neighbours; ++i) {
    const Member& member = cohort_.members[cohort_.neighbours[i]];
    const auto agree = [&](const AgreementKey& own, const PublicKey& theirs, std::span<uint8_t> to) -> Status {
      const StatusOr<SecretBytes> secret = own.Agree(theirs);
      RIVULET_RETURN_IF_ERROR(Annotate(secret.status(), fmt::format("member '{}'", ShownName(member))));
      std::ranges::copy(secret->span(), to.begin());
      return absl::OkStatus();
    };
    RIVULET_RETURN_IF_ERROR(agree(*channel_, member.channel, channels_.part(i * kSecretSize, kSecretSize)));
    RIVULET_RETURN_IF_ERROR(agree(*mask_, member.mask, masks_.part(i * kSecretSize, kSecretSize)));
  }

  std::vector<uint32_t> holder_numbers;
  for (const uint32_t holder : cohort_.holders) holder_numbers.push_back(holder + 1);
  RIVULET_ASSIGN_OR_RETURN(seed_, SecretBytes::Random(kSecretSize));
  RIVULET_ASSIGN_OR_RETURN(const SecretBytes mask_key, mask_->PrivateBytes());
  RIVULET_ASSIGN_OR_RETURN(const SecretBytes seed_shares,
                           ShareSecret(seed_.span().first<kSecretBytes>(), cohort_.shape.threshold, holder_numbers));
  RIVULET_ASSIGN_OR_RETURN(const SecretBytes key_shares,
                           ShareSecret(mask_key.span().first<kSecretBytes>(), cohort_.shape.threshold, holder_numbers));
  held_ = SecretBytes(cohort_.holders.size() * 2 * kSecretSize);
  shared_.assign(cohort_.holders.size(), false);

  SharesMessage answer;
  answer.seed_digest = std::move(Sha256().Update(std::as_bytes(std::span<const uint8_t>(seed_.span())))).Finish();
  size_t neighbour = 0;
  SecretBytes both(2 * kSecretSize);
  for (size_t i = 0; i < cohort_.holders.size(); ++i) {
    std::ranges::copy(seed_shares.part(i * kShareBytes, kShareBytes), both.data());
    std::ranges::copy(key_shares.part(i * kShareBytes, kShareBytes), both.data() + kSecretSize);
    if (cohort_.holders[i] == cohort_.self) {  // kept, where the graph is complete
      std::ranges::copy(both.span(), SharesFrom(i).begin());
      shared_[i] = true;
      continue;
    }
    const std::string info = SealInfo(cohort_.context, 1, cohort_.self, cohort_.holders[i]);
    RIVULET_ASSIGN_OR_RETURN(const SecretBytes key,
                             DeriveKey(channels_.part(neighbour++ * kSecretSize, kSecretSize), info, kSealKeyBytes));
    RIVULET_ASSIGN_OR_RETURN(const std::string sealed, Seal(key.span().first<kSealKeyBytes>(), info, both.span()));
    answer.sealed += sealed;
  }
  return BytesOf(answer);
}

// Holders are the neighbours in their order, with the client itself among them where the graph is complete.
size_t SecAggClient::HolderOf(size_t neighbour) const {
  return neighbour + (cohort_.shape.complete && cohort_.neighbours[neighbour] > cohort_.self ? 1 : 0);
}

Status SecAggClient::OpenShares(std::string_view input) {
  RIVULET_ASSIGN_OR_RETURN(const SealedSharesMessage message, ParseSealedShares(input, cohort_.neighbours.size()));
  const size_t sharers = CountOf(message.senders) + (cohort_.shape.complete ? 1 : 0);
  if (sharers < static_cast<size_t>(cohort_.shape.threshold) && setup_.refusals.Holds(Refusal::kFewSharers)) {
    return FailedPrecondition("{} holders of this client's secrets shared theirs, and {} are needed", sharers,
                              cohort_.shape.threshold);
  }
  std::string_view rest = message.sealed;
  for (size_t i = 0; i < cohort_.neighbours.size(); ++i) {
    if (!message.senders[i]) continue;
    const uint32_t from = cohort_.neighbours[i];
    const std::string info = SealInfo(cohort_.context, 1, from, cohort_.self);
    RIVULET_ASSIGN_OR_RETURN(const SecretBytes key,
                             DeriveKey(channels_.part(i * kSecretSize, kSecretSize), info, kSealKeyBytes));
    const StatusOr<SecretBytes> opened = Unseal(key.span().first<kSealKeyBytes>(), info, rest.substr(0, kSealedBytes));
    if (!opened.ok()) {
      return FailedPrecondition("the shares of member '{}' for this client: {}", ShownName(cohort_.members[from]),
                                Message(opened.status()));
    }
    rest.remove_prefix(kSealedBytes);
    std::ranges::copy(opened->span(), SharesFrom(HolderOf(i)).begin());
    shared_[HolderOf(i)] = true;
  }
  channels_ = SecretBytes();
  channel_.reset();
  return absl::OkStatus();
}

Status SecAggClient::AddMasks(std::span<std::byte> words) {
  RIVULET_ASSIGN_OR_RETURN(MaskAdder adder, MaskAdder::Create(words, setup_.settings.word_bits));
  RIVULET_ASSIGN_OR_RETURN(const SecretBytes own,
                           DeriveKey(seed_.span(), SelfMaskInfo(cohort_.context, cohort_.self), kCipherKeyBytes));
  RIVULET_RETURN_IF_ERROR(adder.Add(own.span().first<kCipherKeyBytes>(), MaskSign::kAdd));
  for (size_t i = 0; i < cohort_.neighbours.size(); ++i) {
    if (!shared_[HolderOf(i)]) continue;
    const uint32_t other = cohort_.neighbours[i];
    RIVULET_ASSIGN_OR_RETURN(
        const SecretBytes key,
        DeriveKey(masks_.part(i * kSecretSize, kSecretSize),
                  PairMaskInfo(cohort_.context, std::min(cohort_.self, other), std::max(cohort_.self, other)),
                  kCipherKeyBytes));
    const MaskSign sign = cohort_.self < other ? MaskSign::kAdd : MaskSign::kSubtract;
    RIVULET_RETURN_IF_ERROR(adder.Add(key.span().first<kCipherKeyBytes>(), sign));
  }
  RIVULET_RETURN_IF_ERROR(adder.Finish());
  masks_ = SecretBytes();
  seed_ = SecretBytes();
  mask_.reset();
  return absl::OkStatus();
}

StatusOr<std::string> SecAggClient::AgreeOnSurvivors(std::string_view input) {
  RIVULET_ASSIGN_OR_RETURN(survivors_, ParseSurvivors(input, cohort_.members.size()));
  if (!survivors_[cohort_.self]) {
    return FailedPrecondition("this client's words were sent, and the set of survivors is without it");
  }
  const auto count = static_cast<int64_t>(CountOf(survivors_));
  if (count < setup_.settings.min_survivors && setup_.refusals.Holds(Refusal::kFewSurvivors)) {
    return FailedPrecondition("{} clients survive, and the signed plan asks for {} or more", count,
                              setup_.settings.min_survivors);
  }
  for (size_t i = 0; i < cohort_.holders.size(); ++i) {
    if (survivors_[cohort_.holders[i]] && !shared_[i]) {
      return FailedPrecondition("member '{}' is among the survivors and shared no secrets with this client",
                                ShownName(cohort_.members[cohort_.holders[i]]));
    }
  }
  RIVULET_ASSIGN_OR_RETURN(const std::string signature,
                           SignBytes(setup_.key, SurvivorsToSign(cohort_.context, SetBytes(survivors_))));
  return AgreementBytes(signature);
}

StatusOr<std::string> SecAggClient::RevealShares(std::string_view input) {
  RIVULET_ASSIGN_OR_RETURN(const AgreementsMessage message, ParseAgreements(input, cohort_.holders.size()));
  const std::string signed_bytes = SurvivorsToSign(cohort_.context, SetBytes(survivors_));
  size_t next = 0;
  for (size_t i = 0; i < cohort_.holders.size(); ++i) {
    if (!message.signers[i]) continue;
    const uint32_t signer = cohort_.holders[i];
    if (!survivors_[signer]) {
      return FailedPrecondition("the coordinator claims that member '{}' signed a set of survivors without it",
                                ShownName(cohort_.members[signer]));
    }
    if (!IsSignature(cohort_.signing_keys[i].get(), signed_bytes, message.signatures[next++]) &&
        setup_.refusals.Holds(Refusal::kOtherSet)) {
      return FailedPrecondition(
          "member '{}' did not sign the set of survivors that this client signed: the coordinator shows different sets",
          ShownName(cohort_.members[signer]));
    }
  }
  if (next < static_cast<size_t>(cohort_.shape.threshold) && setup_.refusals.Holds(Refusal::kFewSignatures)) {
    return FailedPrecondition("{} holders of this client's secrets signed its set of survivors, and {} are needed",
                              next, cohort_.shape.threshold);
  }
  std::string shares;
  shares.reserve(cohort_.holders.size() * kShareBytes);
  for (size_t i = 0; i < cohort_.holders.size(); ++i) {
    if (!shared_[i]) continue;
    const std::span<const uint8_t> share =
        SharesFrom(i).subspan(survivors_[cohort_.holders[i]] ? 0 : kSecretSize, kSecretSize);
    shares.append(reinterpret_cast<const char*>(share.data()), share.size());
  }
  return RevealBytes(shares);
}

}  // namespace rivulet::secure
