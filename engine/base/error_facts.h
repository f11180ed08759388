// Machine-readable facts attached to an error, beside its sentence. A process that must not forward the sentence,
// because it may contain private paths or values, forwards these facts instead.
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
