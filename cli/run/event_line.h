// Event output of a long-lived process with --json: one JSON object per line on stdout, "event" first, then the event's
// fields. `rivulet up` draws its display from these lines, and other programs may too.
#pragma once

#include <string>

#include "engine/base/table.h"

namespace rivulet {

// Thread-safe; flushed at once.
void PrintEvent(const std::string& event, Fields fields);

}  // namespace rivulet
