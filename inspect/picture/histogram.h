// Histogram of values, as bars.
#pragma once

#include <span>
#include <string>

#include "inspect/picture/picture.h"

namespace rivulet {

// At most 40 bars between the least and the greatest of `values`, one for each whole number where all of them are whole
// and few; what is not finite is left out. Far outliers, beyond the last of a thousand on either side, are counted
// below the axis and not drawn. Without values a picture that says so.
Picture HistogramPicture(const std::string& title, std::span<const double> values);

}  // namespace rivulet
