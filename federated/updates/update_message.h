// Zero-copy parser of the Update message of proto/federated/update.proto. An update has megabytes, arrives in a staging
// buffer or a mapped spool file, and is read in place.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/base/status.h"
#include "federated/aggregation/update.h"

namespace rivulet {

struct UpdateMessage {
  std::vector<PartView> parts;  // views of the parsed bytes
  Scalars scalars;
};

// `bytes` must outlive the result. Unknown fields are skipped, as in protobuf. INVALID_ARGUMENT: not an Update message,
// a repeated part or scalar, more than 16 parts or 64 scalars, a name that CheckDisplayName refuses.
StatusOr<UpdateMessage> ParseUpdate(std::string_view bytes);

}  // namespace rivulet
