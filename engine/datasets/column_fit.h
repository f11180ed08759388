// Statistics of one feature column, collected in the first pass over a table: its type (numbers or categories), and its
// mean and deviation or its set of values.
#pragma once

#include <cstdint>
#include <set>
#include <string>

#include "engine/base/status.h"
#include "engine/datasets/odd_cells.h"
#include "engine/datasets/table.h"
#include "engine/datasets/table_reader.h"

namespace rivulet {

// Whether `distinct` different values in `rows` rows name rows rather than groups of them: at most two rows share a
// value on average. Such a column identifies people; nothing is learnt from it.
bool NamesRows(size_t distinct, int64_t rows);

// See(cell) of every row, then Finish. Whether the column holds numbers is known after the last row. Not thread-safe.
class ColumnFit {
 public:
  // `category`: its values are names, even if they look like numbers, and may be disclosed.
  ColumnFit(std::string name, bool category) : name_(std::move(name)), category_(category) {}

  // DATA_LOSS: a category that was asked for has too many values, or one that is too long.
  Status See(const std::string& cell, const TableReader& table);
  // DATA_LOSS, in addition: most cells are numbers and others are not; a cell is empty; values that name rows.
  StatusOr<TableColumn> Finish(const TableOptions& options) const;
  // Of a column that Finish refuses: the options that settle it without a guess. Empty: there are none.
  TableRemedies Remedies() const;

 private:
  Status CheckValues(const std::string& file) const;
  StatusOr<TableColumn> Numbers(const TableOptions& options) const;

  std::string name_;
  bool category_;
  int64_t rows_ = 0, count_ = 0;  // of rows; of cells that are finite numbers
  double mean_ = 0, squares_ = 0;
  OddCells odd_;
  std::set<std::string> values_;  // no more than one beyond the limit
  std::string first_empty_, long_value_;
};

}  // namespace rivulet
