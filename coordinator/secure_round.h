// Secure aggregation of one attempt at the coordinator: the protocol's server half, the sum of the received words, and
// the inputs of steps. It reads no client's update: words are masked until their sum is complete.
//
// Calls: Accept* BeginStep (Accept* | AddWords*) BeginStep … Unmask. Thread-safe; a call lasts as long as its checks.
#pragma once

#include <cstddef>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "certificates/identity.h"
#include "engine/base/mutex.h"
#include "federated/aggregation/sum_words.h"
#include "federated/secure/protocol.h"

namespace rivulet {

class SecureRound {
 public:
  // `spec` describes a secure sum and outlives this. `identity`: this node's; clients have the same authority. Errors
  // as SecureProtocol::make_server, and NOT_FOUND: no such protocol.
  static StatusOr<std::unique_ptr<SecureRound>> Create(const AggregationSpec& spec, const secure::Session& session,
                                                       std::shared_ptr<const NodeIdentity> identity, int64_t now);

  // The most bytes of an answer to `step`; at the sum's step, the size of its words.
  int64_t MostBytes(int step) const;
  // Takes a client's answer to the open step, which is not the sum's. An error refuses this client alone.
  // FAILED_PRECONDITION also if `step` is not open.
  Status Accept(int step, const std::string& client, std::string_view answer);
  // At the sum's step: adds words of MostBytes, of one client or of several, added by an aggregator. Errors as
  // Accept's; if one client's words are refused, none are added.
  struct WordsOf {
    std::string client;
    TaskId task;
  };
  Status AddWords(std::span<const WordsOf> of, std::span<const std::byte> words);
  // Closes the previous step if it is open; `clients` are those that continue. After the sum's step, all clients with
  // added words continue. FAILED_PRECONDITION: too few clients have answered the previous step.
  Status BeginStep(int step, const std::set<std::string, std::less<>>& clients);
  // The open step's input. NOT_FOUND: the client did not answer the step before.
  StatusOr<std::string> InputFor(const std::string& client) const;
  bool CanUnmask() const;
  // The sum of all received words, without masks. May be called again after more answers. FAILED_PRECONDITION names the
  // clients with wrong answers, if they can be identified.
  StatusOr<Partial> Unmask(int64_t base_version);
  // Whether the sum was read, so that it is known even if the attempt is abandoned.
  bool WasRead() const;

 private:
  SecureRound(const AggregationSpec& spec, const secure::SecureProtocol& protocol,
              std::shared_ptr<const NodeIdentity> identity)
      : spec_(spec), protocol_(protocol), words_(spec), identity_(std::move(identity)) {}

  const AggregationSpec& spec_;
  const secure::SecureProtocol& protocol_;
  const SumWords words_;
  const std::shared_ptr<const NodeIdentity> identity_;
  mutable Mutex mutex_;
  std::unique_ptr<secure::SecureServer> server_ GUARDED_BY(mutex_);
  std::vector<std::byte> sum_ GUARDED_BY(mutex_);
  std::unordered_set<TaskId> tasks_ GUARDED_BY(mutex_);  // with words in the sum
  bool read_ GUARDED_BY(mutex_) = false;
};

// The protocol of a plan's sums, if it has steps; null: sums are plain, or need no steps. NOT_FOUND: no such protocol.
StatusOr<const secure::SecureProtocol*> SteppedProtocol(const AggregationSpec& spec);

}  // namespace rivulet
