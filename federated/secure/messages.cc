#include "federated/secure/messages.h"

#include <algorithm>

#include "certificates/signature.h"
#include "federated/secure/shamir.h"
#include "proto/federated/secure.pb.h"

namespace rivulet::secure {
namespace {

// What protobuf adds to a field: its tag and its length.
constexpr size_t kFieldOverhead = 8;
constexpr size_t kVoucherBytes = kMostCertificateBytes + kMostSignatureBytes + 3 * kFieldOverhead;
constexpr size_t kMemberBytes = kMostNameBytes + 2 * kPublicKeyBytes + 4 * kFieldOverhead;

size_t SetSize(size_t count) { return (count + 7) / 8; }

template <typename Message>
Status ParseBounded(std::string_view bytes, size_t most, std::string_view what, Message& message) {
  if (bytes.size() > most)
    return InvalidArgument("{} of {} bytes is longer than the {} it may have", what, bytes.size(), most);
  if (message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return absl::OkStatus();
  return InvalidArgument("{} of {} bytes is no message of that kind", what, bytes.size());
}

StatusOr<PublicKey> PublicKeyFrom(const std::string& bytes) {
  if (bytes.size() != kPublicKeyBytes) {
    return InvalidArgument("a public key has {} bytes in place of {}", bytes.size(), kPublicKeyBytes);
  }
  PublicKey key;
  std::copy_n(reinterpret_cast<const uint8_t*>(bytes.data()), kPublicKeyBytes, key.begin());
  return key;
}

StatusOr<Voucher> VoucherFrom(std::string certificate, std::string signature) {
  if (certificate.size() > kMostCertificateBytes || signature.size() > kMostSignatureBytes) {
    return InvalidArgument("a certificate of {} bytes or a signature of {} is longer than {} and {}",
                           certificate.size(), signature.size(), kMostCertificateBytes, kMostSignatureBytes);
  }
  return Voucher{std::move(certificate), std::move(signature)};
}

}  // namespace

StatusOr<std::vector<bool>> SetOf(std::string_view bytes, size_t count, std::string_view what) {
  if (bytes.size() != SetSize(count)) {
    return InvalidArgument("{} has {} bytes in place of {} for {} members", what, bytes.size(), SetSize(count), count);
  }
  if (count % 8 != 0 && (static_cast<uint8_t>(bytes.back()) >> count % 8) != 0) {
    return InvalidArgument("{} has a bit beyond its {} members", what, count);
  }
  std::vector<bool> set(count);
  for (size_t i = 0; i < count; ++i) set[i] = (static_cast<uint8_t>(bytes[i / 8]) >> i % 8 & 1) != 0;
  return set;
}

size_t CountOf(const std::vector<bool>& set) { return static_cast<size_t>(std::count(set.begin(), set.end(), true)); }

size_t MostAnswerBytes(int step, size_t holders) {
  switch (step) {
    case 0:
      return 2 * kPublicKeyBytes + kVoucherBytes + 4 * kFieldOverhead;
    case 1:
      return 32 + kSealedBytes * holders + 2 * kFieldOverhead;
    case 3:
      return kMostSignatureBytes + kFieldOverhead;
    case 4:
      return kShareBytes * holders + kFieldOverhead;
    default:
      return 0;
  }
}

size_t MostInputBytes(int step, size_t members, size_t holders) {
  switch (step) {
    case 1:
      return members * kMemberBytes + holders * kVoucherBytes + kMostRevocationListBytes + kFieldOverhead;
    case 2:
      return SetSize(holders) + kSealedBytes * holders + 2 * kFieldOverhead;
    case 3:
      return SetSize(members) + kFieldOverhead;
    case 4:
      return SetSize(holders) + holders * (kMostSignatureBytes + kFieldOverhead) + kFieldOverhead;
    default:
      return 0;
  }
}

size_t MostSummedWordsBytes(size_t word_bytes, size_t clients) {
  return word_bytes + sizeof(uint32_t) + clients * (sizeof(uint32_t) + kMostTaskBytes);
}

StatusOr<KeysMessage> ParseSecureKeys(std::string_view bytes) {
  proto::SecureKeys parsed;
  RIVULET_RETURN_IF_ERROR(ParseBounded(bytes, MostAnswerBytes(0, 0), "an announcement of keys", parsed));
  KeysMessage message;
  RIVULET_ASSIGN_OR_RETURN(message.channel, PublicKeyFrom(parsed.channel_key()));
  RIVULET_ASSIGN_OR_RETURN(message.mask, PublicKeyFrom(parsed.mask_key()));
  RIVULET_ASSIGN_OR_RETURN(message.voucher, VoucherFrom(parsed.certificate(), parsed.signature()));
  return message;
}

StatusOr<CohortMessage> ParseSecureCohort(std::string_view bytes) {
  constexpr size_t kMost = kMostMembers;
  proto::SecureCohort parsed;
  RIVULET_RETURN_IF_ERROR(ParseBounded(bytes, MostInputBytes(1, kMost, kMost), "a cohort", parsed));
  if (parsed.members_size() > kMostMembers || parsed.neighbours_size() > parsed.members_size()) {
    return InvalidArgument("a cohort has {} members and {} neighbours; {} members are the most", parsed.members_size(),
                           parsed.neighbours_size(), kMostMembers);
  }
  if (parsed.revocation_list().size() > kMostRevocationListBytes) {
    return InvalidArgument("a revocation list of {} bytes is longer than {}", parsed.revocation_list().size(),
                           kMostRevocationListBytes);
  }
  CohortMessage message;
  message.members.reserve(static_cast<size_t>(parsed.members_size()));
  for (const proto::SecureMember& member : parsed.members()) {
    if (member.name().empty() || member.name().size() > kMostNameBytes) {
      return InvalidArgument("a member's name has {} bytes in place of 1 to {}", member.name().size(), kMostNameBytes);
    }
    Member& made = message.members.emplace_back();
    made.name = member.name();
    RIVULET_ASSIGN_OR_RETURN(made.channel, PublicKeyFrom(member.channel_key()));
    RIVULET_ASSIGN_OR_RETURN(made.mask, PublicKeyFrom(member.mask_key()));
  }
  for (const proto::SecureNeighbour& neighbour : parsed.neighbours()) {
    RIVULET_ASSIGN_OR_RETURN(Voucher voucher, VoucherFrom(neighbour.certificate(), neighbour.signature()));
    message.neighbours.push_back(std::move(voucher));
  }
  message.revocation_list = parsed.revocation_list();
  return message;
}

StatusOr<SharesMessage> ParseSecureShares(std::string_view bytes, size_t neighbours) {
  proto::SecureShares parsed;
  RIVULET_RETURN_IF_ERROR(ParseBounded(bytes, MostAnswerBytes(1, neighbours), "an answer with shares", parsed));
  SharesMessage message;
  RIVULET_ASSIGN_OR_RETURN(message.seed_digest, Digest::FromBytes(parsed.seed_digest()));
  if (parsed.sealed().size() != neighbours * kSealedBytes) {
    return InvalidArgument("an answer has {} sealed bytes in place of {} for {} neighbours", parsed.sealed().size(),
                           neighbours * kSealedBytes, neighbours);
  }
  message.sealed = parsed.sealed();
  return message;
}

StatusOr<SealedSharesMessage> ParseSealedShares(std::string_view bytes, size_t neighbours) {
  proto::SecureSealedShares parsed;
  RIVULET_RETURN_IF_ERROR(ParseBounded(bytes, MostInputBytes(2, 0, neighbours), "neighbours' shares", parsed));
  SealedSharesMessage message;
  RIVULET_ASSIGN_OR_RETURN(message.senders, SetOf(parsed.senders(), neighbours, "the set of neighbours that shared"));
  if (parsed.sealed().size() != CountOf(message.senders) * kSealedBytes) {
    return InvalidArgument("{} sealed bytes came in place of {} from {} neighbours", parsed.sealed().size(),
                           CountOf(message.senders) * kSealedBytes, CountOf(message.senders));
  }
  message.sealed = parsed.sealed();
  return message;
}

// Read by hand, as words may be longer than a message of protocol buffers.
StatusOr<SummedWordsMessage> ParseSummedWords(std::span<const std::byte> bytes, size_t word_bytes) {
  const auto number = [&]() -> StatusOr<size_t> {
    if (bytes.size() < sizeof(uint32_t)) return InvalidArgument("a sum of masked words ends within a number");
    size_t value = 0;
    for (size_t i = 0; i < sizeof(uint32_t); ++i) value |= std::to_integer<size_t>(bytes[i]) << 8 * i;
    bytes = bytes.subspan(sizeof(uint32_t));
    return value;
  };
  SummedWordsMessage message;
  RIVULET_ASSIGN_OR_RETURN(const size_t tasks, number());
  if (tasks < 1 || tasks > static_cast<size_t>(kMostMembers)) {
    return InvalidArgument("a sum of masked words is of {} tasks in place of 1 to {}", tasks, kMostMembers);
  }
  for (size_t i = 0; i < tasks; ++i) {
    RIVULET_ASSIGN_OR_RETURN(const size_t length, number());
    if (length < 1 || length > std::min(kMostTaskBytes, bytes.size())) {
      return InvalidArgument("a task's name of {} bytes is not within a sum of masked words, or longer than {}", length,
                             kMostTaskBytes);
    }
    message.tasks.emplace_back(reinterpret_cast<const char*>(bytes.data()), length);
    bytes = bytes.subspan(length);
  }
  if (bytes.size() != word_bytes) {
    return InvalidArgument("a sum of masked words has {} bytes of words in place of {}", bytes.size(), word_bytes);
  }
  message.words = bytes;
  return message;
}

StatusOr<std::vector<bool>> ParseSurvivors(std::string_view bytes, size_t members) {
  proto::SecureSurvivors parsed;
  RIVULET_RETURN_IF_ERROR(ParseBounded(bytes, MostInputBytes(3, members, 0), "a set of survivors", parsed));
  return SetOf(parsed.survivors(), members, "the set of survivors");
}

StatusOr<std::string> ParseAgreement(std::string_view bytes) {
  proto::SecureAgreement parsed;
  RIVULET_RETURN_IF_ERROR(ParseBounded(bytes, MostAnswerBytes(3, 0), "an agreement", parsed));
  return parsed.signature();
}

StatusOr<AgreementsMessage> ParseAgreements(std::string_view bytes, size_t holders) {
  proto::SecureAgreements parsed;
  RIVULET_RETURN_IF_ERROR(ParseBounded(bytes, MostInputBytes(4, 0, holders), "neighbours' agreements", parsed));
  AgreementsMessage message;
  RIVULET_ASSIGN_OR_RETURN(message.signers, SetOf(parsed.signers(), holders, "the set of signers"));
  if (static_cast<size_t>(parsed.signatures_size()) != CountOf(message.signers)) {
    return InvalidArgument("{} signatures came of {} signers", parsed.signatures_size(), CountOf(message.signers));
  }
  message.signatures.assign(parsed.signatures().begin(), parsed.signatures().end());
  return message;
}

StatusOr<std::string> ParseReveal(std::string_view bytes, size_t holders) {
  proto::SecureReveal parsed;
  RIVULET_RETURN_IF_ERROR(ParseBounded(bytes, MostAnswerBytes(4, holders), "revealed shares", parsed));
  if (parsed.shares().size() != holders * kShareBytes) {
    return InvalidArgument("{} bytes of shares came in place of {} for {} members", parsed.shares().size(),
                           holders * kShareBytes, holders);
  }
  return parsed.shares();
}

}  // namespace rivulet::secure
