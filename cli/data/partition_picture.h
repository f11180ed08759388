// A partition as a picture: labels from top to bottom, clients from left to right, the darker the more examples.
#pragma once

#include <string>

#include "setup/partition_summary.h"

namespace rivulet {

// For a terminal: a few lines of numbers, then a row of shades for each label. Columns as in the summary.
std::string PartitionText(const PartitionSummary& summary);

// As SVG 1.1, by itself: above, how many examples each column holds; below, a cell for each label and column, and what
// its shade means. `title` may hold any text.
std::string PartitionSvg(const PartitionSummary& summary, const std::string& title);

}  // namespace rivulet
