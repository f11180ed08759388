#include "engine/datasets/table.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <set>

#include "engine/base/join.h"
#include "engine/base/utf8.h"
#include "engine/data/example.h"
#include "engine/datasets/column_fit.h"
#include "engine/datasets/new_dataset.h"
#include "engine/datasets/table_reader.h"
#include "engine/datasets/table_target.h"

namespace rivulet {
namespace {

constexpr size_t kMaxKeyBytes = 128;

bool IsIndexed(const TableOptions& options, const std::string& column) {
  return std::ranges::find(options.indexed, column) != options.indexed.end();
}

// The feature of each column that has another than "features".
StatusOr<std::map<std::string, std::string>> PartsOf(const TableOptions& options) {
  std::map<std::string, std::string> parts;
  std::set<std::string> names = {"label", "features", options.key};
  const auto claim = [&](const std::string& feature) {
    if (!feature.empty() && feature.size() <= kMaxCellValueBytes && names.insert(feature).second)
      return absl::OkStatus();
    return InvalidArgument("the feature '{}' has the name of another one; rename it", ShortCell(feature));
  };
  for (const auto& [feature, columns] : options.parts) {
    RIVULET_RETURN_IF_ERROR(claim(feature));
    for (const std::string& column : columns) {
      if (!parts.emplace(column, feature).second)
        return InvalidArgument("column '{}' cannot be part of two features", ShortCell(column));
      if (IsIndexed(options, column) != IsIndexed(options, columns[0]))
        return InvalidArgument(
            "the feature '{}' cannot hold integers of '{}' beside numbers; index all of its columns or none",
            ShortCell(feature), ShortCell(IsIndexed(options, column) ? column : columns[0]));
    }
  }
  for (const std::string& column : options.indexed) {
    if (std::ranges::find(options.categories, column) != options.categories.end())
      return InvalidArgument("column '{}' cannot be an index and a category of many numbers", ShortCell(column));
    if (parts.emplace(column, column).second) RIVULET_RETURN_IF_ERROR(claim(column));
  }
  return parts;
}

// Which columns are features, in the order of the file.
StatusOr<std::vector<size_t>> FeaturePlaces(const TableReader& table, const TableOptions& options) {
  RIVULET_ASSIGN_OR_RETURN(std::vector<std::string> other, TargetColumns(options));
  other.insert(other.end(), options.without.begin(), options.without.end());
  if (!options.key.empty()) other.push_back(options.key);
  std::set<size_t> taken;
  for (const std::string& column : other) {
    RIVULET_ASSIGN_OR_RETURN(const size_t place, table.Find(column));
    if (!taken.insert(place).second)
      return InvalidArgument("column '{}' cannot have two of the roles label, target, key and left out",
                             ShortCell(column));
  }
  std::vector<std::string> named = options.categories;
  named.insert(named.end(), options.indexed.begin(), options.indexed.end());
  for (const std::string& column : named) {
    RIVULET_ASSIGN_OR_RETURN(const size_t place, table.Find(column));
    if (taken.contains(place))
      return InvalidArgument("column '{}' is no feature, so it cannot be a category", ShortCell(column));
  }
  RIVULET_ASSIGN_OR_RETURN(const auto parts, PartsOf(options));
  for (const auto& [column, feature] : parts) {
    RIVULET_ASSIGN_OR_RETURN(const size_t place, table.Find(column));
    if (taken.contains(place))
      return InvalidArgument("column '{}' is no feature, so it cannot be part of '{}'", ShortCell(column),
                             ShortCell(feature));
  }
  std::vector<size_t> places;
  for (size_t i = 0; i < table.names().size(); ++i)
    if (!taken.contains(i)) places.push_back(i);
  if (places.empty()) return InvalidArgument("{} leaves no column for the features", table.source().path());
  return places;
}

// Collects the faults of several columns, one line each, so that the next import can fix all of them.
Status AllOf(const std::vector<Status>& refused) {
  constexpr size_t kMost = 10;
  if (refused.size() == 1) return refused[0];
  std::string lines;
  for (size_t i = 0; i < std::min(refused.size(), kMost); ++i)
    lines += fmt::format("{}{}", i == 0 ? "" : "\n", Message(refused[i]));
  if (refused.size() > kMost) lines += fmt::format("\nand {} more columns", refused.size() - kMost);
  return DataLoss("{}", lines);
}

// `remedies`, where given, becomes what settles all columns that are refused; empty where it settles one of them only.
StatusOr<TableColumns> FitTable(const TableOptions& options, const DataProgress& progress,
                                TableRemedies* remedies = nullptr) {
  RIVULET_ASSIGN_OR_RETURN(const auto table, TableReader::Open(options.from, options));
  RIVULET_ASSIGN_OR_RETURN(const std::vector<size_t> places, FeaturePlaces(*table, options));
  RIVULET_ASSIGN_OR_RETURN(TargetFit target, TargetFit::Create(*table, options));
  std::vector<ColumnFit> fits;
  for (const size_t place : places) {
    const std::string& name = table->names()[place];
    fits.emplace_back(name, IsIndexed(options, name) || std::ranges::count(options.categories, name) > 0);
  }
  std::vector<std::string> cells;
  for (int64_t row = 0;; ++row) {
    RIVULET_ASSIGN_OR_RETURN(const bool more, table->Next(cells, progress));
    if (!more && row == 0) return DataLoss("{}: it has no rows besides its header", options.from);
    if (!more) break;
    RIVULET_RETURN_IF_ERROR(target.See(cells, *table));
    // Test rows are excluded from the fit.
    if (options.test_every > 0 && row % options.test_every == options.test_every - 1) continue;
    for (size_t i = 0; i < places.size(); ++i) RIVULET_RETURN_IF_ERROR(fits[i].See(cells[places[i]], *table));
  }
  RIVULET_ASSIGN_OR_RETURN(const auto parts, PartsOf(options));
  TableColumns columns;
  columns.standardised = options.standardise;
  RIVULET_RETURN_IF_ERROR(target.Finish(columns));
  std::vector<Status> refused;
  TableRemedies found;
  bool all_settled = true;
  for (size_t i = 0; i < places.size(); ++i) {
    StatusOr<TableColumn> fitted = fits[i].Finish(options);
    if (!fitted.ok()) {
      refused.push_back(fitted.status());
      const TableRemedies of_column = fits[i].Remedies();
      all_settled = all_settled && !of_column.empty();
      found.Add(of_column);
      continue;
    }
    TableColumn column = *std::move(fitted);
    column.index = IsIndexed(options, column.name);
    if (const auto part = parts.find(column.name); part != parts.end()) column.feature = part->second;
    columns.features.push_back(std::move(column));
  }
  if (remedies != nullptr && all_settled) *remedies = found;
  if (!refused.empty()) return AllOf(refused);
  if (columns.feature_count() > static_cast<int64_t>(kMaxFeatures))
    return DataLoss("{}: its columns make {} features, more than {}; leave some out", options.from,
                    columns.feature_count(), kMaxFeatures);
  return columns;
}

// The columns of a file, found by the names that `columns` has.
class RowEncoder {
 public:
  static StatusOr<RowEncoder> Create(const TableReader& table, const TableColumns& columns,
                                     const TableOptions& options) {
    RIVULET_ASSIGN_OR_RETURN(TargetEncoder target, TargetEncoder::Create(table, columns));
    RowEncoder encoder(columns, options, std::move(target));
    for (const TableColumn& column : columns.features) {
      RIVULET_ASSIGN_OR_RETURN(const size_t place, table.Find(column.name));
      encoder.places_.push_back(place);
      if (column.feature == options.key)
        return InvalidArgument("the column '{}' cannot be the key, for examples have a feature of that name; rename it",
                               options.key);
    }
    if (!options.key.empty()) {
      RIVULET_ASSIGN_OR_RETURN(encoder.key_, table.Find(options.key));
    }
    return encoder;
  }

