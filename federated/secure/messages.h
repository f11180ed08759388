// The messages of SecAgg+ as values, and their bytes. Each parser bounds its message before it allocates anything.
// Parsers check sizes and forms alone; other files check the meaning.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/sha256.h"
#include "federated/secure/context.h"

namespace rivulet::secure {

inline constexpr int64_t kMostMembers = 16384;
inline constexpr size_t kMostNameBytes = 255;
inline constexpr size_t kMostTaskBytes = 1024;  // of a task's name
inline constexpr size_t kMostCertificateBytes = 4096;
inline constexpr size_t kMostRevocationListBytes = size_t{1} << 20;
// A share of a member's seed and one of its mask key, with a tag.
inline constexpr size_t kSealedBytes = 2 * 32 + 16;

// A member's keys, and by whom they are vouched for.
struct Voucher {
  std::string certificate;  // DER
  std::string signature;
};
struct KeysMessage {
  PublicKey channel{}, mask{};
  Voucher voucher;
};
struct CohortMessage {
  std::vector<Member> members;
  std::vector<Voucher> neighbours;
  std::string revocation_list;
};
struct SharesMessage {
  Digest seed_digest;
  std::string sealed;
};
struct SealedSharesMessage {
  std::vector<bool> senders;
  std::string sealed;
};
// Masked words of several clients, added by an aggregator.
struct SummedWordsMessage {
  std::vector<std::string> tasks;    // whose words are in the sum
  std::span<const std::byte> words;  // borrowed
};
struct AgreementsMessage {
  std::vector<bool> signers;
  std::vector<std::string> signatures;
};

// INVALID_ARGUMENT: longer than it may be, or of another form. Counts that the caller knows are arguments.
StatusOr<KeysMessage> ParseSecureKeys(std::string_view bytes);
StatusOr<CohortMessage> ParseSecureCohort(std::string_view bytes);
StatusOr<SharesMessage> ParseSecureShares(std::string_view bytes, size_t neighbours);
StatusOr<SealedSharesMessage> ParseSealedShares(std::string_view bytes, size_t neighbours);
StatusOr<SummedWordsMessage> ParseSummedWords(std::span<const std::byte> bytes, size_t word_bytes);
StatusOr<std::vector<bool>> ParseSurvivors(std::string_view bytes, size_t members);
StatusOr<std::string> ParseAgreement(std::string_view bytes);  // the signature
StatusOr<AgreementsMessage> ParseAgreements(std::string_view bytes, size_t holders);
StatusOr<std::string> ParseReveal(std::string_view bytes, size_t holders);  // 32 bytes for each

std::string BytesOf(const KeysMessage& message);
std::string BytesOf(const CohortMessage& message);
std::string BytesOf(const SharesMessage& message);
std::string BytesOf(const SealedSharesMessage& message);
std::string BytesOf(const SummedWordsMessage& message);
std::string BytesOf(const AgreementsMessage& message);
std::string SurvivorsBytes(const std::vector<bool>& survivors);
std::string AgreementBytes(std::string_view signature);
std::string RevealBytes(std::string_view shares);

// Bit i of a set is bit i % 8 of byte i / 8, the lowest bit being 0; the last byte's other bits are zeros.
std::string SetBytes(const std::vector<bool>& set);
// INVALID_ARGUMENT, naming `what`: another number of bytes, or a bit beyond.
StatusOr<std::vector<bool>> SetOf(std::string_view bytes, size_t count, std::string_view what);
size_t CountOf(const std::vector<bool>& set);

// The most bytes of a client's answer to a step, and of its input; of the words none is told here.
size_t MostAnswerBytes(int step, size_t holders);
size_t MostInputBytes(int step, size_t members, size_t holders);
// And of an aggregator's sum of words, of `word_bytes`, from so many clients.
size_t MostSummedWordsBytes(size_t word_bytes, size_t clients);

}  // namespace rivulet::secure
