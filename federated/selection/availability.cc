#include "federated/selection/availability.h"

#include <algorithm>
#include <charconv>
#include <optional>

namespace rivulet {
namespace {

std::optional<int64_t> RoundIn(std::string_view text) {
  int64_t round = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), round);
  return error == std::errc() && end == text.data() + text.size() && round > 0 ? std::optional(round) : std::nullopt;
}

// Returns the text up to the next `separator`, or to the end, and removes it with the separator from `rest`.
std::string_view Cut(std::string_view& rest, char separator) {
  const size_t end = std::min(rest.find(separator), rest.size());
  const std::string_view cut = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  return cut;
}

}  // namespace

StatusOr<AvailabilityTrace> AvailabilityTrace::Parse(std::string_view csv, const std::string& path, int64_t period) {
  AvailabilityTrace trace;
  trace.period_ = period;
  for (int64_t number = 1; !csv.empty(); ++number) {
    std::string_view line = Cut(csv, '\n');
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty() || (number == 1 && line == "client,from,until")) continue;
    std::string_view rest = line;
    const std::string_view client_id = Cut(rest, ',');
    const std::optional<int64_t> from = RoundIn(Cut(rest, ',')), until = RoundIn(rest);
    if (client_id.empty() || !from || !until || *until < *from) {
      return InvalidArgument(
          "{}:{}: '{}' is no line of a trace; write a client's name and the first and the last round "
          "in which it may be drawn, such as client-00003,1,20",
          path, number, line.substr(0, 80));
    }
    trace.rounds_[std::string(client_id)].emplace_back(*from, *until);
  }
  return trace;
}

bool AvailabilityTrace::MayBeDrawn(const std::string& client_id, int64_t round) const {
  const auto found = rounds_.find(client_id);
  if (found == rounds_.end()) return true;
  const int64_t at = period_ > 0 ? (round - 1) % period_ + 1 : round;
  return std::ranges::any_of(found->second, [at](const auto& span) { return span.first <= at && at <= span.second; });
}

}  // namespace rivulet
