#include "engine/datasets/column_fit.h"

#include <cmath>
#include <optional>

#include "engine/base/utf8.h"

namespace rivulet {

bool NamesRows(size_t distinct, int64_t rows) {
  constexpr size_t kFew = 10;  // values of a small table's category, which few rows may share
  return distinct >= kFew && 2 * static_cast<int64_t>(distinct) >= rows;
}

Status ColumnFit::See(const std::string& cell, const TableReader& table) {
  ++rows_;
  if (!category_) {
    const std::optional<double> value = table.Number(cell);
    if (value && std::isfinite(*value)) {  // Welford's recurrence keeps the digits of a small deviation
      ++count_;
      const double delta = *value - mean_;
      mean_ += delta / static_cast<double>(count_);
      squares_ += delta * (*value - mean_);
    } else if (Trimmed(cell).empty()) {
      if (first_empty_.empty()) first_empty_ = table.Where();
    } else {
      odd_.See(cell, table.line());
    }
  }
  if (values_.size() <= kMaxCategoryValues) {
    if (cell.size() > kMaxCellValueBytes || !IsUtf8(cell))
      long_value_ = table.Where();
    else
      values_.insert(cell);
  }
  return category_ ? CheckValues(table.source().path()) : absl::OkStatus();
}

StatusOr<TableColumn> ColumnFit::Finish(const TableOptions& options) const {
  if (!category_ && odd_.count() == 0) return Numbers(options);
  if (!category_ && odd_.AmongNumbers(count_))
    return DataLoss("{}: column '{}': {}", options.from, name_, odd_.Told(name_, count_ + odd_.count()));
  RIVULET_RETURN_IF_ERROR(CheckValues(options.from));
  if (!category_ && NamesRows(values_.size(), rows_))
    return DataLoss(
        "{}: column '{}' has {} different values in {} rows, so its values name rows, and columns.json would disclose "
        "them all. Pass --without '{}' to leave the column out, or --category '{}' to disclose its values",
        options.from, name_, values_.size(), rows_, name_, name_);
  TableColumn column;
  column.name = name_;
  column.category = true;
  column.values.assign(values_.begin(), values_.end());
  return column;
}

TableRemedies ColumnFit::Remedies() const {
  const bool numbers = odd_.count() == 0 || odd_.AmongNumbers(count_);
  if (!numbers || count_ == 0) return {.without = {name_}};
  if (!odd_.AreMarks()) return {};
  return {.missing = odd_.Texts(), .fill_missing = true};
}

StatusOr<TableColumn> ColumnFit::Numbers(const TableOptions& options) const {
  if (count_ == 0) return DataLoss("{}: column '{}' is empty in every row; leave it out", options.from, name_);
  if (!first_empty_.empty() && !options.fill_missing)
    return DataLoss(
        "{}: column '{}' is empty. Pass --fill-missing to use the column's mean, --without '{}' to leave the column "
        "out, or fill the cell",
        first_empty_, name_, name_);
  TableColumn column;
  column.name = name_;
  const double deviation = std::sqrt(squares_ / static_cast<double>(count_));
  column.mean = mean_;
  column.count = count_;
  column.constant = !(deviation > 0);
  if (!column.constant) column.deviation = deviation;
  return column;
}

Status ColumnFit::CheckValues(const std::string& file) const {
  if (!long_value_.empty())
    return DataLoss(
        "{}: column '{}' has a value of more than {} bytes, or that is no UTF-8, which makes no category. Pass "
        "--without '{}' to leave the column out",
        long_value_, name_, kMaxCellValueBytes, name_);
  if (values_.size() > kMaxCategoryValues)
    return DataLoss("{}: column '{}' has more than {} different values. Pass --without '{}' to leave it out", file,
                    name_, kMaxCategoryValues, name_);
  return absl::OkStatus();
}

}  // namespace rivulet