  StatusOr<std::string> Encode(const std::vector<std::string>& cells, const TableReader& table) {
    for (auto& [name, numbers] : numbers_) numbers.clear();
    for (auto& [name, indices] : indices_) indices.clear();
    for (size_t i = 0; i < places_.size(); ++i) {
      const TableColumn& column = columns_.features[i];
      const std::string& cell = cells[places_[i]];
      if (column.category) {
        AddCategory(column, cell);
        continue;
      }
      std::optional<double> value = table.Number(cell);
      if (!value && options_.fill_missing && Trimmed(cell).empty()) value = column.mean;
      if (!value || !std::isfinite(*value))
        return DataLoss("{}: '{}' in column '{}' is no finite number{}", table.Where(), ShortCell(cell), column.name,
                        Trimmed(cell).empty() ? "; pass --fill-missing to use the column's mean" : "");
      const double scaled = columns_.standardised ? (*value - column.mean) / column.deviation : *value;
      if (!(std::abs(scaled) <= std::numeric_limits<float>::max()))
        return DataLoss("{}: '{}' in column '{}' is beyond the range of a float", table.Where(), ShortCell(cell),
                        column.name);
      numbers_[column.feature].push_back(static_cast<float>(scaled));
    }
    ExampleBuilder example;
    for (const auto& [name, numbers] : numbers_) example.Floats(name, numbers);
    for (const auto& [name, indices] : indices_) example.Int64s(name, indices);
    RIVULET_RETURN_IF_ERROR(target_.Add(cells, table, example));
    if (!options_.key.empty()) {
      const std::string& key = cells[key_];
      if (key.empty() || key.size() > kMaxKeyBytes)
        return DataLoss("{}: '{}' has {} bytes and cannot name a client; give 1 to {}", table.Where(),
                        ShortCell(options_.key), key.size(), kMaxKeyBytes);
      example.Bytes(options_.key, key);
    }
    return example.Serialize();
  }
  double largest_target() const { return target_.largest(); }

