#include "inspect/picture/picture.h"

#include <fmt/ranges.h>

#include "engine/base/file_system.h"

namespace rivulet {
namespace {

// Replaces invalid UTF-8 by question marks: names and reasons come from clients, and would make a page invalid.
std::string MendedUtf8(std::string_view bytes) {
  std::string text;
  for (size_t at = 0; at < bytes.size();) {
    const auto lead = static_cast<unsigned char>(bytes[at]);
    const size_t length = lead < 0x80                   ? 1
                          : lead >= 0xC2 && lead < 0xE0 ? 2
                          : lead >= 0xE0 && lead < 0xF0 ? 3
                          : lead >= 0xF0 && lead < 0xF5 ? 4
                                                        : 0;
    bool whole = length > 0 && at + length <= bytes.size();
    for (size_t i = 1; whole && i < length; ++i) whole = (static_cast<unsigned char>(bytes[at + i]) & 0xC0) == 0x80;
    text += whole ? bytes.substr(at, length) : std::string_view("?");
    at += whole ? length : 1;
  }
  return text;
}

std::string MarkSvg(const Mark& mark, const std::string& ink) {
  const std::string& colour = mark.colour.empty() ? ink : mark.colour;
  const auto [x, y] = mark.points.empty() ? std::pair(0.0, 0.0) : mark.points.front();
  switch (mark.kind) {
    case Mark::Kind::kLine: {
      std::string path;
      for (const auto& [px, py] : mark.points) path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : "L", px, py);
      std::string look = fmt::format("stroke=\"{}\" stroke-width=\"{:g}\"", colour, mark.size);
      if (mark.opacity < 1) look += fmt::format(" stroke-opacity=\"{:g}\"", mark.opacity);
      if (!mark.dash.empty()) look += fmt::format(" stroke-dasharray=\"{:g}\"", fmt::join(mark.dash, " "));
      return fmt::format("<path d=\"{}\" fill=\"none\" stroke-linejoin=\"round\" {}", path, look);
    }
    case Mark::Kind::kArea: {
      std::string path;
      for (const auto& [px, py] : mark.points) path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : "L", px, py);
      return fmt::format("<path d=\"{}Z\" fill=\"{}\" fill-opacity=\"{:g}\"", path, colour, mark.opacity);
    }
    case Mark::Kind::kRectangle:
      return fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"{}\"{}", x, y,
                         mark.width, mark.height, colour,
                         mark.opacity < 1 ? fmt::format(" fill-opacity=\"{:.3g}\"", mark.opacity) : "");
    case Mark::Kind::kDot:
      return fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{:g}\" fill=\"{}\"", x, y, mark.size, colour);
    case Mark::Kind::kText: {
      std::string look;
      if (mark.anchor != Anchor::kStart)
        look += fmt::format(" text-anchor=\"{}\"", mark.anchor == Anchor::kMiddle ? "middle" : "end");
      if (mark.size != 12) look += fmt::format(" font-size=\"{:g}\"", mark.size);
      if (mark.bold) look += " font-weight=\"bold\"";
      if (mark.opacity < 1) look += fmt::format(" fill-opacity=\"{:g}\"", mark.opacity);
      return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\"{} fill=\"{}\">{}</text", x, y, look, colour,
                         XmlText(mark.text));
    }
  }
  return "";
}

}  // namespace

std::string XmlText(std::string_view bytes) {
  std::string out;
  for (const char c : MendedUtf8(bytes)) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:  // characters that XML does not allow
        out += static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t' ? ' ' : c;
    }
  }
  return out;
}

Mark& Picture::Line(std::vector<std::pair<double, double>> points, double size) {
  Mark& mark = marks.emplace_back();
  mark.points = std::move(points);
  mark.size = size;
  return mark;
}

Mark& Picture::Area(std::vector<std::pair<double, double>> corners, std::string colour) {
  Mark& mark = marks.emplace_back();
  mark.kind = Mark::Kind::kArea;
  mark.points = std::move(corners);
  mark.colour = std::move(colour);
  return mark;
}

Mark& Picture::Rectangle(double x, double y, double width, double height, std::string colour) {
  Mark& mark = marks.emplace_back();
  mark.kind = Mark::Kind::kRectangle;
  mark.points = {{x, y}};
  mark.width = width;
  mark.height = height;
  mark.colour = std::move(colour);
  return mark;
}

Mark& Picture::Dot(double x, double y, double radius, std::string colour) {
  Mark& mark = marks.emplace_back();
  mark.kind = Mark::Kind::kDot;
  mark.points = {{x, y}};
  mark.size = radius;
  mark.colour = std::move(colour);
  return mark;
}

Mark& Picture::Text(double x, double y, std::string text, Anchor anchor, double size) {
  Mark& mark = marks.emplace_back();
  mark.kind = Mark::Kind::kText;
  mark.points = {{x, y}};
  mark.text = std::move(text);
  mark.anchor = anchor;
  mark.size = size;
  return mark;
}

std::string PictureSvg(const Picture& picture, bool alone) {
  const std::string ink = alone ? kInkOfFiles : "currentColor";
  std::string svg = fmt::format(
      "<svg{} viewBox=\"0 0 {:.0f} {:.0f}\"{} role=\"img\" aria-label=\"{}\" font-family=\"sans-serif\" "
      "font-size=\"12\">\n",
      alone ? " xmlns=\"http://www.w3.org/2000/svg\"" : "", picture.width, picture.height,
      alone ? fmt::format(" width=\"{:.0f}\" height=\"{:.0f}\"", picture.width, picture.height) : "",
      XmlText(picture.label));
  if (alone)
    svg += fmt::format("<rect width=\"{:.0f}\" height=\"{:.0f}\" fill=\"#ffffff\"/>\n", picture.width, picture.height);
  for (const Mark& mark : picture.marks) {
    std::string element = MarkSvg(mark, ink);  // without the end of its last tag
    if (!alone && !mark.part.empty()) element.insert(element.find(' '), fmt::format(" class=\"{}\"", mark.part));
    std::string whole = element + (mark.kind == Mark::Kind::kText ? ">" : "/>");
    if (!mark.title.empty()) whole = fmt::format("<title>{}</title>{}", XmlText(mark.title), whole);
    if (!alone && !mark.link.empty()) {
      svg += fmt::format("<a href=\"{}\">{}</a>\n", mark.link, whole);
    } else {
      svg += mark.title.empty() ? whole + "\n" : fmt::format("<g>{}</g>\n", whole);
    }
  }
  return svg + "</svg>\n";
}

Status WritePicture(const Picture& picture, const std::string& file) {
  if (!file.ends_with(".png")) return WriteFileAtomically(FileSystem::Default(), file, PictureSvg(picture, true));
  RIVULET_ASSIGN_OR_RETURN(const std::string png, PicturePng(picture));
  return WriteFileAtomically(FileSystem::Default(), file, png);
}

Status CheckPictureName(const std::string& file) {
  if (!file.ends_with(".svg") && !file.ends_with(".png"))
    return InvalidArgument("a picture's name ends in .png or .svg, unlike '{}'", file);
  return file.ends_with(".png") ? PicturePng({.width = 1, .height = 1, .label = {}, .marks = {}}).status()
                                : absl::OkStatus();
}

}  // namespace rivulet
