// Matrix of counts as squares, darker for a larger share of their row.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "inspect/picture/picture.h"

namespace rivulet {

// A confusion matrix: `counts` has `classes` rows, one per label, with the counts of its predictions. Up to 20 classes
// have their numbers in it. `names`: of the classes, else they are called by their numbers.
Picture MatrixPicture(const std::string& title, int64_t classes, std::span<const int64_t> counts,
                      std::span<const std::string> names = {});

}  // namespace rivulet