 private:
  RowEncoder(const TableColumns& columns, const TableOptions& options, TargetEncoder target)
      : columns_(columns), options_(options), target_(std::move(target)) {}

  void AddCategory(const TableColumn& column, const std::string& cell) {
    const auto found = std::ranges::lower_bound(column.values, cell);
    const bool known = found != column.values.end() && *found == cell;
    const auto place = static_cast<size_t>(found - column.values.begin());
    if (column.index) {
      indices_[column.feature].push_back(known ? static_cast<int64_t>(place) + 1 : 0);
      return;
    }
    std::vector<float>& numbers = numbers_[column.feature];
    numbers.resize(numbers.size() + column.values.size(), 0);
    if (known) numbers[numbers.size() - column.values.size() + place] = 1;
  }

  const TableColumns& columns_;
  const TableOptions& options_;
  TargetEncoder target_;
  std::vector<size_t> places_;
  size_t key_ = 0;
  std::map<std::string, std::vector<float>> numbers_;  // of one row, by feature
  std::map<std::string, std::vector<int64_t>> indices_;
};

Status EncodeTable(const std::string& path, const TableColumns& columns, const TableOptions& options, bool is_test,
                   const DataProgress& progress, NewDataset& files, TableCounts& counts) {
  RIVULET_ASSIGN_OR_RETURN(const auto table, TableReader::Open(path, options));
  if (!is_test) counts.names = table->names();
  RIVULET_ASSIGN_OR_RETURN(RowEncoder encoder, RowEncoder::Create(*table, columns, options));
  std::vector<std::string> cells;
  for (int64_t row = 0;; ++row) {
    RIVULET_ASSIGN_OR_RETURN(const bool more, table->Next(cells, progress));
    if (!more && row == 0) return DataLoss("{}: it has no rows besides its header", path);
    if (!more) break;
    RIVULET_ASSIGN_OR_RETURN(const std::string example, encoder.Encode(cells, *table));
    RIVULET_RETURN_IF_ERROR((is_test ? files.test() : files.at(row, options.test_every)).Append(example));
  }
  counts.largest_target = std::max(counts.largest_target, encoder.largest_target());
  return absl::OkStatus();
}

Status CheckRoles(const TableOptions& options) {
  RIVULET_RETURN_IF_ERROR(TargetColumns(options).status());
  if (options.key == "features" || options.key == "label")
    return InvalidArgument("the column '{}' cannot be the key, for examples have a feature of that name; rename it",
                           options.key);
  if (!options.test.empty() && options.test_every > 0)
    return InvalidArgument("rows for the test come from a separate file or from every {}th row; give one of both",
                           options.test_every);
  if (!options.columns.empty() && (options.standardise || !options.categories.empty() || !options.without.empty() ||
                                   !options.indexed.empty() || !options.parts.empty()))
    return InvalidArgument("{} defines the columns; give no other settings of columns with it", options.columns);
  if (options.decimal == options.thousands)
    return InvalidArgument("'{}' cannot be the decimal sign and the separator of thousands at once", options.decimal);
  return absl::OkStatus();
}

// Columns of an earlier import are for the same to be learnt.
Status CheckSameTarget(const TableColumns& columns, const TableOptions& options) {
  if (columns.label == options.label && columns.labels == options.labels && columns.targets == options.targets)
    return absl::OkStatus();
  const auto told = [](const std::string& label, const std::vector<std::string>& labels,
                       const std::vector<std::string>& targets) {
    if (!label.empty()) return fmt::format("the label '{}'", ShortCell(label));
    return labels.empty() ? fmt::format("the target {}", ShortCell(fmt::format("'{}'", Join(targets, "', '"))))
                          : fmt::format("the labels {}", ShortCell(fmt::format("'{}'", Join(labels, "', '"))));
  };
  return InvalidArgument("{} has {}, not {}", options.columns, told(columns.label, columns.labels, columns.targets),
                         told(options.label, options.labels, options.targets));
}

}  // namespace

void TableRemedies::Add(const TableRemedies& more) {
  const auto add = [](std::vector<std::string>& to, const std::vector<std::string>& from) {
    for (const std::string& text : from)
      if (std::ranges::find(to, text) == to.end()) to.push_back(text);
  };
  add(without, more.without);
  add(missing, more.missing);
  fill_missing = fill_missing || more.fill_missing;
}

void TableRemedies::AddTo(TableOptions& options) const {
  options.without.insert(options.without.end(), without.begin(), without.end());
  options.missing.insert(options.missing.end(), missing.begin(), missing.end());
  options.fill_missing = options.fill_missing || fill_missing;
}

StatusOr<TableRemedies> FindRemedies(const TableOptions& options, const DataProgress& progress) {
  TableRemedies found;
  if (!options.columns.empty()) return found;
  for (const std::string& file : {options.from, options.test}) {
    if (file.empty()) continue;
    while (true) {  // ends: each pass finds an option that is new, or is the last
      TableOptions settled = options;
      settled.from = file;
      settled.test.clear();
      settled.test_every = 0;  // cells of rows for the test are read as well
      found.AddTo(settled);
      TableRemedies more;
      const StatusOr<TableColumns> fitted = FitTable(settled, progress, &more);
      if (fitted.ok()) break;
      // A test of few rows says nothing of a column's values; that a cell is no number, it says.
      if (file == options.test) more.without.clear();
      if (more.empty()) {
        if (file == options.test) break;
        return fitted.status();
      }
      const size_t before = found.without.size() + found.missing.size() + (found.fill_missing ? 1 : 0);
      found.Add(more);
      if (found.without.size() + found.missing.size() + (found.fill_missing ? 1 : 0) == before) return fitted.status();
    }
  }
  return found;
}

StatusOr<TableCounts> ImportTable(FileSystem& fs, const TableOptions& options, const DataProgress& progress) {
  RIVULET_RETURN_IF_ERROR(CheckRoles(options));
  TableCounts counts;
  if (options.columns.empty()) {
    RIVULET_ASSIGN_OR_RETURN(counts.columns, FitTable(options, progress));
  } else {
    RIVULET_ASSIGN_OR_RETURN(const std::string json, fs.ReadAll(options.columns));
    auto columns = ParseTableColumns(json);
    if (!columns.ok()) return Annotate(columns.status(), options.columns);
    RIVULET_RETURN_IF_ERROR(CheckSameTarget(*columns, options));
    counts.columns = *std::move(columns);
  }
  const bool has_test = !options.test.empty() || options.test_every > 0;
  RIVULET_ASSIGN_OR_RETURN(const auto files, NewDataset::Create(fs, options.out, has_test));
  RIVULET_RETURN_IF_ERROR(EncodeTable(options.from, counts.columns, options, false, progress, *files, counts));
  if (!options.test.empty())
    RIVULET_RETURN_IF_ERROR(EncodeTable(options.test, counts.columns, options, true, progress, *files, counts));
  counts.train = files->train().records();
  if (has_test) counts.test = files->test().records();
  if (counts.train == 0) return DataLoss("{}: no row is left to learn from", options.from);
  RIVULET_RETURN_IF_ERROR(WriteFileAtomically(fs, JoinPath(options.out, "columns.json"), ToJson(counts.columns)));
  RIVULET_RETURN_IF_ERROR(files->Publish());
  return counts;
}

}  // namespace rivulet
