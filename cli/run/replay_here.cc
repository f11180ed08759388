#include "cli/run/replay_here.h"

#include "cli/long_work.h"

namespace rivulet {

StatusOr<ReplayResult> ReplayHere(ReplayOptions options) {
  WorkProgress progress("versions are as recorded:", WorkProgress::Lines::kEach);
  options.on_version = [&progress](int64_t version, int64_t versions) { progress.Tell(version, versions); };
  return Replay(options);
}

}  // namespace rivulet
