// The coordinator and all clients but one of a cohort; the one speaks over standard input and output
// (independent_client.py). Some drop out at each step. Exits with 0 if the unmasked sum is the plain one.
//
//   secure_peer_driver MEMBERS MAX_COLLUDING WORD_BITS
#include <cstdio>
#include <cstdlib>
#include <iostream>

#include "engine/base/json.h"
#include "tests/federated/secure/cohort_harness.h"
#include "tests/testing/hexadecimal.h"

namespace rivulet::testing {
namespace {

std::string Hex(std::string_view bytes) { return HexOf(BytesOf(bytes)); }

std::string PeersAnswer(const std::string& input) {
  const Json shown = {{"input", Hex(input)}};
  std::cout << shown.Dump() << std::endl;
  std::string line;
  std::getline(std::cin, line);
  const std::vector<uint8_t> bytes = Bytes(line);
  return std::string(bytes.begin(), bytes.end());
}

Status Drive(const CohortOptions& options, size_t peer) {
  TestCohort cohort(options);
  const std::vector<std::byte>& words = cohort.words(peer);
  const TestAuthority::Holder& holder = HolderOf(cohort.name(peer));
  const secure::Session session = cohort.Session();
  const Json setup = {{"name", cohort.name(peer)},
                      {"run", session.run},
                      {"plan", session.plan.Hex()},
                      {"model", session.model.Hex()},
                      {"version", session.version},
                      {"attempt", session.attempt},
                      {"key", KeyPem(holder.key.get()).value()},
                      {"certificate", holder.certificate.Pem()},
                      {"max_colluding", options.settings.max_colluding},
                      {"drop_out", options.settings.drop_out},
                      {"min_survivors", options.settings.min_survivors},
                      {"word_bits", options.settings.word_bits},
                      {"words", Hex({reinterpret_cast<const char*>(words.data()), words.size()})}};
  std::cout << setup.Dump() << std::endl;
  const std::map<size_t, int> drops = {{0, 2}, {5, 4}};
  while (cohort.server().step() < 5) {
    for (size_t client = 0; client < static_cast<size_t>(options.members); ++client) {
      if (drops.contains(client) && drops.at(client) <= cohort.server().step()) continue;
      if (client != peer) {
        RIVULET_ASSIGN_OR_RETURN(const std::string answer, cohort.AnswerOf(client));
        RIVULET_RETURN_IF_ERROR(cohort.Deliver(client, answer));
        continue;
      }
      RIVULET_ASSIGN_OR_RETURN(const std::string input, cohort.server().InputFor(cohort.name(peer)));
      std::string answer = PeersAnswer(input);
      if (cohort.server().step() == 2) {
        cohort.AddMasked(answer);
        answer.clear();
      }
      RIVULET_RETURN_IF_ERROR(cohort.Deliver(client, answer));
    }
    RIVULET_RETURN_IF_ERROR(cohort.server().Close());
  }
  RIVULET_RETURN_IF_ERROR(cohort.server().Unmask(cohort.sum()));
  if (cohort.sum() != cohort.PlainSum()) return Internal("the sum is not the plain one");
  if (!cohort.server().BadShares().empty()) return Internal("the peer's shares do not fit");
  return absl::OkStatus();
}

}  // namespace
}  // namespace rivulet::testing

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  rivulet::testing::CohortOptions options{.members = std::atoi(argv[1]), .words = 1000};
  options.settings.max_colluding = std::atoi(argv[2]);
  options.settings.word_bits = std::atoi(argv[3]);
  const rivulet::Status status = rivulet::testing::Drive(options, 2);
  if (!status.ok()) std::cerr << rivulet::Message(status) << std::endl;
  return status.ok() ? 0 : 1;
}
