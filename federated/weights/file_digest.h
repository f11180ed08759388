// The digest of the model in a version's file, from its tensors alone: without a plan or a layout.
#pragma once

#include "engine/base/sha256.h"
#include "engine/base/status.h"
#include "engine/io/safetensors.h"

namespace rivulet {

// What Model::ComputeDigest gives of the model that was written, from the tensors in the order of their data but those
// of the segment "server", on top of the base that the metadata state. INVALID_ARGUMENT: a base that is no digest, or a
// dtype without a name.
StatusOr<Digest> ModelDigestOf(const SafetensorsContent& file);

}  // namespace rivulet
