// Summary of a record file: number of records, features with types and shapes, distribution of labels.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "engine/base/status.h"
#include "engine/data/example.h"
#include "engine/data/progress.h"
#include "engine/io/byte_stream.h"

namespace rivulet {

// Summary of one feature over all examples that have it.
struct FeatureSummary {
  FeatureKind kind = FeatureKind::kNone;  // of the first example with values
  bool mixed = false;                     // other examples have another kind
  int64_t examples = 0;                   // number of examples that have it
  int64_t min_count = 0, max_count = 0;   // values
  int64_t min_bytes = -1, max_bytes = 0;  // of each value of a bytes feature; -1: no values

  // Dimensions; -1 if examples differ. int64 and float: [] for always one value, else [values]. bytes: [length] for
  // always one value, else [values, length].
  std::vector<int64_t> Shape() const;
};

struct FileSummary {
  std::string path;
  Compression compression = Compression::kNone;
  int64_t bytes = 0;           // of the file
  int64_t unpacked_bytes = 0;  // of the record stream
  int64_t records = 0;
  int64_t examples = 0;                            // records that are a tf.train.Example …
  int64_t sequence_examples = 0;                   // … a tf.train.SequenceExample
  int64_t others = 0;                              // … neither
  std::map<std::string, FeatureSummary> features;  // of examples, and of sequence examples' contexts
  std::string label_feature;                       // "" if no feature looks like a label
  std::map<int64_t, int64_t> labels;               // value → examples
  std::vector<std::string> label_names;            // by value, if the caller knows them
};

// Reads the whole file and verifies every checksum. `label_feature`: the feature whose values are counted; "": "label",
// else the only int64 feature with one value in each example and at most 1,000 different values. Errors as in
// tfrecord.h; INVALID_ARGUMENT: no example has the given `label_feature`, or not all have exactly one int64 value.
StatusOr<FileSummary> InspectRecords(const std::string& path, const std::string& label_feature = "",
                                     const DataProgress& progress = {});

std::string ToText(const FileSummary& summary);  // several lines, for people
std::string ToJson(const FileSummary& summary);  // one object on several lines

struct Verified {
  int64_t records = 0;
  int64_t bytes = 0;  // of the record stream
};
// Verifies every checksum, and that the file ends with a complete record. Errors as in tfrecord.h.
StatusOr<Verified> VerifyRecords(const std::string& path, const DataProgress& progress = {});

}  // namespace rivulet
