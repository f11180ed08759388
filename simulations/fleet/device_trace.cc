#include "simulations/fleet/device_trace.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace rivulet {
namespace {

std::optional<double> FactIn(std::string_view text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool good = error == std::errc() && end == text.data() + text.size() && number >= 0 && number < 1e300;
  return good ? std::optional(number) : std::nullopt;
}

// The text before the next `separator`, or up to the end; `rest` then begins after it.
std::string_view Cut(std::string_view& rest, char separator) {
  const size_t end = std::min(rest.find(separator), rest.size());
  const std::string_view cut = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  return cut;
}

std::optional<DeviceSpan> SpanIn(std::string_view rest, VirtualTime period) {
  const std::optional<double> from = FactIn(Cut(rest, ',')), until = FactIn(Cut(rest, ','));
  // Checked before conversion to integers, which a begin of 1e299 seconds does not survive.
  if (!from || !until || *until > static_cast<double>(period) / 1e6 || *from >= *until) return std::nullopt;
  DeviceSpan span{std::llround(*from * 1e6), std::llround(*until * 1e6)};
  for (double* const speed : {&span.compute, &span.download, &span.upload}) {
    const std::string_view column = Cut(rest, ',');
    if (column.empty()) continue;
    const std::optional<double> number = FactIn(column);
    if (!number) return std::nullopt;
    *speed = *number;
  }
  if (span.until <= span.from || !rest.empty()) return std::nullopt;
  return span;
}

}  // namespace

StatusOr<DeviceTrace> DeviceTrace::Parse(std::string_view csv, const std::string& path, VirtualTime period) {
  DeviceTrace trace;
  for (int64_t number = 1; !csv.empty(); ++number) {
    std::string_view line = Cut(csv, '\n');
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty() || (number == 1 && line.starts_with("client,from,until"))) continue;
    std::string_view rest = line;
    const std::string client_id(Cut(rest, ','));
    const std::optional<DeviceSpan> span = SpanIn(rest, period);
    if (client_id.empty() || !span) {
      return InvalidArgument(
          "{}:{}: '{}' is no line of a trace of devices; write a client's name and the first and last second of its "
          "presence, such as client-00003,0,3600. Both are within devices.period ({:g} s). Operations a second and "
          "bytes a second down and up may follow",
          path, number, line.substr(0, 80), static_cast<double>(period) / 1e6);
    }
    std::vector<DeviceSpan>& spans = trace.spans_[client_id];
    const auto after = std::ranges::upper_bound(spans, span->from, {}, &DeviceSpan::from);
    if ((after != spans.end() && after->from < span->until) ||
        (after != spans.begin() && std::prev(after)->until > span->from)) {
      return InvalidArgument("{}:{}: '{}' is within another line of its device", path, number, line.substr(0, 80));
    }
    spans.insert(after, *span);
  }
  return trace;
}

const std::vector<DeviceSpan>* DeviceTrace::Find(const std::string& client_id) const {
  const auto found = spans_.find(client_id);
  return found == spans_.end() ? nullptr : &found->second;
}

}  // namespace rivulet
