#include "engine/program/variable_hazards.h"

#include <algorithm>

namespace rivulet {
namespace {

// One access of a step to a variable's memory through its handle.
struct Access {
  size_t step = 0;
  int position = 0;  // for a direct assignment: that of the producer
  VariablePlace range;
  bool writes = false;
};

class Hazards {
 public:
  Hazards(std::vector<Storage>& storages, std::vector<Step>& steps) : storages_(storages), steps_(steps) {
    for (size_t i = 0; i < steps.size(); ++i) {
      for (const VariablePlace& variable : steps[i].variables) {
        accesses_.push_back({i, steps[i].position, variable, steps[i].writes_variables});
      }
    }
  }

  void WriteDirectly() {
    for (Access& access : accesses_) {
      Step& step = steps_[access.step];
      if (step.kind != Step::Kind::kAssign) continue;
      Storage& value = storages_[static_cast<size_t>(step.inputs[0])];
      if (!MayWriteDirectly(access, value)) continue;
      value.kind = Storage::Kind::kVariable;
      value.index = access.range.buffer;
      value.offset = access.range.offset;
      access.position = value.first;
      step.removed = true;
    }
  }

  // Whether the read that `storage` is has to be a copy.
  bool NeedsCopy(const Storage& storage, int storage_index) const {
    const VariablePlace range = PlaceOf(storage);
    return std::any_of(accesses_.begin(), accesses_.end(), [&](const Access& access) {
      if (!access.writes || !access.range.Overlaps(range)) return false;
      if (access.position <= storage.first || access.position > storage.last) return false;
      if (access.position < storage.last) return true;
      // The last use and the write are one step: an assignment copies as memmove does, a producer was checked before.
      const Step& step = steps_[access.step];
      if (step.kind != Step::Kind::kAssign) return true;
      return step.removed ? !ReadInPlaceBy(storage_index, storages_[static_cast<size_t>(step.inputs[0])].producer)
                          : false;
    });
  }

 private:
  bool ReadInPlaceBy(int storage_index, int producer) const {
    if (producer < 0) return false;
    const Step& step = steps_[static_cast<size_t>(producer)];
    for (size_t i = 0; i < step.inputs.size(); ++i) {
      if (step.inputs[i] != storage_index) continue;
      const std::pair<int, int> pair{static_cast<int>(i), 0};
      const auto& pairs = step.prepared.in_place;
      if (step.outputs.size() != 1 || std::find(pairs.begin(), pairs.end(), pair) == pairs.end()) return false;
    }
    return true;
  }

  bool MayWriteDirectly(const Access& assign, const Storage& value) const {
    if (value.kind != Storage::Kind::kArena || value.producer < 0) return false;
    if (value.bytes != assign.range.bytes) return false;
    const Step& producer = steps_[static_cast<size_t>(value.producer)];
    if (producer.kind != Step::Kind::kKernel) return false;
    for (const Access& other : accesses_) {
      if (&other == &assign || !other.range.Overlaps(assign.range)) continue;
      // From the producer on until the value's last use nobody else may touch the memory by its handle.
      if (other.position >= value.first && other.position <= std::max(assign.position, value.last)) return false;
    }
    for (size_t i = 0; i < storages_.size(); ++i) {
      const Storage& read = storages_[i];
      if (read.kind != Storage::Kind::kVariable || !PlaceOf(read).Overlaps(assign.range)) continue;
      if (read.last < value.first || read.first > assign.position) continue;
      const bool updates_in_place = read.last == value.first && PlaceOf(read).SameMemory(assign.range) &&
                                    ReadInPlaceBy(static_cast<int>(i), value.producer);
      if (!updates_in_place) return false;
    }
    return true;
  }

  std::vector<Storage>& storages_;
  std::vector<Step>& steps_;
  std::vector<Access> accesses_;
};

}  // namespace

void ResolveVariableHazards(std::vector<Storage>& storages, std::vector<Step>& steps,
                            std::span<const Node* const> reader_of) {
  Hazards hazards(storages, steps);
  hazards.WriteDirectly();
  std::vector<Step> copies;
  std::vector<Storage> sources;
  const size_t count = storages.size();
  for (size_t i = 0; i < count; ++i) {
    if (storages[i].kind != Storage::Kind::kVariable || storages[i].producer >= 0) continue;
    if (!hazards.NeedsCopy(storages[i], static_cast<int>(i))) continue;
    Step copy;
    copy.kind = Step::Kind::kReadCopy;
    copy.node = reader_of[i];
    copy.position = storages[i].first;
    copy.outputs = {static_cast<int>(i)};
    copy.inputs = {static_cast<int>(count + sources.size())};
    copies.push_back(std::move(copy));
    Storage source = storages[i];
    source.last = source.first;
    sources.push_back(source);
  }
  for (const Step& copy : copies) storages[static_cast<size_t>(copy.outputs[0])].kind = Storage::Kind::kArena;
  storages.insert(storages.end(), sources.begin(), sources.end());
  // Indices of steps (Storage::producer) are not used for variables' reads any more; the order of positions is what
  // counts.
  for (Step& copy : copies) steps.push_back(std::move(copy));
}

}  // namespace rivulet
