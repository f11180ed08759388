#include "federated/weights/flat_vector.h"

#include <cstring>

namespace rivulet {

StatusOr<AlignedBuffer> FlatOfWire(const ModelLayout& layout, std::string_view wire) {
  if (wire.size() != static_cast<size_t>(layout.parameters()) * sizeof(float)) {
    return InvalidArgument("a vector of {} bytes does not have {} float32 values, as many as the model has parameters",
                           wire.size(), layout.parameters());
  }
  AlignedBuffer flat(layout.trained_bytes());
  for (const Slice& slice : layout.slices()) {
    if (slice.segment != Segment::kTrainable || slice.elements == 0) continue;
    std::memcpy(flat.data() + slice.offset, wire.data() + static_cast<size_t>(slice.wire_offset) * sizeof(float),
                static_cast<size_t>(slice.elements) * sizeof(float));
  }
  return flat;
}

}  // namespace rivulet
