// Records of a run's versions (federated/records), made by the writer alone, with their rows and in their order. A
// version that a crash has lost was never in the chain. The version in its place extends the stored chain.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "certificates/identity.h"
#include "coordinator/history/rows.h"
#include "coordinator/ledger/ledger.h"
#include "engine/base/sha256.h"
#include "engine/base/status.h"
#include "federated/records/version_record.h"

namespace rivulet {

// The updates in a version.
struct FoldedUpdates {
  int64_t count = 0;
  Digest root = Sha256Of("");
  bool have_identities = false;  // all of them; false: none, or there are none
};
// O(n log n) in the attempt's tasks: a microsecond for each.
FoldedUpdates UpdatesOf(const ClosedAttempt& attempt);

// What a version states beside its place in the chain.
struct VersionFacts {
  int64_t version = 0, made_ms = 0;
  Digest model;
  FoldedUpdates updates;
  std::optional<records::RecordedPrivacy> privacy = std::nullopt;
};

// Not thread-safe.
class RecordMaker {
 public:
  struct Run {
    std::string run_id;
    std::string_view program;
    Digest plan, configuration;
  };
  // Of whose certificate a record is signed; may give another from call to call. Null, or of a key that is not EC
  // P-256: records are not signed.
  using Identity = std::function<std::shared_ptr<const NodeIdentity>()>;
  RecordMaker(Run run, Identity identity) : run_(std::move(run)), identity_(std::move(identity)) {}

  // The stored rows, before the first Make. DATA_LOSS names the version and the field in which they are no chain of
  // this run, and says that the history was changed.
  Status Resume(std::span<const RecordRow> rows);

  // The record that follows `chain`, which grows by it. FAILED_PRECONDITION: of no version that may follow.
  StatusOr<RecordRow> Make(const VersionFacts& facts, records::RecordChain& chain);
  // What is durable.
  const records::RecordChain& chain() const { return chain_; }
  void SetDurable(records::RecordChain chain) { chain_ = std::move(chain); }
  // Why records are not signed although there is a certificate; "": they are, or there is none.
  std::string WhyUnsigned();

 private:
  // Of the identity that signs now; null: none.
  StatusOr<EVP_PKEY*> Key();

  const Run run_;
  const Identity identity_;
  records::RecordChain chain_;
  std::shared_ptr<const NodeIdentity> signer_;  // that key_ was read of
  KeyHandle key_;
  std::string certificate_;  // of the key, in PEM
};

}  // namespace rivulet
