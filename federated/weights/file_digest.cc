#include "federated/weights/file_digest.h"

#include <optional>
#include <set>
#include <string>

#include "federated/weights/layout.h"
#include "federated/weights/model.h"

namespace rivulet {

StatusOr<Digest> ModelDigestOf(const SafetensorsContent& file) {
  std::optional<Digest> base;
  if (const std::string stated = StatedBase(file.metadata); !stated.empty()) {
    RIVULET_ASSIGN_OR_RETURN(base, Digest::FromHex(stated));
  }
  const std::set<std::string> kept = ServerTensors(file.metadata);
  Sha256 hash;
  HashBase(base, hash);
  for (const SafetensorsEntry& entry : file.tensors) {
    if (kept.contains(entry.name)) continue;
    HashTensorHeader(entry.name, {entry.dtype, entry.shape}, hash);
    hash.Update(entry.data);
  }
  return std::move(hash).Finish();
}

}  // namespace rivulet
