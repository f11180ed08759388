// Progress bar of characters, with the remaining time.
#pragma once

#include <cstdint>
#include <string>

namespace rivulet {

std::string FormatDuration(double seconds);  // "8 s", "3 min 20 s", "2 h 05 min"
// `filled` of `total` as width characters; total 0 counts as empty.
std::string Bar(int64_t filled, int64_t total, int width);

}  // namespace rivulet
