#include "engine/program/variable_hazards.h"

#include <algorithm>

#include "engine/program/place_index.h"

namespace rivulet {
namespace {

// A step's access to a variable's memory through its handle.
struct Access {
  size_t step = 0;
  int position = 0;  // for a direct assignment: position of the producer
  VariablePlace range;
  bool writes = false;
};

// An optimiser's kernel or an assignment writes a variable's memory in the middle of a program, while views of it may
// still be read. Copying every read would be simple, but would cost a pass over all weights in each step. So a read is
// a view by default, and a copy only if a write is in its lifetime. Accesses are stored by byte ranges, because a plan
// binds one flat vector and each weight as a slice of it.
class Hazards {
 public:
  Hazards(std::vector<Storage>& storages, std::vector<Step>& steps) : storages_(storages), steps_(steps) {
    for (size_t i = 0; i < steps.size(); ++i) {
      for (const VariablePlace& variable : steps[i].variables) {
        accesses_to_.Add(variable, accesses_.size());
        accesses_.push_back({i, steps[i].position, variable, steps[i].writes_variables});
      }
    }
    for (size_t i = 0; i < storages.size(); ++i)
      if (storages[i].kind == Storage::Kind::kVariable) reads_of_.Add(PlaceOf(storages[i]), i);
  }

  // The producer of an assigned value may write to the variable directly, which saves the copy. Then the memory changes
  // already at the producer, so this is impossible if the old value is read between the two, through the handle or a
  // view.
  void WriteDirectly() {
    for (Access& access : accesses_) {
      Step& step = steps_[access.step];
      if (step.kind != Step::Kind::kAssign) continue;
      Storage& value = storages_[static_cast<size_t>(step.inputs[0])];
      if (!MayWriteDirectly(access, value)) continue;
      value.kind = Storage::Kind::kVariable;
      value.index = access.range.buffer;
      value.offset = access.range.offset;
      reads_of_.Add(access.range, static_cast<size_t>(step.inputs[0]));
      access.position = value.first;
      step.removed = true;
    }
  }

  // Whether the read `storage` has to be a copy.
  bool NeedsCopy(const Storage& storage, int storage_index) const {
    const VariablePlace range = PlaceOf(storage);
    return accesses_to_.AnyOf(range, [&](size_t index) {
      const Access& access = accesses_[index];
      if (!access.writes || !access.range.Overlaps(range)) return false;
      if (access.position <= storage.first || access.position > storage.last) return false;
      if (access.position < storage.last) return true;
      // The last use and the write are one step: an assignment copies like memmove, and producers were checked before.
      // A step that reads a view while its kernel writes the same variable gets a copy: kernels promise no order of
      // accesses to an overlapping input and variable.
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
    // Checked for each assignment with the current accesses: an earlier direct write has moved its access to its
    // producer's position.
    const auto touches = [&](size_t index) {
      const Access& other = accesses_[index];
      if (&other == &assign || !other.range.Overlaps(assign.range)) return false;
      // From the producer until the value's last use, no other step may access the memory by its handle.
      return other.position >= value.first && other.position <= std::max(assign.position, value.last);
    };
    if (accesses_to_.AnyOf(assign.range, touches)) return false;
    return !reads_of_.AnyOf(assign.range, [&](size_t index) {
      const Storage& read = storages_[index];
      if (!PlaceOf(read).Overlaps(assign.range)) return false;
      if (read.last < value.first || read.first > assign.position) return false;
      // The only allowed reader is the producer itself, if it computes the new value in place: v = v · 0.9 needs
      // neither a copy nor a temporary.
      return !(read.last == value.first && PlaceOf(read).SameMemory(assign.range) &&
               ReadInPlaceBy(static_cast<int>(index), value.producer));
    });
  }

  std::vector<Storage>& storages_;
  std::vector<Step>& steps_;
  std::vector<Access> accesses_;
  PlaceIndex accesses_to_;  // accesses_
  PlaceIndex reads_of_;     // storages in variables
};

}  // namespace

// Assignments first: a direct one changes the time at which its memory is written, and these times decide which reads
// must be copies.
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
  // Indices of steps (Storage::producer) are no longer used for
  // reads of variables; only the order of positions counts.
  for (Step& copy : copies) steps.push_back(std::move(copy));
}

}  // namespace rivulet
