// Import of tables, one example per row. Numeric and category columns become one or several feature lists. The target
// is a column of classes, several columns of labels, or columns of numbers. An optional column names the client of each
// row.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/base/file_system.h"
#include "engine/base/status.h"
#include "engine/data/progress.h"

namespace rivulet {

// One feature column. A number x stays x or, if standardised, becomes (x - mean) / deviation. A category becomes
// as many numbers as it has values, with 1 at the cell's value and 0 elsewhere; an unknown value becomes all
// zeros. An indexed category becomes one integer for an embedding: the value's position from 1 on, or 0 for an
// unknown value.
struct TableColumn {
  std::string name;
  std::string feature = "features";  // feature of the examples, which may combine several columns
  bool category = false;
  bool index = false;               // for a category: indexed
  double mean = 0, deviation = 1;   // over all nonempty cells; a deviation of 0 is stored as 1
  int64_t count = 0;                // number of nonempty cells; 0: unknown
  bool constant = false;            // all nonempty cells are equal
  std::vector<std::string> values;  // in byte order
};

// One feature of a table's examples.
struct TableFeature {
  std::string name;
  int64_t count = 0;       // numbers, or integers, per example
  int64_t vocabulary = 0;  // of integers, which are below it; 0: floats
  // One per number; 0 and 1 for those of categories. Empty if all columns are categories, or for integers.
  std::vector<double> mean, deviation;
};

// The mapping from a table's cells to features. It is fitted to one file and stored as JSON (columns.json), so that
// other files, such as other clients', are converted to the same features.
struct TableColumns {
  std::vector<TableColumn> features;  // in order of their numbers
  bool standardised = false;
  int64_t feature_count() const;              // numbers per example
  std::vector<TableFeature> Grouped() const;  // in order of their first columns
  // The target is one of three: classes in a column, several labels per row, or numbers.
  std::string label;
  std::vector<std::string> classes;  // a label is its index here; if empty, the whole number in the cell
  int64_t class_count = 0;
  std::vector<std::string> labels;
  std::vector<std::string> targets;
};
// Returns a sentence per column about the facts in columns.json that concern single rows or few: "every value of 'sex':
// f, m", "the mean and deviation of 'age'". The JSON begins with these sentences, as "discloses".
std::vector<std::string> Disclosures(const TableColumns& columns);
std::string ToJson(const TableColumns& columns);
// DATA_LOSS: not a result of ToJson.
StatusOr<TableColumns> ParseTableColumns(std::string_view json);

// Combines the columns fitted by several sites, whose names are for messages. Means and deviations are those over all
// rows, exact up to rounding (Chan, Golub and LeVeque 1979); categories and class names are those of any site. No row
// leaves its site. INVALID_ARGUMENT: no sites; sites with different columns, kinds of columns or targets, or without
// counts; too many values.
StatusOr<TableColumns> PoolTableColumns(const std::vector<std::pair<std::string, TableColumns>>& sites);

struct TableOptions {
  std::string from, test;               // files, uncompressed or .gz; `test` may be empty
  std::string out;                      // output folder, created if missing
  std::string label;                    // column of the class; or
  std::vector<std::string> labels;      // columns of 0 and 1, one for each label; or
  std::vector<std::string> targets;     // columns of numbers to predict
  std::string key;                      // column of the client; may be empty
  std::vector<std::string> without;     // columns that are not features
  std::vector<std::string> categories;  // columns whose values are names, even if they look like numbers
  std::vector<std::string> indexed;     // the same; each is an integer feature with its own name, unless in `parts`
  // Features besides "features": a name and its columns, either all indexed or none.
  std::vector<std::pair<std::string, std::vector<std::string>>> parts;
  std::vector<std::string> missing;  // cells with one of these texts count as empty
  std::vector<std::string> units;    // texts beside a number, such as $ or kg, that are removed before it is read
  char delimiter = ',';
  char decimal = '.';         // before the fraction of a number
  char thousands = '\0';      // between groups of three digits; '\0': none
  bool header = true;         // the first row names the columns; otherwise they are "1", "2", …
  bool standardise = false;   // numbers to mean 0 and deviation 1 over `from`
  bool fill_missing = false;  // an empty numeric cell gets the column's mean
  std::string columns;        // path of a columns.json to use; "": fit a new one
  int64_t test_every = 0;     // every test_every-th row of `from` is for the test; 0: none
};

// Options with which an import accepts refused columns, as far as they need no guess and disclose no values.
struct TableRemedies {
  std::vector<std::string> without;  // columns whose values identify rows, that are empty, or unusable as categories
  std::vector<std::string> missing;  // texts such as NA, which mark missing numbers
  bool fill_missing = false;
  bool empty() const { return without.empty() && missing.empty() && !fill_missing; }
  // Adds the missing entries of `more` to this object, or of this object to an import's options.
  void Add(const TableRemedies& more);
  void AddTo(TableOptions& options) const;
};

struct TableCounts {
  int64_t train = 0, test = 0;
  double largest_target = 0;  // largest magnitude of a numeric target
  TableColumns columns;
  std::vector<std::string> names;  // names of all columns of `from`, in its order
};

// Reads CSV (engine/datasets/csv_reader.h) and writes train.tfrecord, test.tfrecord if there are test
// rows, and columns.json. Examples have "features" (float[n]; omitted if all columns are in other
// features), the features of `parts` and `indexed` (float[n], or int64[n] for indexed columns), "label"
// (int64; for labels int64[n], for targets float[n], not standardised) and the column `key` under its own
// name (bytes). Without `columns` the file is read twice. A column whose cells are all numbers is numeric;
// others are categories. A column is refused if most but not all cells are numbers, or if it has so many
// values that they identify rows; if requested as a category, it is accepted. Labels that are whole
// numbers from 0 are kept; others are numbered in byte order. Either all files are published complete, or
// none is changed.
//
// NOT_FOUND. INVALID_ARGUMENT: a column that the table lacks or that has two roles; duplicate feature names, or names
// that examples use otherwise. DATA_LOSS by file and line: rows of different lengths; empty, non-numeric or infinite
// cells where a number is required; over 1,000 values of a category or 10,000 classes; invalid class labels, or labels
// other than 0 and 1; targets that are not numbers; a key that cannot be a client's name; no rows. Refused columns have
// a line each.
StatusOr<TableCounts> ImportTable(FileSystem& fs, const TableOptions& options, const DataProgress& progress = {});

// Returns the options that ImportTable needs in addition to accept every column in all rows of `from` and `test`. Empty
// if none are needed or `columns` is set. Reads the files again for every column that hides another fault, usually once
// or twice. Errors as ImportTable if these options cannot help a refused column: only the user can know the unit of
// `$5`.
StatusOr<TableRemedies> FindRemedies(const TableOptions& options, const DataProgress& progress = {});

}  // namespace rivulet
