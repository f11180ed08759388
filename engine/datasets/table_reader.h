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
// The format of a table's numbers.
struct NumberFormat {
  char decimal = '.';
  char thousands = '\0';  // between groups of three digits of the whole part; '\0': none
};
// Returns the cell's number, possibly an infinity or NaN; nullopt if it is not a number.
std::optional<double> CellNumber(std::string_view cell, NumberFormat format = {});
std::string ShortCell(std::string_view cell);  // for messages

// A file's rows, which must be as long as the first.
class TableReader {
 public:
  // DATA_LOSS: no rows, or a column whose name is empty or repeated.
  static StatusOr<std::unique_ptr<TableReader>> Open(const std::string& path, const TableOptions& options);

  const std::vector<std::string>& names() const { return names_; }
  std::string Where() const { return csv_->Where(); }  // of the last row read
  int64_t line() const { return csv_->line(); }        // likewise
  // Parses a number in the format of the options, after removing one of their units.
  std::optional<double> Number(std::string_view cell) const;
  const SourceFile& source() const { return *source_; }
  // Finds a column. INVALID_ARGUMENT names the nearest column, or lists all.
  StatusOr<size_t> Find(const std::string& column) const;
  // Reads a row; false at the end. Cells that equal one of `options.missing` become empty. DATA_LOSS: a wrong length.
  StatusOr<bool> Next(std::vector<std::string>& cells, const DataProgress& progress);

 private:
  TableReader() = default;
  std::string FirstNames() const;  // for messages

  std::unique_ptr<SourceFile> source_;
  std::optional<CsvReader> csv_;
  std::vector<std::string> names_, waiting_;  // `waiting_`: a first row that is not a header
  std::vector<std::string> missing_, units_;
  NumberFormat format_;
  std::map<std::string, size_t> places_;
  int64_t rows_ = 0;
};

}  // namespace rivulet
