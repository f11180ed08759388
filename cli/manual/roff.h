// Text as roff, the language of man pages.
#pragma once

#include <string>
#include <string_view>

namespace rivulet {

// `text` as it is shown: a hyphen that is one, no escape, no line that looks like a request.
std::string Roff(std::string_view text);
// rivulet-scenario(5): the keys of scenarios.
std::string ScenarioManualPage();

}  // namespace rivulet
