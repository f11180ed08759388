// Reader of a table's rows cell by cell, with conversion of cells to numbers.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"
#include "engine/data/progress.h"
#include "engine/datasets/csv_reader.h"
#include "engine/datasets/source_file.h"
#include "engine/datasets/table.h"

namespace rivulet {

inline constexpr size_t kMaxCellValueBytes = 256;  // of a value that is a name, and of a column's name
inline constexpr size_t kMaxCategoryValues = 1000, kMaxFeatures = 1 << 20;

std::string_view Trimmed(std::string_view cell);
// How a table writes numbers.
struct NumberFormat {
  char decimal = '.';
  char thousands = '\0';  // between groups of three digits of the whole part; '\0': nothing
};
// What a cell is as a number: nothing where it is none, perhaps an infinity or NaN.
std::optional<double> CellNumber(std::string_view cell, NumberFormat format = {});
std::string ShortCell(std::string_view cell);  // for a sentence

// A file's rows, all as long as the first.
class TableReader {
 public:
  // DATA_LOSS: no rows, a column without a name or with another's.
  static StatusOr<std::unique_ptr<TableReader>> Open(const std::string& path, const TableOptions& options);

  const std::vector<std::string>& names() const { return names_; }
  std::string Where() const { return csv_->Where(); }  // of the row read last
  int64_t line() const { return csv_->line(); }        // likewise
  // CellNumber as the options say that numbers are written, without one of their units.
  std::optional<double> Number(std::string_view cell) const;
  const SourceFile& source() const { return *source_; }
  // INVALID_ARGUMENT names the nearest column or, without one, those that there are.
  StatusOr<size_t> Find(const std::string& column) const;
  // False: there is none. A cell with a mark of `options.missing` is empty. DATA_LOSS: a row of another length.
  StatusOr<bool> Next(std::vector<std::string>& cells, const DataProgress& progress);

 private:
  TableReader() = default;
  std::string FirstNames() const;  // for a sentence

  std::unique_ptr<SourceFile> source_;
  std::optional<CsvReader> csv_;
  std::vector<std::string> names_, waiting_;  // `waiting_`: a first row that is no header
  std::vector<std::string> missing_, units_;
  NumberFormat format_;
  std::map<std::string, size_t> places_;
  int64_t rows_ = 0;
};

}  // namespace rivulet
