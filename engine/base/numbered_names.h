// Names of numbered things, such as the classes of a data set.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace rivulet {

// The name of `number` as a terminal shows it, or the number itself where it has no name.
std::string NameOrNumber(std::span<const std::string> names, int64_t number);

// The characters of the longest of these names, at least `least`: the width of a column that holds them.
size_t WidthOfNames(std::span<const std::string> names, size_t least);

}  // namespace rivulet
