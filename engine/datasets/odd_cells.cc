#include "engine/datasets/odd_cells.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <vector>

#include "engine/base/join.h"
#include "engine/datasets/table_reader.h"
#include "engine/datasets/units.h"

namespace rivulet {
namespace {

constexpr size_t kMostTexts = 6, kMostUnits = 32;

bool IsNumberOf(std::string_view cell, NumberFormat format) { return CellNumber(cell, format).has_value(); }

// A letter behind a number that multiplies it, so that the number alone would be another one.
bool IsMultiple(std::string_view unit) { return unit == "k" || unit == "K" || unit == "M"; }

// How to have a number read that is written with other signs than 1234.5; "" where no option helps.
std::string SignsOf(std::string_view number) {
  std::string told;
  if (CellNumber(number)) return told;
  if (IsNumberOf(number, {.thousands = ','})) told += "Pass --thousands , if the comma groups digits. ";
  if (IsNumberOf(number, {.decimal = ','})) told += "Pass --decimal , if the comma ends the whole part. ";
  if (!told.empty()) return told;
  if (IsNumberOf(number, {.decimal = ',', .thousands = '.'}))
    return "Pass --decimal , --thousands . for such numbers. ";
  if (IsNumberOf(number, {.thousands = '\''})) return "Pass --thousands \"'\" for such numbers. ";
  if (IsNumberOf(number, {.thousands = ' '})) return "Pass --thousands ' ' for such numbers. ";
  if (IsNumberOf(number, {.decimal = ',', .thousands = ' '}))
    return "Pass --decimal , --thousands ' ' for such numbers. ";
  return told;
}

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
  cell = Trimmed(cell);
  if (IsWrittenNumber(cell) || CellNumber(cell)) return true;                                // the latter of inf
  if (cell.starts_with('(') && cell.ends_with(')')) cell = cell.substr(1, cell.size() - 2);  // a loss, to accountants
  for (const std::string_view sign : {"<", ">", "≤", "≥", "~", "="})                         // beyond what was measured
    while (cell.starts_with(sign)) cell = Trimmed(cell.substr(sign.size()));
  const std::optional<NumberWithUnit> split = SplitUnit(cell);
  return IsWrittenNumber(cell) || (split && split->symbol);
}

void OddCells::See(const std::string& cell, int64_t line) {
  ++count_;
  marks_ += IsMissingMark(cell);
  if (LooksLikeNumber(cell)) {
    ++numeric_;
  } else if (const std::optional<NumberWithUnit> split = SplitUnit(cell)) {
    const auto unit = words_.find(split->unit);
    if (unit != words_.end())
      ++unit->second;
    else if (words_.size() < kMostUnits)
      words_.emplace(split->unit, 1);
  }
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
  int64_t of_one_word = 0;
  for (const auto& [word, count] : words_) of_one_word = std::max(of_one_word, count);
  return valued == 0 || 2 * (numbers + numeric_ + of_one_word) > valued;
}

std::vector<std::string> OddCells::Texts() const {
  std::vector<std::string> texts;
  for (const auto& [text, seen] : texts_) texts.push_back(text);
  return texts;
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
  std::string missing, infinite;
  std::set<std::string> units, signs;  // options; sentences
  bool spelt = false;
  for (const auto& [text, seen] : texts_) {
    if (IsMissingMark(text)) {
      missing += fmt::format("--missing '{}' ", text);
      continue;
    }
    const std::optional<double> plain = CellNumber(text);
    const std::optional<NumberWithUnit> split = plain ? std::nullopt : SplitUnit(text);
    const std::string number = split ? split->number : text;
    if (plain) {
      infinite += fmt::format("--missing '{}' ", text);
    } else if (split && IsMultiple(split->unit)) {
      spelt = true;
    } else {
      if (split) units.insert(fmt::format("--unit '{}' ", split->unit));
      const std::string sign = SignsOf(number);
      if (!sign.empty()) signs.insert(sign);
      spelt = spelt || (sign.empty() && !CellNumber(number));
    }
  }
  std::string told;
  if (!missing.empty()) told += fmt::format("Pass {}--fill-missing to use the column's mean for them. ", missing);
  if (!infinite.empty())
    told += fmt::format("Pass {}--fill-missing to use the column's mean for a number that is not finite. ", infinite);
  if (!units.empty()) told += fmt::format("Pass {}to read the number beside a unit. ", Join(units, ""));
  for (const std::string& sign : signs) told += sign;
  if (spelt) told += "Write the other cells as plain numbers, or pass --missing for a text that means none. ";
  return told +
         fmt::format("Pass --category '{0}' to make names of all values, or --without '{0}' to leave it out", column);
}

}  // namespace rivulet
