// "Did you mean …?": the known name nearest to an unknown one.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace rivulet {
// The name in `known` with the smallest edit distance to `unknown` (ties: first), or "" when none is near: one slip (a
// character too many, too few, another, or two swapped) for every four characters of the shorter name, and at least
// one; case, and '-' for '_', are none. An `unknown` of more than 256 characters has no nearest name, and only
// the first 10,000 known ones are compared.
std::string Nearest(std::string_view unknown, std::span<const std::string> known);
// " Did you mean 'x'?" or "".
std::string DidYouMean(std::string_view unknown, std::span<const std::string> known);
}  // namespace rivulet
