// rivulet data import csv: a table as TFRecord files, the roles of its columns, and a scenario of its model.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "cli/data/commands.h"
#include "cli/data/first_scenario.h"
#include "cli/data/imported.h"
#include "cli/long_work.h"
#include "cli/shell_quote.h"
#include "engine/base/file_system.h"
#include "engine/base/join.h"
#include "engine/base/setting.h"
#include "engine/datasets/table.h"
#include "engine/datasets/table_reader.h"

namespace rivulet {
namespace {

struct TableCommandOptions : Divided<TableOptions> {
  std::vector<std::string> labels, parts;
  std::string delimiter, decimal, thousands;
  bool no_header = false, automatic = false;
};

StatusOr<char> DelimiterOf(const std::string& given, const std::string& file) {
  if (given.empty()) return file.ends_with(".tsv") || file.ends_with(".tsv.gz") ? '\t' : ',';
  if (given == "tab") return '\t';
  if (given.size() == 1 && given[0] > ' ' && given[0] < 0x7f && given[0] != '"') return given[0];
  return UsageError("--delimiter is '{}'; give one character, or tab", given);
}

// The single character of --decimal and --thousands.
StatusOr<char> SignOf(std::string_view option, const std::string& given) {
  if (given.size() == 1 && std::string_view(".,'_ ").find(given[0]) != std::string_view::npos) return given[0];
  return UsageError("{} is '{}'; give one of . , ' _ and a space", option, given);
}

// A column's values in one line, shortened.
std::string ValuesText(const std::vector<std::string>& values) {
  constexpr size_t kMost = 5;
  std::vector<std::string> shown;
  for (size_t i = 0; i < std::min(values.size(), kMost); ++i)
    shown.push_back(values[i].empty() ? "(empty)" : ShortCell(values[i]));
  return Join(shown, ", ") + (values.size() > kMost ? ", …" : "");
}

std::string RoleOf(const std::string& name, const TableColumns& columns, const std::string& key) {
  const auto is = [&](const std::vector<std::string>& names) { return std::ranges::find(names, name) != names.end(); };
  if (name == columns.label)
    return columns.classes.empty()
               ? fmt::format("label, classes 0 to {}", columns.class_count - 1)
               : fmt::format("label of {} classes: {}", columns.class_count, ValuesText(columns.classes));
  if (is(columns.labels)) return "label, 0 or 1";
  if (is(columns.targets)) return "target, a number";
  if (name == key) return "key, names the client";
  const auto column = std::ranges::find(columns.features, name, &TableColumn::name);
  if (column == columns.features.end()) return "left out";
  if (!column->category) return columns.standardised ? "number, standardised" : "number";
  return fmt::format("{} of {} values: {}", column->index ? "index" : "category", column->values.size(),
                     ValuesText(column->values));
}

// The role of each column, and the values that the file of columns reveals to its readers.
void TellRoles(const TableCounts& counts, const std::string& key, const std::string& columns_file) {
  size_t width = 0;
  for (const std::string& name : counts.names) width = std::max(width, name.size());
  for (const std::string& name : counts.names)
    fmt::print("  {:<{}}  {}\n", ShortCell(name), width, RoleOf(name, counts.columns, key));
  std::vector<std::string> disclosed;
  for (const TableColumn& column : counts.columns.features)
    if (column.category) disclosed.push_back(fmt::format("'{}'", ShortCell(column.name)));
  if (!counts.columns.classes.empty()) disclosed.push_back(fmt::format("'{}'", ShortCell(counts.columns.label)));
  if (!disclosed.empty()) fmt::print("{} holds every value of {}\n", columns_file, Join(disclosed, ", "));
}

std::string TargetText(const TableColumns& columns) {
  if (!columns.label.empty()) return fmt::format("{} classes", columns.class_count);
  if (!columns.labels.empty()) return fmt::format("{} labels", columns.labels.size());
  return columns.targets.size() == 1 ? "1 target" : fmt::format("{} targets", columns.targets.size());
}

// The feature and its columns from "clinical=age,weight".
StatusOr<std::pair<std::string, std::vector<std::string>>> PartOf(const std::string& given) {
  const size_t equals = given.find('=');
  std::vector<std::string> columns;
  for (size_t at = equals; at < given.size();) {
    const size_t comma = std::min(given.find(',', at + 1), given.size());
    columns.push_back(given.substr(at + 1, comma - at - 1));
    at = comma;
  }
  if (columns.empty() || std::ranges::find(columns, "") != columns.end() || equals == 0)
    return UsageError("--feature is '{}'; write NAME=COLUMN,COLUMN, such as clinical=age,weight", given);
  return std::pair(given.substr(0, equals), columns);
}

// A model's inputs, if they are more than one list of numbers.
std::string FeaturesText(const TableColumns& columns) {
  const std::vector<TableFeature> features = columns.Grouped();
  if (features.size() == 1 && features[0].name == "features")
    return fmt::format("{} features", columns.feature_count());
  std::vector<std::string> texts;
  for (const TableFeature& feature : features) {
    const std::string below = feature.vocabulary > 0 ? fmt::format(" below {}", feature.vocabulary) : "";
    const char* const what = feature.vocabulary > 0 ? "integer" : "number";
    texts.push_back(
        fmt::format("{} {}{}{} in '{}'", feature.count, what, feature.count == 1 ? "" : "s", below, feature.name));
  }
  return Join(texts, ", ");
}

// A model of one layer over all features, with embeddings for categories as integers. Columns that the import did not
// standardise are standardised by the model, so that one learning rate suits them.
FirstScenario ScenarioOf(const TableCounts& counts, const TableOptions& table) {
  const TableColumns& columns = counts.columns;
  FirstScenario first{.folder = table.out,
                      .has_test = counts.test > 0,
                      .examples = counts.train,
                      .key = table.key,
                      .input_feature = "",
                      .largest_target = counts.largest_target};
  int64_t units = columns.class_count;
  if (!columns.labels.empty()) {
    units = std::ssize(columns.labels);
    first.model += "target = \"labels\"\n";
  } else if (!columns.targets.empty()) {
    units = std::ssize(columns.targets);
    first.model += "target = \"numbers\"\n";
    // Stable steps for squares shrink with the input's length, to which each standardised number adds 1.
    first.learning_rate = 0.2 / static_cast<double>(columns.feature_count() + 1);
  }
  const bool numbers =
      std::ranges::any_of(columns.features, [](const TableColumn& column) { return !column.category; });
  if (numbers && !columns.standardised) first.model += "columns = \"columns.json\"\n";
  const std::vector<TableFeature> features = columns.Grouped();
  if (features.size() == 1 && features[0].vocabulary == 0) {
    first.input_feature = features[0].name;
    first.model += LinearModel(features[0].count, units);
    return first;
  }
  std::string layers, before;
  for (size_t i = 0; i < features.size(); ++i) {
    const TableFeature& feature = features[i];
    const std::string input = fmt::format("input{}", i + 1), flat = fmt::format("flat{}", i + 1);
    const bool index = feature.vocabulary > 0;
    first.model += fmt::format("\n[[model.inputs]]\nname = \"{}\"\nfeature = {}\nshape = [{}]\nkind = \"{}\"\n", input,
                               ToToml(SettingValue(feature.name)), feature.count, index ? "tokens" : "values");
    if (index)
      layers += LayerText({"type = \"embedding\"", fmt::format("from = \"{}\"", input),
                           fmt::format("vocabulary = {}", feature.vocabulary), "units = 4"}) +
                LayerText({"type = \"flatten\"", fmt::format("name = \"{}\"", flat)});
    const std::string made = index ? flat : input;
    if (!before.empty())
      layers += LayerText({"type = \"concat\"", fmt::format("name = \"joined{}\"", i + 1),
                           fmt::format("from = \"{}\"", made), fmt::format("with = \"{}\"", before)});
    before = before.empty() ? made : fmt::format("joined{}", i + 1);
  }
  first.model +=
      layers + LayerText({"type = \"dense\"", fmt::format("from = \"{}\"", before), fmt::format("units = {}", units)});
  return first;
}

std::string OptionsText(const TableRemedies& remedies) {
  std::vector<std::string> options;
  for (const std::string& column : remedies.without) options.push_back("--without " + ShellQuote(column));
  for (const std::string& text : remedies.missing) options.push_back("--missing " + ShellQuote(text));
  if (remedies.fill_missing) options.emplace_back("--fill-missing");
  return Join(options, " ");
}

// With --auto a refused table is imported again with the options that decide about its columns; without it, the error
// names these options.
StatusOr<TableCounts> ImportSettled(const TableCommandOptions& given, TableOptions& table) {
  FileSystem& files = FileSystem::Default();
  const auto import = [&] { return ImportTable(files, table, LongWork("importing " + table.from).progress()); };
  StatusOr<TableCounts> counts = import();
  if (counts.ok() || counts.status().code() != absl::StatusCode::kDataLoss) return counts;
  const StatusOr<TableRemedies> remedies =
      FindRemedies(table, LongWork("reading the columns of " + table.from).progress());
  if (!remedies.ok() || remedies->empty()) return counts;
  if (!given.automatic)
    return DataLoss("{}\nPass --auto to use these options: {}", Message(counts.status()), OptionsText(*remedies));
  remedies->AddTo(table);
  RIVULET_ASSIGN_OR_RETURN(TableCounts settled, import());
  fmt::print("--auto used these options: {}\n", OptionsText(*remedies));
  return settled;
}

Status ImportFromTable(const TableCommandOptions& given) {
  TableOptions table = given.Complete();
  if (given.labels.empty() == table.targets.empty())
    return UsageError("the table has no target; give --label for classes, or --target for numbers");
  if (given.labels.size() == 1) {
    table.label = given.labels[0];
  } else {
    table.labels = given.labels;
  }
  for (const std::string& part : given.parts) {
    RIVULET_ASSIGN_OR_RETURN(table.parts.emplace_back(), PartOf(part));
  }
  RIVULET_ASSIGN_OR_RETURN(table.delimiter, DelimiterOf(given.delimiter, table.from));
  if (!given.decimal.empty()) {
    RIVULET_ASSIGN_OR_RETURN(table.decimal, SignOf("--decimal", given.decimal));
  }
  if (!given.thousands.empty()) {
    RIVULET_ASSIGN_OR_RETURN(table.thousands, SignOf("--thousands", given.thousands));
  }
  for (const std::string& unit : table.units)
    if (unit.empty() || Trimmed(unit) != unit)
      return UsageError("--unit is '{}'; give the text beside a number, without spaces around it", unit);
  table.header = !given.no_header;
  RIVULET_ASSIGN_OR_RETURN(const TableCounts counts, ImportSettled(given, table));
  TellImported(table.out, "train", counts.train,
               fmt::format(" of {} and {}", FeaturesText(counts.columns), TargetText(counts.columns)));
  if (counts.test > 0) TellImported(table.out, "test", counts.test);
  const std::string columns_file = JoinPath(table.out, "columns.json");
  fmt::print("{}: the meaning of each feature and class\n", columns_file);
  TellRoles(counts, table.key, columns_file);
  return WriteFirstScenario(ScenarioOf(counts, table));
}

}  // namespace

Command ImportTableCommand() {
  auto options = std::make_shared<TableCommandOptions>();
  TableOptions& table = options->options;
  Command csv{
      .name = "csv",
      .summary = "Import a CSV or TSV table: columns become features and targets.",
      .example =
          "rivulet data import csv --from visits.csv --label outcome --key hospital --standardise --out visits\n"
          "  rivulet data import csv --from houses.csv --target price --test-every 5 --standardise --out houses"};
  csv.Required("--from", "FILE", &table.from, "the table, plain or .gz")
      .Required("--out", "DIR", &table.out, "the folder to write to")
      .Repeated("--label", "COLUMN", &options->labels,
                "a target of classes: whole numbers from 0, or names, which are numbered in byte order; several "
                "columns are separate labels of 0 or 1")
      .Repeated("--target", "COLUMN", &table.targets, "a numeric target; repeatable")
      .Option("--key", "COLUMN", &table.key, "the column of client names: written as a feature for by_key")
      .Option("--test", "FILE", &table.test, "a table for test.tfrecord")
      .Option("--test-every", "N", &options->test_every, "use every Nth row for the test [none]", {.min = 2})
      .Flag("--auto", &options->automatic,
            "leave out columns whose values name rows, and use a column's mean for NA, ? and empty cells; the options "
            "that do so are printed")
      .Repeated("--without", "COLUMN", &table.without, "leave this column out of the features; repeatable")
      .Repeated("--category", "COLUMN", &table.categories, "treat this column's numbers as categories; repeatable")
      .Repeated("--index", "COLUMN", &table.indexed,
                "write this category as one integer for an embedding, in a feature of that name; 0 is an unknown "
                "value; repeatable")
      .Repeated("--feature", "NAME=COLUMN,COLUMN", &options->parts,
                "combine these columns to a separate feature, for a model of several inputs; repeatable")
      .Flag("--standardise", &table.standardise, "scale numbers to mean 0 and deviation 1 over --from")
      .Flag("--fill-missing", &table.fill_missing, "replace an empty numeric cell by the column's mean")
      .Repeated("--missing", "TEXT", &table.missing, "treat a cell of this text, such as NA, as missing; repeatable")
      .Repeated("--unit", "TEXT", &table.units,
                "read a number without this text beside it, such as $, % or kg; repeatable")
      .Option("--decimal", "C", &options->decimal, "decimal separator [.]")
      .Option("--thousands", "C", &options->thousands, "thousands separator [none]")
      .Option("--columns", "FILE", &table.columns, "take columns, means and classes from an earlier columns.json")
      .Option("--delimiter", "C", &options->delimiter, "cell separator [, or, of .tsv, tab]")
      .Flag("--no-header", &options->no_header, "treat the first row as data; columns are named 1, 2, …");
  csv.run = [options] { return ImportFromTable(*options); };
  return csv;
}

}  // namespace rivulet
