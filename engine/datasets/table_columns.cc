// What a table's columns are, as JSON, and pooled over sites.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "engine/datasets/table.h"
#include "engine/datasets/table_reader.h"
#include "engine/datasets/table_target.h"

namespace rivulet {
namespace {

int64_t WidthOf(const TableColumn& column) {
  return column.category && !column.index ? static_cast<int64_t>(column.values.size()) : 1;
}

// What is in either, in byte order.
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
      return InvalidArgument("{} says not of how many rows the mean of '{}' is; import its table with this program",
                             where, ShortCell(column.name));
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

std::string ToJson(const TableColumns& columns) {
  nlohmann::ordered_json features = nlohmann::ordered_json::array();
  for (const TableColumn& column : columns.features) {
    const char* const kind = column.index ? "index" : column.category ? "category" : "number";
    nlohmann::ordered_json entry = {{"column", column.name}, {"kind", kind}};
    if (column.feature != TableColumn().feature) entry["feature"] = column.feature;
    if (column.category) {
      entry["values"] = column.values;
    } else {
      entry["mean"] = column.mean;
      entry["deviation"] = column.deviation;
      if (column.count > 0) entry["count"] = column.count;
      if (column.constant) entry["constant"] = true;
    }
    features.push_back(std::move(entry));
  }
  nlohmann::ordered_json json = {{"features", std::move(features)}, {"standardised", columns.standardised}};
  if (!columns.labels.empty()) json["labels"] = columns.labels;
  if (!columns.targets.empty()) json["targets"] = columns.targets;
  if (!columns.label.empty()) {
    json["label"] = {{"column", columns.label}, {"count", columns.class_count}};
    if (!columns.classes.empty()) json["label"]["classes"] = columns.classes;
  }
  return json.dump(2) + "\n";
}

StatusOr<TableColumns> ParseTableColumns(std::string_view json) {
  const auto damaged = [](std::string_view what) {
    return DataLoss("{}; give the columns.json of an earlier import", what);
  };
  const auto root = nlohmann::json::parse(json, nullptr, false);
  const bool has_class = root.is_object() && root.contains("label") && root["label"].is_object();
  const int ways =
      root.is_object() ? has_class + static_cast<int>(root.contains("labels") + root.contains("targets")) : 0;
  if (ways != 1 || !root.contains("features") || !root["features"].is_array())
    return damaged("no object with 'features' and one of 'label', 'labels' and 'targets'");
  const auto listed = [](const nlohmann::json& object, const char* name, std::vector<std::string>& out) {
    if (!object.contains(name) || !object[name].is_array()) return false;
    for (const auto& text : object[name]) {
      if (!text.is_string()) return false;
      out.push_back(text);
    }
    return true;
  };
  const auto texts = [&](const nlohmann::json& object, const char* name, std::vector<std::string>& out) {
    return listed(object, name, out) && std::ranges::is_sorted(out) && std::ranges::adjacent_find(out) == out.end();
  };
  const auto number = [](const nlohmann::json& object, const char* name) {
    return object.contains(name) && object[name].is_number();
  };
  TableColumns columns;
  std::set<std::string> names;
  std::map<std::string, bool> kinds;  // of features: whether they are indices
  for (const auto& entry : root["features"]) {
    if (!entry.is_object() || !entry.contains("column") || !entry["column"].is_string() || !entry.contains("kind"))
      return damaged("an entry of 'features' without 'column' or 'kind'");
    TableColumn column;
    column.name = entry["column"];
    column.index = entry["kind"] == "index";
    column.category = column.index || entry["kind"] == "category";
    if (entry.contains("feature")) {
      if (!entry["feature"].is_string() || entry["feature"] == "" || entry["feature"] == "label")
        return damaged(fmt::format("column '{}' of a feature that has no name", ShortCell(column.name)));
      column.feature = entry["feature"];
    }
    if (!kinds.emplace(column.feature, column.index).second && kinds[column.feature] != column.index)
      return damaged(fmt::format("a feature '{}' of numbers and of indices", ShortCell(column.feature)));
    if (!names.insert(column.name).second) return damaged(fmt::format("two columns '{}'", ShortCell(column.name)));
    if (column.category ? !texts(entry, "values", column.values)
                        : !number(entry, "mean") || !number(entry, "deviation"))
      return damaged(
          fmt::format("column '{}' has neither sorted 'values' nor 'mean' and 'deviation'", ShortCell(column.name)));
    if (!column.category) {
      column.mean = entry["mean"];
      column.deviation = entry["deviation"];
      column.count = entry.contains("count") && entry["count"].is_number_integer() ? entry["count"].get<int64_t>() : 0;
      column.constant = entry.value("constant", nlohmann::json()) == true;
      if (!std::isfinite(column.mean) || !(column.deviation > 0) || !std::isfinite(column.deviation) ||
          column.count < 0)
        return damaged(
            fmt::format("column '{}' has a deviation that is not above 0, or a count below 0", ShortCell(column.name)));
    }
    columns.features.push_back(std::move(column));
  }
  columns.standardised = root.value("standardised", nlohmann::json()) == true;
  for (const auto& [name, of] : {std::pair("labels", &columns.labels), std::pair("targets", &columns.targets)}) {
    if (root.contains(name) && (!listed(root, name, *of) || of->empty()))
      return damaged(fmt::format("'{}' that are no names of columns", name));
  }
  if (columns.features.empty() || columns.feature_count() > static_cast<int64_t>(kMaxFeatures))
    return damaged("no features");
  if (!has_class) return columns;
  const auto& label = root["label"];
  if (!label.contains("column") || !label["column"].is_string() || !label.contains("count") ||
      !label["count"].is_number_integer())
    return damaged("a 'label' without 'column' and 'count'");
  columns.label = label["column"];
  columns.class_count = label["count"];
  if (label.contains("classes") && !texts(label, "classes", columns.classes))
    return damaged("'classes' that are no sorted texts");
  if (columns.label.empty() || columns.class_count < 1 || columns.class_count > kMaxClass + 1)
    return damaged("no classes");
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
