#include "coordinator/refusals.h"

#include <utility>

#include "engine/base/display_name.h"
#include "engine/base/status.h"

namespace rivulet {

std::string Refusals::Count(std::string_view why, int64_t now_unix_ms) {
  ++untold_;
  last_ = DisplayText(why, 300);
  if (told_unix_ms_ && now_unix_ms - *told_unix_ms_ < 60'000) return "";
  told_unix_ms_ = now_unix_ms;
  return Rest();
}

std::string Refusals::Rest() {
  const int64_t count = std::exchange(untold_, 0);
  if (count == 0) return "";
  if (count == 1) return "turned away: " + last_;
  return fmt::format("turned away {} times since this was told last, and at last because {}", count, last_);
}

}  // namespace rivulet
