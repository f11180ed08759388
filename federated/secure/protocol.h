// Secure aggregation as two state machines, one at each client and one at the coordinator: bytes in, bytes out, without
// clock and network. One registered file a protocol.
//
//   RIVULET_SECURE_PROTOCOL(arithmetic_registration, {.name = "arithmetic", …});
//
// A protocol has steps from 0. At each step the coordinator makes an input for every remaining client, and the client
// answers it; at `sum_step` the answer is the client's masked words. When the coordinator closes a step, its set of
// answers is fixed. Sums are taken modulo 2^word_bits. The aggregation adds the words; neither half stores any.
//
// Reading the registry is thread-safe once main has begun.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "certificates/certificate.h"
#include "certificates/revocation_list.h"
#include "engine/base/status.h"
#include "federated/aggregation/secure_sum.h"
#include "federated/secure/context.h"
#include "federated/secure/graph_shape.h"
#include "federated/secure/refusals.h"

namespace rivulet::secure {

// What the signed plan states.
struct SecureSettings {
  int64_t min_cohort = 3;     // invited clients whose keys a cohort lists
  int64_t min_survivors = 3;  // clients in a sum
  int64_t max_colluding = 0;  // names of the population that a lying coordinator may control
  double drop_out = 0.1;      // the share of a cohort that may drop out
  int64_t least_sum = 1;      // the least α: see SmallestHonestSum
  int word_bits = 32;         // 32 or 64
};
// As a plan's aggregation states them, with sums of `word_bits`.
SecureSettings SettingsOf(const SecureSum& sum, int word_bits);
GraphNeeds NeedsOf(const SecureSettings& settings, int64_t members);

// What a site asks of every plan.
struct SecurePolicy {
  int64_t min_cohort = 0, min_survivors = 0, max_colluding = 0, least_sum = 0;
};
// FAILED_PRECONDITION names the key of the plan's privacy section that is weaker than the site's policy.
Status CheckPolicy(const SecureSettings& settings, const SecurePolicy& policy);

// By what certificates are believed. All outlive their user.
struct Trust {
  const Certificate* authority = nullptr;
  const RevocationList* revoked = nullptr;  // the last one seen; null: none yet
  int64_t now = 0;                          // seconds since 1970 UTC
};

struct ClientSetup {
  std::string name;
  Session session;
  SecureSettings settings;
  SecurePolicy policy;
  // Of protocols with keys; both outlive the client.
  const Certificate* certificate = nullptr;
  EVP_PKEY* key = nullptr;
  Trust trust;
  Refusals refusals = {};
};

// One task of one client. Not thread-safe. An error refuses the attempt: secrets are wiped and every later call is
// refused. INVALID_ARGUMENT: a message of another form. FAILED_PRECONDITION: what an honest coordinator never sends, or
// a step out of its order; the message names it.
class SecureClient {
 public:
  virtual ~SecureClient() = default;
  // The answer to `step`, which is not the sum's. The input of step 0 is empty.
  virtual StatusOr<std::string> Answer(int step, std::string_view input) = 0;
  // The sum's step: masks `words`, little-endian, in place.
  virtual Status Mask(std::string_view input, std::span<std::byte> words) = 0;
  // The revocation list that came with the cohort and was taken, in PEM; "": none. A client remembers the newest.
  virtual const std::string& revocation_list() const = 0;
};

struct ServerSetup {
  Session session;
  SecureSettings settings;
  Trust trust;
  std::string revocation_list;  // PEM, for the clients; empty: none
};

// A share that did not fit its owner's digest or public key: one of the two lies.
struct BadShare {
  std::string owner, holder;
};

// One attempt at the coordinator. Not thread-safe.
class SecureServer {
 public:
  virtual ~SecureServer() = default;
  virtual int step() const = 0;  // the open one
  // A client's answer to the open step; at the sum's step, whose words are the caller's, empty. An error refuses this
  // client alone, and nothing has changed. NOT_FOUND: it is not, or no longer, of the cohort. ALREADY_EXISTS: it has
  // answered.
  virtual Status Accept(std::string_view client, std::string_view answer) = 0;
  virtual int64_t answers() const = 0;  // to the open step
  // Before Close: of the answers to the open step only those of `clients` count; the others were lost meanwhile. At the
  // sum's step nothing is lost that came.
  virtual void Keep(const std::set<std::string, std::less<>>& clients) = 0;
  // Fixes what came and opens the next step. FAILED_PRECONDITION: too few, so that the attempt is to be abandoned.
  virtual Status Close() = 0;
  // The open step's input for a client that answered the one before. NOT_FOUND: another.
  virtual StatusOr<std::string> InputFor(std::string_view client) const = 0;
  // Clients whose words are in the sum, by name. Once the sum's step is closed.
  virtual std::vector<std::string> Survivors() const = 0;
  // Whether Unmask has what it needs: of the last step enough has come.
  virtual bool CanUnmask() const = 0;
  // Takes the masks off the sum of all survivors' words. FAILED_PRECONDITION: a secret cannot be recovered; the message
  // names clients that answered badly where it can be told. The sum is then of no use.
  virtual Status Unmask(std::span<std::byte> sum) = 0;
  // What Unmask found, though it may have succeeded by other shares.
  virtual std::vector<BadShare> BadShares() const = 0;
};

struct SecureProtocol {
  const char* name = "";
  const char* doc = "";
  int steps = 1;
  int sum_step = 0;
  bool hides = true;  // false: for simulations only
  // INVALID_ARGUMENT, FAILED_PRECONDITION: what cannot be, or is weaker than the policy.
  StatusOr<std::unique_ptr<SecureClient>> (*make_client)(const ClientSetup& setup) = nullptr;
  StatusOr<std::unique_ptr<SecureServer>> (*make_server)(const ServerSetup& setup) = nullptr;
};

// NOT_FOUND names the nearest.
StatusOr<const SecureProtocol*> FindSecureProtocol(std::string_view name);
std::vector<std::string> SecureProtocolNames();

// A check fails where two have one name.
struct SecureProtocolRegistration {
  explicit SecureProtocolRegistration(const SecureProtocol& protocol);
};
#define RIVULET_SECURE_PROTOCOL(variable, ...) \
  [[maybe_unused]] static const ::rivulet::secure::SecureProtocolRegistration variable(__VA_ARGS__)

}  // namespace rivulet::secure
