#ifdef RIVULET_PNG
#include <png.h>
#endif

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "inspect/picture/picture.h"
#include "inspect/picture/stroke_font.h"

namespace rivulet {

#ifdef RIVULET_PNG
namespace {

constexpr double kMostPixels = 64e6;
// Fractions of a text's height: the height of capitals, and the widths of strokes.
constexpr double kCapitals = 0.72, kStroke = 0.095, kBoldStroke = 0.15;

struct Colour {
  double red = 0, green = 0, blue = 0;
};
Colour ColourOf(const std::string& text) {
  const std::string& hex = text.size() == 7 ? text : kInkOfFiles;
  const auto part = [&](size_t at) { return static_cast<double>(std::stoi(hex.substr(at, 2), nullptr, 16)) / 255; };
  return {part(1), part(3), part(5)};
}

using Point = std::pair<double, double>;

// The covered part of a pixel is estimated from the distance between its centre and the shape's edge: exact for long
// straight edges, and good enough to the eye for all. Later shapes cover earlier ones.
class Raster {
 public:
  Raster(size_t width, size_t height)
      : width_(width), height_(height), pixels_(width * height * 3, 255), covered_(width * height) {}

  // Draws all of `lines` as one stroke: where they cross or meet, no pixel is covered twice.
  void Strokes(const std::vector<std::vector<Point>>& lines, double breadth, const Colour& colour, double opacity) {
    touched_.clear();
    for (const auto& line : lines) {
      for (size_t i = 0; i + 1 < std::max<size_t>(line.size(), 2); ++i)
        Segment(line[i], line[std::min(i + 1, line.size() - 1)], std::max(breadth, 1.0) / 2);
    }
    for (const size_t pixel : touched_) {
      Blend(pixel, colour, opacity * covered_[pixel]);
      covered_[pixel] = 0;
    }
  }

  void Rectangle(double left, double top, double right, double bottom, const Colour& colour, double opacity) {
    for (int64_t y = First(top); y < Last(bottom, height_); ++y) {
      const double rows = Overlap(y, top, bottom);
      for (int64_t x = First(left); x < Last(right, width_); ++x)
        Blend(At(x, y), colour, opacity * rows * Overlap(x, left, right));
    }
  }

  // Fills the area by the even-odd rule, sampled on kLines lines per pixel.
  void Area(const std::vector<Point>& corners, const Colour& colour, double opacity) {
    constexpr int kLines = 4;
    std::vector<double> row(width_), crossings;
    for (int64_t y = 0; y < static_cast<int64_t>(height_); ++y) {
      std::ranges::fill(row, 0.0);
      for (int line = 0; line < kLines; ++line) {
        const double at = static_cast<double>(y) + (line + 0.5) / kLines;
        crossings.clear();
        for (size_t i = 0; i < corners.size(); ++i) {
          const auto& [ax, ay] = corners[i];
          const auto& [bx, by] = corners[(i + 1) % corners.size()];
          if ((ay <= at) != (by <= at)) crossings.push_back(ax + (at - ay) / (by - ay) * (bx - ax));
        }
        std::ranges::sort(crossings);
        for (size_t i = 0; i + 1 < crossings.size(); i += 2)
          for (int64_t x = First(crossings[i]); x < Last(crossings[i + 1], width_); ++x)
            row[static_cast<size_t>(x)] += Overlap(x, crossings[i], crossings[i + 1]) / kLines;
      }
      for (int64_t x = 0; x < static_cast<int64_t>(width_); ++x)
        if (row[static_cast<size_t>(x)] > 0) Blend(At(x, y), colour, opacity * row[static_cast<size_t>(x)]);
    }
  }

  const std::vector<uint8_t>& pixels() const { return pixels_; }

 private:
  static int64_t First(double low) { return std::max<int64_t>(0, static_cast<int64_t>(std::floor(low))); }
  static int64_t Last(double high, size_t size) {
    return std::min(static_cast<int64_t>(size), static_cast<int64_t>(std::ceil(high)));
  }
  static double Overlap(int64_t pixel, double low, double high) {
    const auto here = static_cast<double>(pixel);
    return std::clamp(std::min(high, here + 1) - std::max(low, here), 0.0, 1.0);
  }
  size_t At(int64_t x, int64_t y) const { return static_cast<size_t>(y) * width_ + static_cast<size_t>(x); }

  void Segment(const Point& from, const Point& to, double radius) {
    const double dx = to.first - from.first, dy = to.second - from.second, length2 = dx * dx + dy * dy;
    const double reach = radius + 1;
    for (int64_t y = First(std::min(from.second, to.second) - reach);
         y < Last(std::max(from.second, to.second) + reach, height_); ++y) {
      for (int64_t x = First(std::min(from.first, to.first) - reach);
           x < Last(std::max(from.first, to.first) + reach, width_); ++x) {
        const double px = static_cast<double>(x) + 0.5 - from.first, py = static_cast<double>(y) + 0.5 - from.second;
        const double along = length2 > 0 ? std::clamp((px * dx + py * dy) / length2, 0.0, 1.0) : 0;
        const double distance = std::hypot(px - along * dx, py - along * dy);
        const auto cover = static_cast<float>(std::clamp(radius + 0.5 - distance, 0.0, 1.0));
        float& covered = covered_[At(x, y)];
        if (cover > 0 && covered == 0) touched_.push_back(At(x, y));
        covered = std::max(covered, cover);
      }
    }
  }

