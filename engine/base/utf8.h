// Validation of UTF-8 text (RFC 3629).
#pragma once

#include <string_view>

namespace rivulet {

// No overlong forms, no surrogates, nothing beyond U+10FFFF. Empty text is UTF-8.
bool IsUtf8(std::string_view text);

}  // namespace rivulet
