// Sentences about the spend of a private run: both epsilons, with their unit and neighbouring
// relation.
#pragma once

#include <string>
#include <vector>

#include "inspect/overview.h"

namespace rivulet {

// Prefix of the spend's curves in `metrics`.
inline constexpr char kPrivacyCurves[] = "privacy/";

// Describes the spend after the newest attempt with noise. Empty: the run has none.
std::vector<std::string> PrivacySentences(const RunOverview& page);

}  // namespace rivulet
