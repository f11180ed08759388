// A client's half of secure aggregation for one task: the words of its update and the protocol's state machine. It
// knows no network. Its owner fetches inputs and sends answers, at each step once and in their order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "certificates/certificate.h"
#include "certificates/identity.h"
#include "certificates/key.h"
#include "client/secure/seen_revocations.h"
#include "client/training/trainer.h"
#include "federated/plan/plan.h"
#include "federated/secure/protocol.h"
#include "federated/transport/coordinator_api.h"

namespace rivulet {

// A client of a secure sum.
struct SecureMember {
  std::function<std::shared_ptr<const NodeIdentity>()> identity;  // its certificate and key, such as WatchedIdentity's
  secure::SecurePolicy policy;                                    // lower bounds for every plan
  std::function<int64_t()> now;                                   // seconds since 1970 UTC
  std::shared_ptr<SeenRevocations> revocations = nullptr;         // null: those of `identity` alone
};

// The protocol of a plan's sums. NOT_FOUND: this program has no protocol of that name.
StatusOr<const secure::SecureProtocol*> SecureProtocolOf(const Plan& plan);
secure::SecureSettings SecureSettingsOf(const Plan& plan, TaskKind kind = TaskKind::kTrain);

// The words of an update: its values, weights and scalars, rounded as in the coordinator's own
// sum.
StatusOr<std::string> SecureWords(const AggregationSpec& spec, const Task& task, const LocalResult& trained);

// A client's half of one task. Not thread-safe. Its destruction erases its secrets.
class SecureHalf {
 public:
  // INVALID_ARGUMENT: the task names no attempt or no model. Otherwise the errors of
  // certificates and of SecureProtocol::make_client. Words may be set later, by
  // SetWords.
  static StatusOr<std::unique_ptr<SecureHalf>> Create(const SecureMember& member, const Plan& plan, const Task& task,
                                                      std::string words = {});

  int steps() const { return protocol_.steps; }
  int sum_step() const { return protocol_.sum_step; }
  // Call it before the sum's step.
  void SetWords(std::string words) { words_ = std::move(words); }
  size_t word_bytes() const { return words_.size(); }
  // The answer to `step`: at the sum's step, the masked words. The input of step 0 is empty. Errors as SecureClient's;
  // they end the task.
  StatusOr<std::string> Answer(int step, std::string_view input);

 private:
  SecureHalf(const secure::SecureProtocol& protocol, std::string words)
      : protocol_(protocol), words_(std::move(words)) {}

  const secure::SecureProtocol& protocol_;
  std::string words_;
  std::shared_ptr<const NodeIdentity> own_;
  std::shared_ptr<SeenRevocations> seen_;
  std::optional<RevocationList> revoked_;
  Certificate certificate_;
  KeyHandle key_;
  std::unique_ptr<secure::SecureClient> client_;  // destroyed before the members that it uses
};

}  // namespace rivulet
