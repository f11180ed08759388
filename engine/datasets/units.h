// Splitting of numbers from text beside them: $5, 12 kg, 40%, (3), <2. Such a cell is not a number. The import reports
// it, and reads the number if the unit is an option.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace rivulet {

// Returns true if the cell, without a unit, is a number in a common format: 1234.5, 1,000, 3,5, 1.234,5.
bool IsWrittenNumber(std::string_view cell);

// The number of a cell as written there, with its sign, and its unit.
struct NumberWithUnit {
  std::string number, unit;
  bool symbol = false;  // $ € £ ¥ ₹ % ‰ °, which only occur beside numbers
};
// Returns nullopt unless the cell is a number with a unit. A word counts after a number (12 kg, 80 mmHg), a currency
// code on either side. An ordinal (1st), a code (T1, 2a) and a range (10-19) have no unit.
std::optional<NumberWithUnit> SplitUnit(std::string_view cell);

// Returns the cell without the unit before or after its number: "-5" for "-$5", "12" for "12 kg". Without one of
// `units` the cell is returned unchanged.
std::string WithoutUnit(std::string_view cell, std::span<const std::string> units);

}  // namespace rivulet
