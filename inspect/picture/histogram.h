// Histogram of values, as bars.
#pragma once

#include <span>
#include <string>

#include "inspect/picture/picture.h"

namespace rivulet {

// At most 40 bars between the lowest and the highest of `values`, one per integer if all are integers and few; values
// that are not finite are left out. Outliers, the outer thousandth on either side, are counted below the axis and not
// drawn. Without values the picture says so.
Picture HistogramPicture(const std::string& title, std::span<const double> values);

}  // namespace rivulet
