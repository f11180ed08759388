// Messages as bytes.
#include "federated/secure/messages.h"
#include "proto/federated/secure.pb.h"

namespace rivulet::secure {
namespace {

std::string_view RawKey(const PublicKey& key) { return {reinterpret_cast<const char*>(key.data()), key.size()}; }

}  // namespace

std::string SetBytes(const std::vector<bool>& set) {
  std::string bytes((set.size() + 7) / 8, '\0');
  for (size_t i = 0; i < set.size(); ++i)
    if (set[i]) bytes[i / 8] = static_cast<char>(bytes[i / 8] | 1 << i % 8);
  return bytes;
}

std::string BytesOf(const KeysMessage& message) {
  proto::SecureKeys made;
  made.set_channel_key(std::string(RawKey(message.channel)));
  made.set_mask_key(std::string(RawKey(message.mask)));
  made.set_certificate(message.voucher.certificate);
  made.set_signature(message.voucher.signature);
  return made.SerializeAsString();
}

std::string BytesOf(const CohortMessage& message) {
  proto::SecureCohort made;
  for (const Member& member : message.members) {
    proto::SecureMember& to = *made.add_members();
    to.set_name(member.name);
    to.set_channel_key(std::string(RawKey(member.channel)));
    to.set_mask_key(std::string(RawKey(member.mask)));
  }
  for (const Voucher& voucher : message.neighbours) {
    proto::SecureNeighbour& to = *made.add_neighbours();
    to.set_certificate(voucher.certificate);
    to.set_signature(voucher.signature);
  }
  made.set_revocation_list(message.revocation_list);
  return made.SerializeAsString();
}

std::string BytesOf(const SharesMessage& message) {
  proto::SecureShares made;
  made.set_seed_digest(std::string(message.seed_digest.AsBytes()));
  made.set_sealed(message.sealed);
  return made.SerializeAsString();
}

std::string BytesOf(const SealedSharesMessage& message) {
  proto::SecureSealedShares made;
  made.set_senders(SetBytes(message.senders));
  made.set_sealed(message.sealed);
  return made.SerializeAsString();
}

std::string BytesOf(const SummedWordsMessage& message) {
  std::string bytes;
  const auto append = [&](size_t number) {
    for (size_t i = 0; i < sizeof(uint32_t); ++i) bytes += static_cast<char>(number >> 8 * i);
  };
  append(message.tasks.size());
  for (const std::string& task : message.tasks) append(task.size()), bytes += task;
  bytes.append(reinterpret_cast<const char*>(message.words.data()), message.words.size());
  return bytes;
}

std::string SurvivorsBytes(const std::vector<bool>& survivors) {
  proto::SecureSurvivors made;
  made.set_survivors(SetBytes(survivors));
  return made.SerializeAsString();
}

std::string AgreementBytes(std::string_view signature) {
  proto::SecureAgreement made;
  made.set_signature(std::string(signature));
  return made.SerializeAsString();
}

std::string BytesOf(const AgreementsMessage& message) {
  proto::SecureAgreements made;
  made.set_signers(SetBytes(message.signers));
  for (const std::string& signature : message.signatures) made.add_signatures(signature);
  return made.SerializeAsString();
}

std::string RevealBytes(std::string_view shares) {
  proto::SecureReveal made;
  made.set_shares(std::string(shares));
  return made.SerializeAsString();
}

}  // namespace rivulet::secure
