#include "engine/datasets/units.h"

#include <algorithm>
#include <array>

#include "engine/datasets/table_reader.h"

namespace rivulet {
namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// The sign of a number that is written with one, which is cut off `cell`.
std::string TakeSign(std::string_view& cell) {
  constexpr std::string_view kMinus = "\xE2\x88\x92";  // U+2212, as some programs export it
  std::string sign;
  if (cell.starts_with('-') || cell.starts_with(kMinus)) {
    sign = "-";
    cell.remove_prefix(cell.front() == '-' ? 1 : kMinus.size());
  } else if (cell.starts_with('+')) {
    cell.remove_prefix(1);
  }
  cell = Trimmed(cell);
  return sign;
}

bool IsSymbol(std::string_view text) {
  constexpr std::array<std::string_view, 8> kSymbols = {"$", "€", "£", "¥", "₹", "%", "‰", "°"};
  return std::ranges::find(kSymbols, text) != kSymbols.end();
}

bool IsCurrencyCode(std::string_view text) {
  constexpr std::array<std::string_view, 16> kCodes = {"USD", "EUR", "GBP", "JPY", "CHF", "CNY", "INR", "CAD",
                                                       "AUD", "SEK", "NOK", "DKK", "PLN", "BRL", "KRW", "RUB"};
  return std::ranges::find(kCodes, text) != kCodes.end();
}

// Whether a word behind a number is a unit. Attached to it, one letter could as well be a code's (2a).
bool IsUnitWord(std::string_view word, bool attached) {
  constexpr size_t kMostBytes = 12;
  constexpr std::array<std::string_view, 4> kOrdinals = {"st", "nd", "rd", "th"};
  constexpr std::string_view kLetters = "gmlLshdytkKCFM";
  if (word.empty() || word.size() > kMostBytes || std::ranges::find(kOrdinals, word) != kOrdinals.end()) return false;
  if (attached && word.size() == 1 && kLetters.find(word[0]) == std::string_view::npos) return false;
  if (!IsLetter(word[0]) && static_cast<unsigned char>(word[0]) < 0x80) return false;
  return std::ranges::all_of(word, [](char c) {
    return IsLetter(c) || static_cast<unsigned char>(c) >= 0x80 ||
           std::string_view("/.^23%").find(c) != std::string::npos;
  });
}

}  // namespace

bool IsWrittenNumber(std::string_view cell) {
  constexpr std::array<NumberFormat, 7> kFormats = {{{},
                                                     {.thousands = ','},
                                                     {.decimal = ','},
                                                     {.decimal = ',', .thousands = '.'},
                                                     {.thousands = ' '},
                                                     {.thousands = '\''},
                                                     {.decimal = ',', .thousands = ' '}}};
  return std::ranges::any_of(cell, IsDigit) &&
         std::ranges::any_of(kFormats, [&](NumberFormat format) { return CellNumber(cell, format).has_value(); });
}

std::optional<NumberWithUnit> SplitUnit(std::string_view cell) {
  std::string_view rest = Trimmed(cell);
  std::string sign = TakeSign(rest);
  const auto first = static_cast<size_t>(std::ranges::find_if(rest, IsDigit) - rest.begin());
  if (first == rest.size()) return std::nullopt;
  size_t begin = first;
  if (begin > 0 && (rest[begin - 1] == '.' || rest[begin - 1] == ',')) --begin;  // .5 kg
  size_t end = first;
  for (size_t i = first;
       i < rest.size() && (IsDigit(rest[i]) || std::string_view(".,' ").find(rest[i]) != std::string::npos); ++i)
    if (IsDigit(rest[i])) end = i + 1;
  std::string_view before = rest.substr(0, begin), number = rest.substr(begin, end - begin), after = rest.substr(end);
  if (sign.empty() && before.ends_with('-')) {  // $-5
    sign = "-";
    before.remove_suffix(1);
  }
  before = Trimmed(before);
  const bool attached = after.empty() || (after[0] != ' ' && after[0] != '\t');
  after = Trimmed(after);
  if (before.empty() == after.empty() || !IsWrittenNumber(number)) return std::nullopt;
  const std::string_view unit = before.empty() ? after : before;
  NumberWithUnit split{.number = sign + std::string(number), .unit = std::string(unit), .symbol = IsSymbol(unit)};
  if (split.symbol || IsCurrencyCode(unit) || (before.empty() && IsUnitWord(unit, attached))) return split;
  return std::nullopt;
}

std::string WithoutUnit(std::string_view cell, std::span<const std::string> units) {
  std::string_view rest = Trimmed(cell);
  std::string sign = TakeSign(rest);
  for (const std::string& unit : units) {
    if (rest.size() <= unit.size()) continue;
    if (rest.ends_with(unit)) return sign + std::string(Trimmed(rest.substr(0, rest.size() - unit.size())));
    if (!rest.starts_with(unit)) continue;
    rest = Trimmed(rest.substr(unit.size()));
    if (sign.empty()) sign = TakeSign(rest);
    return sign + std::string(rest);
  }
  return std::string(cell);
}

}  // namespace rivulet
