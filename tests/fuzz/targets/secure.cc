// Messages of secure aggregation, as coordinator and clients read them. What is accepted is written and read again.
#include <cstdlib>

#include "federated/secure/messages.h"
#include "tests/fuzz/target.h"

namespace rivulet::fuzz {
namespace {

constexpr size_t kNeighbours = 9;

// `write(parsed)` must be accepted, and be written the same.
template <typename Parse, typename Write>
bool ReadAgain(std::string_view bytes, Parse parse, Write write) {
  const auto message = parse(bytes);
  if (!message.ok()) return false;
  const std::string written = write(*message);
  const auto again = parse(written);
  if (!again.ok() || write(*again) != written) std::abort();
  return true;
}

std::string Written(const auto& message) { return secure::BytesOf(message); }

secure::Voucher SomeVoucher() { return {"a certificate", "a signature"}; }

std::vector<bool> SomeSet(size_t count) {
  std::vector<bool> set(count);
  for (size_t i = 0; i < count; i += 2) set[i] = true;
  return set;
}

const Registered keys{{"secure_keys",
                       [](std::string_view bytes) {
                         return ReadAgain(bytes, secure::ParseSecureKeys,
                                          [](const secure::KeysMessage& message) { return Written(message); });
                       },
                       [] {
                         return std::vector{Written(secure::KeysMessage{{1}, {2}, SomeVoucher()})};
                       },
                       MessageFrom(0)}};

const Registered cohort{
    {"secure_cohort",
     [](std::string_view bytes) {
       return ReadAgain(bytes, secure::ParseSecureCohort,
                        [](const secure::CohortMessage& message) { return Written(message); });
     },
     [] {
       return std::vector{Written(secure::CohortMessage{
           {{"a", {1}, {2}}, {"b", {3}, {4}}, {"c", {5}, {6}}}, {SomeVoucher(), SomeVoucher()}, "a list"})};
     },
     MessageFrom(0)}};

const Registered shares{{"secure_shares",
                         [](std::string_view bytes) {
                           return ReadAgain(
                               bytes,
                               [](std::string_view text) { return secure::ParseSecureShares(text, kNeighbours); },
                               [](const secure::SharesMessage& message) { return Written(message); });
                         },
                         [] {
                           return std::vector{Written(secure::SharesMessage{
                               Sha256Of("seed"), std::string(kNeighbours * secure::kSealedBytes, 's')})};
                         },
                         MessageFrom(0)}};

const Registered sealed_shares{
    {"secure_sealed",
     [](std::string_view bytes) {
       return ReadAgain(
           bytes, [](std::string_view text) { return secure::ParseSealedShares(text, kNeighbours); },
           [](const secure::SealedSharesMessage& message) { return Written(message); });
     },
     [] {
       return std::vector{
           Written(secure::SealedSharesMessage{SomeSet(kNeighbours), std::string(5 * secure::kSealedBytes, 's')})};
     },
     MessageFrom(0)}};

constexpr size_t kWordBytes = 24;
const Registered words{
    {"secure_words",
     [](std::string_view bytes) {
       return ReadAgain(
           bytes,
           [](std::string_view text) { return secure::ParseSummedWords(std::as_bytes(std::span(text)), kWordBytes); },
           [](const secure::SummedWordsMessage& message) { return Written(message); });
     },
     [] {
       static const std::string sum(kWordBytes, 'w');
       return std::vector{
           Written(secure::SummedWordsMessage{{"run-r1-a1-c-0", "run-r1-a1-d-0"}, std::as_bytes(std::span(sum))})};
     },
     MessageFrom(0)}};

const Registered survivors{{"secure_survivors",
                            [](std::string_view bytes) {
                              return ReadAgain(
                                  bytes, [](std::string_view text) { return secure::ParseSurvivors(text, 21); },
                                  secure::SurvivorsBytes);
                            },
                            [] { return std::vector{secure::SurvivorsBytes(SomeSet(21))}; }, MessageFrom(0)}};

const Registered agreement{
    {"secure_agreement",
     [](std::string_view bytes) { return ReadAgain(bytes, secure::ParseAgreement, secure::AgreementBytes); },
     [] { return std::vector{secure::AgreementBytes("a signature")}; }, MessageFrom(0)}};

const Registered agreements{
    {"secure_agreements",
     [](std::string_view bytes) {
       return ReadAgain(
           bytes, [](std::string_view text) { return secure::ParseAgreements(text, kNeighbours); },
           [](const secure::AgreementsMessage& message) { return Written(message); });
     },
     [] {
       return std::vector{Written(secure::AgreementsMessage{SomeSet(kNeighbours), {"s", "i", "g", "n", "ed"}})};
     },
     MessageFrom(0)}};

const Registered reveal{
    {"secure_reveal",
     [](std::string_view bytes) {
       return ReadAgain(
           bytes, [](std::string_view text) { return secure::ParseReveal(text, kNeighbours); }, secure::RevealBytes);
     },
     [] { return std::vector{secure::RevealBytes(std::string(kNeighbours * 32, 'r'))}; }, MessageFrom(0)}};

}  // namespace
}  // namespace rivulet::fuzz