  void Blend(size_t pixel, const Colour& colour, double share) {
    const double parts[] = {colour.red, colour.green, colour.blue};
    for (size_t i = 0; i < 3; ++i) {
      uint8_t& value = pixels_[pixel * 3 + i];
      value = static_cast<uint8_t>(std::lround(value * (1 - share) + parts[i] * 255 * share));
    }
  }

  const size_t width_, height_;
  std::vector<uint8_t> pixels_;  // rows of red, green, blue
  std::vector<float> covered_;   // by the current stroke
  std::vector<size_t> touched_;
};

// The strokes of a dashed line.
std::vector<std::vector<Point>> Dashed(const std::vector<Point>& line, const std::vector<double>& dash) {
  std::vector<std::vector<Point>> strokes;
  size_t part = 0;
  double left = dash[0];
  std::vector<Point> stroke = {line.front()};
  for (size_t i = 0; i + 1 < line.size(); ++i) {
    Point from = line[i];
    const Point& to = line[i + 1];
    double length = std::hypot(to.first - from.first, to.second - from.second);
    while (length > left) {
      const double share = left / length;
      from = {from.first + (to.first - from.first) * share, from.second + (to.second - from.second) * share};
      if (part % 2 == 0) {
        stroke.push_back(from);
        strokes.push_back(std::move(stroke));
      }
      stroke = {from};
      length -= left;
      part = (part + 1) % dash.size();
      left = dash[part];
    }
    left -= length;
    stroke.push_back(to);
  }
  if (part % 2 == 0) strokes.push_back(std::move(stroke));
  return strokes;
}

void Draw(Raster& raster, const Mark& mark, double scale) {
  const Colour colour = ColourOf(mark.colour);
  if (mark.points.empty()) return;
  const auto [x, y] = mark.points.front();
  switch (mark.kind) {
    case Mark::Kind::kLine: {
      auto strokes = mark.dash.empty() ? std::vector<std::vector<Point>>{mark.points} : Dashed(mark.points, mark.dash);
      for (auto& stroke : strokes)
        for (Point& point : stroke) point = {point.first * scale, point.second * scale};
      return raster.Strokes(strokes, mark.size * scale, colour, mark.opacity);
    }
    case Mark::Kind::kArea: {
      std::vector<Point> corners = mark.points;
      for (Point& point : corners) point = {point.first * scale, point.second * scale};
      return raster.Area(corners, colour, mark.opacity);
    }
    case Mark::Kind::kRectangle:
      return raster.Rectangle(x * scale, y * scale, (x + mark.width) * scale, (y + mark.height) * scale, colour,
                              mark.opacity);
    case Mark::Kind::kDot:
      return raster.Strokes({{{x * scale, y * scale}}}, 2 * mark.size * scale, colour, mark.opacity);
    case Mark::Kind::kText: {
      StrokedText text = StrokesOf(mark.text);
      const double size = mark.size * kCapitals * scale;
      const double shift = mark.anchor == Anchor::kStart    ? 0
                           : mark.anchor == Anchor::kMiddle ? text.width / 2
                                                            : text.width;
      for (auto& stroke : text.strokes)
        for (Point& point : stroke) point = {x * scale + (point.first - shift) * size, y * scale + point.second * size};
      return raster.Strokes(text.strokes, mark.size * (mark.bold ? kBoldStroke : kStroke) * scale, colour,
                            mark.opacity);
    }
  }
}

}  // namespace

StatusOr<std::string> PicturePng(const Picture& picture, double scale) {
  const double width = std::ceil(picture.width * scale), height = std::ceil(picture.height * scale);
  if (!(width >= 1 && height >= 1 && width * height <= kMostPixels))
    return InvalidArgument("a picture of {:.0f} x {:.0f} pixels is too large to draw; write it as SVG", width, height);
  Raster raster(static_cast<size_t>(width), static_cast<size_t>(height));
  for (const Mark& mark : picture.marks) Draw(raster, mark, scale);
  png_image png = {};
  png.version = PNG_IMAGE_VERSION;
  png.width = static_cast<png_uint_32>(width);
  png.height = static_cast<png_uint_32>(height);
  png.format = PNG_FORMAT_RGB;
  std::string bytes(PNG_IMAGE_PNG_SIZE_MAX(png), '\0');
  png_alloc_size_t size = bytes.size();
  if (png_image_write_to_memory(&png, bytes.data(), &size, 0, raster.pixels().data(), 0, nullptr) == 0)
    return Internal("the picture could not be written as PNG: {}", png.message);
  bytes.resize(size);
  return bytes;
}

#else

StatusOr<std::string> PicturePng(const Picture&, double) {
  return Unimplemented(
      "this program was built without libpng and draws .svg alone; install libpng-dev and build it again for .png");
}

#endif

}  // namespace rivulet
