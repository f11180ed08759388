#include "engine/datasets/table_target.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "engine/base/nearest.h"
#include "engine/base/utf8.h"
#include "engine/datasets/column_fit.h"
#include "engine/datasets/units.h"

namespace rivulet {
namespace {

constexpr size_t kMaxClasses = 10000;

std::optional<int64_t> CellClass(std::string_view cell) {
  cell = Trimmed(cell);
  int64_t value = 0;
  const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
  if (error != std::errc() || end != cell.data() + cell.size() || value < 0 || value > kMaxClass) return std::nullopt;
  return value;
}

std::optional<int64_t> CellTruth(std::string_view cell) {
  cell = Trimmed(cell);
  if (cell != "0" && cell != "1") return std::nullopt;
  return cell == "1";
}

}  // namespace

StatusOr<std::vector<std::string>> TargetColumns(const TableOptions& options) {
  const size_t ways =
      (options.label.empty() ? 0 : 1) + (options.labels.empty() ? 0 : 1) + (options.targets.empty() ? 0 : 1);
  if (ways == 0)
    return InvalidArgument("no label and no target is given; name the column, or the columns, that are to be learnt");
  if (ways > 1) return InvalidArgument("a model learns labels or numbers; give one of label and target");
  if (!options.label.empty()) return std::vector<std::string>{options.label};
  return options.labels.empty() ? options.targets : options.labels;
}

StatusOr<TargetFit> TargetFit::Create(const TableReader& table, const TableOptions& options) {
  TargetFit fit(options);
  if (!options.label.empty()) {
    RIVULET_ASSIGN_OR_RETURN(fit.label_, table.Find(options.label));
  }
  return fit;
}

// Labels and numbers are what their cells say, whatever other rows have; the encoder finds what is wrong with them.
Status TargetFit::See(const std::vector<std::string>& cells, const TableReader& table) {
  return options_.label.empty() ? absl::OkStatus() : SeeClass(cells[label_], table);
}

Status TargetFit::SeeClass(const std::string& cell, const TableReader& table) {
  const std::string& name = options_.label;
  const std::string value(Trimmed(cell));
  if (value.empty()) return DataLoss("{}: the label '{}' is empty", table.Where(), name);
  if (value.size() > kMaxCellValueBytes || !IsUtf8(value))
    return DataLoss("{}: the label has {} bytes, or is no UTF-8; it can have {} bytes", table.Where(), value.size(),
                    kMaxCellValueBytes);
  const std::optional<int64_t> whole = CellClass(value);
  const std::optional<double> number = CellNumber(value);
  if (number && std::floor(*number) != *number)
    return DataLoss("{}: the label '{}' is no class; to have the numbers of '{}' predicted, name it as the target",
                    table.Where(), ShortCell(value), name);
  ++rows_;
  numbers_ = numbers_ && whole.has_value();
  whole_ += whole.has_value();
  if (!whole) {
    marks_ = marks_ && IsMissingMark(value);
    odd_.See(value, table.line());
  }
  if (whole) largest_ = std::max(largest_, *whole);
  values_.insert(value);
  if (values_.size() > kMaxClasses)
    return DataLoss("{}: the label '{}' has more than {} different values; is it the right column?", table.Where(),
                    name, kMaxClasses);
  return absl::OkStatus();
}

Status TargetFit::Finish(TableColumns& columns) const {
  columns.label = options_.label;
  columns.labels = options_.labels;
  columns.targets = options_.targets;
  if (columns.label.empty()) return absl::OkStatus();
  if (whole_ > 0 && !numbers_ && marks_)
    return DataLoss("{}: the label '{}' is a class in some rows and missing in others: {}", options_.from,
                    options_.label, odd_.Cells(rows_));
  if (!numbers_ && NamesRows(values_.size(), rows_))
    return DataLoss("{}: the label '{}' has {} different values in {} rows; is it the right column?", options_.from,
                    options_.label, values_.size(), rows_);
  if (!numbers_) columns.classes.assign(values_.begin(), values_.end());
  columns.class_count = numbers_ ? largest_ + 1 : static_cast<int64_t>(values_.size());
  return absl::OkStatus();
}

StatusOr<TargetEncoder> TargetEncoder::Create(const TableReader& table, const TableColumns& columns) {
  TargetEncoder encoder(columns);
  std::vector<std::string> names = columns.labels.empty() ? columns.targets : columns.labels;
  if (!columns.label.empty()) names = {columns.label};
  for (const std::string& name : names) {
    RIVULET_ASSIGN_OR_RETURN(const size_t place, table.Find(name));
    encoder.places_.push_back(place);
  }
  return encoder;
}

Status TargetEncoder::Add(const std::vector<std::string>& cells, const TableReader& table, ExampleBuilder& example) {
  std::vector<int64_t> truths;
  std::vector<float> numbers;
  for (size_t i = 0; i < places_.size(); ++i) {
    const std::string& cell = cells[places_[i]];
    if (!columns_.label.empty()) {
      RIVULET_ASSIGN_OR_RETURN(const int64_t label, ClassOf(cell, table));
      example.Int64("label", label);
    } else if (!columns_.labels.empty()) {
      const std::optional<int64_t> truth = CellTruth(cell);
      if (!truth)
        return DataLoss("{}: '{}' in column '{}' is neither 0 nor 1, and of several labels an example has each or not",
                        table.Where(), ShortCell(cell), columns_.labels[i]);
      truths.push_back(*truth);
    } else {
      const std::optional<double> number = table.Number(cell);
      if (!number || !(std::abs(*number) <= std::numeric_limits<float>::max()))
        return DataLoss("{}: '{}' in column '{}' is no number that a float holds, and a target has to be one{}",
                        table.Where(), ShortCell(cell), columns_.targets[i],
                        LooksLikeNumber(cell) || SplitUnit(cell)
                            ? "; --decimal, --thousands and --unit say how numbers are written"
                            : "");
      largest_ = std::max(largest_, std::abs(*number));
      numbers.push_back(static_cast<float>(*number));
    }
  }
  if (!truths.empty()) example.Int64s("label", truths);
  if (!numbers.empty()) example.Floats("label", numbers);
  return absl::OkStatus();
}

StatusOr<int64_t> TargetEncoder::ClassOf(const std::string& cell, const TableReader& table) const {
  const std::string value(Trimmed(cell));
  if (columns_.classes.empty()) {
    const std::optional<int64_t> whole = CellClass(value);
    if (!whole || *whole >= columns_.class_count)
      return DataLoss("{}: the label '{}' is not one of the classes 0 to {}", table.Where(), ShortCell(value),
                      columns_.class_count - 1);
    return *whole;
  }
  const auto found = std::ranges::lower_bound(columns_.classes, value);
  if (found == columns_.classes.end() || *found != value)
    return DataLoss("{}: the label '{}' is not one of the {} classes.{}", table.Where(), ShortCell(value),
                    columns_.classes.size(), DidYouMean(value, columns_.classes));
  return found - columns_.classes.begin();
}

}  // namespace rivulet
