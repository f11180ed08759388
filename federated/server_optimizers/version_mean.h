// The mean of a version's updates, in wire order, stored or computed on access. A server's step that reads it range by
// range needs no memory for all of it. The first range of the next model can be hashed before the last of the mean is
// divided.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

namespace rivulet {

class VersionMean {
 public:
  // Makes the values from element `first` on.
  using Make = std::function<void(int64_t first, std::span<float> values)>;

  VersionMean(int64_t elements, Make make) : elements_(elements), make_(std::move(make)) {}
  // Values that outlive it.
  template <std::convertible_to<std::span<const float>> Values>
  VersionMean(const Values& values) : whole_(values), elements_(std::ssize(whole_)) {}
  VersionMean(const VersionMean&) = delete;  // `whole_` may lie in `made_`
  VersionMean& operator=(const VersionMean&) = delete;

  int64_t elements() const { return elements_; }
  // As many as `room` has, from `first` on: made in `room`, or where they lie.
  std::span<const float> At(int64_t first, std::span<float> room) const {
    if (!whole_.empty()) return whole_.subspan(static_cast<size_t>(first), room.size());
    make_(first, room);
    return room;
  }
  // All of it, for whoever has to see all before the first step. Made once.
  std::span<const float> Whole() {
    if (whole_.empty() && elements_ > 0) {
      made_.resize(static_cast<size_t>(elements_));
      make_(0, made_);
      whole_ = made_;
    }
    return whole_;
  }

 private:
  std::span<const float> whole_;  // empty where they are made as they are read
  int64_t elements_ = 0;
  Make make_;
  std::vector<float> made_;
};

}  // namespace rivulet
