// Drawings of a few kinds of marks, as SVG for a page or a file, and as PNG without a display. Text is drawn with
// built-in strokes, so that no font need be installed.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/base/status.h"

namespace rivulet {

enum class Anchor { kStart, kMiddle, kEnd };

// One mark, in points from the top left corner. A colour is "#rrggbb"; "": the ink colour, which a page defines, and
// nearly black in a file.
struct Mark {
  enum class Kind { kLine, kArea, kRectangle, kDot, kText };
  Kind kind = Kind::kLine;
  // Points of a line, corners of an area; else one: the top left corner, centre, or text position.
  std::vector<std::pair<double, double>> points;
  double width = 0, height = 0;  // of a rectangle
  double size = 1;               // a line's width, a dot's radius, a text's height
  std::string text;
  Anchor anchor = Anchor::kStart;
  bool bold = false;
  std::string colour;
  double opacity = 1;
  std::vector<double> dash;  // lengths of strokes and gaps in turn; empty: none
  std::string title;         // a browser's tooltip for it
  std::string link;          // an address that it links to, as HTML; left out in files
  std::string part = {};     // its class in a page, for scripts; left out in files
};

struct Picture {
  double width = 0, height = 0;
  std::string label;  // a text alternative
  std::vector<Mark> marks;

  // Add a mark and return it for further settings; the reference is valid until the next one is added.
  Mark& Line(std::vector<std::pair<double, double>> points, double size = 1);
  Mark& Area(std::vector<std::pair<double, double>> corners, std::string colour);
  Mark& Rectangle(double x, double y, double width, double height, std::string colour);
  Mark& Dot(double x, double y, double radius, std::string colour);
  Mark& Text(double x, double y, std::string text, Anchor anchor = Anchor::kStart, double size = 12);
};

// By Okabe and Ito (2008), "Color Universal Design": distinguishable for the colour-blind too.
inline constexpr std::array<const char*, 7> kColours = {"#0072B2", "#D55E00", "#009E73", "#CC79A7",
                                                        "#E69F00", "#56B4E9", "#7A7A7A"};
inline constexpr char kInkOfFiles[] = "#222222";

// An <svg> element without styles or scripts. `alone`: a separate file, with a white background; else its ink is the
// page's.
std::string PictureSvg(const Picture& picture, bool alone);

// The bytes of a PNG file on white ground, `scale` pixels a point. UNIMPLEMENTED: built without libpng.
// INVALID_ARGUMENT: more than 64 million pixels.
StatusOr<std::string> PicturePng(const Picture& picture, double scale = 2);

// Format by the ending of `file`, ".svg" or ".png"; errors as PicturePng or of the file system.
Status WritePicture(const Picture& picture, const std::string& file);
// INVALID_ARGUMENT: `file` has neither ending, or ends in .png and libpng is missing.
Status CheckPictureName(const std::string& file);

// `text` escaped for HTML and XML, between tags and in quotes.
std::string XmlText(std::string_view text);

}  // namespace rivulet
