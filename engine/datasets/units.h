// A number with something beside it: $5, 12 kg, 40%, (3), <2. Such a cell is no number as it stands. The import names
// it, and reads the number where the unit is known.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace rivulet {

// Whether a cell, without a unit, is a number in any way in which people write one: 1234.5, 1,000, 3,5, 1.234,5.
bool IsWrittenNumber(std::string_view cell);

// A cell's number as it is written there, with its sign, and its unit.
struct NumberWithUnit {
  std::string number, unit;
  bool symbol = false;  // $ € £ ¥ ₹ % ‰ °, which stand beside numbers alone
};
// Nothing where the cell is no number with a unit. Words count behind a number (12 kg, 80 mmHg), codes of currencies on
// both sides. An ordinal (1st), a code (T1, 2a) and a range (10-19) have no unit.
std::optional<NumberWithUnit> SplitUnit(std::string_view cell);

// The cell without the one of `units` that stands before or behind its number: "-5" of "-$5", "12" of "12 kg". A cell
// with none of them is returned as it is.
std::string WithoutUnit(std::string_view cell, std::span<const std::string> units);

}  // namespace rivulet
