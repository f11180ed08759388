// Sentences about the spend of a private run: both epsilons, with the unit and the neighbouring relation that they hold
// for.
#pragma once

#include <string>
#include <vector>

#include "inspect/overview.h"

namespace rivulet {

// Curves of the spend, which `metrics` has under these names.
inline constexpr char kPrivacyCurves[] = "privacy/";

// Of the newest attempt with noise. Empty: the run has none.
std::vector<std::string> PrivacySentences(const RunOverview& page);

}  // namespace rivulet
