// Shapes of handwritten digits: for each digit a few variants, each made of pen strokes in a box of width and height 1,
// x to the right, y downwards. A stroke runs through its points, along a smooth curve or in straight lines.
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
  float share;  // of writers who prefer it; the shares of a digit add up to 1
};

// `digit` is 0 to 9.
std::span<const GlyphVariant> VariantsOfDigit(int digit);

}  // namespace rivulet
