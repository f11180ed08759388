#include "engine/profile/run_metadata.h"

#include "engine/profile/step_stats.h"
#include "proto/graph/run_metadata.pb.h"

namespace rivulet {

std::string RunMetadataOf(std::span<const InstructionSpan> spans) {
  proto::RunMetadata metadata;
  AppendStepStats(spans, {}, *metadata.mutable_step_stats());
  return metadata.SerializeAsString();
}

}  // namespace rivulet
