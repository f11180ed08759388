// Picture of a partition: labels from top to bottom, clients from left to right, darker for more examples.
#pragma once

#include <string>

#include "inspect/picture/picture.h"
#include "setup/partition_summary.h"

namespace rivulet {

// Text for a terminal: a few lines of numbers, then a row of shades for each label. Columns as in the summary.
std::string PartitionText(const PartitionSummary& summary);

// Above, the number of examples of each column; below, a cell for each label and column, and a legend for its shade.
// `title` may be any text.
Picture PartitionPicture(const PartitionSummary& summary, const std::string& title);

}  // namespace rivulet
