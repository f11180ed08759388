#include "cli/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace rivulet {
namespace {

using Json = nlohmann::ordered_json;

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

std::string Dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

std::string ToText(const Cell& cell, int digits) {
  struct Visitor {
    int digits;
    std::string operator()(std::monostate) const { return "-"; }
    std::string operator()(bool value) const { return value ? "yes" : "no"; }
    std::string operator()(int64_t value) const { return fmt::format("{}", value); }
    std::string operator()(double value) const { return fmt::format("{:.{}f}", value, digits); }
    std::string operator()(const std::string& value) const {
      std::string line = value;  // what a client sent must not move the cursor
      for (char& c : line) {
        if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) c = ' ';
      }
      return line;
    }
  };
  return std::visit(Visitor{digits}, cell);
}

// Columns on a terminal: code points, not bytes.
size_t Width(std::string_view text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

std::string Cut(std::string text, size_t width) {
  if (width == 0 || Width(text) <= width) return text;
  size_t end = 0;
  for (size_t kept = 0; end < text.size(); ++end) {
    if ((static_cast<unsigned char>(text[end]) & 0xC0) != 0x80 && kept++ == width - 1) break;
  }
  return text.substr(0, end) + "…";
}

}  // namespace

std::string Table::Text() const {
  if (rows_.empty()) return "";
  std::vector<std::vector<std::string>> lines(rows_.size() + 1);
  std::vector<size_t> widths;
  std::vector<bool> right;
  for (size_t c = 0; c < columns_.size(); ++c) {
    if (columns_[c].only_json) continue;
    lines[0].push_back(columns_[c].name);
    size_t width = Width(columns_[c].name);
    bool numeric = true;
    for (size_t r = 0; r < rows_.size(); ++r) {
      lines[r + 1].push_back(Cut(ToText(rows_[r][c], columns_[c].digits), columns_[c].width));
      width = std::max(width, Width(lines[r + 1].back()));
      numeric = numeric && !std::holds_alternative<std::string>(rows_[r][c]);
    }
    widths.push_back(width);
    right.push_back(numeric);
  }
  std::string text;
  for (const auto& line : lines) {
    std::string row;
    for (size_t c = 0; c < line.size(); ++c) {
      const std::string padding(widths[c] - Width(line[c]), ' ');
      if (c > 0) row += "  ";
      row += right[c] ? padding + line[c] : line[c] + padding;
    }
    row.erase(row.find_last_not_of(' ') + 1);
    text += row + "\n";
  }
  return text;
}

std::string Table::Json() const {
  std::string text = "[";
  for (size_t r = 0; r < rows_.size(); ++r) {
    Fields fields;
    for (size_t c = 0; c < columns_.size(); ++c) fields.emplace_back(columns_[c].name, rows_[r][c]);
    text += (r == 0 ? "\n" : ",\n") + JsonObject(fields);
  }
  return text + (rows_.empty() ? "]\n" : "\n]\n");
}

std::string JsonObject(const Fields& fields) {
  rivulet::Json object = rivulet::Json::object();
  for (const auto& [name, cell] : fields) object[name] = ToJson(cell);
  return Dump(object);
}

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
