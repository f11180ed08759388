// Tables for people and programs: the same cells print as aligned columns or as JSON with the column names as keys.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace rivulet {

class Json;

using Cell = std::variant<std::monostate, bool, int64_t, double, std::string>;  // monostate: null

template <typename T>
Cell CellOrNull(const std::optional<T>& value) {
  return value ? Cell(*value) : Cell();
}
// null for "".
inline Cell TextCell(std::string text) { return text.empty() ? Cell() : Cell(std::move(text)); }

struct Column {
  std::string name;
  bool only_json = false;  // too wide or too seldom of interest for a terminal
  int digits = 4;          // of a real number in the table, -1: ten that count; JSON has them all
  size_t width = 0;        // longer text is cut in the table; 0: never
  std::string title = "";  // above it in the table; "": its name
  int rank = 0;            // where a table is too wide, columns of the highest rank leave it first; 0: it stays
};

class Table {
 public:
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}
  // One cell per column.
  void Add(std::vector<Cell> row) { rows_.push_back(std::move(row)); }
  size_t size() const { return rows_.size(); }
  // A line of titles, then a line per row; numbers to the right. "" without rows. `columns`: so many characters a line,
  // as far as leaving columns out goes; 0: any number.
  std::string Text(size_t columns = 0) const;
  // An array of an object per row.
  rivulet::Json Rows() const;
  // The same as text, a row on a line.
  std::string Json() const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<Cell>> rows_;
};

using Fields = std::vector<std::pair<std::string, Cell>>;
Json ToJson(const Fields& fields);
// One object on one line, without a line break. Text that is no UTF-8 is mended, never refused.
std::string JsonObject(const Fields& fields);
// "name  value" lines, aligned; nulls are left out.
std::string FieldLines(const Fields& fields);

}  // namespace rivulet
