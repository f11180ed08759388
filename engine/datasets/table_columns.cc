// Descriptions of a table's columns: their JSON, and pooling over sites.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <set>

#include "engine/base/join.h"
#include "engine/base/json.h"
#include "engine/datasets/table.h"
#include "engine/datasets/table_reader.h"
#include "engine/datasets/table_target.h"

namespace rivulet {
namespace {

int64_t WidthOf(const TableColumn& column) {
  return column.category && !column.index ? static_cast<int64_t>(column.values.size()) : 1;
}

// The union of both, in byte order.
void Unite(std::vector<std::string>& values, const std::vector<std::string>& more) {
  std::vector<std::string> both;
  std::ranges::set_union(values, more, std::back_inserter(both));
  values = std::move(both);
}

double SquaresOf(const TableColumn& column) {
  return column.constant ? 0 : column.deviation * column.deviation * static_cast<double>(column.count);
}

// The column over the rows of both: of two means that differ, the squares around each lack those of the distance.
void PoolNumbers(TableColumn& column, const TableColumn& more) {
  const auto here = static_cast<double>(column.count), there = static_cast<double>(more.count);
  const double apart = more.mean - column.mean;
  const double squares = SquaresOf(column) + SquaresOf(more) + apart * apart * here * there / (here + there);
  column.mean += apart * there / (here + there);
  column.count += more.count;
  const double deviation = std::sqrt(squares / static_cast<double>(column.count));
  column.constant = !(deviation > 0);
  column.deviation = column.constant ? 1 : deviation;
}

Status PoolFeatures(TableColumns& pooled, const TableColumns& more, std::string_view where) {
  if (more.features.size() != pooled.features.size())
    return InvalidArgument("{} has {} columns, and those before have {}", where, more.features.size(),
                           pooled.features.size());
  for (size_t i = 0; i < pooled.features.size(); ++i) {
    TableColumn& column = pooled.features[i];
    const TableColumn& other = more.features[i];
    if (other.name != column.name)
      return InvalidArgument("{} has the column '{}' where those before have '{}'", where, ShortCell(other.name),
                             ShortCell(column.name));
    if (other.feature != column.feature || other.index != column.index)
      return InvalidArgument("{} has the column '{}' in another feature than those before, or as another kind", where,
                             ShortCell(column.name));
    if (other.category != column.category)
      return InvalidArgument(
          "{} has numbers in the column '{}' where another site has names; import it as a category everywhere", where,
          ShortCell(column.name));
    if (!column.category && (column.count == 0 || other.count == 0))
      return InvalidArgument(
          "{} does not give the number of rows behind the mean of '{}'; import its table with this program", where,
          ShortCell(column.name));
    if (column.category)
      Unite(column.values, other.values);
    else
      PoolNumbers(column, other);
    if (column.values.size() > kMaxCategoryValues)
      return InvalidArgument("with {} the column '{}' has more than {} different values", where, ShortCell(column.name),
                             kMaxCategoryValues);
  }
  return absl::OkStatus();
}

Status PoolTargets(TableColumns& pooled, const TableColumns& more, std::string_view where) {
  if (more.label != pooled.label || more.labels != pooled.labels || more.targets != pooled.targets)
    return InvalidArgument("{} is for other columns to be learnt than those before", where);
  if (pooled.classes.empty() != more.classes.empty())
    return InvalidArgument("{} has whole numbers as the label '{}' where another site has names", where,
                           ShortCell(pooled.label));
  Unite(pooled.classes, more.classes);
  pooled.class_count =
      pooled.classes.empty() ? std::max(pooled.class_count, more.class_count) : std::ssize(pooled.classes);
  return absl::OkStatus();
}

}  // namespace

int64_t TableColumns::feature_count() const {
  int64_t count = 0;
  for (const TableColumn& column : features) count += WidthOf(column);
  return count;
}

std::vector<TableFeature> TableColumns::Grouped() const {
  std::vector<TableFeature> groups;
  for (const TableColumn& column : features) {
    auto group = std::ranges::find(groups, column.feature, &TableFeature::name);
    if (group == groups.end()) group = groups.insert(group, TableFeature{column.feature});
    group->count += WidthOf(column);
    if (column.index) group->vocabulary = std::max(group->vocabulary, std::ssize(column.values) + 1);
    if (column.index) continue;
    const bool one_hot = column.category;
    group->mean.insert(group->mean.end(), static_cast<size_t>(WidthOf(column)), one_hot ? 0 : column.mean);
    group->deviation.insert(group->deviation.end(), static_cast<size_t>(WidthOf(column)),
                            one_hot ? 1 : column.deviation);
  }
  for (TableFeature& group : groups) {
    const bool numbers = std::ranges::any_of(
        features, [&](const TableColumn& column) { return column.feature == group.name && !column.category; });
    if (numbers) continue;
    group.mean.clear();
    group.deviation.clear();
  }
  return groups;
}

std::vector<std::string> Disclosures(const TableColumns& columns) {
  const auto values = [](std::string_view column, const std::vector<std::string>& of) {
    constexpr size_t kMost = 5;
    std::vector<std::string> shown;
    for (size_t i = 0; i < std::min(of.size(), kMost); ++i) shown.push_back(ShortCell(of[i]));
    if (of.size() > kMost) shown.push_back(fmt::format("… ({} values)", of.size()));
    return fmt::format("every value of '{}': {}", ShortCell(column), Join(shown, ", "));
  };
  std::vector<std::string> told;
  for (const TableColumn& column : columns.features)
    told.push_back(column.category ? values(column.name, column.values)
                                   : fmt::format("the mean and deviation of '{}'", ShortCell(column.name)));
  if (!columns.classes.empty()) told.push_back(values(columns.label, columns.classes));
  return told;
}

std::string ToJson(const TableColumns& columns) {
  Json features = Json::Array();
  for (const TableColumn& column : columns.features) {
    const char* const kind = column.index ? "index" : column.category ? "category" : "number";
    Json entry = {{"column", column.name}, {"kind", kind}};
    if (column.feature != TableColumn().feature) entry["feature"] = column.feature;
    if (column.category) {
      entry["values"] = column.values;
    } else {
      entry["mean"] = column.mean;
      entry["deviation"] = column.deviation;
      if (column.count > 0) entry["count"] = column.count;
      if (column.constant) entry["constant"] = true;
    }
    features.Append(std::move(entry));
  }
  Json json = {
      {"discloses", Disclosures(columns)}, {"features", std::move(features)}, {"standardised", columns.standardised}};
  if (!columns.labels.empty()) json["labels"] = columns.labels;
  if (!columns.targets.empty()) json["targets"] = columns.targets;
  if (!columns.label.empty()) {
    json["label"] = {{"column", columns.label}, {"count", columns.class_count}};
    if (!columns.classes.empty()) json["label"]["classes"] = columns.classes;
  }
  return json.Dump(2) + "\n";
}

namespace {

Status Damaged(std::string_view what) { return DataLoss("{}; give the columns.json of an earlier import", what); }

// Whether it is a list of texts, which are appended.
bool ReadTexts(const Json& list, std::vector<std::string>& texts) {
  for (const Json& text : list.elements()) {
    if (!text.IsText()) return false;
    texts.push_back(text.text());
  }
  return list.IsArray();
}

// The same, in order and each once.
bool ReadSortedTexts(const Json& list, std::vector<std::string>& texts) {
  return ReadTexts(list, texts) && std::ranges::is_sorted(texts) && std::ranges::adjacent_find(texts) == texts.end();
}

StatusOr<TableColumn> ReadColumn(const Json& entry) {
  if (!entry.At("column").IsText() || !entry.Contains("kind"))
    return Damaged("an entry of 'features' without 'column' or 'kind'");
  TableColumn column;
  column.name = entry.At("column").text();
  column.index = entry.At("kind").text() == "index";
  column.category = column.index || entry.At("kind").text() == "category";
  if (const Json* const feature = entry.Find("feature")) {
    column.feature = feature->text();
    if (column.feature.empty() || column.feature == "label")
      return Damaged(fmt::format("column '{}' of a feature that has no name", ShortCell(column.name)));
  }
  const Json &mean = entry.At("mean"), &deviation = entry.At("deviation"), &count = entry.At("count");
  if (column.category ? !ReadSortedTexts(entry.At("values"), column.values) : !mean.IsNumber() || !deviation.IsNumber())
    return Damaged(
        fmt::format("column '{}' has neither sorted 'values' nor 'mean' and 'deviation'", ShortCell(column.name)));
  if (column.category) return column;
  column.mean = mean.number();
  column.deviation = deviation.number();
  column.count = count.IsInteger() ? count.integer() : 0;
  column.constant = entry.At("constant").IsTrue();
  if (!std::isfinite(column.mean) || !(column.deviation > 0) || !std::isfinite(column.deviation) || column.count < 0)
    return Damaged(
        fmt::format("column '{}' has a deviation that is not above 0, or a count below 0", ShortCell(column.name)));
  return column;
}

Status ReadLabel(const Json& label, TableColumns& columns) {
  if (!label.At("column").IsText() || !label.At("count").IsInteger())
    return Damaged("a 'label' without 'column' and 'count'");
  columns.label = label.At("column").text();
  columns.class_count = label.At("count").integer();
  if (label.Contains("classes") && !ReadSortedTexts(label.At("classes"), columns.classes))
    return Damaged("'classes' that are no sorted texts");
  if (columns.label.empty() || columns.class_count < 1 || columns.class_count > kMaxClass + 1)
    return Damaged("no classes");
  return absl::OkStatus();
}

}  // namespace

StatusOr<TableColumns> ParseTableColumns(std::string_view json) {
  const Json root = Json::Parse(json).value_or(Json());
  const bool has_class = root.At("label").IsObject();
  const int ways = has_class + static_cast<int>(root.Contains("labels") + root.Contains("targets"));
  if (ways != 1 || !root.At("features").IsArray())
    return Damaged("no object with 'features' and one of 'label', 'labels' and 'targets'");
  TableColumns columns;
  std::set<std::string> names;
  std::map<std::string, bool> kinds;  // of features: whether they are indices
  for (const Json& entry : root.At("features").elements()) {
    RIVULET_ASSIGN_OR_RETURN(TableColumn column, ReadColumn(entry));
    if (!kinds.emplace(column.feature, column.index).second && kinds[column.feature] != column.index)
      return Damaged(fmt::format("a feature '{}' of numbers and of indices", ShortCell(column.feature)));
    if (!names.insert(column.name).second) return Damaged(fmt::format("two columns '{}'", ShortCell(column.name)));
    columns.features.push_back(std::move(column));
  }
  columns.standardised = root.At("standardised").IsTrue();
  for (const auto& [name, of] : {std::pair("labels", &columns.labels), std::pair("targets", &columns.targets)}) {
    if (root.Contains(name) && (!ReadTexts(root.At(name), *of) || of->empty()))
      return Damaged(fmt::format("'{}' that are no names of columns", name));
  }
  if (columns.features.empty() || columns.feature_count() > static_cast<int64_t>(kMaxFeatures))
    return Damaged("no features");
  if (has_class) RIVULET_RETURN_IF_ERROR(ReadLabel(root.At("label"), columns));
  return columns;
}

StatusOr<TableColumns> PoolTableColumns(const std::vector<std::pair<std::string, TableColumns>>& sites) {
  if (sites.empty()) return InvalidArgument("there is nothing to pool; give the columns.json of each site");
  TableColumns pooled = sites[0].second;
  for (size_t i = 1; i < sites.size(); ++i) {
    const auto& [where, columns] = sites[i];
    RIVULET_RETURN_IF_ERROR(PoolFeatures(pooled, columns, where));
    RIVULET_RETURN_IF_ERROR(PoolTargets(pooled, columns, where));
    pooled.standardised = pooled.standardised || columns.standardised;
  }
  return pooled;
}

}  // namespace rivulet
