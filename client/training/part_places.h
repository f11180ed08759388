// Places of an update's parts in a trainer's buffers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "client/training/buffer_table.h"

namespace rivulet {

// A stretch of one buffer of the trainer, or of two that are subtracted.
struct RunPlace {
  int from = 0, less = -1;  // -1: none
  size_t offset = 0;        // in both
  int64_t count = 0;
};

// A part of an update by its source, in wire order.
struct PartPlaces {
  std::string name;
  std::vector<RunPlace> places;
};

// The parts of a training. Slices without padding between are one run, because fewer runs are read faster.
std::vector<PartPlaces> PartPlacesOf(const Plan& plan, const BufferTable& table);

}  // namespace rivulet
