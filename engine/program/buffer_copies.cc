#include "engine/program/buffer_copies.h"

#include <algorithm>
#include <map>
#include <utility>

namespace rivulet {
namespace {

// Byte ranges of a buffer, disjoint and not adjacent.
class Stretches {
 public:
  void Add(size_t begin, size_t end) {
    if (begin >= end) return;
    auto next = ends_.upper_bound(begin);
    if (next != ends_.begin() && std::prev(next)->second >= begin) --next;
    while (next != ends_.end() && next->first <= end) {
      begin = std::min(begin, next->first);
      end = std::max(end, next->second);
      next = ends_.erase(next);
    }
    ends_.emplace(begin, end);
  }
  // Adds the parts of [begin, end) that are not in `without`.
  void AddBut(size_t begin, size_t end, const Stretches& without) {
    for (const auto& [from, to] : without.ends_) {
      if (to <= begin || from >= end) continue;
      Add(begin, from);
      begin = to;
    }
    Add(begin, end);
  }
  bool Overlap(size_t begin, size_t end) const {
    return std::any_of(ends_.begin(), ends_.end(),
                       [&](const auto& stretch) { return stretch.first < end && begin < stretch.second; });
  }
  const std::map<size_t, size_t>& ends() const { return ends_; }  // keyed by begin

 private:
  std::map<size_t, size_t> ends_;
};

class Copying {
 public:
  Copying(const BufferCopy& copy, std::vector<Storage>& storages, std::vector<Step>& steps)
      : copy_(copy), storages_(storages), steps_(steps) {}

  Status Run() {
    if (copy_.to == copy_.from) return InvalidArgument("buffer {} cannot be a copy of itself", copy_.to);
    for (Step& step : steps_) RIVULET_RETURN_IF_ERROR(Follow(step));
    needed_.AddBut(0, copy_.bytes, written_);
    std::vector<Step> copies;
    for (const auto& [begin, end] : needed_.ends()) {
      Step step;
      step.kind = Step::Kind::kReadCopy;
      step.position = -1;
      step.inputs = {Place(copy_.from, begin, end)};
      step.outputs = {Place(copy_.to, begin, end)};
      copies.push_back(std::move(step));
    }
    steps_.insert(steps_.begin(), std::make_move_iterator(copies.begin()), std::make_move_iterator(copies.end()));
    return absl::OkStatus();
  }

 private:
  // Call for steps in order: a step reads new contents where an earlier step has written.
  Status Follow(Step& step) {
    for (int& input : step.inputs) {
      const Storage& read = storages_[static_cast<size_t>(input)];
      if (read.kind != Storage::Kind::kVariable || read.index != copy_.to) continue;
      const size_t begin = read.offset, end = begin + read.bytes;
      if (end > copy_.bytes || changed_.Overlap(begin, end)) {
        Need(begin, end);
      } else {
        input = Original(input);
      }
    }
    for (const int output : step.outputs) {
      const Storage& made = storages_[static_cast<size_t>(output)];
      if (made.kind != Storage::Kind::kVariable) continue;
      RIVULET_RETURN_IF_ERROR(CheckWrites(made.index));
      if (made.index == copy_.to) Write(made.offset, made.offset + made.bytes);
    }
    if (!step.writes_variables) {
      for (const VariablePlace& place : step.variables) {
        if (place.buffer == copy_.to) Need(place.offset, place.offset + place.bytes);
      }
      return absl::OkStatus();
    }
    for (const VariablePlace& place : step.variables) RIVULET_RETURN_IF_ERROR(CheckWrites(place.buffer));
    if (step.kind == Step::Kind::kAssign) {
      const VariablePlace& place = step.variables[0];
      if (place.buffer == copy_.to) Write(place.offset, place.offset + place.bytes);
      return absl::OkStatus();
    }
    if (step.variables.size() == 1 && UpdateFromElsewhere(step, step.variables[0])) return absl::OkStatus();
    for (const VariablePlace& place : step.variables) {
      if (place.buffer != copy_.to) continue;
      Need(place.offset, place.offset + place.bytes);
      changed_.Add(place.offset, place.offset + place.bytes);
    }
    return absl::OkStatus();
  }

  bool UpdateFromElsewhere(Step& step, const VariablePlace& place) {
    const size_t end = place.offset + place.bytes;
    if (place.buffer != copy_.to || end > copy_.bytes) return false;
    if (changed_.Overlap(place.offset, end) || needed_.Overlap(place.offset, end)) return false;
    std::unique_ptr<const Kernel> elsewhere = step.prepared.kernel->FromElsewhere();
    if (elsewhere == nullptr) return false;
    step.prepared.kernel = std::move(elsewhere);
    step.inputs.push_back(Place(copy_.from, place.offset, end));
    Write(place.offset, end);
    return true;
  }

  Status CheckWrites(int buffer) const {
    if (buffer != copy_.from) return absl::OkStatus();
    return InvalidArgument("the program writes buffer {}, of which buffer {} is to begin as a copy", copy_.from,
                           copy_.to);
  }

  void Write(size_t begin, size_t end) {
    written_.Add(begin, end);
    changed_.Add(begin, end);
  }

  // Bytes beyond the copy are never copied.
  void Need(size_t begin, size_t end) { needed_.AddBut(begin, std::min(end, copy_.bytes), written_); }

  int Place(int buffer, size_t begin, size_t end) {
    Storage place;
    place.kind = Storage::Kind::kVariable;
    place.index = buffer;
    place.offset = begin;
    place.bytes = end - begin;
    storages_.push_back(place);
    return static_cast<int>(storages_.size()) - 1;
  }

  // The storage of a read in the buffer that it is a copy of.
  int Original(int read) {
    const Storage at = storages_[static_cast<size_t>(read)];
    const auto [known, added] = originals_.try_emplace(read, 0);
    if (added) known->second = Place(copy_.from, at.offset, at.offset + at.bytes);
    return known->second;
  }

  const BufferCopy& copy_;
  std::vector<Storage>& storages_;
  std::vector<Step>& steps_;
  // ranges of the copy that steps have written completely, or changed at all; ranges to copy first
  Stretches written_, changed_, needed_;
  std::map<int, int> originals_;
};

}  // namespace

Status LowerBufferCopies(std::span<const BufferCopy> copies, std::vector<Storage>& storages, std::vector<Step>& steps) {
  for (const BufferCopy& copy : copies) RIVULET_RETURN_IF_ERROR(Copying(copy, storages, steps).Run());
  return absl::OkStatus();
}

}  // namespace rivulet
