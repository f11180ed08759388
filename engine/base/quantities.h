// Formatting of sizes, durations, percentages and measured values for people.
#pragma once

#include <cstdint>
#include <string>

namespace rivulet {

std::string BytesText(int64_t bytes);     // "0 B", "812 B", "31.8 kB", "6.65 MB": powers of 1000
std::string SecondsText(double seconds);  // "0 s", "0.3 ms", "19 ms", "3.2 s", "3 min 20 s", "2 h 05 min"
std::string PercentText(double share);    // "0.4 %", "37 %"
std::string CountText(int64_t count);     // "812", "1,663,370"
std::string MetricText(double value);     // "0.8945", "5859.8", "3.463e+07", "2.4e-06"

}  // namespace rivulet
