// The coordinator's last part: secrets from shares, and masks off the sum.
#include <algorithm>

#include "engine/base/display_name.h"
#include "engine/base/join.h"
#include "federated/secure/key_derivation.h"
#include "federated/secure/keystream.h"
#include "federated/secure/secagg_server.h"

namespace rivulet::secure {
namespace {

constexpr int kLastStep = 4;

bool FitsDigest(std::span<const uint8_t, kSecretBytes> seed, const Digest& digest) {
  return std::move(Sha256().Update(std::as_bytes(seed))).Finish() == digest;
}

bool FitsPublicKey(std::span<const uint8_t, kSecretBytes> mask_key, const PublicKey& announced) {
  const StatusOr<AgreementKey> key = AgreementKey::FromPrivate(mask_key);
  return key.ok() && key->public_key() == announced;
}

}  // namespace

std::vector<HeldShare> SecAggServer::SharesOf(uint32_t owner) const {
  std::vector<HeldShare> shares;
  for (const uint32_t holder : graph_->HoldersOf(owner)) {
    const std::string& reveal = came_[holder].reveal;
    if (reveal.empty()) continue;
    const std::vector<uint32_t>& theirs = sharers_[holder];
    const auto place = static_cast<size_t>(std::lower_bound(theirs.begin(), theirs.end(), owner) - theirs.begin());
    shares.push_back({holder + 1, std::span(reinterpret_cast<const uint8_t*>(reveal.data()), reveal.size())
                                      .subspan(place * kShareBytes, kShareBytes)});
  }
  return shares;
}

bool SecAggServer::CanUnmask() const {
  if (step_ < kLastStep) return false;
  for (uint32_t member = 0; member < members_.size(); ++member) {
    if (!came_[member].shares) continue;
    int shares = 0;
    for (const uint32_t holder : graph_->HoldersOf(member)) shares += came_[holder].reveal.empty() ? 0 : 1;
    if (shares < graph_->shape().threshold) return false;
  }
  return true;
}

Status SecAggServer::Unmask(std::span<std::byte> sum) {
  if (!CanUnmask())
    return FailedPrecondition("too few clients have revealed shares; wait for more or abandon the attempt");
  SecretRecovery recovery(graph_->shape().threshold);
  RIVULET_ASSIGN_OR_RETURN(MaskAdder adder, MaskAdder::Create(sum, setup_.settings.word_bits));
  for (uint32_t member = 0; member < members_.size(); ++member) {
    if (!came_[member].shares) continue;
    const bool survives = survivors_[member];
    const std::optional<SecretBytes> secret =
        recovery.Recover(member, SharesOf(member), [&](std::span<const uint8_t, kSecretBytes> found) {
          return survives ? FitsDigest(found, came_[member].shares->seed_digest)
                          : FitsPublicKey(found, members_[member].mask);
        });
    if (!secret || !recovery.lost().empty()) continue;  // all lost ones are named
    if (survives) {
      RIVULET_ASSIGN_OR_RETURN(const SecretBytes key,
                               DeriveKey(secret->span(), SelfMaskInfo(context_, member), kCipherKeyBytes));
      RIVULET_RETURN_IF_ERROR(adder.Add(key.span().first<kCipherKeyBytes>(), MaskSign::kSubtract));
      continue;
    }
    RIVULET_ASSIGN_OR_RETURN(const AgreementKey own, AgreementKey::FromPrivate(secret->span().first<kSecretBytes>()));
    for (const uint32_t other : graph_->NeighboursOf(member)) {
      if (!survivors_[other]) continue;
      RIVULET_ASSIGN_OR_RETURN(const SecretBytes agreed, own.Agree(members_[other].mask));
      RIVULET_ASSIGN_OR_RETURN(
          const SecretBytes key,
          DeriveKey(agreed.span(), PairMaskInfo(context_, std::min(member, other), std::max(member, other)),
                    kCipherKeyBytes));
      const MaskSign sign = other < member ? MaskSign::kSubtract : MaskSign::kAdd;
      RIVULET_RETURN_IF_ERROR(adder.Add(key.span().first<kCipherKeyBytes>(), sign));
    }
  }
  RIVULET_RETURN_IF_ERROR(adder.Finish());
  for (const auto& [owner, holder] : recovery.bad()) {
    bad_shares_.push_back({members_[owner].name, members_[holder].name});
  }
  return recovery.lost().empty() ? absl::OkStatus() : LostSecrets(recovery);
}

Status SecAggServer::LostSecrets(const SecretRecovery& recovery) const {
  std::vector<std::string> lost, blamed;
  for (const uint32_t owner : recovery.lost()) lost.push_back("'" + DisplayText(members_[owner].name, 80) + "'");
  std::vector<std::pair<uint32_t, uint32_t>> unclear;
  for (const uint32_t member : recovery.Blamed(&unclear)) {
    blamed.push_back("'" + DisplayText(members_[member].name, 80) + "'");
  }
  return FailedPrecondition(
      "the shares of {} give no secret that matches the announcement; the attempt is abandoned. {}", Join(lost, ", "),
      blamed.empty() ? std::string("The client with the wrong answer is unknown.")
                     : fmt::format("{} answered badly.", Join(blamed, ", ")));
}

std::vector<BadShare> SecAggServer::BadShares() const { return bad_shares_; }

}  // namespace rivulet::secure
