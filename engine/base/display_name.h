// Display names: names chosen by people and printed in rows, messages, logs and terminals.
#pragma once

#include <string>
#include <string_view>

#include "engine/base/status.h"

namespace rivulet {

// OK for 1 to 255 bytes of UTF-8 (RFC 3629) that show as they are: no control characters, no separators of lines, and
// none of the marks that turn the direction of the text around them, with which a name looks like another one.
// INVALID_ARGUMENT, beginning with `what`, otherwise.
Status CheckDisplayName(std::string_view what, std::string_view name);

// Words of somebody else, fit for a row, a log and a terminal: what such a name must not have becomes '?', and what is
// beyond `most` bytes "…".
std::string DisplayText(std::string_view text, size_t most);

}  // namespace rivulet
