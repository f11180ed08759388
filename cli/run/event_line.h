// With --json a long-lived process says what happens as one JSON object per line on stdout: "event" first, then the
// event's own fields. `rivulet up` draws its picture from these lines; so can anybody.
#pragma once

#include <string>

#include "engine/base/table.h"

namespace rivulet {

// Thread-safe; flushed at once.
void PrintEvent(const std::string& event, Fields fields);

}  // namespace rivulet
