// A cohort of secure aggregation in one process: an authority, clients with certificates, a coordinator, and a network
// that a test can manipulate.
#pragma once

#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "federated/secure/protocol.h"
#include "tests/federated/secure/test_authority.h"
#include "tests/testing/status_matchers.h"

namespace rivulet::testing {

struct CohortOptions {
  int members = 5;
  std::string protocol = "secagg_plus";
  secure::SecureSettings settings;
  size_t words = 100;
  uint32_t attempt = 1;
};

class TestCohort {
 public:
  explicit TestCohort(const CohortOptions& options) : options_(options) {
    const auto protocol = secure::FindSecureProtocol(options.protocol);
    EXPECT_OK(protocol);
    protocol_ = *protocol;
    for (int i = 0; i < options.members; ++i) names_.push_back(fmt::format("client-{:05}", i));
    auto server = protocol_->make_server(ServerSetup());
    EXPECT_OK(server);
    server_ = *std::move(server);
    for (const std::string& name : names_) {
      auto client = protocol_->make_client(SetupOf(name));
      EXPECT_OK(client);
      clients_.push_back(*std::move(client));
      std::vector<std::byte>& words = words_.emplace_back(options.words * static_cast<size_t>(bits() / 8));
      for (std::byte& byte : words) byte = static_cast<std::byte>(random_());
    }
    sum_.resize(words_[0].size());
  }

  secure::Session Session() const {
    return {.run = "heart",
            .plan = Sha256Of("plan"),
            .model = Sha256Of("model"),
            .version = 3,
            .attempt = options_.attempt};
  }
  secure::Trust Trust() const { return {.authority = &SharedAuthority().certificate(), .now = kHarnessNow}; }
  secure::ServerSetup ServerSetup() const {
    return {.session = Session(), .settings = options_.settings, .trust = Trust(), .revocation_list = ""};
  }
  secure::ClientSetup SetupOf(const std::string& name) const {
    const TestAuthority::Holder& holder = HolderOf(name);
    return {.name = name,
            .session = Session(),
            .settings = options_.settings,
            .policy = {},
            .certificate = &holder.certificate,
            .key = holder.key.get(),
            .trust = Trust()};
  }
  void ReplaceClient(size_t client, const secure::ClientSetup& setup) {
    auto made = protocol_->make_client(setup);
    ASSERT_OK(made);
    clients_[client] = *std::move(made);
  }

  // Returns the client's answer to its input of the open step, after `change`, if any. In the step of the sum its words
  // are added, and the answer is empty.
  using Change = std::function<std::string(std::string)>;
  StatusOr<std::string> AnswerOf(size_t client, const Change& change = {}) {
    RIVULET_ASSIGN_OR_RETURN(std::string input, server_->InputFor(names_[client]));
    return AnswerTo(client, change ? change(std::move(input)) : input);
  }
  StatusOr<std::string> AnswerTo(size_t client, const std::string& input) {
    const int step = server_->step();
    if (step != protocol_->sum_step) return clients_[client]->Answer(step, input);
    std::vector<std::byte> masked = words_[client];
    RIVULET_RETURN_IF_ERROR(clients_[client]->Mask(input, masked));
    Add(masked, sum_);
    last_masked_ = std::move(masked);
    return "";
  }
  // Adds masked words that were computed elsewhere.
  void AddMasked(std::string_view words) {
    std::vector<std::byte> bytes(words.size());
    std::memcpy(bytes.data(), words.data(), words.size());
    if (bytes.size() == sum_.size()) Add(bytes, sum_);
  }
  Status Deliver(size_t client, const std::string& answer) { return server_->Accept(names_[client], answer); }

  // All clients except those in `dropped` answer the open step; then it is closed.
  Status RunStep(const std::set<size_t>& dropped = {}) {
    for (size_t client = 0; client < clients_.size(); ++client) {
      if (dropped.contains(client)) continue;
      RIVULET_ASSIGN_OR_RETURN(const std::string answer, AnswerOf(client));
      RIVULET_RETURN_IF_ERROR(Deliver(client, answer));
    }
    return server_->Close();
  }
  // Runs steps until `step` is open. `drops`: per client, the first step that it does not answer.
  Status RunUntil(int step, const std::map<size_t, int>& drops = {}) {
    while (server_->step() < step) {
      std::set<size_t> dropped;
      for (const auto& [client, at] : drops)
        if (at <= server_->step()) dropped.insert(client);
      RIVULET_RETURN_IF_ERROR(RunStep(dropped));
    }
    return absl::OkStatus();
  }
  // Runs the whole protocol and returns the unmasked sum.
  StatusOr<std::vector<std::byte>> Run(const std::map<size_t, int>& drops = {}) {
    RIVULET_RETURN_IF_ERROR(RunUntil(protocol_->steps, drops));
    RIVULET_RETURN_IF_ERROR(server_->Unmask(sum_));
    return sum_;
  }
  // Returns the sum of the survivors' words, computed without the protocol.
  std::vector<std::byte> PlainSum() const {
    std::vector<std::byte> sum(sum_.size());
    for (const std::string& name : server_->Survivors()) {
      for (size_t client = 0; client < names_.size(); ++client)
        if (names_[client] == name) Add(words_[client], sum);
    }
    return sum;
  }

  secure::SecureServer& server() { return *server_; }
  secure::SecureClient& client(size_t i) { return *clients_[i]; }
  const std::string& name(size_t i) const { return names_[i]; }
  std::vector<std::byte>& sum() { return sum_; }
  const std::vector<std::byte>& words(size_t i) const { return words_[i]; }
  const std::vector<std::byte>& last_masked() const { return last_masked_; }
  int bits() const { return options_.settings.word_bits; }

 private:
  void Add(const std::vector<std::byte>& words, std::vector<std::byte>& sum) const {
    const auto add = [&](auto zero) {
      using Word = decltype(zero);
      const auto* from = reinterpret_cast<const Word*>(words.data());
      auto* to = reinterpret_cast<Word*>(sum.data());
      for (size_t i = 0; i < words.size() / sizeof(Word); ++i) to[i] += from[i];
    };
    if (bits() == 32) {
      add(uint32_t{});
    } else {
      add(uint64_t{});
    }
  }

  const CohortOptions options_;
  const secure::SecureProtocol* protocol_ = nullptr;
  std::vector<std::string> names_;
  std::unique_ptr<secure::SecureServer> server_;
  std::vector<std::unique_ptr<secure::SecureClient>> clients_;
  std::vector<std::vector<std::byte>> words_;
  std::vector<std::byte> sum_, last_masked_;
  std::mt19937_64 random_{7};
};

}  // namespace rivulet::testing
