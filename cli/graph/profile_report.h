// Formatting of a profile as text and as JSON.
#pragma once

#include <string>

#include "engine/profile/profile.h"

namespace rivulet {

// Tables per op and per layer (per instruction with `all`), and the largest losses as sentences.
std::string ProfileText(const Profile& profile, bool all);
// One object: title, steps, …, "ops", "layers", "implementations", "instructions", "losses".
std::string ProfileReportJson(const Profile& profile);

}  // namespace rivulet
