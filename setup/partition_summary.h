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
  double labels_per_client = 0;                   // mean number of labels per client
  // Mean over the clients of the total variation distance between a client's labels and all labels: 0 if all have the
  // same mixture, near 1 if clients share no label.
  double distance = 0;
  std::vector<int64_t> labels;     // in increasing order
  std::vector<std::string> names;  // by label, if the caller knows them (setup/class_names.h)
  std::vector<int64_t> totals;     // examples of each
  // Neighbouring clients share columns, as evenly as whole numbers allow: column c begins with client starts[c], and
  // the last entry of `starts` is the number of clients.
  std::vector<int64_t> starts;
  std::vector<std::vector<int64_t>> counts;  // examples by label and column
  int64_t columns() const { return static_cast<int64_t>(starts.size()) - 1; }
};

// At most `max_columns` columns (>= 1). Memory is a label per example and the columns. Empty `label_feature`: there are
// no classes, and the summary has sizes alone. INVALID_ARGUMENT: a label that is missing or not one int64 (names file,
// record and byte); more than 1,000 different labels.
StatusOr<PartitionSummary> Summarise(const Dataset& data, const Shares& shares, const std::string& label_feature,
                                     int64_t max_columns);

// The feature whose values are the classes of the scenario's examples; "": its targets are no classes.
inline std::string ClassFeatureOf(const Scenario& scenario) {
  return scenario.model.target == "class" ? scenario.data.label_feature : "";
}

}  // namespace rivulet
