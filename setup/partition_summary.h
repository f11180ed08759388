// Summary of a partition: the clients' examples of each label, and the differences between clients.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/base/status.h"
#include "engine/data/dataset.h"
#include "federated/scenario/scenario.h"
#include "setup/partitioners/shares.h"

namespace rivulet {

struct PartitionSummary {
  int64_t clients = 0, examples = 0;
  int64_t smallest = 0, median = 0, largest = 0;  // examples of one client; the median is the lower of two
  double labels_per_client = 0;                   // mean number of labels that a client holds
  // Mean over the clients of the total variation distance between a client's labels and those of all: 0 where everybody
  // has the same mixture, near 1 where clients have nothing in common.
  double distance = 0;
  std::vector<int64_t> labels;     // in increasing order
  std::vector<std::string> names;  // by label, where the caller knows them (setup/class_names.h)
  std::vector<int64_t> totals;     // examples of each
  // Clients side by side in columns, as evenly as whole numbers allow: column c begins with client starts[c], and the
  // last entry of `starts` is the number of clients.
  std::vector<int64_t> starts;
  std::vector<std::vector<int64_t>> counts;  // examples by label and column
  int64_t columns() const { return static_cast<int64_t>(starts.size()) - 1; }
};

// At most `max_columns` columns (>= 1). Memory is a label an example and the columns'. An empty `label_feature`: there
// are no classes, and sizes are all that is told. INVALID_ARGUMENT: a label that is missing, or not one int64 (names
// file, record and byte); more than 1,000 different labels.
StatusOr<PartitionSummary> Summarise(const Dataset& data, const Shares& shares, const std::string& label_feature,
                                     int64_t max_columns);

// The feature whose values are the classes of the scenario's examples; "": they have none, but labels or numbers.
inline std::string ClassFeatureOf(const Scenario& scenario) {
  return scenario.model.target == "class" ? scenario.data.label_feature : "";
}

}  // namespace rivulet
