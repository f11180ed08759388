// Decoding of image files: PNG by libpng and JPEG by libjpeg, each if the library was found at build time.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "engine/base/status.h"

namespace rivulet {

inline constexpr int64_t kMaxImagePixels = 1 << 24;  // width × height

struct Image {
  int64_t width = 0, height = 0;
  std::string pixels;  // row by row, the channels of a pixel side by side, 8 bits each
};

// Decodes a whole file of either format, told by its first bytes, to 1 channel (grey) or 3 (red, green, blue). What is
// transparent lies over black. The size is looked at before memory is taken. DATA_LOSS: neither format, damaged or cut
// off, beyond kMaxImagePixels. UNIMPLEMENTED: built without the format's library; colours that it cannot convert.
StatusOr<Image> DecodeImage(std::string_view bytes, int channels);

}  // namespace rivulet
