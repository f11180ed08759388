#include "cli/data/partition_picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace rivulet {
namespace {

int64_t LargestCell(const PartitionSummary& summary) {
  int64_t largest = 0;
  for (const auto& row : summary.counts)
    for (const int64_t count : row) largest = std::max(largest, count);
  return largest;
}

std::string ClientsOfColumn(const PartitionSummary& summary, size_t column) {
  const int64_t first = summary.starts[column], last = summary.starts[column + 1] - 1;
  return first == last ? fmt::format("client {}", first) : fmt::format("clients {} to {}", first, last);
}

std::string EscapedXml(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '&')
      escaped += "&amp;";
    else if (c == '<')
      escaped += "&lt;";
    else if (c == '>')
      escaped += "&gt;";
    else
      escaped += static_cast<uint8_t>(c) < 0x20 ? ' ' : c;
  }
  return escaped;
}

// From white to a dark blue through light ones, whose lightness falls evenly: share 0 to 1.
std::string ShadeOf(double share) {
  constexpr std::array<std::array<double, 3>, 5> kStops = {
      {{247, 251, 255}, {198, 219, 239}, {107, 174, 214}, {33, 113, 181}, {8, 48, 107}}};
  const double at = std::clamp(share, 0.0, 1.0) * (kStops.size() - 1);
  const size_t from = std::min(static_cast<size_t>(at), kStops.size() - 2);
  const double blend = at - static_cast<double>(from);
  std::string colour = "#";
  for (size_t i = 0; i < 3; ++i)
    colour += fmt::format("{:02x}", std::lround(kStops[from][i] * (1 - blend) + kStops[from + 1][i] * blend));
  return colour;
}

}  // namespace

std::string PartitionText(const PartitionSummary& summary) {
  std::string text = fmt::format(
      "clients   {}\n"
      "examples  {}; at one client {} to {}, the median {}\n",
      summary.clients, summary.examples, summary.smallest, summary.largest, summary.median);
  if (summary.labels.empty()) return text;
  text += fmt::format(
      "labels    {}; {:.1f} of them at a client on average\n"
      "distance  {:.2f} between a client's labels and all clients' on average (0: alike, 1: nothing in common)\n",
      summary.labels.size(), summary.labels_per_client, summary.distance);
  constexpr std::array<std::string_view, 5> kShades = {" ", "░", "▒", "▓", "█"};
  const int64_t largest = LargestCell(summary);
  const int64_t together = (summary.clients + summary.columns() - 1) / summary.columns();
  text += fmt::format("\n{:>8} {:>9}  clients from left to right{}, █ is {} examples\n", "label", "examples",
                      together > 1 ? fmt::format(", up to {} in a column", together) : "", largest);
  for (size_t label = 0; label < summary.labels.size(); ++label) {
    text += fmt::format("{:>8} {:>9}  ", summary.labels[label], summary.totals[label]);
    for (const int64_t count : summary.counts[label]) {
      // Whoever has any is seen.
      const auto shade = count == 0 ? 0 : std::max<int64_t>(1, (4 * count + largest / 2) / largest);
      text += kShades[static_cast<size_t>(shade)];
    }
    text += '\n';
  }
  return text;
}

