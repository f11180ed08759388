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

// Returns true if a column has so many different values that they identify rows: at least 10, and at most two rows per
// value on average. Such a column identifies people, and a model must not learn from it.
bool NamesRows(size_t distinct, int64_t rows);

// Call See(cell) for every row, then Finish. Only Finish knows if the column is numeric. Not thread-safe.
class ColumnFit {
 public:
  // `category`: values are names, even if they look like numbers, and may be disclosed.
  ColumnFit(std::string name, bool category) : name_(std::move(name)), category_(category) {}

  // DATA_LOSS: a requested category has too many values, or a value that is too long.
  Status See(const std::string& cell, const TableReader& table);
  // DATA_LOSS also: most cells are numbers but not all; a cell is empty; the values identify rows.
  StatusOr<TableColumn> Finish(const TableOptions& options) const;
  // For a column that Finish refuses: the options that make it acceptable without guessing. Empty if there are none.
  TableRemedies Remedies() const;

 private:
  Status CheckValues(const std::string& file) const;
  StatusOr<TableColumn> Numbers(const TableOptions& options) const;

  std::string name_;
  bool category_;
  int64_t rows_ = 0, count_ = 0;  // numbers of rows, and of cells that are finite numbers
  double mean_ = 0, squares_ = 0;
  OddCells odd_;
  std::set<std::string> values_;  // at most one more than the limit
  std::string first_empty_, long_value_;
};

}  // namespace rivulet
