#include "cli/run/event_line.h"

#include <fmt/format.h>

#include <cstdio>

namespace rivulet {

void PrintEvent(const std::string& event, Fields fields) {
  fields.insert(fields.begin(), {"event", event});
  const std::string line = JsonObject(fields) + "\n";
  std::fwrite(line.data(), 1, line.size(), stdout);
  std::fflush(stdout);
}

}  // namespace rivulet
