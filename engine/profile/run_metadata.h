// A recorded run as TensorFlow's RunMetadata.
#pragma once

#include <span>
#include <string>

#include "engine/profile/run_recorder.h"

namespace rivulet {

// Returns a serialised RunMetadata with the StepStats of these spans (engine/profile/step_stats.h).
std::string RunMetadataOf(std::span<const InstructionSpan> spans);

}  // namespace rivulet
