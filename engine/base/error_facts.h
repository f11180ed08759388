// What an error is about, beside its sentence: for whoever must not pass the sentence on, as it may hold paths and
// values of data that stay where they are.
#pragma once

#include <string>
#include <string_view>

#include "engine/base/status.h"

namespace rivulet {

inline constexpr std::string_view kFeatureFact = "feature";  // of an example: its name
inline constexpr std::string_view kRecordFact = "record";    // of a data set: its number
inline constexpr std::string_view kOpFact = "op";            // and its node, as the graph calls them

// The error with one more fact; one of this name that it has already stays. OK stays OK.
Status WithFact(Status status, std::string_view name, std::string_view value);
std::string FactOf(const Status& status, std::string_view name);  // "" for none

}  // namespace rivulet
