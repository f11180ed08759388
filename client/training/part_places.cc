#include "client/training/part_places.h"

namespace rivulet {

std::vector<PartPlaces> PartPlacesOf(const Plan& plan, const BufferTable& table) {
  std::vector<PartPlaces> parts;
  for (const auto& [name, source] : plan.training().parts) {
    const int from = table.index(source.from), less = source.less.empty() ? -1 : table.index(source.less);
    PartPlaces& part = parts.emplace_back(PartPlaces{name, {}});
    size_t end = 0;
    for (const Slice& slice : plan.layout()->slices()) {
      const bool shared = slice.segment == Segment::kShared;
      if (slice.segment != Segment::kTrainable && !(shared && source.shared_too)) continue;
      const RunPlace place = {shared ? BufferTable::kParams : from, shared ? BufferTable::kBaseParams : less,
                              slice.offset, slice.elements};
      RunPlace* const last = part.places.empty() ? nullptr : &part.places.back();
      if (last != nullptr && last->from == place.from && last->less == place.less && end == place.offset) {
        last->count += place.count;
      } else {
        part.places.push_back(place);
      }
      end = slice.offset + static_cast<size_t>(slice.elements) * sizeof(float);
    }
  }
  return parts;
}

}  // namespace rivulet
