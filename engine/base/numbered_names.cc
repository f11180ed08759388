#include "engine/base/numbered_names.h"

#include <algorithm>

#include "engine/base/shown_text.h"

namespace rivulet {

std::string NameOrNumber(std::span<const std::string> names, int64_t number) {
  if (number < 0 || number >= std::ssize(names)) return std::to_string(number);
  return Shortened(OneLine(names[static_cast<size_t>(number)]));
}

size_t WidthOfNames(std::span<const std::string> names, size_t least) {
  for (int64_t number = 0; number < std::ssize(names); ++number) {
    const std::string name = NameOrNumber(names, number);
    const auto characters =
        std::ranges::count_if(name, [](char c) { return (static_cast<uint8_t>(c) & 0xC0) != 0x80; });
    least = std::max(least, static_cast<size_t>(characters));
  }
  return least;
}

}  // namespace rivulet
