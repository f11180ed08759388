#include "engine/datasets/odd_cells.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "engine/base/join.h"
#include "engine/datasets/table_reader.h"

namespace rivulet {
namespace {

constexpr size_t kMostTexts = 6;

// The cell without a sign of currency before it, or of currency or percent behind it.
std::string_view WithoutUnit(std::string_view cell) {
  constexpr std::array<std::string_view, 5> kUnits = {"$", "€", "£", "¥", "%"};
  cell = Trimmed(cell);
  for (const std::string_view unit : kUnits) {
    if (cell.starts_with(unit)) return Trimmed(cell.substr(unit.size()));
    if (cell.ends_with(unit)) return Trimmed(cell.substr(0, cell.size() - unit.size()));
  }
  return cell;
}

bool IsNumberOf(std::string_view cell, NumberFormat format) { return CellNumber(cell, format).has_value(); }

}  // namespace

bool IsMissingMark(std::string_view cell) {
  constexpr std::array<std::string_view, 14> kMarks = {"na",  "n/a", "#n/a", "nan", "-nan", "null",    "none",
                                                       "nil", "?",   "-",    "--",  ".",    "missing", "unknown"};
  std::string lower(Trimmed(cell));
  for (char& c : lower) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  return std::ranges::find(kMarks, lower) != kMarks.end();
}

bool LooksLikeNumber(std::string_view cell) {
  if (IsMissingMark(cell)) return false;
  const std::string_view number = WithoutUnit(cell);
  return std::ranges::any_of(number, [](char c) { return c >= '0' && c <= '9'; }) &&
         (IsNumberOf(number, {}) || IsNumberOf(number, {.thousands = ','}) || IsNumberOf(number, {.decimal = ','}) ||
          IsNumberOf(number, {.decimal = ',', .thousands = '.'}) || IsNumberOf(number, {.thousands = ' '}) ||
          IsNumberOf(number, {.thousands = '\''}));
}

void OddCells::See(const std::string& cell, int64_t line) {
  ++count_;
  marks_ += IsMissingMark(cell);
  numeric_ += LooksLikeNumber(cell);
  const std::string text = ShortCell(Trimmed(cell));
  const auto found = texts_.find(text);
  if (found != texts_.end())
    ++found->second.count;
  else if (texts_.size() < kMostTexts)
    texts_.emplace(text, Seen{1, line});
  else
    ++others_;
}

bool OddCells::AmongNumbers(int64_t numbers) const {
  const int64_t valued = numbers + count_ - marks_;
  return valued == 0 || 2 * (numbers + numeric_) > valued;
}

std::string OddCells::Cells(int64_t cells) const {
  std::vector<std::pair<std::string, Seen>> texts(texts_.begin(), texts_.end());
  std::ranges::stable_sort(texts, {}, [](const auto& text) { return text.second.line; });
  std::vector<std::string> told;
  for (const auto& [text, seen] : texts)
    told.push_back(seen.count == 1 ? fmt::format("'{}' (line {})", text, seen.line)
                                   : fmt::format("'{}' ({} cells, first in line {})", text, seen.count, seen.line));
  if (others_ > 0) told.push_back(fmt::format("and {} more cells", others_));
  return fmt::format("{} of {} cells {}: {}", count_, cells, count_ == 1 ? "is no number" : "are no numbers",
                     Join(told, ", "));
}

std::string OddCells::Told(std::string_view column, int64_t cells) const {
  return fmt::format("{}. {}", Cells(cells), Options(column));
}

std::string OddCells::Options(std::string_view column) const {
  std::string missing;
  bool thousands = false, decimal = false, spelt = false;
  for (const auto& [text, seen] : texts_) {
    if (IsMissingMark(text)) {
      missing += fmt::format("--missing '{}' ", text);
      continue;
    }
    const bool grouped = IsNumberOf(text, {.thousands = ','}), comma = IsNumberOf(text, {.decimal = ','});
    thousands = thousands || grouped;
    decimal = decimal || comma;
    spelt = spelt || (!grouped && !comma);
  }
  std::string told;
  if (!missing.empty()) told += fmt::format("Pass {}--fill-missing to use the column's mean for them. ", missing);
  if (thousands) told += "Pass --thousands , if the comma groups digits. ";
  if (decimal) told += "Pass --decimal , if the comma ends the whole part. ";
  if (spelt) told += "Write a number without its unit, or pass --missing for a text that means none. ";
  return told +
         fmt::format("Pass --category '{0}' to make names of all values, or --without '{0}' to leave it out", column);
}

}  // namespace rivulet
