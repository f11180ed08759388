// The mean of a version's updates, in wire order, stored or computed on access. A server step that reads it range by
// range needs no memory for all of it. The first range of the next model can be hashed before the last range of the
// mean is divided.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace rivulet {

class VersionMean {
 public:
  // Computes the values from element `first` on.
  using Make = std::function<void(int64_t first, std::span<float> values)>;

  // Memory from which `make` computes the values. The next model may be written over the part already read: value i
  // needs the bytes from i × bytes_a_value to (i + 1) × bytes_a_value until it is computed.
  struct Room {
    std::shared_ptr<std::byte> data;
    size_t bytes = 0, bytes_a_value = 0;
  };

  VersionMean(int64_t elements, Make make) : elements_(elements), make_(std::move(make)) {}
  VersionMean(int64_t elements, Make make, Room room)
      : elements_(elements), make_(std::move(make)), room_(std::move(room)) {}
  // Stored values, which must outlive this.
  template <std::convertible_to<std::span<const float>> Values>
  VersionMean(const Values& values) : whole_(values), elements_(std::ssize(whole_)) {}
  VersionMean(const VersionMean&) = delete;  // `whole_` may point into `made_`
  VersionMean& operator=(const VersionMean&) = delete;

  int64_t elements() const { return elements_; }
  // Returns room.size() values from `first` on: computed into `room`, or in place if they are stored.
  std::span<const float> At(int64_t first, std::span<float> room) const {
    if (!whole_.empty()) return whole_.subspan(static_cast<size_t>(first), room.size());
    make_(first, room);
    return room;
  }
  // Null data: there is no such memory.
  const Room& room() const { return room_; }
  // The number of leading bytes of room() that may be overwritten once the first `elements` values are computed.
  size_t FreeBytes(int64_t elements) const {
    return whole_.empty() ? static_cast<size_t>(elements) * room_.bytes_a_value : room_.bytes;
  }
  // All values, for steps that need the whole mean first. Computed once.
  std::span<const float> Whole() {
    if (whole_.empty() && elements_ > 0) {
      made_.resize(static_cast<size_t>(elements_));
      make_(0, made_);
      whole_ = made_;
    }
    return whole_;
  }

 private:
  std::span<const float> whole_;  // empty if values are computed on access
  int64_t elements_ = 0;
  Make make_;
  Room room_;
  std::vector<float> made_;
};

}  // namespace rivulet
