// Record of one version of a run: how the version was made, and from which one. A run's records are a chain, as each
// has the digest of the one before. The digest of the last one commits to all of them. A chain begins with version 0,
// or where a run of an earlier program was resumed by one that makes records. Each record also has the root of a tree
// over all earlier ones, so log2(n) digests show that one record follows another.
//
// A record is one line of JSON, an in-toto statement (in-toto.io/Statement/v1), which tools of supply chains read:
//
//   {"_type": "https://in-toto.io/Statement/v1",
//    "subject": [{"name": RUN/VERSION, "digest": {"rivuletModel": HEX}}],
//    "predicateType": "urn:rivulet:version:1",
//    "predicate": {"run": …, "version": …, "previous": …, …}}
//
// The same record has the same bytes, and a text of other bytes is refused even where it says the same.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "engine/base/sha256.h"
#include "engine/base/status.h"
#include "federated/records/merkle_tree.h"

namespace rivulet::records {

// Of the media type of signed records, too.
inline constexpr std::string_view kStatementType = "https://in-toto.io/Statement/v1";
inline constexpr std::string_view kPredicateType = "urn:rivulet:version:1";
// Metadata of a version's model file: the digest of its record, in hexadecimal digits.
inline constexpr char kRecordKey[] = "rivulet.record";

// How a version hides its clients or examples, and what the run has spent with it.
struct RecordedPrivacy {
  std::string mechanism;                          // by name: "discrete_gaussian"
  std::map<std::string, double> parameters = {};  // by name: "multiplier", "clip"
  std::optional<double> epsilon = std::nullopt;   // of all versions up to this one; nullopt: nothing bounds it
  double delta = 0;
  std::string unit;      // "client" or "example"
  std::string relation;  // "add-remove" or "replace-one"
  std::optional<Digest> noise_key =
      std::nullopt;  // SHA-256 of the run's key; nullopt: noise that nobody can draw again
  bool operator==(const RecordedPrivacy&) const = default;
};

struct VersionRecord {
  std::string run;
  int64_t version = 0;
  std::optional<Digest> previous = std::nullopt;  // record of version - 1; nullopt: the chain's first
  int64_t earlier = 0;                            // records of the chain before this one
  Digest earlier_root = Sha256Of("");             // of the tree over these (LeafOf)
  int64_t made_ms = 0;                            // since 1970 UTC, by the coordinator's clock
  std::string program;                            // its version
  Digest plan, configuration;                     // of the plan's bytes, and of the scenario that the run began with
  std::optional<Digest> base = std::nullopt;      // model that it was made from; nullopt: the chain's first
  Digest model;
  int64_t updates = 0;        // folded
  Digest updates_root = {};   // MerkleTree over them, ordered by the bytes of their tasks
  bool has_receipts = false;  // whether every update has an identity
  std::optional<RecordedPrivacy> privacy = std::nullopt;
  bool operator==(const VersionRecord&) const = default;
};

std::string Write(const VersionRecord& record);
// The SHA-256 of its text, by which the next record and a model's file name it.
Digest DigestOf(std::string_view text);
// INVALID_ARGUMENT names the field that is missing, wrong or unknown, or says that the text is not as Write makes it.
StatusOr<VersionRecord> ReadVersionRecord(std::string_view text);

// A field by which a record does not follow those before it.
struct ChainBreak {
  std::string_view field;
  std::string expected, found;
};

// The records of a run, from the first on, each checked against those before. Nothing is kept but the last.
class RecordChain {
 public:
  // The first field that is not as those before require; nullopt: the record follows them.
  std::optional<ChainBreak> BreakOf(const VersionRecord& record) const;
  // DATA_LOSS names the run, the version and the field that breaks the chain, with what was expected and found; the
  // chain is unchanged then.
  Status Add(const VersionRecord& record, const Digest& digest);
  // Sets the next record's place: version, previous, earlier, earlier_root, base.
  void Continue(VersionRecord& next) const;
  bool empty() const { return !last_; }
  int64_t size() const { return tree_.size(); }
  const VersionRecord& last() const { return *last_; }  // not of an empty one
  const Digest& head() const { return head_; }          // digest of the last

 private:
  std::optional<VersionRecord> last_;
  Digest head_;
  GrowingTree tree_;
};

}  // namespace rivulet::records
