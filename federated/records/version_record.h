// Record of one version of a run: how the version was made, and from which one. A run's records are a chain, as each
// has the digest of the one before. The digest of the last one commits to all of them.
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

namespace rivulet::records {

// Of the media type of signed records, too.
inline constexpr std::string_view kStatementType = "https://in-toto.io/Statement/v1";
inline constexpr std::string_view kPredicateType = "urn:rivulet:version:1";

// How a version hides its clients or examples, and what the run has spent with it.
struct RecordedPrivacy {
  std::string mechanism;                          // by name: "discrete_gaussian"
  std::map<std::string, double> parameters = {};  // by name: "multiplier", "clip"
  double epsilon = 0, delta = 0;                  // of all versions up to this one
  std::string unit;                               // "client" or "example"
  std::string relation;                           // "add-remove" or "replace-one"
  std::optional<Digest> noise_key =
      std::nullopt;  // SHA-256 of the run's key; nullopt: noise that nobody can draw again
  bool operator==(const RecordedPrivacy&) const = default;
};

struct VersionRecord {
  std::string run;
  int64_t version = 0;
  std::optional<Digest> previous = std::nullopt;  // record of version - 1; nullopt: version 0
  int64_t made_ms = 0;                            // since 1970 UTC, by the coordinator's clock
  std::string program;                            // its version
  Digest plan, configuration;                     // of the plan's bytes, and of the stored scenario
  std::optional<Digest> base = std::nullopt;      // model that it was made from; nullopt: version 0
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

// Whether `next` may follow `previous`, whose text has `digest`. DATA_LOSS names the run, the version and the field
// that breaks the chain, with what was expected and found.
Status CheckFollows(const VersionRecord& previous, const Digest& digest, const VersionRecord& next);

}  // namespace rivulet::records
