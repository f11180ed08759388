// Security headers of every reply: the rights of a page in a browser.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace rivulet {

// A page may show itself, and load its icon and feed from here. It fetches nothing else, only `style` and `script`
// apply, byte for byte, and no other page may frame it. "": none.
std::vector<std::pair<std::string, std::string>> HeadersOfPages(std::string_view style, std::string_view script);

}  // namespace rivulet
