// The coordinator's half of SecAgg+.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "federated/secure/graph.h"
#include "federated/secure/messages.h"
#include "federated/secure/protocol.h"
#include "federated/secure/secret_recovery.h"

namespace rivulet::secure {

// Steps as SecAggClient's. Every answer is checked as it comes, so that a client that lies is refused alone, and honest
// clients are shown nothing that they would refuse.
class SecAggServer final : public SecureServer {
 public:
  static StatusOr<std::unique_ptr<SecAggServer>> Create(const ServerSetup& setup);

  int step() const override { return step_; }
  Status Accept(std::string_view client, std::string_view answer) override;
  int64_t answers() const override { return answers_; }
  void Keep(const std::set<std::string, std::less<>>& clients) override;
  Status Close() override;
  StatusOr<std::string> InputFor(std::string_view client) const override;
  std::vector<std::string> Survivors() const override;
  bool CanUnmask() const override;
  Status Unmask(std::span<std::byte> sum) override;
  std::vector<BadShare> BadShares() const override;

  // Once step 0 is closed.
  const GraphShape& shape() const { return graph_->shape(); }
  int64_t members() const { return static_cast<int64_t>(members_.size()); }

 private:
  // What came of one member, step by step.
  struct Answers {
    Voucher voucher;
    KeyHandle signing_key;
    std::optional<SharesMessage> shares;
    bool masked = false;
    std::string agreement;
    std::string reveal;
  };
  explicit SecAggServer(const ServerSetup& setup) : setup_(setup), session_context_(SessionContext(setup.session)) {}
  Status AcceptKeys(std::string_view client, std::string_view answer);
  StatusOr<uint32_t> NumberOf(std::string_view client) const;
  bool Answered(uint32_t member, int step) const;
  Status CheckEnough(int64_t came, int64_t asked, std::string_view what) const;
  Status FixCohort();
  void FixSharers();
  std::vector<HeldShare> SharesOf(uint32_t owner) const;
  StatusOr<std::string> CohortFor(uint32_t member) const;
  StatusOr<std::string> SealedSharesFor(uint32_t member) const;
  StatusOr<std::string> AgreementsFor(uint32_t member) const;
  Status LostSecrets(const SecretRecovery& recovery) const;

  const ServerSetup setup_;
  const Digest session_context_;
  int step_ = 0;
  int64_t answers_ = 0;
  std::optional<AgreementKey> probe_;  // agrees with no key of low order
  std::map<std::string, std::pair<KeysMessage, KeyHandle>, std::less<>> announced_;
  std::set<PublicKey> announced_keys_;
  std::vector<Member> members_;
  std::vector<Answers> came_;
  std::vector<std::vector<uint32_t>> sharers_;  // of each member's holders those that shared, once step 1 is closed
  Digest context_;
  std::shared_ptr<const NeighbourGraph> graph_;
  std::vector<bool> survivors_;
  std::vector<BadShare> bad_shares_;
};

}  // namespace rivulet::secure
