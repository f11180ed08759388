// Shapes of handwritten digits. Each digit has a few variants, made of pen strokes in a box of width and height 1, with
// x to the right and y downwards. A stroke passes through its points along a smooth curve or in straight lines.
#pragma once

#include <span>

namespace rivulet {

struct GlyphPoint {
  float x, y;
};

struct GlyphStroke {
  std::span<const GlyphPoint> points;
  bool smooth;
};

struct GlyphVariant {
  std::span<const GlyphStroke> strokes;
  float share;  // share of writers who prefer it; a digit's shares sum to 1
};

// `digit` is in 0 to 9.
std::span<const GlyphVariant> VariantsOfDigit(int digit);

}  // namespace rivulet
