// Target of a table: a column of classes, several columns of 0 and 1, or columns of numbers.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "engine/base/status.h"
#include "engine/data/example.h"
#include "engine/datasets/odd_cells.h"
#include "engine/datasets/table.h"
#include "engine/datasets/table_reader.h"

namespace rivulet {

inline constexpr int64_t kMaxClass = 1'000'000;

// Returns the target columns in `options`. INVALID_ARGUMENT: none, or those of more than one kind.
StatusOr<std::vector<std::string>> TargetColumns(const TableOptions& options);

// Sees every row once and determines the target.
class TargetFit {
 public:
  static StatusOr<TargetFit> Create(const TableReader& table, const TableOptions& options);
  // DATA_LOSS by file and line: an invalid class label; too many classes.
  Status See(const std::vector<std::string>& cells, const TableReader& table);
  // DATA_LOSS: classes are whole numbers except for marks of missing values; names that identify rows.
  Status Finish(TableColumns& columns) const;

 private:
  explicit TargetFit(const TableOptions& options) : options_(options) {}
  Status SeeClass(const std::string& cell, const TableReader& table);

  const TableOptions& options_;
  size_t label_ = 0;
  bool numbers_ = true;  // all classes so far are whole numbers
  bool marks_ = true;    // all others are marks of missing values
  int64_t largest_ = 0, rows_ = 0, whole_ = 0;
  OddCells odd_;
  std::set<std::string> values_;
};

// A row's target as the feature "label": one int64 for a class, an int64 0 or 1 per label, or floats for numbers.
class TargetEncoder {
 public:
  // INVALID_ARGUMENT: the table lacks a column.
  static StatusOr<TargetEncoder> Create(const TableReader& table, const TableColumns& columns);
  // DATA_LOSS by file and line: an unknown class, a label other than 0 and 1, or a number that no finite float holds.
  Status Add(const std::vector<std::string>& cells, const TableReader& table, ExampleBuilder& example);
  double largest() const { return largest_; }  // largest magnitude of a number so far

 private:
  explicit TargetEncoder(const TableColumns& columns) : columns_(columns) {}
  StatusOr<int64_t> ClassOf(const std::string& cell, const TableReader& table) const;

  const TableColumns& columns_;
  std::vector<size_t> places_;
  double largest_ = 0;
};

}  // namespace rivulet
