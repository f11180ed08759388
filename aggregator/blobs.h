// Names of the blobs in an aggregator's tasks. Internal to this folder.
#pragma once

#include <string>

#include "federated/transport/coordinator_api.h"

namespace rivulet {

inline std::string KeyOf(const BlobId& blob) {
  return static_cast<char>('0' + static_cast<int>(blob.form)) + std::string(blob.digest.AsBytes());
}

}  // namespace rivulet