std::string PartitionSvg(const PartitionSummary& summary, const std::string& title) {
  const auto columns = static_cast<double>(summary.columns()), rows = static_cast<double>(summary.labels.size());
  // Cells of whole pixels, as large as a page of about 900 by 500 lets them be.
  const double width = std::clamp(std::floor(840 / columns), 1.0, 28.0);
  const double height = std::clamp(std::floor(420 / rows), 3.0, 28.0);
  const double left = 70, top = 130, bars = 70, right = 120;
  const double grid_width = width * columns, grid_height = height * rows;
  const double page_width = std::max(left + grid_width + right, 560.0), page_height = top + grid_height + 60;
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" "
      "font-family=\"Helvetica, Arial, sans-serif\" font-size=\"11\" fill=\"#222\">\n"
      "<rect width=\"{0}\" height=\"{1}\" fill=\"#fff\"/>\n"
      "<text x=\"{2}\" y=\"20\" font-size=\"14\" font-weight=\"bold\">{3}</text>\n"
      "<text x=\"{2}\" y=\"37\">{4} examples of {5} labels at {6} clients ({7} to {8} each); {9:.1f} labels at a "
      "client, distance {10:.2f}</text>\n",
      page_width, page_height, left, EscapedXml(title), summary.examples, summary.labels.size(), summary.clients,
      summary.smallest, summary.largest, summary.labels_per_client, summary.distance);

  std::vector<int64_t> sizes(static_cast<size_t>(summary.columns()));
  for (const auto& row : summary.counts)
    for (size_t column = 0; column < row.size(); ++column) sizes[column] += row[column];
  const int64_t most = std::max<int64_t>(1, *std::ranges::max_element(sizes));
  svg += fmt::format("<g fill=\"#6b7785\"><text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>\n", left - 6,
                     top - bars + 9, most);
  for (size_t column = 0; column < sizes.size(); ++column) {
    const double bar = bars * static_cast<double>(sizes[column]) / static_cast<double>(most);
    svg += fmt::format(
        "<rect x=\"{}\" y=\"{:.1f}\" width=\"{}\" height=\"{:.1f}\"><title>{}: {} examples</title></rect>\n",
        left + width * static_cast<double>(column), top - 4 - bar * 0.95, width > 3 ? width - 1 : width, bar * 0.95,
        ClientsOfColumn(summary, column), sizes[column]);
  }
  svg += "</g>\n";

  const int64_t largest = std::max<int64_t>(1, LargestCell(summary));
  svg += fmt::format("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"{}\" stroke=\"#b8c0c8\"/>\n<g>\n", left,
                     top, grid_width, grid_height, ShadeOf(0));
  for (size_t label = 0; label < summary.counts.size(); ++label)
    for (size_t column = 0; column < sizes.size(); ++column) {
      const int64_t count = summary.counts[label][column];
      if (count == 0) continue;
      // The least that can be told from nothing.
      const double share = std::max(0.08, static_cast<double>(count) / static_cast<double>(largest));
      svg += fmt::format(
          "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"{}\"><title>label {}, {}: {}</title></rect>\n",
          left + width * static_cast<double>(column), top + height * static_cast<double>(label), width, height,
          ShadeOf(share), summary.labels[label], ClientsOfColumn(summary, column), count);
    }
  svg += "</g>\n<g text-anchor=\"end\">\n";
  const auto every_label = static_cast<size_t>(std::ceil(12 / height));
  for (size_t label = 0; label < summary.labels.size(); label += every_label)
    svg += fmt::format("<text x=\"{}\" y=\"{}\">{}</text>\n", left - 6,
                       top + height * (static_cast<double>(label) + 0.5) + 4, summary.labels[label]);
  svg += "</g>\n<g text-anchor=\"middle\">\n";
  const auto every_column = static_cast<size_t>(std::max(1.0, std::ceil(columns / 8)));
  for (size_t column = 0; column < sizes.size(); column += every_column)
    svg += fmt::format("<text x=\"{:.1f}\" y=\"{}\">{}</text>\n", left + width * (static_cast<double>(column) + 0.5),
                       top + grid_height + 16, summary.starts[column]);
  svg +=
      fmt::format("<text x=\"{:.1f}\" y=\"{}\">client</text>\n</g>\n", left + grid_width / 2, top + grid_height + 36);
  svg += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"end\">label</text>\n", left - 6, top - 6);

  const double legend = left + grid_width + 20;
  svg += fmt::format("<text x=\"{}\" y=\"{}\">examples</text>\n", legend, top + 10);
  for (int step = 0; step <= 4; ++step)
    svg += fmt::format(
        "<rect x=\"{}\" y=\"{}\" width=\"14\" height=\"14\" fill=\"{}\" stroke=\"#b8c0c8\"/><text x=\"{}\" "
        "y=\"{}\">{}</text>\n",
        legend, top + 18 + 16 * step, ShadeOf(step / 4.0), legend + 20, top + 29 + 16 * step, largest * step / 4);
  return svg + "</svg>\n";
}

}  // namespace rivulet
