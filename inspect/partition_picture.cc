#include "inspect/partition_picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "engine/base/numbered_names.h"

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
  const size_t width = WidthOfNames(summary.names, 8);
  text += fmt::format("\n{:>{}} {:>9}  clients from left to right{}, █ is {} examples\n", "label", width, "examples",
                      together > 1 ? fmt::format(", up to {} in a column", together) : "", largest);
  for (size_t label = 0; label < summary.labels.size(); ++label) {
    text +=
        fmt::format("{:>{}} {:>9}  ", NameOrNumber(summary.names, summary.labels[label]), width, summary.totals[label]);
    for (const int64_t count : summary.counts[label]) {
      // Any example at all gives a visible shade.
      const auto shade = count == 0 ? 0 : std::max<int64_t>(1, (4 * count + largest / 2) / largest);
      text += kShades[static_cast<size_t>(shade)];
    }
    text += '\n';
  }
  return text;
}

Picture PartitionPicture(const PartitionSummary& summary, const std::string& title) {
  const auto columns = static_cast<double>(summary.columns()), rows = static_cast<double>(summary.labels.size());
  // Cells of whole points, as large as a page of about 900 by 500 permits.
  const double width = std::clamp(std::floor(840 / columns), 1.0, 28.0);
  const double height = std::clamp(std::floor(420 / rows), 3.0, 28.0);
  const double left = 20 + std::min(6.5 * static_cast<double>(WidthOfNames(summary.names, 7)), 200.0), top = 130,
               bars = 70, right = 120;
  const double grid_width = width * columns, grid_height = height * rows;
  Picture picture{.width = std::max(left + grid_width + right, 560.0),
                  .height = top + grid_height + 60,
                  .label = title,
                  .marks = {}};
  picture.Text(left, 20, title, Anchor::kStart, 14).bold = true;
  picture.Text(
      left, 37,
      fmt::format("{} examples of {} labels at {} clients ({} to {} each); {:.1f} labels at a client, distance {:.2f}",
                  summary.examples, summary.labels.size(), summary.clients, summary.smallest, summary.largest,
                  summary.labels_per_client, summary.distance),
      Anchor::kStart, 11);

  std::vector<int64_t> sizes(static_cast<size_t>(summary.columns()));
  for (const auto& row : summary.counts)
    for (size_t column = 0; column < row.size(); ++column) sizes[column] += row[column];
  const int64_t most = std::max<int64_t>(1, *std::ranges::max_element(sizes));
  picture.Text(left - 6, top - bars + 9, fmt::format("{}", most), Anchor::kEnd, 11);
  for (size_t column = 0; column < sizes.size(); ++column) {
    const double bar = 0.95 * bars * static_cast<double>(sizes[column]) / static_cast<double>(most);
    picture
        .Rectangle(left + width * static_cast<double>(column), top - 4 - bar, width > 3 ? width - 1 : width, bar,
                   "#6b7785")
        .title = fmt::format("{}: {} examples", ClientsOfColumn(summary, column), sizes[column]);
  }

  const int64_t largest = std::max<int64_t>(1, LargestCell(summary));
  picture.Rectangle(left, top, grid_width, grid_height, ShadeOf(0));
  for (size_t label = 0; label < summary.counts.size(); ++label) {
    for (size_t column = 0; column < sizes.size(); ++column) {
      const int64_t count = summary.counts[label][column];
      if (count == 0) continue;
      // The lightest shade that differs visibly from white.
      const double share = std::max(0.08, static_cast<double>(count) / static_cast<double>(largest));
      picture
          .Rectangle(left + width * static_cast<double>(column), top + height * static_cast<double>(label), width,
                     height, ShadeOf(share))
          .title = fmt::format("label {}, {}: {}", NameOrNumber(summary.names, summary.labels[label]),
                               ClientsOfColumn(summary, column), count);
    }
  }
  picture
      .Line({{left, top},
             {left + grid_width, top},
             {left + grid_width, top + grid_height},
             {left, top + grid_height},
             {left, top}})
      .colour = "#b8c0c8";
  const auto every_label = static_cast<size_t>(std::ceil(12 / height));
  for (size_t label = 0; label < summary.labels.size(); label += every_label) {
    picture.Text(left - 6, top + height * (static_cast<double>(label) + 0.5) + 4,
                 NameOrNumber(summary.names, summary.labels[label]), Anchor::kEnd, 11);
  }
  const auto every_column = static_cast<size_t>(std::max(1.0, std::ceil(columns / 8)));
  for (size_t column = 0; column < sizes.size(); column += every_column) {
    picture.Text(left + width * (static_cast<double>(column) + 0.5), top + grid_height + 16,
                 fmt::format("{}", summary.starts[column]), Anchor::kMiddle, 11);
  }
  picture.Text(left + grid_width / 2, top + grid_height + 36, "client", Anchor::kMiddle, 11);
  picture.Text(left - 6, top - 6, "label", Anchor::kEnd, 11);

  const double legend = left + grid_width + 20;
  picture.Text(legend, top + 10, "examples", Anchor::kStart, 11);
  for (int step = 0; step <= 4; ++step) {
    picture.Rectangle(legend, top + 18 + 16 * step, 14, 14, ShadeOf(step / 4.0));
    picture.Text(legend + 20, top + 29 + 16 * step, fmt::format("{}", largest * step / 4), Anchor::kStart, 11);
  }
  return picture;
}

}  // namespace rivulet
