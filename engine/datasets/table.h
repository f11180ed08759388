// Import of tables, one example per row. Columns of numbers and categories become one list of features, or several. The
// target is a column of classes, several columns of labels, or columns of numbers; an optional column names the client
// of each row.
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

// One column of features. A number x stays x or, standardised, becomes (x - mean) / deviation; a category becomes as
// many numbers as it has values, of which that of its value is 1 and the others are 0. A value that is not among them
// is all zeros. An indexed category becomes one integer, as an embedding takes it: the value's place from 1 on, and 0
// for a value that is not among them.
struct TableColumn {
  std::string name;
  std::string feature = "features";  // of the examples, in which it stands beside other columns
  bool category = false;
  bool index = false;               // of a category
  double mean = 0, deviation = 1;   // of all cells that are not empty; a deviation of 0 is told as 1
  int64_t count = 0;                // of these cells; 0: not known
  bool constant = false;            // they are all equal
  std::vector<std::string> values;  // in byte order
};

// One feature of the examples that a table becomes.
struct TableFeature {
  std::string name;
  int64_t count = 0;       // numbers, or integers, in one example
  int64_t vocabulary = 0;  // of integers, which are below it; 0: it has floats
  // One for each number, 0 and 1 for those of categories; none where there are categories alone, or integers.
  std::vector<double> mean, deviation;
};

// How the cells of a table become features. It is fitted to one file and kept as JSON (columns.json), so that other
// files, of other clients perhaps, become features of the same meaning.
struct TableColumns {
  std::vector<TableColumn> features;  // in the order of their numbers
  bool standardised = false;
  int64_t feature_count() const;              // numbers in one example
  std::vector<TableFeature> Grouped() const;  // in the order of their first columns
  // What is to be learnt, one of three: the class in a column, which of several labels a row has, or numbers.
  std::string label;
  std::vector<std::string> classes;  // the label is a value's place; empty: it is the whole number in the cell
  int64_t class_count = 0;
  std::vector<std::string> labels;
  std::vector<std::string> targets;
};
// What columns.json says of single rows or of few, one sentence a column: "every value of 'sex': f, m", "the mean and
// deviation of 'age'". The JSON begins with these sentences, as "discloses".
std::vector<std::string> Disclosures(const TableColumns& columns);
std::string ToJson(const TableColumns& columns);
// DATA_LOSS: not what ToJson gives.
StatusOr<TableColumns> ParseTableColumns(std::string_view json);

// What the tables of several sites are together, by what each site fitted to its own, which is named for messages:
// means and deviations are those over all rows, exactly but for rounding (Chan, Golub and LeVeque 1979), categories and
// names of classes those that any site has. No row leaves its site. INVALID_ARGUMENT: none; sites whose columns, kinds
// of columns or targets differ, or that say no counts; too many values.
StatusOr<TableColumns> PoolTableColumns(const std::vector<std::pair<std::string, TableColumns>>& sites);

struct TableOptions {
  std::string from, test;               // files, plain or .gz; `test` may be empty
  std::string out;                      // the folder to write to, made if missing
  std::string label;                    // column of the class; or
  std::vector<std::string> labels;      // columns of 0 and 1, one for each label; or
  std::vector<std::string> targets;     // columns of numbers that are to be predicted
  std::string key;                      // column of the client; may be empty
  std::vector<std::string> without;     // columns that are no features
  std::vector<std::string> categories;  // columns whose values are names, even if they look like numbers
  std::vector<std::string> indexed;     // likewise, each an integer of a feature of its own name, unless `parts` says
  // Features beside "features", each a name and its columns, all indexed or none.
  std::vector<std::pair<std::string, std::vector<std::string>>> parts;
  std::vector<std::string> missing;  // cells with one of these texts are empty
  std::vector<std::string> units;    // texts beside a number, such as $ or kg, without which it is read
  char delimiter = ',';
  char decimal = '.';         // before the fraction of a number
  char thousands = '\0';      // between groups of three digits; '\0': nothing
  bool header = true;         // the first row names the columns, which otherwise are "1", "2", …
  bool standardise = false;   // numbers to mean 0 and deviation 1 over `from`
  bool fill_missing = false;  // an empty cell of a number takes the column's mean
  std::string columns;        // a columns.json to take instead of fitting one; "" fits
  int64_t test_every = 0;     // every so manyth row of `from` is for the test; 0: none
};

// Options that let an import take columns which it would refuse, as far as they guess no value and disclose none.
struct TableRemedies {
  std::vector<std::string> without;  // columns whose values name rows, that are empty, or that make no category
  std::vector<std::string> missing;  // texts such as NA, which say that a number is missing
  bool fill_missing = false;
  bool empty() const { return without.empty() && missing.empty() && !fill_missing; }
  // Adds those of `more` that are not there, and the same to an import's options.
  void Add(const TableRemedies& more);
  void AddTo(TableOptions& options) const;
};

struct TableCounts {
  int64_t train = 0, test = 0;
  double largest_target = 0;  // the greatest magnitude of a target that is a number
  TableColumns columns;
  std::vector<std::string> names;  // of all columns of `from`, in its order
};

// Reads CSV (engine/datasets/csv_reader.h) and writes train.tfrecord, test.tfrecord where there are rows for it, and
// columns.json, with the features "features" (float[n]) and those of `parts` and `indexed` (float[n], or int64[n] of
// indexed columns; "features" is missing where they leave it no column), "label" (int64; of labels int64[n], of targets
// float[n], as they are and not standardised) and the column `key` under its own name (bytes). Without `columns` the
// file is read twice: a column whose cells are all numbers is one of numbers, any other one of categories. A column is
// refused if most of its cells are numbers and some are not, or if its values are so many that they name rows; as
// categories that were asked for, both are taken. Labels that
// are whole numbers from 0 stay what they are, others are numbered in byte order. All files appear complete, or none is
// changed.
//
// NOT_FOUND; INVALID_ARGUMENT: a column that the table has not, or one in two roles; features of one name, or of one
// that examples have otherwise. DATA_LOSS by file and line: rows
// of different lengths, cells that are empty, no number or not finite where one is wanted, more than 1,000 values of a
// category or 10,000 classes, labels that are no classes, or neither 0 nor 1, targets that are no numbers, a key that
// cannot name a client, no rows. Columns that are refused have a line each.
StatusOr<TableCounts> ImportTable(FileSystem& fs, const TableOptions& options, const DataProgress& progress = {});

// What `options` lack for ImportTable to take every column, in all rows of `from` and `test`; empty where they lack
// nothing or name `columns`. The files are read once for every column that hides another fault, most often once or
// twice. Errors as ImportTable, where a column is refused that these options do not settle: `$5` has a unit that only a
// reader knows.
StatusOr<TableRemedies> FindRemedies(const TableOptions& options, const DataProgress& progress = {});

}  // namespace rivulet
