#include "engine/base/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "engine/base/json.h"
#include "engine/base/quantities.h"
#include "engine/base/shown_text.h"

namespace rivulet {
namespace {

Json ToJson(const Cell& cell) {
  return std::visit(
      [](const auto& value) -> Json {
        if constexpr (std::is_same_v<std::decay_t<decltype(value)>, std::monostate>) {
          return nullptr;
        } else {
          return value;  // NaN and infinities become null
        }
      },
      cell);
}

constexpr int kUsualDigits = 4;  // of measured values, which may be of any size

std::string ToText(const Cell& cell, int digits) {
  struct Visitor {
    int digits;
    std::string operator()(std::monostate) const { return "-"; }
    std::string operator()(bool value) const { return value ? "yes" : "no"; }
    std::string operator()(int64_t value) const { return fmt::format("{}", value); }
    std::string operator()(double value) const {
      if (digits < 0) return fmt::format("{:.10g}", value);
      const bool large = digits == kUsualDigits && std::abs(value) >= 1000;
      return large ? MetricText(value) : fmt::format("{:.{}f}", value, digits);
    }
    std::string operator()(const std::string& value) const {
      return OneLine(value);  // what a client sent must not move the cursor
    }
  };
  return std::visit(Visitor{digits}, cell);
}

// Columns on a terminal: code points, not bytes.
size_t Width(std::string_view text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

std::string CutCell(std::string text, size_t width) {
  if (width == 0 || Width(text) <= width) return text;
  size_t end = 0;
  for (size_t kept = 0; end < text.size(); ++end) {
    if ((static_cast<unsigned char>(text[end]) & 0xC0) != 0x80 && kept++ == width - 1) break;
  }
  return text.substr(0, end) + "…";
}

}  // namespace

std::string Table::Text(size_t columns) const {
  if (rows_.empty()) return "";
  struct Shown {
    std::vector<std::string> texts;  // the title, then a row's each
    size_t width = 0;
    bool right = true;
    int rank = 0;
  };
  std::vector<Shown> shown;
  for (size_t c = 0; c < columns_.size(); ++c) {
    const Column& column = columns_[c];
    if (column.only_json) continue;
    Shown& next = shown.emplace_back();
    next.rank = column.rank;
    next.texts.push_back(column.title.empty() ? column.name : column.title);
    for (const std::vector<Cell>& row : rows_) {
      next.texts.push_back(CutCell(ToText(row[c], column.digits), column.width));
      next.right = next.right && !std::holds_alternative<std::string>(row[c]);
    }
    for (const std::string& text : next.texts) next.width = std::max(next.width, Width(text));
  }
  const auto total = [&] {
    size_t sum = 0;
    for (const Shown& column : shown) sum += column.width + 2;
    return sum - 2;
  };
  while (columns > 0 && total() > columns) {
    // Of several of one rank the last goes first: what stands to the left matters more.
    const auto out = std::max_element(shown.rbegin(), shown.rend(), [](auto& a, auto& b) { return a.rank < b.rank; });
    if (out->rank == 0) break;
    shown.erase(std::next(out).base());
  }
  std::string text;
  for (size_t line = 0; line <= rows_.size(); ++line) {
    std::string row;
    for (const Shown& column : shown) {
      const std::string padding(column.width - Width(column.texts[line]), ' ');
      if (&column != &shown.front()) row += "  ";
      row += column.right ? padding + column.texts[line] : column.texts[line] + padding;
    }
    row.erase(row.find_last_not_of(' ') + 1);
    text += row + "\n";
  }
  return text;
}

Json Table::Rows() const {
  rivulet::Json rows = rivulet::Json::Array();
  for (const std::vector<Cell>& row : rows_) {
    rivulet::Json object = rivulet::Json::Object();
    for (size_t c = 0; c < columns_.size(); ++c) object[columns_[c].name] = ToJson(row[c]);
    rows.Append(std::move(object));
  }
  return rows;
}

std::string Table::Json() const {
  std::string text = "[";
  const rivulet::Json rows = Rows();
  for (const rivulet::Json& row : rows.elements()) text += (text.size() == 1 ? "\n" : ",\n") + row.Dump();
  return text + (rows_.empty() ? "]\n" : "\n]\n");
}

Json ToJson(const Fields& fields) {
  rivulet::Json object = rivulet::Json::Object();
  for (const auto& [name, cell] : fields) object[name] = ToJson(cell);
  return object;
}

std::string JsonObject(const Fields& fields) { return ToJson(fields).Dump(); }

std::string FieldLines(const Fields& fields) {
  size_t width = 0;
  for (const auto& [name, cell] : fields) {
    if (!std::holds_alternative<std::monostate>(cell)) width = std::max(width, name.size());
  }
  std::string text;
  for (const auto& [name, cell] : fields) {
    if (!std::holds_alternative<std::monostate>(cell))
      text += fmt::format("{:<{}}  {}\n", name, width, ToText(cell, 4));
  }
  return text;
}

}  // namespace rivulet
