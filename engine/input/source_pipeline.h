// Source pipelines over existing elements: the first stage of every input.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/data/dataset.h"
#include "engine/input/pipeline.h"

namespace rivulet {

// The records of data sets, one after another, as elements of one string. A record is read when its element is
// accessed.
std::shared_ptr<Pipeline> RecordsOf(std::string where, std::vector<std::shared_ptr<const Dataset>> files);

// Elements 0 .. size - 1 of a source.
std::shared_ptr<Pipeline> ElementsOf(std::string where, std::vector<TensorSpec> specs,
                                     std::shared_ptr<const ElementSource> source, int64_t size);

}  // namespace rivulet
