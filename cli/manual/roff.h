// Text as roff, the language of man pages.
#pragma once

#include <string>
#include <string_view>

namespace rivulet {

// `text` in roff: real hyphens, no escapes, no lines that look like requests.
std::string Roff(std::string_view text);
// rivulet-scenario(5): the keys of scenarios.
std::string ScenarioManualPage();

}  // namespace rivulet
