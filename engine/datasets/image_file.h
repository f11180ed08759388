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
  std::string pixels;  // in row-major order, with a pixel's channels adjacent, 8 bits each
};

// Decodes a whole file to 1 channel (grey) or 3 (red, green, blue). The first bytes determine the format. Transparent
// pixels are blended with black. The size is checked before allocation. DATA_LOSS: another format, damaged or truncated
// data, more than kMaxImagePixels. UNIMPLEMENTED: the format's library is not built in, or cannot convert the colours.
StatusOr<Image> DecodeImage(std::string_view bytes, int channels);

}  // namespace rivulet
